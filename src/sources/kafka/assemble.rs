//! From what the brokers answered to readings of groups. Pure.
//!
//! What cannot be known is absent. What may not be known for want of a permission is an error that names it, as a reading
//! without it would look like one of a smaller group.

use std::collections::{BTreeMap, BTreeSet};

use super::cluster::{Moment, Wished, age_seconds};
use super::reader::{Committed, Described, Each, Keeping, Listed, Member, Partition, Refusal, ShareOffset, ShareOffsets, Topic};
use crate::core::kinds::KafkaGroupSnapshot;
use crate::core::kinds::kafka::{GroupType, KafkaPartition, KafkaTopic, OffsetByAge};
use crate::core::units::{Amount, Count};
use crate::engine::source::{FailureKind, SourceError};

/// What a round has found.
#[derive(Default)]
pub(super) struct Findings {
    pub asked_at: Moment,
    pub received_at: Moment,
    pub types: BTreeMap<String, GroupType>,
    pub listed: BTreeMap<String, Listed>,
    pub described: Each<String, Described>,
    pub committed: Each<String, Committed>,
    pub share: Each<String, ShareOffsets>,
    pub topics: Each<String, Topic>,
    pub ends: Each<Partition, Option<Count>>,
    pub stable: Each<Partition, Option<Count>>,
    pub starts: Each<Partition, Option<Count>>,
    /// By age in milliseconds.
    pub by_age: BTreeMap<u64, Each<Partition, Option<Count>>>,
    pub keeping: BTreeMap<String, Keeping>,
    /// The topics of each group.
    pub of_group: BTreeMap<String, BTreeSet<String>>,
}

impl Findings {
    /// The topics of all groups: where they have commits, and what their members read.
    pub fn topic_names(&mut self, wishes: &BTreeMap<String, Wished>) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for group in self.types.keys() {
            let only = wishes.get(group).and_then(|wished| wished.topics.as_ref());
            let mut names: BTreeSet<String> = self.places(group).into_keys().map(|partition| partition.topic).collect();
            for member in self.members(group).unwrap_or_default() {
                names.extend(member.subscribed.iter().flatten().cloned());
                names.extend(member.assigned.iter().flatten().map(|partition| partition.topic.clone()));
            }
            names.retain(|name| only.is_none_or(|only| only.contains(name)));
            all.extend(names.iter().cloned());
            self.of_group.insert(group.clone(), names);
        }
        all
    }

    /// The topics that there are.
    pub fn existing(&self) -> BTreeSet<String> {
        self.topics.iter().filter(|(_, topic)| topic.is_ok()).map(|(name, _)| name.clone()).collect()
    }

    /// All partitions of all topics.
    pub fn partitions(&self) -> BTreeSet<Partition> {
        self.topics.keys().flat_map(|name| self.of_topic(name)).collect()
    }

    /// The partitions of the topics of some groups.
    pub fn partitions_of(&self, wanted: impl Fn(&str) -> bool) -> BTreeSet<Partition> {
        let topics = self.of_group.iter().filter(|(group, _)| wanted(group)).flat_map(|(_, topics)| topics);
        topics.flat_map(|topic| self.of_topic(topic)).collect()
    }

    /// Partitions in which some group has no commit, or is behind.
    pub fn behind_or_new(&self) -> BTreeSet<Partition> {
        let mut found = BTreeSet::new();
        for (group, topics) in &self.of_group {
            let places = self.places(group);
            let unread = |partition: &Partition| places.get(partition).is_none_or(|place| self.is_behind(partition, place.start));
            found.extend(topics.iter().flat_map(|topic| self.of_topic(topic)).filter(unread));
        }
        found
    }

    /// Partitions in which a group is behind.
    pub fn behind(&self, group: &str) -> BTreeSet<Partition> {
        let topics = self.of_group.get(group);
        let is_ours = |partition: &Partition| topics.is_some_and(|topics| topics.contains(&partition.topic));
        let places = self.places(group).into_iter();
        places.filter(|(partition, place)| is_ours(partition) && self.is_behind(partition, place.start)).map(|(partition, _)| partition).collect()
    }

    fn is_behind(&self, partition: &Partition, place: Count) -> bool {
        offset(&self.ends, partition).is_some_and(|end| end > place)
    }

    fn of_topic(&self, name: &str) -> Vec<Partition> {
        let numbers = self.topics.get(name).and_then(|topic| topic.as_ref().ok()).map(|topic| topic.partitions.as_slice()).unwrap_or_default();
        numbers.iter().map(|number| Partition::new(name, *number)).collect()
    }

    /// Where a group is.
    fn places(&self, group: &str) -> BTreeMap<Partition, ShareOffset> {
        let committed = self.committed.get(group).and_then(|found| found.as_ref().ok()).into_iter().flatten();
        let shared = self.share.get(group).and_then(|found| found.as_ref().ok()).into_iter().flatten();
        let plain = committed.map(|(partition, offset)| (partition.clone(), ShareOffset { start: *offset, lag: None }));
        plain.chain(shared.map(|(partition, offset)| (partition.clone(), *offset))).collect()
    }

    fn members(&self, group: &str) -> Option<&[Member]> {
        self.described.get(group)?.as_ref().ok()?.members.as_deref()
    }
}

