//! One pool: the workers and the pending tasks of a category, and in which order its workers go.
//!
//! A `StatefulSet` removes its highest ordinal first. A worker's *rank* is how many have to stay for it to stay: its
//! ordinal where the pool has a set of its own, else its place in the list. Where ranks tell nothing of the order (no
//! ordinals, an ordinal that stands twice, workers of another category above in the same set), that is said, and
//! nothing is lowered unless pods drain themselves.
//!
//! Numbers at the end of host names that lie far above the number of workers are those of machines, not ordinals.
//!
//! A pod that is listed under two ports is one worker: it came back on another one, and Druid still knows both.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Deref;

use super::{DEFAULT_CATEGORY, DruidWorkersSnapshot, Pending, PendingTask, Streaming, Worker, streams};
use crate::core::policy::{DruidPolicy, PoolInput};
use crate::core::reasons::{Names, PendingTasks, Reason, Workers};
use crate::core::units::{Amount, Count, Timestamp, seconds_between};

/// A worker and its place in the order of removal.
#[derive(Clone, Debug)]
pub struct Seat<'a> {
    worker: Cow<'a, Worker>,
    /// How many have to stay for this one to stay, itself not counted.
    pub rank: Count,
}

impl Deref for Seat<'_> {
    type Target = Worker;

    fn deref(&self) -> &Worker {
        &self.worker
    }
}

/// The workers and the pending tasks of one category.
pub struct Pool<'a> {
    /// The category.
    pub category: String,
    /// Its bounds in the policy.
    pub bounds: PoolInput,
    /// Its workers, lowest rank first.
    pub workers: Vec<Seat<'a>>,
    /// Its pending tasks, where they are listed.
    pub tasks: Vec<&'a PendingTask>,
    /// Pending tasks that are not listed.
    pub unlisted: Count,
    /// Age of the oldest, in seconds.
    pub oldest_seconds: Option<f64>,
    /// Streaming supervisors whose tasks run here.
    pub streams: Vec<&'a Streaming>,
    /// Why the order in which workers go is not known, where it is not.
    pub unclear: Option<Reason>,
    /// True for the pool that takes tasks without a category.
    pub takes_unnamed: bool,
}

/// The pools of a reading, and what is to be said of it whatever comes out.
pub struct Pools<'a> {
    /// One for each category.
    pub pools: Vec<Pool<'a>>,
    /// Workers and tasks of other categories, pods that are listed twice.
    pub said: Vec<Reason>,
}

/// The count that a list of workers stands for: as many as are listed, or one more than the highest ordinal, since a
/// `StatefulSet` of fewer would not have that one.
#[must_use]
pub fn own_count(workers: &[Worker]) -> Count {
    let listed = workers.len() as Count;
    let highest = workers.iter().filter_map(Worker::ordinal).max().map_or(0, |ordinal| ordinal.saturating_add(1));
    if are_ordinals(highest, listed) { highest.max(listed) } else { listed }
}

/// False for numbers so far above the count of workers that they cannot be ordinals of one set.
const fn are_ordinals(highest: Count, listed: Count) -> bool {
    highest <= listed.saturating_mul(2).saturating_add(10)
}

/// Each pod once. Of one that is listed under several ports all work counts, and the largest capacity.
fn pods(workers: &[Worker]) -> (Vec<Cow<'_, Worker>>, Vec<String>) {
    let mut seats: Vec<Cow<'_, Worker>> = Vec::with_capacity(workers.len());
    let mut twice = Vec::new();
    let mut known: HashMap<&str, usize> = HashMap::with_capacity(workers.len());
    for worker in workers {
        let Some(pod) = worker.pod() else {
            seats.push(Cow::Borrowed(worker));
            continue;
        };
        match known.get(pod).and_then(|at| seats.get_mut(*at)) {
            Some(seat) if seat.ordinal() == worker.ordinal() => {
                twice.push(pod.to_owned());
                merge(seat.to_mut(), worker);
            }
            _ => {
                known.insert(pod, seats.len());
                seats.push(Cow::Borrowed(worker));
            }
        }
    }
    (seats, twice)
}

