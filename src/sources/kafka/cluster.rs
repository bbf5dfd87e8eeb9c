//! A Kafka cluster, as all targets on it share it: one reading (a *round*) for all of their groups.
//!
//! Targets of one cluster have the same place in their interval, so that the first of them makes the round and the others
//! take part in it. A round is, in this order: the types of groups that are not known yet, their members, their commits,
//! the topics of those, the ends of their partitions, and what is needed beyond for those that are behind. A round that
//! failed is shared as well, so that a cluster that does not answer is not asked by each of its targets in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Mutex as AsyncMutex;

use super::assemble::{self, Findings};
use super::reader::{At, Described, Each, KafkaReader, Keeping, Listed, Partition, Refusal};
use super::seen::Seen;
use super::whole;
use crate::core::kinds::KafkaGroupSnapshot;
use crate::core::kinds::kafka::GroupType;
use crate::core::units::{Timestamp, as_f64};
use crate::engine::clock;
use crate::engine::source::{FailureKind, SourceError};
use crate::sources::Timing;

/// A round is taken part in where it is younger than four fifths of an interval, and never when it is older than this.
const OLDEST_ROUND: Duration = Duration::from_secs(5);

/// How long it is kept how topics keep their records.
const KEEPING_AGE: Duration = Duration::from_secs(600);

/// What a target needs beyond lags.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wishes {
    /// The age in seconds that no record shall reach unread.
    pub objective_seconds: Option<f64>,
    /// True for groups that read committed records only.
    pub read_committed: bool,
    /// Only these topics; empty: all.
    pub topics: Vec<String>,
}

/// A cluster.
pub struct KafkaCluster {
    name: String,
    reader: Arc<dyn KafkaReader>,
    round: AsyncMutex<Option<Kept>>,
    list: AsyncMutex<Option<(Instant, Arc<Vec<Listed>>)>>,
    targets: Mutex<BTreeMap<u64, Registered>>,
    next_target: AtomicU64,
    calls: AtomicU32,
    known: Mutex<Known>,
}

/// A target of this cluster.
#[derive(Clone)]
struct Registered {
    group: String,
    wishes: Wishes,
    interval: Duration,
    read: Option<Instant>,
}

/// The last round, or why there is none.
struct Kept {
    begun: Instant,
    ended: Instant,
    targets: BTreeSet<u64>,
    round: Result<Arc<Round>, SourceError>,
}

/// One reading of the cluster.
pub struct Round {
    /// Each group that was read, or why it could not be.
    pub groups: BTreeMap<String, Result<KafkaGroupSnapshot, SourceError>>,
}

/// What is kept from one round to the next.
#[derive(Default)]
struct Known {
    types: BTreeMap<String, GroupType>,
    keeping: BTreeMap<String, (Instant, Option<Keeping>)>,
    seen: Seen,
}

impl KafkaCluster {
    /// A cluster under a name, asked through a reader.
    #[must_use]
    pub fn new(name: String, reader: Arc<dyn KafkaReader>) -> Self {
        Self {
            name,
            reader,
            round: AsyncMutex::default(),
            list: AsyncMutex::default(),
            targets: Mutex::default(),
            next_target: AtomicU64::new(0),
            calls: AtomicU32::new(0),
            known: Mutex::default(),
        }
    }

    /// Its brokers, as they were named.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Calls that the last round took.
    pub(super) fn last_calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(super) fn register(&self, group: &str, wishes: Wishes, timing: Timing) -> u64 {
        let target = self.next_target.fetch_add(1, Ordering::Relaxed);
        if !group.is_empty() {
            lock(&self.targets).insert(target, Registered { group: group.to_owned(), wishes, interval: timing.interval, read: None });
        }
        target
    }

    pub(super) fn withdraw(&self, target: u64) {
        lock(&self.targets).remove(&target);
    }

    /// Takes part in a round with this target that is young enough for its interval, or makes one.
    pub(super) async fn round(&self, target: u64, timing: Timing) -> Result<Arc<Round>, SourceError> {
        let called = clock::instant();
        let young = (timing.interval * 4 / 5).min(OLDEST_ROUND);
        let mut kept = self.round.lock().await;
        if let Some(kept) = kept.as_ref().filter(|kept| kept.targets.contains(&target)) {
            let since = if kept.round.is_ok() { kept.begun } else { kept.ended };
            if called.saturating_duration_since(since) < young {
                return kept.round.clone();
            }
        }
        let begun = clock::instant();
        let due = self.due(target, begun);
        let before = self.reader.calls();
        let limit = whole(timing.timeout);
        let round = match tokio::time::timeout(limit, self.ask(&due)).await {
            Ok(round) => round,
            Err(_) => Err(SourceError::new(FailureKind::Timeout, format!("no complete reading of the cluster within {} s", limit.as_secs_f64()))),
        };
        let calls = u32::try_from(self.reader.calls().saturating_sub(before)).unwrap_or(u32::MAX);
        self.calls.store(calls, Ordering::Relaxed);
        let round = round.map(|groups| Arc::new(Round { groups }));
        *kept = Some(Kept { begun, ended: clock::instant(), targets: due.into_keys().collect(), round: round.clone() });
        round
    }

