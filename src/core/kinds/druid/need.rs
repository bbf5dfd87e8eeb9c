//! How many workers a pool needs: what can be had without buying comes first.

use super::DruidWorkersSnapshot;
use super::counts::Counts;
use super::drain::enable;
use super::fit::{self, Fit};
use super::packing::{Bin, Load};
use super::pool::{Pool, Seat, is_sound, takes_tasks};
use super::streams;
use crate::core::advice::{Action, ActionKind, Confidence};
use crate::core::decide::{Case, Judged};
use crate::core::reasons::{FreeSlots, MoreWorkers, Names, Num, PendingTasks, Reason, Secs, Slots, StartingSlots, WorkerSize, Workers};
use crate::core::request::Series;
use crate::core::trust;
use crate::core::units::{Amount, Count, as_f64, seconds_between};

/// Tasks that have waited for so long although slots are free are not waiting for slots.
const ASSIGNMENT_SECONDS: f64 = 60.0;
/// The interval of readings where nothing tells it.
const INTERVAL_SECONDS: f64 = 30.0;
/// The longest interval that is believed: beyond it, a gap is an outage.
const LONGEST_INTERVAL_SECONDS: f64 = 300.0;

/// What a pool needs.
pub struct View {
    /// Slots that tasks can be given now.
    pub free_slots: Count,
    /// Slots in use, and slots kept for hand-overs.
    pub held: Count,
    /// The fewest workers on which all of that fits.
    pub needed: Count,
    /// Ranks of draining workers that are given tasks again.
    pub enabled_again: Vec<Count>,
    wish: Count,
    why: Vec<Reason>,
    no_lower: Vec<Reason>,
    notices: Vec<Reason>,
    actions: Vec<Action>,
    capacity_known: bool,
    is_active: bool,
}

/// What the steps of a judgement share.
struct Scene<'a, 'p> {
    case: &'a Case<'a>,
    series: &'a Series<DruidWorkersSnapshot>,
    reading: &'a DruidWorkersSnapshot,
    pool: &'a Pool<'p>,
    counts: &'a Counts,
    ratio: Option<f64>,
    capacity: Option<Count>,
}

impl View {
    /// Judges a pool.
    #[must_use]
    pub fn of(case: &Case<'_>, series: &Series<DruidWorkersSnapshot>, reading: &DruidWorkersSnapshot, pool: &Pool<'_>, counts: &Counts) -> Self {
        let ratio = reading.parallel_index_task_slot_ratio.map(Amount::get);
        let capacity = pool.typical_capacity().or(case.policy.druid.slots_per_worker);
        let scene = Scene { case, series, reading, pool, counts, ratio, capacity };
        let open: Vec<&Seat<'_>> = pool.workers.iter().filter(|worker| takes_tasks(worker, case.now, reading) && counts.stays(worker)).collect();
        let mut enabled: Vec<Bin> = open.iter().map(|worker| Bin::of(worker, ratio)).collect();
        let used = pool.used();
        let mut view = Self {
            free_slots: open.iter().fold(0, |sum: Count, worker| sum.saturating_add(worker.capacity.saturating_sub(worker.busy()))),
            held: used,
            needed: counts.current,
            enabled_again: Vec::new(),
            wish: counts.current,
            why: Vec::new(),
            no_lower: Vec::new(),
            notices: Vec::new(),
            actions: Vec::new(),
            capacity_known: pool.typical_capacity().is_some(),
            is_active: used > 0 || as_f64(pool.pending_slots()) > case.policy.activation_backlog,
        };
        view.no_lower.extend(counts.incomplete.clone());
        if !reading.missing.is_empty() {
            view.no_lower.push(Reason::IncompleteReading { missing: Names(reading.missing.clone()) });
        }
        let (mut load, waiting) = view.demand(&scene);
        let aged = load.slots();
        let reserve = view.reserve(&scene).saturating_add(view.next_tasks(&scene));
        load.add_plain(reserve);
        let not_yet_there = streams::not_yet_there(pool);
        view.held = used.saturating_add(reserve).saturating_add(not_yet_there);
        view.is_active |= counts.current > 0 && not_yet_there > 0;
        let asked = load.slots();
        load.sort();
        load.place(&mut enabled);
        let obstacles = load.obstacles(&enabled);
        let apart = view.apart(&scene, asked);
        if apart == 0 {
            view.fault(&scene, aged, load.slots());
        }
        let again = view.reenable(&scene, &mut load);
        let starting = view.starting(&scene, &mut load);
        if let Some(capacity) = capacity {
            let (tasks, slots) = load.take_larger(capacity, ratio);
            view.not_placeable(tasks, slots);
        }
        let is_met = load.is_empty() && apart == 0;
        if asked > 0 {
            view.upwards(&scene, load, apart, [aged, again, starting]);
        }
        if !obstacles.is_empty() && view.free_slots > 0 {
            let why = Names(obstacles.into_iter().map(str::to_owned).collect());
            view.why.push(Reason::FreeSlotsUnfit { free: FreeSlots(view.free_slots), why });
        }
        view.needed = fit::smallest(&scene.fit(), view.held);
        if is_met && waiting == 0 && view.needed < counts.current {
            view.wish = view.needed;
            view.why.push(Reason::SpareCapacity { current: counts.current, needed: Num(as_f64(view.needed)) });
        }
        view
    }

