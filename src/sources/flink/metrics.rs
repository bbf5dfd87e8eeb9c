//! What the metrics of a vertex say: which names to ask for, and what their values mean.
//!
//! Source: <https://nightlies.apache.org/flink/flink-docs-stable/docs/ops/metrics/> and, for the names of partitions,
//! the Kafka and Pulsar connectors. Operator metrics carry the operator's name (`Source__orders.pendingRecords`), which
//! is why they are found by their endings and never built.

use std::collections::{BTreeMap, BTreeSet};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::wire::Metric;
use crate::core::kinds::flink::{Spread, Vertex};
use crate::core::units::{Amount, Count};

const BUSY: &str = "busyTimeMsPerSecond";
const BACK_PRESSURED: &str = "backPressuredTimeMsPerSecond";
const RATE_IN: &str = "numRecordsInPerSecond";
const RATE_OUT: &str = "numRecordsOutPerSecond";
/// The task metrics that every vertex is asked for.
pub const OF_TASKS: [&str; 4] = [BUSY, BACK_PRESSURED, RATE_IN, RATE_OUT];

const PENDING: &str = ".pendingRecords";
/// Operator metrics of a source: what it reads is not counted at its task before Flink 2, and never for the sources of
/// the old kind.
const OF_SOURCES: [&str; 4] = [".numRecordsIn", ".numRecordsOut", ".numRecordsInPerSecond", ".numRecordsOutPerSecond"];

/// The bytes that a `get` list may take. Flink refuses request lines over 4096 bytes; the path takes about 120.
const LONGEST_LIST: usize = 2_700;

/// What is sent as it is: Flink splits at commas, so that names are encoded apart from each other.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'_').remove(b'-');

/// The names worth asking for among those that a vertex has.
#[must_use]
pub fn wanted(names: &[String], is_source: bool) -> Vec<String> {
    let of_source = |name: &str| name.ends_with(PENDING) || (name.starts_with("Source__") && OF_SOURCES.iter().any(|ending| name.ends_with(ending)));
    names.iter().filter(|name| OF_TASKS.contains(&name.as_str()) || (is_source && of_source(name))).cloned().collect()
}

/// True where a backlog can be had.
#[must_use]
pub fn has_pending(names: &[String]) -> bool {
    names.iter().any(|name| name.ends_with(PENDING))
}

/// `get` lists that together hold all names, each short enough for one request line.
#[must_use]
pub fn lists<S: AsRef<str>>(names: &[S]) -> Vec<String> {
    let mut lists: Vec<String> = Vec::new();
    for name in names {
        let name = utf8_percent_encode(name.as_ref(), ENCODED).to_string();
        match lists.last_mut() {
            Some(list) if list.len() + name.len() < LONGEST_LIST => {
                list.push(',');
                list.push_str(&name);
            }
            _ => lists.push(name),
        }
    }
    lists
}

/// Partitions by topic, from the names alone: `...KafkaSourceReader.topic.T.partition.N.currentOffset`, before it
/// possibly `kafkaCluster.C`, and `...PulsarConsumer.T-partition-N....numMsgsReceived`. Equal partitions of one topic
/// count once, whatever the operator; those of two clusters count twice.
#[must_use]
pub fn partitions(names: &[String]) -> BTreeMap<String, Count> {
    let distinct: BTreeSet<(&str, &str, u64)> = names.iter().filter_map(|name| kafka(name).or_else(|| pulsar(name))).collect();
    let mut by_topic = BTreeMap::new();
    for (_, topic, _) in distinct {
        *by_topic.entry(topic.to_owned()).or_default() += 1;
    }
    by_topic
}

fn kafka(name: &str) -> Option<(&str, &str, u64)> {
    let (before, rest) = name.strip_suffix(".currentOffset")?.split_once("KafkaSourceReader.topic.")?;
    let cluster = before.split_once("kafkaCluster.").map_or("", |(_, cluster)| cluster);
    let (topic, partition) = rest.rsplit_once(".partition.")?;
    Some((cluster, topic, partition.parse().ok()?))
}

