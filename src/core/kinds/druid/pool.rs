//! One pool: the workers and the pending tasks of a category.

use std::collections::BTreeMap;

use super::DruidWorkersSnapshot;
use super::{DEFAULT_CATEGORY, Pending, PendingTask, Worker};
use crate::core::policy::{DruidPolicy, PoolInput};
use crate::core::reasons::{Names, Reason};
use crate::core::units::{Amount, Count, Timestamp, as_f64};

/// The workers and the pending tasks of one category.
pub struct Pool<'a> {
    /// The category.
    pub category: String,
    /// Its bounds in the policy.
    pub bounds: PoolInput,
    /// Its workers, lowest ordinal first.
    pub workers: Vec<&'a Worker>,
    /// Its pending tasks, where they are listed.
    pub tasks: Vec<&'a PendingTask>,
    /// Pending tasks that are not listed.
    pub unlisted: Count,
    /// Age of the oldest.
    pub oldest_seconds: Option<f64>,
}

/// The count that a list of workers stands for: as many as are listed, or one more than the highest ordinal, since a
/// `StatefulSet` of fewer would not have that one.
#[must_use]
pub fn own_count(workers: &[Worker]) -> Count {
    let highest = workers.iter().filter_map(Worker::ordinal).max().map_or(0, |ordinal| ordinal.saturating_add(1));
    highest.max(workers.len() as Count)
}

impl<'a> Pool<'a> {
    /// Splits a reading into pools. Where the policy names pools, workers and tasks of other categories are not this
    /// target's, and that is said.
    #[must_use]
    pub fn split(workers: &'a [Worker], pending: &'a Pending, policy: &DruidPolicy) -> (Vec<Self>, Option<Reason>) {
        let category = |name: &Option<String>| name.clone().unwrap_or_else(|| DEFAULT_CATEGORY.to_owned());
        let mut pools: BTreeMap<String, Self> = BTreeMap::new();
        let new = |name: &str, bounds| Self { category: name.to_owned(), bounds, workers: Vec::new(), tasks: Vec::new(), unlisted: 0, oldest_seconds: None };
        for (name, bounds) in policy.pools.iter().flatten() {
            pools.insert(name.clone(), new(name, *bounds));
        }
        let fixed = policy.pools.is_some();
        let mut elsewhere: (Vec<String>, Count, Count) = (Vec::new(), 0, 0);
        for worker in workers {
            let name = category(&worker.category);
            if let Some(pool) = pools.get_mut(&name) {
                pool.workers.push(worker);
            } else if fixed {
                elsewhere.0.push(name);
                elsewhere.1 += 1;
            } else {
                let mut pool = new(&name, PoolInput::default());
                pool.workers.push(worker);
                pools.insert(name, pool);
            }
        }
        // a task without a category goes to the default pool, or to the only one there is
        let fallback = if pools.contains_key(DEFAULT_CATEGORY) {
            DEFAULT_CATEGORY.to_owned()
        } else {
            pools.keys().next().cloned().unwrap_or_else(|| DEFAULT_CATEGORY.to_owned())
        };
        for task in pending.tasks.iter().flatten() {
            let name = task.category.clone().unwrap_or_else(|| fallback.clone());
            if fixed && !pools.contains_key(&name) {
                elsewhere.0.push(name);
                elsewhere.2 += 1;
            } else {
                pools.entry(name.clone()).or_insert_with(|| new(&name, PoolInput::default())).tasks.push(task);
            }
        }
        let listed = pending.tasks.as_ref().map_or(0, |tasks| tasks.len() as Count);
        let pool = pools.entry(fallback.clone()).or_insert_with(|| new(&fallback, PoolInput::default()));
        pool.unlisted = pending.count.saturating_sub(listed);
        let oldest = pending.oldest_seconds.map(Amount::get);
        let mut pools: Vec<Self> = pools.into_values().collect();
        for pool in &mut pools {
            pool.oldest_seconds = oldest;
            pool.workers.sort_by_key(|worker| worker.ordinal());
        }
        elsewhere.0.sort();
        elsewhere.0.dedup();
        let said = (!elsewhere.0.is_empty()).then_some(Reason::OtherCategory { categories: Names(elsewhere.0), workers: elsewhere.1, pending: elsewhere.2 });
        (pools, said)
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
        let listed = self
            .tasks
            .iter()
            .filter(|task| task.placeable != Some(false))
            .fold(0, |sum: Count, task| sum.saturating_add(task.required_capacity.unwrap_or(1).max(1)));
        listed.saturating_add(self.unlisted)
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

    /// The smallest number of the lowest ordinals whose slots hold so many within the headroom; the number of all
    /// workers where none does.
    #[must_use]
    pub fn smallest_holding(&self, now: Timestamp, reading: &DruidWorkersSnapshot, slots: Count, headroom: f64) -> Count {
        if slots == 0 {
            return 0;
        }
        let mut capacity: Count = 0;
        for (index, worker) in self.workers.iter().enumerate() {
            if takes_tasks(worker, now, reading) {
                capacity = capacity.saturating_add(worker.capacity);
            }
            if headroom * as_f64(capacity) + 1e-9 >= as_f64(slots) {
                // with a gap in the ordinals the number of replicas is one more than the last one's
                return worker.ordinal().map_or(0, |ordinal| ordinal.saturating_add(1)).max(index as Count + 1);
            }
        }
        self.workers.iter().filter_map(|worker| worker.ordinal()).max().map_or(0, |ordinal| ordinal.saturating_add(1)).max(self.workers.len() as Count)
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
