//! What only looking twice can tell: since when a commit or an end is the same, and how often a group has rebalanced.
//!
//! All of it is a lower bound: it begins with our first look, and what happens between two looks counts once. At a first
//! look nothing is known, which is not the same as zero.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use super::reader::{Described, Refusal};
use crate::core::kinds::KafkaGroupSnapshot;
use crate::core::kinds::kafka::{GroupState, KafkaPartition};
use crate::core::units::{Amount, Count};

/// Rebalances are counted over this time.
const SPAN: Duration = Duration::from_secs(600);

/// What was seen of each group.
#[derive(Default)]
pub(super) struct Seen {
    groups: BTreeMap<String, Group>,
}

struct Group {
    since: Instant,
    offsets: BTreeMap<(String, Count), Offsets>,
    mark: Mark,
    rebalances: VecDeque<Instant>,
    empty_since: Option<Instant>,
}

#[derive(Clone, Copy, Default)]
struct Offsets {
    committed: Option<(Count, Instant)>,
    end: Option<(Count, Instant)>,
}

/// What changes when a group rebalances.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mark {
    Unknown,
    Rebalancing,
    Epoch(i32),
    Members(BTreeSet<String>),
}

impl Seen {
    /// Takes note of a reading, and puts into it what is known by now.
    pub fn follow(&mut self, mut snapshot: KafkaGroupSnapshot, described: Option<&Result<Described, Refusal>>, now: Instant) -> KafkaGroupSnapshot {
        let name = snapshot.group.clone().unwrap_or_default();
        let is_new = !self.groups.contains_key(&name);
        let group = self.groups.entry(name).or_insert_with(|| Group {
            since: now,
            offsets: BTreeMap::new(),
            mark: Mark::Unknown,
            rebalances: VecDeque::new(),
            empty_since: None,
        });
        let mut offsets = BTreeMap::new();
        for topic in snapshot.topics.iter_mut().flatten() {
            // a topic that was made anew has offsets of its own
            let key = topic.id.clone().unwrap_or_else(|| topic.name.clone());
            for partition in topic.partitions.iter_mut().flatten() {
                let place = (key.clone(), partition.partition);
                let before = group.offsets.get(&place).copied().unwrap_or_default();
                offsets.insert(place, put_unchanged(partition, before, now));
            }
        }
        group.offsets = offsets;
        let mark = mark(&snapshot, described);
        if !is_new && mark != Mark::Unknown && mark != group.mark && group.mark != Mark::Unknown && group.mark != Mark::Rebalancing {
            group.rebalances.push_back(now);
        }
        if mark != Mark::Unknown {
            group.mark = mark;
        }
        while group.rebalances.front().is_some_and(|at| now.saturating_duration_since(*at) >= SPAN) {
            group.rebalances.pop_front();
        }
        let watched = now.saturating_duration_since(group.since) >= SPAN;
        snapshot.rebalances_last10_minutes = Some(group.rebalances.len() as Count).filter(|count| watched || *count > 0);
        if snapshot.members == Some(0) {
            let since = *group.empty_since.get_or_insert(now);
            snapshot.empty_seconds = seconds(since, now).filter(|_| !is_new);
        } else {
            group.empty_since = None;
        }
        snapshot
    }

    /// Keeps only some groups.
    pub fn retain(&mut self, groups: &BTreeSet<String>) {
        self.groups.retain(|group, _| groups.contains(group));
    }
}

fn put_unchanged(partition: &mut KafkaPartition, before: Offsets, now: Instant) -> Offsets {
    let same = |value: Option<Count>, before: Option<(Count, Instant)>| {
        let value = value?;
        Some((value, before.filter(|(earlier, _)| *earlier == value).map_or(now, |(_, since)| since)))
    };
    let after = Offsets { committed: same(partition.committed, before.committed), end: same(partition.log_end, before.end) };
    let unchanged = |before: Option<(Count, Instant)>, after: Option<(Count, Instant)>| before.and(after).and_then(|(_, since)| seconds(since, now));
    partition.commit_unchanged_seconds = unchanged(before.committed, after.committed);
    partition.end_unchanged_seconds = unchanged(before.end, after.end);
    after
}

fn mark(snapshot: &KafkaGroupSnapshot, described: Option<&Result<Described, Refusal>>) -> Mark {
    let Some(Ok(described)) = described else { return Mark::Unknown };
    if snapshot.doing() == Some(GroupState::Rebalancing) {
        return Mark::Rebalancing;
    }
    match (described.epoch, &described.members) {
        (Some(epoch), _) => Mark::Epoch(epoch),
        (None, Some(members)) => Mark::Members(members.iter().map(|member| member.id.clone()).collect()),
        (None, None) => Mark::Unknown,
    }
}

fn seconds(since: Instant, now: Instant) -> Option<Amount> {
    Amount::new(now.saturating_duration_since(since).as_secs_f64())
}
