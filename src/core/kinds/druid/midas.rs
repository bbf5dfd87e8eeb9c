//! MIDAS's rule, as it is: for comparison and for backtests. Preset `midas`, field `sizing: midas`.
//!
//! ```text
//! up    (something is pending):  enable what is disabled, lowest ordinal first; then min(max, r + ceil(p / slots))
//! down  (nothing is pending):    the last worker (ordinal r - 1) is idle: disable it and scale to r - 1 at once; else
//!                                disable ordinal c = r - 1 - disabled while int(0.9 x c x slots) > tasks elsewhere
//! ```
//! `r` is the number of registered workers, never the wanted count; ordinals are taken to be 0 to r - 1; free slots of
//! enabled workers, ages of tasks, categories and availability groups are not looked at; after a raise to T nothing
//! happens until exactly T workers are registered. That is another structure than slots against tasks, not another
//! value of its fields, so it is a rule of its own beside it and not a set of switches in it.
//!
//! Its faults are kept, with what they cost: `tests/druid_workers` names each. What is not kept is what happens
//! around the rule: a reading that failed is unknown here, and never zero. The workers it has disabled are taken from the
//! reading, so that a restart does not forget them. Source: `PlaySimple`'s MIDAS (`druid_autoscaler.py`).

use super::drain::{disable, enable};
use super::{DruidWorkersSnapshot, Pending, Worker};
use crate::core::advice::{Advice, Confidence, Input, InputState, Unit};
use crate::core::decide::{Case, Judged, conclude};
use crate::core::reasons::{FreeSlots, MoreWorkers, Num, Reason, Slots, StartingSlots, Tasks, WorkerSize};
use crate::core::request::Series;
use crate::core::trust::Trust;
use crate::core::units::{Count, as_f64};

/// The count that MIDAS computes for pending tasks: `min(max, registered + ceil(pending / slots))`. It scales only when
/// that is above the registered count.
#[must_use]
pub fn raise_to(pending: Count, registered: Count, slots: Count, max: Count) -> Count {
    registered.saturating_add(pending.div_ceil(slots.max(1))).min(max)
}

/// MIDAS's test whether the next worker may be disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The ordinal that would be disabled; `None` when all are.
    pub candidate: Option<Count>,
    /// Tasks that fit on the workers below it, within the headroom, rounded down.
    pub limit: Count,
    /// Tasks that run elsewhere.
    pub remaining: Count,
}

impl Room {
    /// Looks for room below the next candidate. `running_on` tells how many tasks run on an ordinal.
    #[must_use]
    pub fn of(registered: Count, disabled: Count, slots: Count, headroom: f64, running: Count, running_on: impl Fn(Count) -> Count) -> Self {
        let candidate = registered.checked_sub(disabled.saturating_add(1));
        let below = candidate.unwrap_or(0).saturating_mul(slots);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "MIDAS truncates, and the product is not negative")]
        let limit = (headroom * as_f64(below)) as Count;
        Self { candidate, limit, remaining: running.saturating_sub(candidate.map_or(0, running_on)) }
    }

    /// True when MIDAS disables the candidate: the limit must lie above what remains, not at it.
    #[must_use]
    pub const fn disables(&self) -> bool {
        self.candidate.is_some() && self.limit > self.remaining
    }
}