/// The reading of one group.
pub(super) fn group(name: &str, findings: &Findings, wished: Option<&Wished>) -> Result<KafkaGroupSnapshot, SourceError> {
    let group_type = findings.types.get(name).copied().unwrap_or_default();
    let described = match findings.described.get(name) {
        Some(Ok(described)) => Some(described),
        // the broker cannot tell, and the members stay unknown; or there is no such group, which the commits tell
        Some(Err(Refusal::Unsupported | Refusal::NotFound)) | None => None,
        Some(Err(refusal)) => return Err(refused("group", name, "DESCRIBE on the group", refusal)),
    };
    let offsets = match group_type {
        GroupType::Share => findings.share.get(name).map(|found| found.as_ref().map(|_| ())),
        _ => findings.committed.get(name).map(|found| found.as_ref().map(|_| ())),
    };
    match offsets {
        Some(Ok(())) => {}
        Some(Err(Refusal::NotFound)) => return Err(no_such(name)),
        // a broker that tells nothing of share groups
        Some(Err(Refusal::Unsupported)) if group_type == GroupType::Share => {}
        Some(Err(refusal)) => return Err(refused("group", name, "DESCRIBE on the group", refusal)),
        None => return Err(refused("group", name, "DESCRIBE on the group", &Refusal::Code(-1))),
    }
    let places = findings.places(name);
    let state = described.map(|described| described.state.clone()).or_else(|| findings.listed.get(name).and_then(|row| row.state.clone()));
    if places.is_empty() && state.as_deref().is_none_or(|state| state == "Dead") {
        return Err(no_such(name));
    }
    let members = described.and_then(|described| described.members.as_deref());
    let unsettled = members.is_some_and(|members| members.iter().any(|member| !member.settled));
    let state = if unsettled && state.as_deref() == Some("Stable") { Some("Reconciling".to_owned()) } else { state };
    let mut topics = Vec::new();
    for topic in findings.of_group.get(name).into_iter().flatten() {
        topics.extend(self::topic(name, topic, findings, &places, members, wished)?);
    }
    Ok(KafkaGroupSnapshot {
        observed_at: findings.asked_at,
        received_at: findings.received_at,
        group: Some(name.to_owned()),
        group_type: Some(group_type),
        state,
        members: members.map(|members| members.len() as Count),
        assignor: described.and_then(|described| described.assignor.clone()),
        static_members: members.filter(|members| !members.is_empty()).map(|members| members.iter().all(|member| member.is_static)),
        topics: Some(topics),
        ..KafkaGroupSnapshot::default()
    })
}