    /// The targets of a round: the one that asks, and all whose interval is about over.
    fn due(&self, asking: u64, now: Instant) -> BTreeMap<u64, Registered> {
        let mut targets = lock(&self.targets);
        let is_due = |target: u64, registered: &Registered| {
            target == asking || registered.read.is_none_or(|read| now.saturating_duration_since(read) >= registered.interval * 4 / 5)
        };
        let mut due = BTreeMap::new();
        for (target, registered) in targets.iter_mut() {
            if is_due(*target, registered) {
                registered.read = Some(now);
                due.insert(*target, registered.clone());
            }
        }
        due
    }

    /// All groups that the account may see; a list that is young enough is given again.
    pub(super) async fn list(&self, timing: Timing) -> Result<Arc<Vec<Listed>>, SourceError> {
        let called = clock::instant();
        let young = (timing.interval * 4 / 5).min(OLDEST_ROUND);
        let mut kept = self.list.lock().await;
        if let Some((begun, list)) = kept.as_ref()
            && called.saturating_duration_since(*begun) < young
        {
            return Ok(Arc::clone(list));
        }
        let begun = clock::instant();
        let asked = tokio::time::timeout(whole(timing.timeout), self.reader.list()).await;
        let list = asked.unwrap_or_else(|_| Err(SourceError::new(FailureKind::Timeout, "no list of groups in time")))?;
        let list = Arc::new(list);
        lock(&self.known).learn(&list);
        *kept = Some((begun, Arc::clone(&list)));
        Ok(list)
    }

    async fn ask(&self, due: &BTreeMap<u64, Registered>) -> Result<BTreeMap<String, Result<KafkaGroupSnapshot, SourceError>>, SourceError> {
        let groups: BTreeSet<String> = due.values().map(|target| target.group.clone()).collect();
        let mut findings = self.members(&groups).await?;
        let is_share = |group: &String| findings.types.get(group) == Some(&GroupType::Share);
        let (share, others): (Vec<String>, Vec<String>) = groups.iter().cloned().partition(is_share);
        findings.asked_at = Some(clock::now());
        if !others.is_empty() {
            findings.committed = self.reader.committed(&others).await?;
        }
        if !share.is_empty() {
            findings.share = self.reader.share_offsets(&share).await?;
        }
        let wishes = wishes(due);
        let topics = findings.topic_names(&wishes);
        if !topics.is_empty() {
            findings.topics = self.reader.topics(&topics).await?;
            self.put_offsets(&mut findings, &wishes).await?;
            findings.keeping = self.keeping(findings.existing()).await?;
        }
        findings.received_at = Some(clock::now());
        let mut known = lock(&self.known);
        let now = clock::instant();
        let mut read = BTreeMap::new();
        for group in &groups {
            let snapshot = assemble::group(group, &findings, wishes.get(group));
            let followed = snapshot.map(|snapshot| known.seen.follow(snapshot, findings.described.get(group), now));
            read.insert(group.clone(), followed);
        }
        let followed: BTreeSet<String> = lock(&self.targets).values().map(|target| target.group.clone()).collect();
        known.retain(&followed);
        Ok(read)
    }

    /// Types and members. The types are kept from earlier rounds; where one does not hold any more, the groups are listed.
    async fn members(&self, groups: &BTreeSet<String>) -> Result<Findings, SourceError> {
        let mut listed = None;
        let of_type = |listed: &Option<BTreeMap<String, Listed>>| -> Vec<(String, GroupType)> {
            let known = lock(&self.known);
            let of = |group: &String| {
                let named = listed.as_ref().and_then(|listed| listed.get(group)).and_then(|row| row.group_type);
                (group.clone(), named.or_else(|| known.types.get(group).copied()).unwrap_or_default())
            };
            groups.iter().map(of).collect()
        };
        if groups.iter().any(|group| !lock(&self.known).types.contains_key(group)) {
            listed = Some(self.list_for(groups).await?);
        }
        let mut types = of_type(&listed);
        let mut described = self.reader.describe(&types).await?;
        if listed.is_none() && described.values().any(is_gone) {
            listed = Some(self.list_for(groups).await?);
            let anew = of_type(&listed);
            if anew != types {
                types = anew;
                described = self.reader.describe(&types).await?;
            }
        }
        let gone: Vec<&String> = described.iter().filter(|(_, answer)| is_gone(answer)).map(|(group, _)| group).collect();
        // one that is made later may be of another type
        lock(&self.known).types.retain(|group, _| !gone.contains(&group));
        Ok(Findings { types: types.into_iter().collect(), listed: listed.unwrap_or_default(), described, ..Findings::default() })
    }

    async fn list_for(&self, groups: &BTreeSet<String>) -> Result<BTreeMap<String, Listed>, SourceError> {
        let list = self.reader.list().await?;
        lock(&self.known).learn(&list);
        Ok(list.into_iter().filter(|row| groups.contains(&row.group)).map(|row| (row.group.clone(), row)).collect())
    }

