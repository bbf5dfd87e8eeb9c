//! How many workers a pool needs: what can be had without buying comes first.

use super::counts::Counts;
use super::drain::enable;
use super::packing::{Bin, Load};
use super::pool::{Pool, is_sound, takes_tasks};
use super::{DruidWorkersSnapshot, Worker};
use crate::core::advice::{Action, ActionKind, Confidence};
use crate::core::decide::{Case, Judged};
use crate::core::reasons::{Names, Num, Reason, Secs};
use crate::core::request::Series;
use crate::core::units::{Amount, Count, as_f64, seconds_between};

/// Tasks that have waited for so long although slots are free are not waiting for slots.
const ASSIGNMENT_SECONDS: f64 = 60.0;
/// The interval of readings where nothing tells it.
const INTERVAL_SECONDS: f64 = 30.0;

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
        let open: Vec<&Worker> = pool.workers.iter().copied().filter(|worker| takes_tasks(worker, case.now, reading) && stays(worker, counts)).collect();
        let mut enabled: Vec<Bin> = open.iter().map(|worker| Bin::of(worker, ratio)).collect();
        let free_slots = open.iter().fold(0, |sum: Count, worker| sum.saturating_add(worker.capacity.saturating_sub(worker.busy())));
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
        let reserve = view.reserve(case, reading, pool).saturating_add(view.next_tasks(reading, pool));
        load.add_plain(reserve);
        let asked = load.slots();
        load.sort();
        load.place(&mut enabled);
        view.fault(pool, aged, load.slots());
        view.reenable(case, reading, pool, counts, &mut load, ratio);

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
            view.upwards(counts, capacity, load, ratio, aged, if counts.credited { starting_slots } else { 0 });
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
            self.no_lower.push(Reason::HandOverUnknown { slots: unknown.0, supervisors: Names(unknown.1) });
        }
        if due.0 > 0 {
            self.why.push(Reason::RolloverReserve { slots: due.0, supervisors: Names(due.1) });
        }
        due.0
    }

    /// Slots for the tasks that supervisors are going to have, by their own advice.
    fn next_tasks(&mut self, reading: &DruidWorkersSnapshot, pool: &Pool<'_>) -> Count {
        if pool.workers.is_empty() {
            return 0;
        }
        let (mut slots, mut supervisors): (Count, Vec<String>) = (0, Vec::new());
        for stream in &reading.streaming {
            let more = stream.next_task_count.unwrap_or(0).saturating_sub(stream.task_count).saturating_mul(stream.replicas);
            if more > 0 {
                slots = slots.saturating_add(more);
                supervisors.push(stream.supervisor.clone());
            }
        }
        if slots > 0 {
            self.why.push(Reason::SupervisorsNext { slots, supervisors: Names(supervisors) });
        }
        slots
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
    fn reenable(&mut self, case: &Case<'_>, reading: &DruidWorkersSnapshot, pool: &Pool<'_>, counts: &Counts, load: &mut Load<'_>, ratio: Option<f64>) {
        let mut enabled = pool.workers.iter().filter(|worker| worker.enabled).count() as Count;
        for worker in pool.workers.iter().filter(|worker| !worker.enabled && is_sound(worker, case.now, reading) && stays(worker, counts)) {
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

    /// What is left after everything that can be had without buying: new workers, or one to learn from.
    fn upwards(&mut self, counts: &Counts, capacity: Option<Count>, load: Load<'_>, ratio: Option<f64>, pending_slots: Count, starting_slots: Count) {
        let asked = load.slots();
        let (more, slots_per_worker) = match capacity {
            Some(capacity) => (load.new_workers(capacity, ratio), capacity),
            None if asked > 0 && counts.current == 0 => {
                let detail = "no worker has been seen and slotsPerWorker is not given, so one worker is started to learn its slots".to_owned();
                self.why.push(Reason::CapacityUnknown { detail });
                (1, 0)
            }
            None => (0, 0),
        };
        if counts.current == 0 && more > 0 {
            self.why.push(Reason::ScaleFromZero { demand: Num(as_f64(asked)) });
        }
        // workers that were asked for and do not arrive are not asked for once more
        let from = if counts.credited { counts.current } else { counts.registered };
        self.wish = from.saturating_add(more).max(counts.current);
        if pending_slots > 0 {
            let reason = Reason::PendingTasks { pending_slots, free_slots: self.free_slots, starting_slots, slots_per_worker, more_workers: more };
            let decides = more > 0 && capacity.is_some();
            self.why.insert(if decides { 0 } else { self.why.len() }, reason);
        }
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
        if self.wish == 0 && case.min == 0 {
            let quiet = |reading: &DruidWorkersSnapshot| {
                let used = reading.workers.as_deref().is_some_and(|workers| workers.iter().all(|worker| worker.busy() == 0));
                used && reading.pending.as_ref().is_some_and(|pending| pending.count == 0)
            };
            judged.idle_for(case.idle_seconds(series, quiet), case.policy.idle_before_zero);
        }
    }
}

/// False for a worker whose ordinal lies beyond the wanted count: its pod is being removed, and nothing can be given to it.
fn stays(worker: &Worker, counts: &Counts) -> bool {
    worker.ordinal().is_none_or(|ordinal| ordinal < counts.current)
}