/// A topic as a group reads it. `None`: it is not there, and the group never read it.
fn topic(
    group: &str,
    name: &str,
    findings: &Findings,
    places: &BTreeMap<Partition, ShareOffset>,
    members: Option<&[Member]>,
    wished: Option<&Wished>,
) -> Result<Option<KafkaTopic>, SourceError> {
    let of_topic = |partition: &&Partition| partition.topic == name;
    let found = match findings.topics.get(name) {
        Some(Ok(found)) => found,
        Some(Err(Refusal::NotFound)) => {
            let left: Vec<&Partition> = places.keys().filter(of_topic).collect();
            let partition = |place: &&Partition| {
                let number = Count::try_from(place.number).ok()?;
                Some(KafkaPartition { partition: number, committed: places.get(*place).map(|place| place.start), ..KafkaPartition::default() })
            };
            let partitions: Vec<KafkaPartition> = left.iter().filter_map(partition).collect();
            let gone = KafkaTopic { name: name.to_owned(), deleted: Some(true), partitions: Some(partitions), ..KafkaTopic::default() };
            return Ok(Some(gone).filter(|_| !left.is_empty()));
        }
        Some(Err(refusal)) => return Err(refused("topic", name, "DESCRIBE on the topic", refusal)),
        None => return Err(refused("topic", name, "DESCRIBE on the topic", &Refusal::Code(-1))),
    };
    let shared = findings.types.get(group) == Some(&GroupType::Share);
    let owners: BTreeMap<&Partition, &str> = if shared { BTreeMap::new() } else { owners(members.unwrap_or_default(), name) };
    let keeping = findings.keeping.get(name);
    let partitions = found.partitions.iter().filter_map(|number| {
        let partition = Partition::new(name, *number);
        let place = places.get(&partition);
        let read_committed = wished.is_some_and(|wished| wished.read_committed);
        let lag = place.and_then(|place| place.lag);
        let by_age = |(age, offsets): (&u64, &Each<Partition, Option<Count>>)| {
            wished.filter(|wished| wished.ages.contains(age))?;
            let offset = *offsets.get(&partition)?.as_ref().ok()?;
            Some(OffsetByAge { age_seconds: Amount::new(age_seconds(*age))?, offset })
        };
        Some(KafkaPartition {
            partition: Count::try_from(*number).ok()?,
            committed: place.map(|place| place.start),
            log_start: offset(&findings.starts, &partition),
            log_end: offset(&findings.ends, &partition),
            last_stable: offset(&findings.stable, &partition).filter(|_| read_committed),
            lag: lag.and_then(|lag| i64::try_from(lag).ok()),
            member: owners.get(&partition).map(|member| (*member).to_owned()),
            offsets_by_age: if place.is_some() { findings.by_age.iter().filter_map(by_age).collect() } else { Vec::new() },
            ..KafkaPartition::default()
        })
    });
    Ok(Some(KafkaTopic {
        name: name.to_owned(),
        id: found.id.clone(),
        retention_seconds: keeping.and_then(|keeping| keeping.retention_seconds).and_then(Amount::new),
        subscribed: members.and_then(|members| subscribed(members, name)),
        deleted: None,
        cleanup_policy: keeping.and_then(|keeping| keeping.cleanup_policy.clone()),
        records_per_offset: None,
        partition_count: None,
        partitions: Some(partitions.collect()),
    }))
}

/// Whether members read a topic. Not known of a group without members, nor where a member's wishes cannot be read.
fn subscribed(members: &[Member], topic: &str) -> Option<bool> {
    let reads = |member: &Member| {
        member.subscribed.iter().flatten().any(|name| name == topic) || member.assigned.iter().flatten().any(|partition| partition.topic == topic)
    };
    if members.iter().any(reads) {
        return Some(true);
    }
    (!members.is_empty() && members.iter().all(|member| member.subscribed.is_some())).then_some(false)
}

fn owners<'a>(members: &'a [Member], topic: &str) -> BTreeMap<&'a Partition, &'a str> {
    let of = |member: &'a Member| member.assigned.iter().flatten().map(|partition| (partition, member.id.as_str()));
    members.iter().flat_map(of).filter(|(partition, _)| partition.topic == topic).collect()
}

fn offset(found: &Each<Partition, Option<Count>>, partition: &Partition) -> Option<Count> {
    found.get(partition)?.as_ref().ok().copied().flatten()
}

fn no_such(group: &str) -> SourceError {
    SourceError::new(FailureKind::NotFound, format!("no group \"{group}\" on this cluster: expected one with members or commits"))
}

fn refused(what: &str, name: &str, permission: &str, refusal: &Refusal) -> SourceError {
    match refusal {
        Refusal::NotAllowed => {
            SourceError::new(FailureKind::Unauthorized, format!("the account may not read the {what} \"{name}\": expected permission {permission}"))
        }
        Refusal::Unreached(error) => error.clone(),
        other => SourceError::new(FailureKind::Unexpected, format!("no answer about the {what} \"{name}\": {other}")),
    }
}
