//! A cluster in the test's own process that answers as brokers do, and keeps what it was asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use loadline::core::kinds::KafkaGroupSnapshot;
use loadline::core::kinds::kafka::{GroupType, KafkaPartition};
use loadline::core::units::Count;
use loadline::engine::source::{Snapshot, Source, SourceError};
use loadline::sources::Timing;
use loadline::sources::kafka::reader::{Answer, At, Committed, Described, Each, KafkaReader, Keeping, Listed, Member, Partition, Refusal, ShareOffsets, Topic};
use loadline::sources::kafka::{KafkaCluster, KafkaSource, Wishes};

/// Long enough that readings of one test take part in one round.
pub const TIMING: Timing = Timing { interval: Duration::from_secs(60), timeout: Duration::from_secs(5) };
/// Each reading makes its own round.
pub const AT_ONCE: Timing = Timing { interval: Duration::ZERO, timeout: Duration::from_secs(5) };

#[derive(Clone, Default)]
pub struct Group {
    pub kind: GroupType,
    /// What the list says of its type; `None` as before 3.8.
    pub listed: Option<GroupType>,
    pub protocol: &'static str,
    pub described: Described,
    pub committed: Committed,
    pub shared: ShareOffsets,
    pub refusal: Option<Refusal>,
}

#[derive(Clone, Copy, Default)]
pub struct Log {
    pub start: Count,
    pub end: Count,
    pub stable: Option<Count>,
    /// The first record that is younger than any age asked for.
    pub young: Option<Count>,
}

#[derive(Default)]
pub struct State {
    pub groups: BTreeMap<String, Group>,
    pub topics: BTreeMap<String, Vec<Log>>,
    pub topic_refusals: BTreeMap<String, Refusal>,
    pub partition_refusals: BTreeMap<Partition, Refusal>,
    pub keeping_refused: bool,
    pub down: Option<SourceError>,
    pub slow: Duration,
    /// Records that come, and are read and committed, with each question.
    pub flow: Count,
    pub asked: Vec<String>,
}

/// The cluster, and what it was asked.
#[derive(Default)]
pub struct Fake {
    pub state: Mutex<State>,
    pub calls: AtomicU64,
}

impl Fake {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a whole state")
    }

    pub async fn asked<T>(&self, what: String, answer: impl FnOnce(&mut State) -> T) -> Result<T, SourceError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let slow = {
            let mut state = self.state();
            state.asked.push(what);
            state.slow
        };
        tokio::time::sleep(slow).await;
        let mut state = self.state();
        if let Some(error) = &state.down {
            return Err(error.clone());
        }
        let flow = state.flow;
        for log in state.topics.values_mut().flatten() {
            log.end += flow;
        }
        for offset in state.groups.values_mut().flat_map(|group| group.committed.values_mut()) {
            *offset += flow;
        }
        Ok(answer(&mut state))
    }

    /// The questions since the last time, by their first word.
    pub fn questions(&self) -> Vec<String> {
        let asked = std::mem::take(&mut self.state().asked);
        asked.iter().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
    }
}

pub fn names(partitions: &BTreeSet<Partition>) -> String {
    partitions.iter().map(|partition| format!("{}-{}", partition.topic, partition.number)).collect::<Vec<_>>().join(",")
}