fn merge(into: &mut Worker, other: &Worker) {
    let known: HashSet<String> = into.tasks.iter().flatten().map(|task| task.id.clone()).collect();
    // the same task under both ports is one
    let (again, new): (Vec<_>, Vec<_>) = other.tasks.iter().flatten().cloned().partition(|task| known.contains(&task.id));
    let used = into.busy().saturating_add(other.busy()).saturating_sub(again.len() as Count);
    // what takes tasks is what a step has to reach
    if other.enabled && !into.enabled {
        into.host.clone_from(&other.host);
        into.version.clone_from(&other.version);
        into.blacklisted_until = other.blacklisted_until;
    }
    into.enabled |= other.enabled;
    into.capacity = into.capacity.max(other.capacity);
    into.used = used;
    into.parallel_index_used = Some(into.parallel_index_used.unwrap_or(0).saturating_add(other.parallel_index_used.unwrap_or(0)));
    into.availability_groups.extend(other.availability_groups.iter().cloned());
    into.tasks = into.tasks.take().filter(|_| other.tasks.is_some()).map(|mut tasks| {
        tasks.extend(new);
        tasks
    });
}

impl<'a> Pool<'a> {
    fn new(category: &str, bounds: PoolInput) -> Self {
        Self {
            category: category.to_owned(),
            bounds,
            workers: Vec::new(),
            tasks: Vec::new(),
            unlisted: 0,
            oldest_seconds: None,
            streams: Vec::new(),
            unclear: None,
            takes_unnamed: false,
        }
    }