fn pulsar(name: &str) -> Option<(&str, &str, u64)> {
    let (_, rest) = name.strip_suffix(".numMsgsReceived")?.split_once("PulsarConsumer.")?;
    let (topic, rest) = rest.rsplit_once("-partition-")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some(("", topic, digits.parse().ok()?))
}

/// The aggregated values of a vertex by name.
#[derive(Clone, Debug, Default)]
pub struct Values(BTreeMap<String, Metric>);

impl Values {
    /// The rows of one or several answers.
    pub fn new(rows: impl IntoIterator<Item = Metric>) -> Self {
        Self(rows.into_iter().map(|row| (row.id.clone(), row)).collect())
    }

    /// Puts them into the vertex. The totals from `/jobs/:id` must be in it already.
    pub fn fill(&self, vertex: &mut Vertex) {
        vertex.busy_ratio = self.share(BUSY);
        vertex.back_pressured_ratio = self.share(BACK_PRESSURED);
        vertex.records_in_per_second = self.sum(RATE_IN);
        vertex.records_out_per_second = self.sum(RATE_OUT);
        if !vertex.is_source() {
            return;
        }
        let nothing = |value: Option<Amount>| value.is_none_or(|value| value.get() <= 0.0);
        if nothing(vertex.records_in_per_second) {
            let known = vertex.records_in_per_second;
            vertex.records_in_per_second =
                self.moving(".numRecordsInPerSecond").or_else(|| self.moving(".numRecordsOutPerSecond")).or(vertex.records_out_per_second).or(known);
        }
        if vertex.records_in.is_none_or(|total| total == 0) {
            let total = self.moving(".numRecordsIn").or_else(|| self.moving(".numRecordsOut")).map(count);
            vertex.records_in = total.or(vertex.records_out).or(vertex.records_in);
        }
        vertex.pending_records = self.total(|name| name.ends_with(PENDING)).map(count);
    }

    /// Milliseconds a second as a share of the time. Flink's own rounding may take it a little over 1000.
    fn share(&self, name: &str) -> Option<Spread> {
        let row = self.0.get(name)?;
        let share = |value: Option<f64>| value.and_then(|value| Amount::new((value / 1000.0).clamp(0.0, 1.0)));
        let spread = Spread { max: share(row.max.0), avg: share(row.avg.0), min: share(row.min.0) };
        (spread != Spread::default()).then_some(spread)
    }

    fn sum(&self, name: &str) -> Option<Amount> {
        self.0.get(name)?.sum.amount()
    }

    /// A metric of the source operators where it is more than 0.
    fn moving(&self, ending: &str) -> Option<Amount> {
        self.total(|name| name.starts_with("Source__") && name.ends_with(ending)).filter(|value| value.get() > 0.0)
    }

    /// The sum over all names that fit; none where none has a value.
    pub fn total(&self, fits: impl Fn(&str) -> bool) -> Option<Amount> {
        let sums = self.0.iter().filter(|(name, _)| fits(name)).filter_map(|(_, row)| row.sum.amount());
        sums.reduce(|sum, value| Amount::new(sum.get() + value.get()).unwrap_or(sum))
    }

    /// True when each of these names has a row, and there are any.
    #[must_use]
    pub fn has(&self, names: &[String]) -> bool {
        !names.is_empty() && names.iter().all(|name| self.0.contains_key(name))
    }

    /// The largest value of a metric.
    #[must_use]
    pub fn max(&self, name: &str) -> Option<f64> {
        self.0.get(name)?.max.0
    }
}