    /// Ends of all partitions; the rest where it is needed.
    async fn put_offsets(&self, findings: &mut Findings, wishes: &BTreeMap<String, Wished>) -> Result<(), SourceError> {
        let all = findings.partitions();
        if all.is_empty() {
            return Ok(());
        }
        let now = clock::now();
        findings.ends = self.reader.offsets(&all, At::End).await?;
        let stable = findings.partitions_of(|group| wishes.get(group).is_some_and(|wished| wished.read_committed));
        if !stable.is_empty() {
            findings.stable = self.reader.offsets(&stable, At::LastStable).await?;
        }
        let starts = findings.behind_or_new();
        if !starts.is_empty() {
            findings.starts = self.reader.offsets(&starts, At::Start).await?;
        }
        // the objectives that there are: few, as most policies share one
        let mut ages: BTreeMap<u64, BTreeSet<Partition>> = BTreeMap::new();
        for (group, wished) in wishes {
            for age in &wished.ages {
                ages.entry(*age).or_default().extend(findings.behind(group));
            }
        }
        for (age, partitions) in ages.into_iter().filter(|(_, partitions)| !partitions.is_empty()) {
            let since = now.as_millisecond().saturating_sub(i64::try_from(age).unwrap_or(i64::MAX));
            let offsets = self.reader.offsets(&partitions, At::Time(since)).await?;
            findings.by_age.insert(age, offsets);
        }
        Ok(())
    }

    /// How topics keep their records. Permission for that may be missing, which only leaves it unknown.
    async fn keeping(&self, topics: BTreeSet<String>) -> Result<BTreeMap<String, Keeping>, SourceError> {
        let now = clock::instant();
        let missing: BTreeSet<String> = {
            let mut known = lock(&self.known);
            known.keeping.retain(|_, (asked, _)| now.saturating_duration_since(*asked) < KEEPING_AGE);
            topics.iter().filter(|topic| !known.keeping.contains_key(*topic)).cloned().collect()
        };
        if !missing.is_empty() {
            let answers = match self.reader.keeping(&missing).await {
                Ok(answers) => answers,
                Err(error) if error.kind == FailureKind::Unsupported => Each::new(),
                Err(error) => return Err(error),
            };
            let mut known = lock(&self.known);
            for topic in missing {
                let found = answers.get(&topic).and_then(|answer| answer.as_ref().ok()).cloned();
                known.keeping.insert(topic, (now, found));
            }
        }
        let known = lock(&self.known);
        Ok(topics.into_iter().filter_map(|topic| Some((topic.clone(), known.keeping.get(&topic)?.1.clone()?))).collect())
    }
}

impl Known {
    fn learn(&mut self, list: &[Listed]) {
        self.types.extend(list.iter().filter_map(|row| Some((row.group.clone(), row.group_type?))));
    }

    /// Forgets groups that no target is for.
    fn retain(&mut self, followed: &BTreeSet<String>) {
        self.types.retain(|group, _| followed.contains(group));
        self.seen.retain(followed);
    }
}

/// What the targets of a group want of it together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Wished {
    /// Objectives, in milliseconds.
    pub ages: BTreeSet<u64>,
    pub read_committed: bool,
    /// Only these topics; `None`: all.
    pub topics: Option<BTreeSet<String>>,
}

fn wishes(due: &BTreeMap<u64, Registered>) -> BTreeMap<String, Wished> {
    let mut all: BTreeMap<String, Wished> = BTreeMap::new();
    for Registered { group, wishes, .. } in due.values() {
        let only = Some(wishes.topics.iter().cloned().collect::<BTreeSet<_>>()).filter(|topics| !topics.is_empty());
        let wished = match all.get_mut(group) {
            None => all.entry(group.clone()).or_insert(Wished { topics: only, ..Wished::default() }),
            Some(wished) => {
                wished.topics = wished.topics.take().zip(only).map(|(mut topics, more)| {
                    topics.extend(more);
                    topics
                });
                wished
            }
        };
        wished.read_committed |= wishes.read_committed;
        wished.ages.extend(wishes.objective_seconds.and_then(milliseconds));
    }
    all
}

fn milliseconds(seconds: f64) -> Option<u64> {
    Duration::try_from_secs_f64(seconds).ok().and_then(|duration| u64::try_from(duration.as_millis()).ok()).filter(|milliseconds| *milliseconds > 0)
}

/// An age in seconds.
pub(super) fn age_seconds(milliseconds: u64) -> f64 {
    as_f64(milliseconds) / 1000.0
}

/// The broker knows no such group, or none of this type.
fn is_gone(answer: &Result<Described, Refusal>) -> bool {
    match answer {
        Ok(described) => described.state == "Dead",
        Err(refusal) => matches!(refusal, Refusal::NotFound),
    }
}

/// When the commits were asked for.
pub(super) type Moment = Option<Timestamp>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