    /// Pending tasks that have waited for `pendingGrace`, as a load, and the slots of all that can be placed at all; what
    /// can never be placed is named.
    fn demand<'p>(&mut self, scene: &Scene<'_, 'p>) -> (Load<'p>, Count) {
        let (case, pool) = (scene.case, scene.pool);
        let grace = case.policy.druid.pending_grace.seconds();
        let mut load = Load::default();
        if scene.counts.current == 0 && !self.is_active {
            return (load, 0);
        }
        let mut waiting = pool.unlisted;
        let mut never: (Count, Count) = (0, 0);
        let largest = pool.workers.iter().map(|worker| worker.capacity).chain(scene.capacity).max();
        let old_enough = pool.oldest_seconds.is_none_or(|age| age >= grace);
        for task in &pool.tasks {
            let slots = task.slots();
            if task.placeable == Some(false) || largest.is_some_and(|largest| slots > largest) {
                never = (never.0 + 1, never.1.saturating_add(slots));
                continue;
            }
            waiting = waiting.saturating_add(slots);
            if task.created_time.map_or(old_enough, |created| seconds_between(created, case.now) >= grace) {
                load.add(task, scene.ratio.is_some());
            }
        }
        if old_enough {
            load.add_plain(pool.unlisted);
        }
        self.not_placeable(never.0, never.1);
        (load, waiting)
    }

    fn not_placeable(&mut self, tasks: Count, slots: Count) {
        if tasks > 0 {
            self.notices.push(Reason::NotPlaceable { tasks: PendingTasks(tasks), slots: Slots(slots) });
        }
    }

    /// Slots for streaming tasks that hand over soon: the new ones start while the old ones publish.
    fn reserve(&mut self, scene: &Scene<'_, '_>) -> Count {
        let policy = scene.case.policy;
        if !policy.druid.rollover_reserve || scene.pool.workers.is_empty() {
            return 0;
        }
        let soon = policy.startup.seconds() + 2.0 * interval(scene);
        let (mut due, mut unknown): ((Count, Vec<String>), (Count, Vec<String>)) = Default::default();
        for stream in &scene.pool.streams {
            let slots = stream.stop_task_count.unwrap_or(stream.task_count).min(stream.task_count).saturating_mul(stream.replicas);
            // those that are pending already are asked for as what they are
            let slots = slots.saturating_sub(streams::pending_of(scene.pool, stream));
            if slots == 0 {
                continue;
            }
            let into = match stream.rollover_in_seconds.map(Amount::get) {
                Some(seconds) if seconds > soon => continue,
                Some(_) => &mut due,
                None => &mut unknown,
            };
            into.0 = into.0.saturating_add(slots);
            into.1.push(stream.supervisor.clone());
        }
        if unknown.0 > 0 {
            self.no_lower.push(Reason::HandOverUnknown { slots: Slots(unknown.0), supervisors: Names(unknown.1) });
        }
        if due.0 > 0 {
            self.why.push(Reason::RolloverReserve { slots: Slots(due.0), supervisors: Names(due.1) });
        }
        due.0
    }

    /// Slots for the tasks that supervisors are going to have, by their own advice.
    fn next_tasks(&mut self, scene: &Scene<'_, '_>) -> Count {
        if scene.pool.workers.is_empty() {
            return 0;
        }
        let (mut slots, mut supervisors): (Count, Vec<String>) = (0, Vec::new());
        for stream in &scene.pool.streams {
            let more = stream.next_task_count.unwrap_or(0).saturating_sub(stream.task_count).saturating_mul(stream.replicas);
            if more > 0 {
                slots = slots.saturating_add(more);
                supervisors.push(stream.supervisor.clone());
            }
        }
        if slots > 0 {
            self.why.push(Reason::SupervisorsNext { slots: Slots(slots), supervisors: Names(supervisors) });
        }
        slots
    }

    /// Workers that are missing for the copies of streaming tasks: two copies of one task do not share a worker.
    fn apart(&mut self, scene: &Scene<'_, '_>, asked: Count) -> Count {
        let Some(stream) = scene.pool.copies().filter(|_| asked > 0 || self.held > 0) else { return 0 };
        let usable = scene.pool.workers.iter().filter(|worker| {
            let takes = worker.enabled || scene.counts.may_be_enabled(scene.case, worker);
            takes && is_sound(worker, scene.case.now, scene.reading) && scene.counts.stays(worker)
        });
        let starting = if scene.counts.credited { scene.counts.missing } else { 0 };
        let usable = (usable.count() as Count).saturating_add(starting);
        let short = stream.replicas.saturating_sub(usable);
        if short > 0 {
            self.why.push(Reason::ReplicasApart { supervisor: stream.supervisor.clone(), replicas: stream.replicas, workers: Workers(usable) });
        }
        short
    }

    /// Old tasks that wait while there is room for them: buying would not help.
    fn fault(&mut self, scene: &Scene<'_, '_>, pending: Count, unplaced: Count) {
        let oldest = scene.pool.oldest_seconds.unwrap_or(0.0);
        // where more than free slots decides who may take a task, free slots prove nothing
        let is_plain = scene.reading.select_strategy.as_deref().is_none_or(|strategy| matches!(strategy, "fillCapacity" | "equalDistribution"));
        let is_placed = scene.pool.unlisted == 0 && scene.pool.tasks.iter().all(|task| task.category.is_some());
        if !is_plain && !is_placed {
            return;
        }
        if pending > 0 && unplaced == 0 && oldest >= ASSIGNMENT_SECONDS {
            self.why.push(Reason::AssignmentFault { pending: Slots(pending), free: FreeSlots(self.free_slots), oldest_seconds: Secs(oldest) });
            self.actions.push(Action::new(
                ActionKind::Investigate,
                "find out why the Overlord does not assign tasks although slots are free: a worker that does not answer, affinity, or the assignment timeout"
                    .to_owned(),
            ));
        }
    }

    /// Draining workers are given tasks again before anything is bought, lowest rank first. Answers their free slots.
    fn reenable(&mut self, scene: &Scene<'_, '_>, load: &mut Load<'_>) -> Count {
        let mut slots: Count = 0;
        for worker in &scene.pool.workers {
            let free = worker.capacity.saturating_sub(worker.busy());
            // one above the upper bound is going to be removed, whatever waits
            let is_spare = !worker.enabled
                && worker.rank < scene.case.policy.max.max(scene.case.min)
                && is_sound(worker, scene.case.now, scene.reading)
                && scene.counts.may_be_enabled(scene.case, worker);
            if !is_spare || free == 0 || load.is_empty() {
                continue;
            }
            let before = load.slots();
            load.place(&mut [Bin::of(worker, scene.ratio)]);
            if load.slots() == before {
                continue;
            }
            slots = slots.saturating_add(free);
            self.why.push(Reason::WorkerReenabled { worker: worker.host.clone(), free_slots: FreeSlots(free) });
            self.actions.push(enable(worker));
            self.enabled_again.push(worker.rank);
        }
        slots
    }

    /// Workers that start take what is left, until `startup` has passed. Answers their slots.
    fn starting(&mut self, scene: &Scene<'_, '_>, load: &mut Load<'_>) -> Count {
        let counts = scene.counts;
        if counts.missing == 0 {
            return 0;
        }
        if !counts.credited {
            self.notices.push(Reason::CapacityNotArriving {
                missing: Workers(counts.missing),
                since_seconds: Secs(counts.missing_seconds.unwrap_or(0.0)),
                startup_seconds: scene.case.policy.startup.into(),
            });
            return 0;
        }
        let Some(capacity) = scene.capacity.filter(|_| !load.is_empty()) else { return 0 };
        let slots = capacity.saturating_mul(counts.missing);
        let mut bins: Vec<Bin> = (0..counts.missing.min(10_000)).map(|_| Bin::empty(capacity, scene.ratio)).collect();
        load.place(&mut bins);
        self.notices.push(Reason::StartingWorkers { starting: Workers(counts.missing), slots: Slots(slots) });
        slots
    }

    /// What is left after everything that can be had without buying: new workers, or one to learn from.
    fn upwards(&mut self, scene: &Scene<'_, '_>, load: Load<'_>, apart: Count, [pending, again, starting]: [Count; 3]) {
        let (counts, asked) = (scene.counts, load.slots());
        let by_load = match scene.capacity {
            Some(capacity) => load.new_workers(capacity, scene.ratio),
            None if asked > 0 && counts.current == 0 => {
                let detail = "no worker has been seen and slotsPerWorker is not given, so one worker is started to learn its slots".to_owned();
                self.why.push(Reason::CapacityUnknown { detail });
                1
            }
            None if counts.registered > 0 => {
                let detail = "the workers that are registered have no slots and slotsPerWorker is not given, so no more are asked for".to_owned();
                self.why.push(Reason::CapacityUnknown { detail });
                0
            }
            None => {
                let detail = "no worker has registered yet and slotsPerWorker is not given, so no more are asked for before one has".to_owned();
                self.why.push(Reason::CapacityUnknown { detail });
                0
            }
        };
        let more = by_load.max(apart);
        if counts.current == 0 && more > 0 {
            self.why.push(Reason::ScaleFromZero { demand: Num(as_f64(asked)) });
        }
        // workers that were asked for and do not arrive are not asked for once more
        let from = if counts.credited { counts.current } else { counts.registered };
        self.wish = from.saturating_add(more).max(counts.current);
        if pending > 0 {
            let reason = Reason::PendingTasks {
                pending_slots: Slots(pending),
                free_slots: FreeSlots(self.free_slots),
                draining_slots: Slots(again),
                starting_slots: StartingSlots(starting),
                slots_per_worker: WorkerSize(scene.capacity),
                more_workers: MoreWorkers(by_load),
            };
            let decides = by_load > 0 && scene.capacity.is_some();
            self.why.insert(if decides { 0 } else { self.why.len() }, reason);
        }
    }

    /// Hands over to the decision.
    pub fn fill(&self, case: &Case<'_>, series: &Series<DruidWorkersSnapshot>, pool: &Pool<'_>, judged: &mut Judged) {
        judged.wish = Some(as_f64(self.wish));
        judged.why.clone_from(&self.why);
        judged.no_lower.extend(self.no_lower.iter().cloned());
        judged.notices.extend(self.notices.iter().cloned());
        judged.actions.clone_from(&self.actions);
        judged.active = Some(self.is_active);
        judged.confidence = match (judged.one_shot, self.capacity_known) {
            (false, true) => Confidence::High,
            (true, true) | (false, false) => Confidence::Medium,
            (true, false) => Confidence::Low,
        };
        if self.wish == 0 && case.min == 0 {
            judged.idle_for(case.idle_seconds(series, |reading| pool.slots_then(reading) == Some(0)), case.policy);
        }
    }
}

impl<'a, 'p> Scene<'a, 'p> {
    const fn fit(&self) -> Fit<'a, 'p> {
        Fit { case: self.case, reading: self.reading, pool: self.pool, counts: self.counts }
    }
}

/// Seconds between readings, as far as the last two tell.
fn interval(scene: &Scene<'_, '_>) -> f64 {
    let now = scene.case.now;
    let last = scene.series.history.last().map(|reading| trust::measured_at(reading.as_ref(), now));
    let between = last.map(|last| seconds_between(last, trust::measured_at(scene.reading, now)));
    between.filter(|seconds| *seconds > 0.0 && *seconds <= LONGEST_INTERVAL_SECONDS).unwrap_or(INTERVAL_SECONDS)
}