/// The nearest whole number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an amount is not negative, and the cast saturates")]
fn count(value: Amount) -> Count {
    value.get().round() as Count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn partitions_count_once_for_each_topic_and_cluster() {
        let found = partitions(&names(&[
            "Source__a.KafkaSourceReader.topic.orders.partition.0.currentOffset",
            "Source__a.KafkaSourceReader.topic.orders.partition.1.currentOffset",
            "Source__b.KafkaSourceReader.topic.orders.partition.1.currentOffset",
            "Source__a.KafkaSourceReader.topic.orders.partition.1.committedOffset",
            "Source__c.kafkaCluster.x.KafkaSourceReader.topic.clicks.partition.0.currentOffset",
            "Source__c.kafkaCluster.y.KafkaSourceReader.topic.clicks.partition.0.currentOffset",
            "Source__p.PulsarConsumer.persistent_//public/default/jobs-partition-3.c1a2.numMsgsReceived",
            "Source__a.KafkaSourceReader.topic.orders.partition.none.currentOffset",
        ]));
        let expected = [("clicks", 2), ("orders", 2), ("persistent_//public/default/jobs", 1)];
        assert_eq!(found, expected.map(|(topic, count)| (topic.to_owned(), count)).into());
    }

    #[test]
    fn long_lists_are_split_and_names_are_encoded() {
        let many: Vec<String> = (0..60).map(|number| format!("Source__orders[{number}] (a very long name, with a comma) of a source.pendingRecords")).collect();
        let lists = lists(&many);
        assert!(lists.len() > 1 && lists.iter().all(|list| list.len() < 3000));
        assert_eq!(lists.iter().map(|list| list.split(',').count()).sum::<usize>(), 60);
        assert!(lists[0].starts_with("Source__orders%5B0%5D%20%28a"), "{}", lists[0]);
    }

    #[test]
    fn only_sources_are_asked_for_operator_metrics() {
        let all = names(&["busyTimeMsPerSecond", "Source__a.pendingRecords", "Source__a.numRecordsIn", "Map.numRecordsIn", "isBackPressured"]);
        assert_eq!(wanted(&all, false), names(&["busyTimeMsPerSecond"]));
        assert_eq!(wanted(&all, true), names(&["busyTimeMsPerSecond", "Source__a.pendingRecords", "Source__a.numRecordsIn"]));
    }

    #[test]
    fn a_backlog_is_the_sum_over_all_names_and_unknown_where_none_has_a_value() {
        let rows = |text: &str| Values::new(serde_json::from_str::<Vec<Metric>>(text).expect("rows"));
        let mut vertex: Vertex = serde_json::from_str(r#"{"id":"a","parallelism":2}"#).expect("a vertex");
        rows(r#"[{"id":"Source__a.pendingRecords","sum":30.0},{"id":"Source__b.pendingRecords","sum":12.0}]"#).fill(&mut vertex);
        assert_eq!(vertex.pending_records, Some(42));
        rows(r#"[{"id":"Source__a.pendingRecords","sum":"NaN"},{"id":"busyTimeMsPerSecond","min":"NaN","max":1003.0,"avg":"NaN"}]"#).fill(&mut vertex);
        assert_eq!(vertex.pending_records, None);
        assert_eq!(vertex.busy_ratio, Some(Spread { max: Amount::new(1.0), avg: None, min: None }));
    }

    #[test]
    fn what_a_source_reads_is_taken_from_its_operator_where_the_task_counts_nothing() {
        let rows: Vec<Metric> = serde_json::from_str(
            r#"[{"id":"numRecordsInPerSecond","sum":0.0},{"id":"numRecordsOutPerSecond","sum":9.0},
                {"id":"Source__a.numRecordsIn","sum":700.0},{"id":"Source__a.numRecordsInPerSecond","sum":11.0}]"#,
        )
        .expect("rows");
        let mut source: Vertex = serde_json::from_str(r#"{"id":"a","parallelism":2,"recordsIn":0,"recordsOut":600}"#).expect("a vertex");
        let mut other: Vertex = serde_json::from_str(r#"{"id":"b","parallelism":2,"recordsIn":0,"inputs":[{"from":"a"}]}"#).expect("a vertex");
        Values::new(rows.clone()).fill(&mut source);
        Values::new(rows).fill(&mut other);
        assert_eq!((source.records_in, source.records_in_per_second), (Some(700), Amount::new(11.0)));
        assert_eq!((other.records_in, other.records_in_per_second), (Some(0), Amount::new(0.0)), "nothing is added to what a task counts");
    }
}
