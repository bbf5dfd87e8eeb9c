//! Which groups of a cluster an entry of the configuration stands for.
//!
//! A pattern is a regular expression over the whole id, as in `orders-.*`. Groups that are no consumers of topics (Kafka Connect's workers, schema registries) are never meant.

use std::sync::Arc;

use aws_lc_rs::digest;
use regex::Regex;

use super::KafkaSource;
use super::cluster::{KafkaCluster, Wishes};
use super::reader::Listed;
use crate::config::kafka::expression;
use crate::core::kinds::kafka::GroupType;
use crate::engine::source::{BoxFuture, Discovery, Found, Source, SourceError};
use crate::sources::Timing;

/// Groups by pattern.
#[derive(Clone, Debug)]
pub struct GroupPattern {
    group: Regex,
    include: Vec<Regex>,
    exclude: Vec<Regex>,
}

impl GroupPattern {
    /// All groups that fit the first, one of `include` where there are any, and none of `exclude`.
    ///
    /// # Errors
    ///
    /// The first expression that cannot be read, with the reason.
    pub fn new(group: &str, include: &[String], exclude: &[String]) -> Result<Self, String> {
        let all = |list: &[String]| list.iter().map(|text| expression(text)).collect::<Result<Vec<_>, _>>();
        Ok(Self { group: expression(group)?, include: all(include)?, exclude: all(exclude)? })
    }

    /// Whether a group of this id is meant.
    #[must_use]
    pub fn fits(&self, group: &str) -> bool {
        let any = |list: &[Regex]| list.iter().any(|pattern| pattern.is_match(group));
        self.group.is_match(group) && (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

/// The groups of a cluster that fit a pattern.
pub struct KafkaGroups {
    cluster: Arc<KafkaCluster>,
    pattern: GroupPattern,
    wishes: Wishes,
    timing: Timing,
}

impl KafkaGroups {
    /// Groups of a cluster.
    #[must_use]
    pub fn new(cluster: Arc<KafkaCluster>, pattern: GroupPattern, wishes: Wishes, timing: Timing) -> Self {
        Self { cluster, pattern, wishes, timing }
    }

    async fn existing(&self) -> Result<Vec<Found>, SourceError> {
        let list = self.cluster.list(self.timing).await?;
        let mut groups: Vec<&str> = list.iter().filter(|row| consumes(row) && self.pattern.fits(&row.group)).map(|row| row.group.as_str()).collect();
        groups.sort_unstable();
        groups.dedup();
        Ok(groups.into_iter().map(|group| Found { id: id(group), name: group.to_owned() }).collect())
    }
}

/// A classic group tells which protocol its members speak; one that only has commits speaks none.
fn consumes(row: &Listed) -> bool {
    let classic = row.group_type.unwrap_or_default() == GroupType::Classic;
    (!classic || matches!(row.protocol.as_str(), "consumer" | "")) && row.state.as_deref() != Some("Dead")
}

/// An id of hex digits, for names of targets that need some.
fn id(group: &str) -> String {
    let hash = digest::digest(&digest::SHA256, group.as_bytes());
    let digits = hash.as_ref().iter().take(10).flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}

impl Discovery for KafkaGroups {
    fn find(&self) -> BoxFuture<'_, Result<Vec<Found>, SourceError>> {
        Box::pin(self.existing())
    }

    fn stands_for(&self, name: &str) -> bool {
        self.pattern.fits(name)
    }

    fn source(&self, found: &Found) -> Arc<dyn Source> {
        // the prototype of an entry has no id and is never read
        let group = if found.id.is_empty() { String::new() } else { found.name.clone() };
        Arc::new(KafkaSource::new(Arc::clone(&self.cluster), group, self.wishes.clone(), self.timing))
    }

    fn phase(&self) -> Option<&str> {
        Some(self.cluster.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_over_the_whole_id_and_include_and_exclude_narrow_it() {
        let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let pattern = GroupPattern::new("orders-.*|bills", &[], &list(&[".*-test"])).expect("a pattern");
        for (group, expected) in [("orders-eu", true), ("orders-eu-test", false), ("bills", true), ("bills2", false), ("my-orders-eu", false)] {
            assert_eq!(pattern.fits(group), expected, "{group}");
        }
        let narrowed = GroupPattern::new(".*", &list(&["a.*", "b.*"]), &[]).expect("a pattern");
        assert_eq!(["ax", "bx", "cx"].map(|group| narrowed.fits(group)), [true, true, false]);
    }
}
