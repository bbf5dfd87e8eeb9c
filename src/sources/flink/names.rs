//! Which metrics of a source vertex are asked for. Flink names them after the operator, in its own spelling, so they are
//! found by their ends and not built.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::core::units::Count;

/// What stays as it is in a query.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// A request line of more than 4096 bytes is refused with 404; the path and the host take their part of it.
const LONGEST_QUERY: usize = 2500;

/// What a source vertex has to tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceNames {
    /// All backlogs: one for each operator in the vertex.
    pub pending: Vec<String>,
    /// Records read as the operator counts them: before 2.0 the task's own counter of a source stays 0.
    pub records_in: Vec<String>,
    /// Partitions by topic, where the connector names them.
    pub partitions: BTreeMap<String, Count>,
}

/// Reads the list of a vertex' metrics.
#[must_use]
pub fn source_names<'a>(names: impl Iterator<Item = &'a str>) -> SourceNames {
    let mut found = SourceNames::default();
    let mut partitions: BTreeSet<(String, String)> = BTreeSet::new();
    let mut splits: BTreeSet<&str> = BTreeSet::new();
    for name in names {
        if name.ends_with(".pendingRecords") {
            found.pending.push(name.to_owned());
        } else if name.starts_with("Source__") && name.ends_with(".numRecordsIn") {
            found.records_in.push(name.to_owned());
        } else if let Some(partition) = kafka_partition(name).or_else(|| pulsar_partition(name)) {
            partitions.insert(partition);
        } else if let Some((_, rest)) = name.split_once(".split.") {
            splits.extend(rest.strip_suffix(".watermark.currentWatermark"));
        }
    }
    for (topic, _) in &partitions {
        *found.partitions.entry(topic.clone()).or_default() += 1;
    }
    // a connector without names of its own still has a watermark for each split, from 2.0 on
    if partitions.is_empty() && !splits.is_empty() {
        found.partitions.insert("splits".to_owned(), splits.len() as Count);
    }
    found
}

/// `….KafkaSourceReader.topic.TOPIC.partition.N.currentOffset`
fn kafka_partition(name: &str) -> Option<(String, String)> {
    let rest = name.strip_suffix(".currentOffset")?;
    let (before, partition) = rest.rsplit_once(".partition.")?;
    let (reader, topic) = before.split_once(".topic.")?;
    // two clusters may have a topic of the same name
    let cluster = reader.split(".kafkaCluster.").nth(1).and_then(|rest| rest.split('.').next()).unwrap_or_default();
    let topic = if cluster.is_empty() { topic.to_owned() } else { format!("{cluster}/{topic}") };
    Some((topic, partition.to_owned()))
}

/// `….PulsarConsumer.TOPIC-partition-N.….numMsgsReceived`
fn pulsar_partition(name: &str) -> Option<(String, String)> {
    let rest = name.strip_suffix(".numMsgsReceived")?.split(".PulsarConsumer.").nth(1)?;
    let (topic, rest) = rest.rsplit_once("-partition-")?;
    Some((topic.to_owned(), rest.split('.').next()?.to_owned()))
}

/// Queries of `get=` that ask for all names and stay below the longest request line.
#[must_use]
pub fn queries<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut queries: Vec<String> = Vec::new();
    for name in names {
        let name = utf8_percent_encode(name, PLAIN).to_string();
        match queries.last_mut() {
            // writing to a String cannot fail
            Some(query) if query.len() + name.len() < LONGEST_QUERY => _ = write!(query, ",{name}"),
            _ => queries.push(format!("get={name}")),
        }
    }
    queries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backlogs_and_partitions_are_found_by_the_ends_of_their_names() {
        let names = [
            "numRecordsIn",
            "Source__orders[1].pendingRecords",
            "Source__orders.numRecordsIn",
            "Source__orders.KafkaSourceReader.topic.orders.v2.partition.0.currentOffset",
            "Source__orders.KafkaSourceReader.topic.orders.v2.partition.11.currentOffset",
            "Source__orders.KafkaSourceReader.topic.orders.v2.partition.11.committedOffset",
            "Source__p.PulsarConsumer.persistent://a/b/events-partition-3.sub.c1.numMsgsReceived",
        ];
        let found = source_names(names.into_iter());
        assert_eq!(found.pending, ["Source__orders[1].pendingRecords"]);
        assert_eq!(found.records_in, ["Source__orders.numRecordsIn"]);
        assert_eq!(found.partitions.into_iter().collect::<Vec<_>>(), [("orders.v2".to_owned(), 2), ("persistent://a/b/events".to_owned(), 1)]);
    }

    #[test]
    fn splits_are_counted_by_their_watermarks_where_a_connector_names_no_partitions() {
        let names = [
            "Source__a.split.p0.watermark.currentWatermark",
            "Source__a.split.p1.watermark.currentWatermark",
            "Source__a.split.p1.watermark.idleTimeMsPerSecond",
        ];
        assert_eq!(source_names(names.into_iter()).partitions.values().sum::<Count>(), 2);
    }

    #[test]
    fn long_lists_are_asked_for_in_several_queries_with_names_encoded() {
        let names: Vec<String> = (0..200).map(|n| format!("Count_per_key_(2_s).x{n}")).collect();
        let queries = queries(names.iter().map(String::as_str));
        assert!(queries.len() > 1 && queries.iter().all(|query| query.len() <= LONGEST_QUERY));
        assert!(queries[0].starts_with("get=Count_per_key_%282_s%29.x0,"));
        assert_eq!(queries.iter().map(|query| query.split(',').count()).sum::<usize>(), 200);
    }
}
