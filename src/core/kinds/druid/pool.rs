//! One pool of workers of a category: how many there are in four ways of counting, and how many are needed.

use std::collections::BTreeMap;

use super::packing::{Bin, Load};
use super::{DEFAULT_CATEGORY, DruidWorkersSnapshot, Pending, PendingTask, Worker};
use crate::core::advice::{Action, ActionKind, Confidence, WorkerRef};
use crate::core::decide::{Case, Judged};
use crate::core::policy::{DruidPolicy, PoolInput};
use crate::core::reasons::{Maybe, Names, Num, Reason, Secs};
use crate::core::request::Series;
use crate::core::units::{Amount, Count, Timestamp, as_f64, seconds_between};

use super::drain::enable;

/// Tasks that have waited for so long although slots are free are not waiting for slots.
const ASSIGNMENT_SECONDS: f64 = 60.0;
/// The interval of readings where nothing tells it.
const INTERVAL_SECONDS: f64 = 30.0;

/// The workers and the pending tasks of one category.
pub struct Pool<'a> {
    /// The category.
    pub category: String,
    /// Its bounds in the policy.
    pub bounds: PoolInput,
    /// Its workers, lowest ordinal first.
    pub workers: Vec<&'a Worker>,
    /// Its pending tasks, where they are listed.
    tasks: Vec<&'a PendingTask>,
    /// Pending tasks that are not listed.
    unlisted: Count,
    /// Age of the oldest.
    oldest_seconds: Option<f64>,
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
    pub fn split(_reading: &'a DruidWorkersSnapshot, workers: &'a [Worker], pending: &'a Pending, policy: &DruidPolicy) -> (Vec<Self>, Option<Reason>) {
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

fn is_sound(worker: &Worker, now: Timestamp, reading: &DruidWorkersSnapshot) -> bool {
    let old = match (&worker.version, &reading.min_worker_version) {
        // a disabled worker announces an empty version
        (Some(version), Some(least)) => !version.is_empty() && version.as_str() < least.as_str(),
        _ => false,
    };
    !old && worker.blacklisted_until.is_none_or(|until| until <= now)
}

/// The four counts: wanted, ready, registered, and what is missing between them.
#[derive(Clone, Debug)]
pub struct Counts {
    /// The wanted count; the pool's own where it is not told.
    pub current: Count,
    /// Registered workers.
    pub registered: Count,
    /// Wanted and not registered.
    pub missing: Count,
    /// How long they have been missing, where known.
    pub missing_seconds: Option<f64>,
    /// True while they may still be starting.
    pub credited: bool,
    /// Why nothing may be lowered: ready pods, or pods that may be ready, are not in the list.
    pub incomplete: Option<Reason>,
}

impl Counts {
    /// Counts.
    #[must_use]
    pub fn of(case: &Case<'_>, pool: &Pool<'_>, spec: Option<Count>) -> Self {
        let replicas = &case.request.replicas;
        let registered = pool.workers.len() as Count;
        let highest = pool.workers.iter().filter_map(|worker| worker.ordinal()).max().map_or(0, |ordinal| ordinal.saturating_add(1));
        let told = spec.is_some();
        let starting = replicas.starting.unwrap_or(0);
        let current = spec.unwrap_or_else(|| highest.max(registered).saturating_add(starting));
        let missing = current.saturating_sub(registered).max(if told { starting.min(current) } else { starting });
        let seen = case.memory.and_then(|memory| memory.spec).filter(|seen| Some(seen.count) == spec).map(|seen| seconds_between(seen.since, case.now));
        let missing_seconds = replicas.seconds_since_start.map(Amount::get).or_else(|| case.seconds_since_change()).or(seen).filter(|_| missing > 0);
        let credited = missing_seconds.is_none_or(|seconds| seconds <= case.policy.startup.seconds());
        let lost = match replicas.ready {
            Some(ready) => ready.min(current) > registered,
            // pods of which nobody says whether they are ready may well be, unless they are known to be starting
            None => missing > replicas.starting.unwrap_or(0),
        };
        let incomplete = (told && lost).then_some(Reason::WorkerListIncomplete { registered, ready: Maybe(replicas.ready), wanted: current });
        Self { current, registered, missing, missing_seconds, credited, incomplete }
    }
}

/// What a pool needs.
pub struct View {
    /// Slots that tasks can be given now.
    pub free_slots: Count,
    wish: Count,
    why: Vec<Reason>,
    no_lower: Vec<Reason>,
    notices: Vec<Reason>,
    actions: Vec<Action>,
    capacity_known: bool,
    is_idle: bool,
}

impl View {
    /// Judges a pool.
    #[must_use]
    pub fn of(case: &Case<'_>, reading: &DruidWorkersSnapshot, pool: &Pool<'_>, counts: &Counts) -> Self {
        let ratio = reading.parallel_index_task_slot_ratio.map(Amount::get);
        let mut enabled: Vec<Bin> = pool.workers.iter().filter(|worker| takes_tasks(worker, case.now, reading)).map(|worker| Bin::of(worker, ratio)).collect();
        let free_slots = pool
            .workers
            .iter()
            .filter(|worker| takes_tasks(worker, case.now, reading))
            .fold(0, |sum: Count, worker| sum.saturating_add(worker.capacity.saturating_sub(worker.busy())));
        let capacity = pool.typical_capacity().or(case.policy.druid.slots_per_worker);
        let mut view = Self {
            free_slots,
            wish: counts.current,
            why: Vec::new(),
            no_lower: Vec::new(),
            notices: Vec::new(),
            actions: Vec::new(),
            capacity_known: pool.typical_capacity().is_some(),
            is_idle: pool.used() == 0 && pool.pending_slots() == 0,
        };
        view.no_lower.extend(counts.incomplete.clone());

        let mut load = view.demand(case, pool, ratio.is_some(), capacity);
        let aged = load.slots();
        let reserve = view.reserve(case, reading, pool);
        load.add_plain(reserve);
        let asked = load.slots();
        load.sort();
        load.place(&mut enabled);
        view.fault(pool, aged, load.slots());
        view.reenable(case, reading, pool, &mut load, ratio);

        let starting_slots = capacity.unwrap_or(0).saturating_mul(counts.missing);
        if counts.missing > 0 && load.slots() > 0 {
            if counts.credited {
                if let Some(capacity) = capacity {
                    let mut bins: Vec<Bin> = (0..counts.missing.min(10_000)).map(|_| Bin::empty(capacity, ratio)).collect();
                    load.place(&mut bins);
                    view.notices.push(Reason::StartingWorkers { starting: counts.missing, slots: starting_slots });
                }
            } else {
                view.not_arriving(case, counts);
            }
        } else if !counts.credited {
            view.not_arriving(case, counts);
        }
        let left = load.slots();
        if asked > 0 {
            view.upwards(case, pool, counts, capacity, load, ratio, aged.saturating_add(reserve), if counts.credited { starting_slots } else { 0 });
        }
        if left == 0 && view.wish == counts.current {
            view.downwards(case, reading, pool, counts, reserve);
        }
        view
    }

    /// Pending tasks that have waited for `pendingGrace`, as a load; what can never be placed is named.
    fn demand<'a>(&mut self, case: &Case<'_>, pool: &Pool<'a>, ratio_matters: bool, capacity: Option<Count>) -> Load<'a> {
        let grace = case.policy.druid.pending_grace.seconds();
        let mut load = Load::default();
        let mut unplaceable: (Count, Count) = (0, 0);
        let old_enough = pool.oldest_seconds.is_none_or(|age| age >= grace);
        for task in &pool.tasks {
            let slots = task.required_capacity.unwrap_or(1).max(1);
            if task.placeable == Some(false) || capacity.is_some_and(|capacity| slots > capacity && pool.workers.iter().all(|worker| worker.capacity < slots)) {
                unplaceable = (unplaceable.0 + 1, unplaceable.1.saturating_add(slots));
            } else if task.created_time.map_or(old_enough, |created| seconds_between(created, case.now) >= grace) {
                load.add(task, ratio_matters);
            }
        }
        if old_enough {
            load.add_plain(pool.unlisted);
        }
        if unplaceable.0 > 0 {
            self.notices.push(Reason::NotPlaceable { tasks: unplaceable.0, slots: unplaceable.1 });
        }
        load
    }

    /// Slots for streaming tasks that hand over soon: the new ones start while the old ones publish.
    fn reserve(&mut self, case: &Case<'_>, reading: &DruidWorkersSnapshot, pool: &Pool<'_>) -> Count {
        if !case.policy.druid.rollover_reserve || pool.workers.is_empty() {
            return 0;
        }
        let soon = case.policy.startup.seconds() + 2.0 * INTERVAL_SECONDS;
        let (mut due, mut unknown): ((Count, Vec<String>), (Count, Vec<String>)) = Default::default();
        for stream in &reading.streaming {
            let slots = stream.stop_task_count.unwrap_or(stream.task_count).min(stream.task_count).saturating_mul(stream.replicas);
            let into = match stream.rollover_in_seconds.map(Amount::get) {
                Some(seconds) if seconds > soon => continue,
                Some(_) => &mut due,
                None => &mut unknown,
            };
            into.0 = into.0.saturating_add(slots);
            into.1.push(stream.supervisor.clone());
        }
        if unknown.0 > 0 {
            self.no_lower.push(Reason::RolloverReserve { slots: unknown.0, supervisors: Names(unknown.1), known: false });
        }
        if due.0 > 0 {
            self.notices.push(Reason::RolloverReserve { slots: due.0, supervisors: Names(due.1), known: true });
        }
        due.0
    }

    /// Old tasks that wait while there is room for them: buying would not help.
    fn fault(&mut self, pool: &Pool<'_>, pending: Count, unplaced: Count) {
        let oldest = pool.oldest_seconds.unwrap_or(0.0);
        if pending > 0 && unplaced == 0 && oldest >= ASSIGNMENT_SECONDS {
            self.why.push(Reason::AssignmentFault { pending, free: self.free_slots, oldest_seconds: Secs(oldest) });
            self.actions.push(Action::new(
                ActionKind::Investigate,
                "find out why the Overlord does not assign tasks although slots are free: a worker that does not answer, affinity, or the assignment timeout"
                    .to_owned(),
            ));
        }
    }

    /// Draining workers are given tasks again before anything is bought, lowest ordinal first; and as many as the
    /// minimum asks for.
    fn reenable(&mut self, case: &Case<'_>, reading: &DruidWorkersSnapshot, pool: &Pool<'_>, load: &mut Load<'_>, ratio: Option<f64>) {
        let mut enabled = pool.workers.iter().filter(|worker| worker.enabled).count() as Count;
        for worker in pool.workers.iter().filter(|worker| !worker.enabled && is_sound(worker, case.now, reading)) {
            let free = worker.capacity.saturating_sub(worker.busy());
            let for_work = load.slots() > 0 && free > 0;
            if !for_work && enabled >= case.min {
                continue;
            }
            load.place(&mut [Bin::of(worker, ratio)]);
            self.why.push(Reason::WorkerReenabled { worker: worker.host.clone(), free_slots: free });
            self.actions.push(enable(worker));
            enabled += 1;
        }
    }

    fn not_arriving(&mut self, case: &Case<'_>, counts: &Counts) {
        if counts.missing > 0 {
            let since = counts.missing_seconds.unwrap_or(0.0);
            self.notices.push(Reason::CapacityNotArriving { missing: counts.missing, since_seconds: Secs(since), startup_seconds: case.policy.startup.into() });
        }
    }

    fn upwards(
        &mut self,
        case: &Case<'_>,
        pool: &Pool<'_>,
        counts: &Counts,
        capacity: Option<Count>,
        load: Load<'_>,
        ratio: Option<f64>,
        asked: Count,
        starting_slots: Count,
    ) {
        let left = load.slots();
        let (more, slots_per_worker) = match capacity {
            Some(capacity) => (load.new_workers(capacity, ratio), capacity),
            None if left > 0 && counts.current == 0 => {
                self.why.push(Reason::CapacityUnknown {
                    detail: "no worker has been seen and slotsPerWorker is not given, so one worker is started to learn its slots".to_owned(),
                });
                (1, 0)
            }
            None => (0, 0),
        };
        if counts.current == 0 && more > 0 {
            self.why.push(Reason::ScaleFromZero { demand: Num(as_f64(asked)) });
        }
        self.wish = counts.current.saturating_add(more);
        let reason = Reason::PendingTasks { pending_slots: asked, free_slots: self.free_slots, starting_slots, slots_per_worker, more_workers: more };
        if more > 0 && capacity.is_some() {
            self.why.insert(0, reason);
        } else {
            self.why.push(reason);
        }
        let _ = (case, pool);
    }

    fn downwards(&mut self, case: &Case<'_>, reading: &DruidWorkersSnapshot, pool: &Pool<'_>, counts: &Counts, reserve: Count) {
        let held = pool.used().saturating_add(pool.pending_slots()).saturating_add(reserve);
        let needed = pool.smallest_holding(case.now, reading, held, case.policy.druid.headroom_ratio);
        if needed < counts.current && pool.pending_slots() == 0 {
            self.wish = needed;
            self.why.push(Reason::SpareCapacity { current: counts.current, needed: Num(as_f64(needed)) });
        }
    }

    /// Hands over to the decision.
    pub fn fill(&self, case: &Case<'_>, series: &Series<DruidWorkersSnapshot>, judged: &mut Judged) {
        judged.wish = Some(as_f64(self.wish));
        judged.why.clone_from(&self.why);
        judged.no_lower.extend(self.no_lower.iter().cloned());
        judged.notices.extend(self.notices.iter().cloned());
        judged.actions.clone_from(&self.actions);
        judged.active = Some(!self.is_idle);
        judged.confidence = match (judged.one_shot, self.capacity_known) {
            (false, true) => Confidence::High,
            (true, true) | (false, false) => Confidence::Medium,
            (true, false) => Confidence::Low,
        };
        if self.wish == 0 {
            let quiet = |reading: &DruidWorkersSnapshot| {
                let used = reading.workers.as_deref().is_some_and(|workers| workers.iter().all(|worker| worker.busy() == 0));
                used && reading.pending.as_ref().is_some_and(|pending| pending.count == 0)
            };
            judged.idle_for(case.idle_seconds(series, quiet), case.policy.idle_before_zero);
        }
    }
}

/// How an action names a worker.
#[must_use]
pub fn worker_ref(worker: &Worker) -> WorkerRef {
    WorkerRef { host: worker.host.clone(), ordinal: worker.ordinal() }
}