    /// Splits a reading into pools. Where the policy names pools, workers and tasks of other categories are not this
    /// target's, and that is said.
    #[must_use]
    pub fn split(reading: &'a DruidWorkersSnapshot, workers: &'a [Worker], pending: &'a Pending, policy: &DruidPolicy, now: Timestamp) -> Pools<'a> {
        let (seats, twice) = pods(workers);
        let mut named: BTreeMap<String, Self> = policy.pools.iter().flatten().map(|(name, bounds)| (name.clone(), Self::new(name, *bounds))).collect();
        let fixed = policy.pools.is_some();
        let mut elsewhere: (Vec<String>, Count, Count) = (Vec::new(), 0, 0);
        for worker in seats {
            let name = worker.category.as_deref().unwrap_or(DEFAULT_CATEGORY).to_owned();
            if fixed && !named.contains_key(&name) {
                elsewhere.0.push(name);
                elsewhere.1 += 1;
            } else {
                let pool = named.entry(name.clone()).or_insert_with(|| Self::new(&name, PoolInput::default()));
                pool.workers.push(Seat { worker, rank: 0 });
            }
        }
        // a task without a category goes to the default pool, or to the only one there is
        let fallback = if named.contains_key(DEFAULT_CATEGORY) {
            DEFAULT_CATEGORY.to_owned()
        } else {
            named.keys().next().cloned().unwrap_or_else(|| DEFAULT_CATEGORY.to_owned())
        };
        for task in pending.tasks.iter().flatten() {
            let name = task.category.as_ref().unwrap_or(&fallback);
            if fixed && !named.contains_key(name) {
                elsewhere.0.push(name.clone());
                elsewhere.2 += 1;
            } else if let Some(pool) = named.get_mut(name) {
                pool.tasks.push(task);
            } else {
                let mut pool = Self::new(name, PoolInput::default());
                pool.tasks.push(task);
                named.insert(name.clone(), pool);
            }
        }
        let listed = pending.tasks.as_ref().map_or(0, |tasks| tasks.len() as Count);
        let unnamed = named.entry(fallback.clone()).or_insert_with(|| Self::new(&fallback, PoolInput::default()));
        unnamed.unlisted = pending.count.saturating_sub(listed);
        unnamed.takes_unnamed = true;
        for stream in &reading.streaming {
            // a stream of a category that is not this target's is not this target's either
            let name = stream.category.clone().or_else(|| runs_in(stream, &reading.streaming, &named)).unwrap_or_else(|| fallback.clone());
            if let Some(pool) = named.get_mut(&name) {
                pool.streams.push(stream);
            }
        }
        let mut pools: Vec<Self> = named.into_values().collect();
        rank(&mut pools);
        for pool in &mut pools {
            pool.oldest_seconds = pool.oldest(pending, now);
        }
        let mut said = Vec::new();
        elsewhere.0.sort();
        elsewhere.0.dedup();
        if !elsewhere.0.is_empty() {
            said.push(Reason::OtherCategory { categories: Names(elsewhere.0), workers: Workers(elsewhere.1), pending: PendingTasks(elsewhere.2) });
        }
        if !twice.is_empty() {
            said.push(Reason::WorkerListedTwice { pods: Names(twice) });
        }
        Pools { pools, said }
    }

    /// The age of its oldest pending task: of its own where all of them tell, else of the whole reading.
    fn oldest(&self, pending: &Pending, now: Timestamp) -> Option<f64> {
        let own = self.tasks.iter().map(|task| task.created_time).try_fold(None, |oldest: Option<Timestamp>, created| {
            let created = created?;
            Some(Some(oldest.map_or(created, |oldest| oldest.min(created))))
        });
        match own.flatten().filter(|_| self.unlisted == 0) {
            Some(created) => Some(seconds_between(created, now).max(0.0)),
            None => pending.oldest_seconds.map(Amount::get),
        }
    }

    /// Slots in use, those above a worker's capacity included.
    #[must_use]
    pub fn used(&self) -> Count {
        self.workers.iter().fold(0, |sum: Count, worker| sum.saturating_add(worker.busy()))
    }

    /// Pending tasks.
    #[must_use]
    pub fn pending_tasks(&self) -> Count {
        (self.tasks.len() as Count).saturating_add(self.unlisted)
    }

    /// Slots that all pending tasks ask for, however new they are; those that can never be placed left out.
    #[must_use]
    pub fn pending_slots(&self) -> Count {
        let tasks = self.tasks.iter().filter(|task| task.placeable != Some(false));
        tasks.fold(self.unlisted, |sum, task| sum.saturating_add(task.slots()))
    }

    /// Slots that this pool used and was asked for at an earlier reading; `None` where that is not known.
    #[must_use]
    pub fn slots_then(&self, reading: &DruidWorkersSnapshot) -> Option<Count> {
        let (workers, pending) = (reading.workers.as_deref()?, reading.pending.as_ref()?);
        let is_own = |category: &Option<String>| category.as_ref().map_or(self.category == DEFAULT_CATEGORY, |name| *name == self.category);
        let used = workers.iter().filter(|worker| is_own(&worker.category)).fold(0, |sum: Count, worker| sum.saturating_add(worker.busy()));
        let tasks = pending.tasks.as_deref().unwrap_or_default();
        let asks = |task: &&PendingTask| task.placeable != Some(false) && task.category.as_ref().map_or(self.takes_unnamed, |name| *name == self.category);
        let slots = tasks.iter().filter(asks).fold(used, |sum, task| sum.saturating_add(task.slots()));
        let unlisted = if self.takes_unnamed { pending.count.saturating_sub(tasks.len() as Count) } else { 0 };
        Some(slots.saturating_add(unlisted))
    }

    /// Its workers in an earlier reading; `None` where that had no list.
    #[must_use]
    pub fn then<'r>(&self, reading: &'r DruidWorkersSnapshot) -> Option<Vec<&'r Worker>> {
        let workers = reading.workers.as_deref()?;
        Some(workers.iter().filter(|worker| worker.category.as_deref().unwrap_or(DEFAULT_CATEGORY) == self.category).collect())
    }

    /// How many of its workers an earlier reading listed; `None` where it had no list.
    #[must_use]
    pub fn listed_then(&self, reading: &DruidWorkersSnapshot) -> Option<Count> {
        Some(self.then(reading)?.len() as Count)
    }

    /// Slots of a typical worker: the capacity that most have, the smaller one of a tie.
    #[must_use]
    pub fn typical_capacity(&self) -> Option<Count> {
        let mut seen: BTreeMap<Count, Count> = BTreeMap::new();
        for worker in self.workers.iter().filter(|worker| worker.capacity > 0) {
            *seen.entry(worker.capacity).or_default() += 1;
        }
        seen.into_iter().rev().max_by_key(|(_, workers)| *workers).map(|(capacity, _)| capacity)
    }

    /// The most workers that have to be there because copies of one task do not share a worker.
    #[must_use]
    pub fn copies(&self) -> Option<&'a Streaming> {
        self.streams.iter().copied().filter(|stream| stream.task_count > 0).max_by_key(|stream| stream.replicas)
    }
}