/// Answers as MIDAS would.
#[must_use]
pub fn advise(case: &Case<'_>, trust: &Trust, series: &Series<DruidWorkersSnapshot>, workers: &[Worker], pending: &Pending) -> Advice {
    let registered = workers.len() as Count;
    let mut judged = Judged::begin(case, series, Unit::Replicas);
    judged.notices.extend(trust.notices.iter().cloned());
    judged.complete = true;
    judged.confidence = Confidence::Low;
    let current = *judged.current.get_or_insert(registered);
    judged.active = Some(pending.count > 0 || workers.iter().any(|worker| worker.busy() > 0));
    for (name, value) in [("pendingTasks", pending.count), ("registeredWorkers", registered)] {
        judged.inputs.push(Input { name, value: Some(as_f64(value)), age_seconds: trust.age_seconds, state: InputState::Fresh });
    }
    // the wanted count plays no part in it, so that what it says may lie below it
    let told = match case.memory.and_then(|memory| memory.raised_to).filter(|target| *target != registered) {
        Some(target) => {
            judged.why.push(Reason::MidasWaits { target, registered });
            None
        }
        None if pending.count > 0 => up(case, &mut judged, workers, pending.count),
        None => down(case, &mut judged, workers),
    };
    judged.wish = Some(as_f64(told.unwrap_or(current)));
    conclude(case, trust, judged, |allowed, _, _| if told.is_some() { allowed } else { current })
}

fn slots(case: &Case<'_>, workers: &[Worker]) -> Count {
    case.policy.druid.slots_per_worker.or_else(|| workers.iter().map(|worker| worker.capacity).max()).unwrap_or(1).max(1)
}

fn up(case: &Case<'_>, judged: &mut Judged, workers: &[Worker], pending: Count) -> Option<Count> {
    let (registered, slots) = (workers.len() as Count, slots(case, workers));
    let mut left = pending;
    let mut draining: Vec<&Worker> = workers.iter().filter(|worker| !worker.enabled).collect();
    draining.sort_by_key(|worker| worker.ordinal());
    for worker in draining {
        if left == 0 {
            break;
        }
        let free = slots.saturating_sub(worker.busy());
        judged.actions.push(enable(worker));
        judged.why.push(Reason::WorkerReenabled { worker: worker.host.clone(), free_slots: FreeSlots(free) });
        left = left.saturating_sub(free);
    }
    let target = raise_to(left, registered, slots, case.policy.max);
    let is_raise = left > 0 && target > registered;
    let reason = Reason::PendingTasks {
        pending_slots: Slots(pending),
        free_slots: FreeSlots(0),
        draining_slots: Slots(pending - left),
        starting_slots: StartingSlots(0),
        slots_per_worker: WorkerSize(Some(slots)),
        more_workers: MoreWorkers(if left > 0 { target.saturating_sub(registered) } else { 0 }),
    };
    judged.why.insert(0, reason);
    judged.memory.raised_to = is_raise.then_some(target);
    is_raise.then_some(target)
}

fn down(case: &Case<'_>, judged: &mut Judged, workers: &[Worker]) -> Option<Count> {
    let registered = workers.len() as Count;
    if registered <= case.policy.min {
        return None;
    }
    let of_ordinal = |ordinal: Count| workers.iter().find(|worker| worker.ordinal() == Some(ordinal));
    let last = of_ordinal(registered - 1);
    if let Some(worker) = last.filter(|worker| worker.busy() == 0) {
        if worker.enabled {
            judged.actions.push(disable(worker));
        }
        let target = (registered - 1).max(case.policy.min);
        judged.why.push(Reason::SpareCapacity { current: registered, needed: Num(as_f64(target)) });
        judged.memory.raised_to = None;
        return Some(target);
    }
    let draining = workers.iter().filter(|worker| !worker.enabled).count() as Count;
    let running = workers.iter().fold(0, |sum: Count, worker| sum.saturating_add(worker.busy()));
    let headroom = case.policy.druid.headroom_ratio;
    let room = Room::of(registered, draining, slots(case, workers), headroom, running, |ordinal| of_ordinal(ordinal).map_or(0, Worker::busy));
    let disables = room.disables();
    if let Some(worker) = room.candidate.and_then(of_ordinal).filter(|_| disables) {
        judged.actions.push(disable(worker));
    }
    if let Some(candidate) = room.candidate {
        judged.why.push(Reason::MidasRoom { candidate, limit: Tasks(room.limit), remaining: Tasks(room.remaining), disables });
    }
    None
}