impl KafkaReader for Fake {
    fn list(&self) -> Answer<'_, Vec<Listed>> {
        Box::pin(self.asked("list".to_owned(), |state| {
            let seen = state.groups.iter().filter(|(_, group)| group.refusal != Some(Refusal::NotAllowed));
            let row = |(name, group): (&String, &Group)| Listed {
                group: name.clone(),
                group_type: group.listed,
                state: Some(group.described.state.clone()),
                protocol: group.protocol.to_owned(),
            };
            seen.map(row).collect()
        }))
    }

    fn describe<'a>(&'a self, groups: &'a [(String, GroupType)]) -> Answer<'a, Each<String, Described>> {
        Box::pin(self.asked(format!("describe {groups:?}"), |state| {
            let answer = |(name, kind): &(String, GroupType)| match state.groups.get(name) {
                Some(Group { refusal: Some(refusal), .. }) => Err(refusal.clone()),
                Some(group) if group.kind == *kind && *kind == GroupType::Streams => Err(Refusal::Unsupported),
                Some(group) if group.kind == *kind => Ok(group.described.clone()),
                // a classic question about a group of another type, or none, is answered by Dead
                _ if *kind == GroupType::Classic => Ok(Described { state: "Dead".to_owned(), members: Some(Vec::new()), ..Described::default() }),
                _ => Err(Refusal::NotFound),
            };
            groups.iter().map(|group| (group.0.clone(), answer(group))).collect()
        }))
    }

    fn committed<'a>(&'a self, groups: &'a [String]) -> Answer<'a, Each<String, Committed>> {
        Box::pin(self.asked(format!("committed {}", groups.len()), |state| {
            let answer = |name: &String| match state.groups.get(name) {
                Some(Group { refusal: Some(refusal), .. }) => Err(refusal.clone()),
                Some(group) => Ok(group.committed.clone()),
                None => Ok(Committed::new()),
            };
            groups.iter().map(|name| (name.clone(), answer(name))).collect()
        }))
    }

    fn share_offsets<'a>(&'a self, groups: &'a [String]) -> Answer<'a, Each<String, ShareOffsets>> {
        Box::pin(self.asked(format!("share {}", groups.len()), |state| {
            let answer = |name: &String| state.groups.get(name).map(|group| group.shared.clone()).ok_or(Refusal::NotFound);
            groups.iter().map(|name| (name.clone(), answer(name))).collect()
        }))
    }

    fn topics<'a>(&'a self, names: &'a BTreeSet<String>) -> Answer<'a, Each<String, Topic>> {
        Box::pin(self.asked(format!("topics {}", names.len()), |state| {
            let answer = |name: &String| match (state.topic_refusals.get(name), state.topics.get(name)) {
                (Some(refusal), _) => Err(refusal.clone()),
                (None, Some(logs)) => Ok(Topic { id: Some(format!("id-{name}")), partitions: (0..i32::try_from(logs.len()).expect("few")).collect() }),
                (None, None) => Err(Refusal::NotFound),
            };
            names.iter().map(|name| (name.clone(), answer(name))).collect()
        }))
    }

    fn offsets<'a>(&'a self, partitions: &'a BTreeSet<Partition>, at: At) -> Answer<'a, Each<Partition, Option<Count>>> {
        let what = match at {
            At::Start => "starts",
            At::End => "ends",
            At::LastStable => "stable",
            At::Time(_) => "times",
        };
        Box::pin(self.asked(format!("{what} {}", names(partitions)), move |state| {
            let answer = |partition: &Partition| {
                if let Some(refusal) = state.partition_refusals.get(partition) {
                    return Err(refusal.clone());
                }
                let log = state.topics[&partition.topic][usize::try_from(partition.number).expect("a number")];
                Ok(match at {
                    At::Start => Some(log.start),
                    At::End => Some(log.end),
                    At::LastStable => Some(log.stable.unwrap_or(log.end)),
                    At::Time(_) => log.young,
                })
            };
            partitions.iter().map(|partition| (partition.clone(), answer(partition))).collect()
        }))
    }

    fn keeping<'a>(&'a self, topics: &'a BTreeSet<String>) -> Answer<'a, Each<String, Keeping>> {
        Box::pin(self.asked(format!("keeping {}", topics.len()), |state| {
            let refused = state.keeping_refused;
            let keeping = || Keeping { retention_seconds: Some(3600.0), cleanup_policy: Some("delete".to_owned()) };
            topics.iter().map(|topic| (topic.clone(), if refused { Err(Refusal::NotAllowed) } else { Ok(keeping()) })).collect()
        }))
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

/// A classic group with one member on all partitions of a topic.
pub fn group(topic: &str, commits: &[Option<Count>]) -> Group {
    let numbered = || commits.iter().enumerate().map(|(number, commit)| (Partition::new(topic, i32::try_from(number).expect("few")), *commit));
    let member = Member {
        id: "consumer-1".to_owned(),
        is_static: false,
        subscribed: Some(vec![topic.to_owned()]),
        assigned: Some(numbered().map(|(partition, _)| partition).collect()),
        settled: true,
    };
    Group {
        listed: Some(GroupType::Classic),
        protocol: "consumer",
        described: Described { state: "Stable".to_owned(), assignor: Some("range".to_owned()), epoch: None, members: Some(vec![member]) },
        committed: numbered().filter_map(|(partition, commit)| Some((partition, commit?))).collect(),
        ..Group::default()
    }
}

pub fn ends(ends: &[Count]) -> Vec<Log> {
    ends.iter().map(|end| Log { end: *end, ..Log::default() }).collect()
}

pub fn fake(groups: Vec<(&str, Group)>, topics: Vec<(&str, Vec<Log>)>) -> (Arc<Fake>, Arc<KafkaCluster>) {
    let fake = Arc::new(Fake::default());
    fake.state().groups = groups.into_iter().map(|(name, group)| (name.to_owned(), group)).collect();
    fake.state().topics = topics.into_iter().map(|(name, logs)| (name.to_owned(), logs)).collect();
    let cluster = Arc::new(KafkaCluster::new("kafka:9092".to_owned(), Arc::clone(&fake) as Arc<dyn KafkaReader>));
    (fake, cluster)
}

pub fn source(cluster: &Arc<KafkaCluster>, group: &str, wishes: Wishes, timing: Timing) -> KafkaSource {
    KafkaSource::new(Arc::clone(cluster), group.to_owned(), wishes, timing)
}

pub async fn read(source: &KafkaSource) -> Result<KafkaGroupSnapshot, SourceError> {
    match source.read().await?.snapshot {
        Snapshot::KafkaGroup(snapshot) => Ok(*snapshot),
        other => panic!("a reading of a group, not of {}", other.kind()),
    }
}

pub fn partitions<'a>(snapshot: &'a KafkaGroupSnapshot, topic: &str) -> &'a [KafkaPartition] {
    snapshot.topics.iter().flatten().find(|found| found.name == topic).expect("the topic").listed()
}