/// The pool on whose workers tasks of a stream run, where one of their ids tells: `index_kafka_orders_...`.
fn runs_in(stream: &Streaming, streams: &[Streaming], pools: &BTreeMap<String, Pool<'_>>) -> Option<String> {
    if pools.len() < 2 {
        return None;
    }
    let is_of_stream = |id: &str| streams::owner(streams.iter(), id).is_some_and(|owner| owner.supervisor == stream.supervisor);
    let runs = |pool: &Pool<'_>| pool.workers.iter().filter_map(|worker| worker.tasks.as_ref()).flatten().any(|task| is_of_stream(&task.id));
    pools.iter().find(|(_, pool)| runs(pool)).map(|(name, _)| name.clone())
}

/// Puts the workers of each pool into their order, and says where that order tells nothing.
fn rank(pools: &mut [Pool<'_>]) {
    // the highest ordinal of each set in each pool
    let mut sets: HashMap<String, Vec<(usize, Count)>> = HashMap::new();
    if pools.len() > 1 {
        for (index, pool) in pools.iter().enumerate() {
            for (set, ordinal) in pool.workers.iter().filter_map(|worker| worker.set().zip(worker.ordinal())) {
                let tops = sets.entry(set.to_owned()).or_default();
                match tops.iter_mut().find(|(known, _)| *known == index) {
                    Some((_, top)) => *top = ordinal.max(*top),
                    None => tops.push((index, ordinal)),
                }
            }
        }
    }
    let all = || pools.iter().flat_map(|pool| &pool.workers);
    let highest = all().filter_map(|worker| worker.ordinal()).max().map_or(0, |ordinal| ordinal.saturating_add(1));
    let are_numbered = are_ordinals(highest, all().count() as Count);
    for (index, pool) in pools.iter_mut().enumerate() {
        pool.workers.sort_by_key(|worker| (worker.ordinal(), worker.capacity));
        let nameless = pool.workers.iter().filter(|worker| worker.ordinal().is_none() || !are_numbered).count() as Count;
        let double = pool.workers.windows(2).find_map(|pair| match pair {
            [one, other] if one.ordinal() == other.ordinal() => one.ordinal(),
            _ => None,
        });
        let shared: Vec<&Vec<(usize, Count)>> = sets.values().filter(|tops| tops.len() > 1 && tops.iter().any(|(pool, _)| *pool == index)).collect();
        let is_covered = shared.iter().any(|tops| tops.iter().max_by_key(|(_, top)| *top).is_some_and(|(highest, _)| *highest != index));
        pool.unclear = match double {
            _ if nameless > 0 => Some(Reason::NoOrdinals { workers: Workers(nameless) }),
            Some(ordinal) => Some(Reason::OrdinalTwice { ordinal, category: pool.category.clone() }),
            None if is_covered => Some(Reason::OrdinalsShared { category: pool.category.clone() }),
            None => None,
        };
        let by_place = nameless > 0 || double.is_some() || !shared.is_empty();
        for (place, worker) in pool.workers.iter_mut().enumerate() {
            worker.rank = worker.ordinal().filter(|_| !by_place).unwrap_or(place as Count);
        }
    }
}

/// True for a worker that the Overlord gives tasks: enabled, of a version that is new enough, not blacklisted.
#[must_use]
pub fn takes_tasks(worker: &Worker, now: Timestamp, reading: &DruidWorkersSnapshot) -> bool {
    worker.enabled && is_sound(worker, now, reading)
}

/// True for a worker that would get tasks if it were enabled.
#[must_use]
pub fn is_sound(worker: &Worker, now: Timestamp, reading: &DruidWorkersSnapshot) -> bool {
    let old = match (&worker.version, &reading.min_worker_version) {
        // a disabled worker announces an empty version
        (Some(version), Some(least)) => !version.is_empty() && version.as_str() < least.as_str(),
        _ => false,
    };
    !old && worker.blacklisted_until.is_none_or(|until| until <= now)
}
