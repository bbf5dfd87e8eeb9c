//! Does what runs fit on fewer workers? Slots within the headroom, copies of a task apart, and the order of removal.
//!
//! ```text
//! smallest n such that  headroomRatio x (slots of the workers of rank 0 .. n-1 that can have tasks)  >=  held slots
//!                  and  at least as many of them as the most copies of one task
//!                  and  the tasks of the others find a worker without one of their availability group
//! ```
//! A draining worker that can be enabled again counts: its slots are there to be had, and leaving them out would keep a
//! pool larger than it has to be. Tasks are never moved; what has to fit is what follows them.

use super::counts::Counts;
use super::packing::{Bin, Load};
use super::pool::{Pool, Seat, is_sound};
use super::{DruidWorkersSnapshot, Worker};
use crate::core::decide::Case;
use crate::core::units::{Count, as_f64};

/// What the question is about.
#[derive(Clone, Copy)]
pub struct Fit<'a, 'p> {
    /// The question.
    pub case: &'a Case<'a>,
    /// The reading.
    pub reading: &'a DruidWorkersSnapshot,
    /// The pool.
    pub pool: &'a Pool<'p>,
    /// Its counts.
    pub counts: &'a Counts,
}

impl Fit<'_, '_> {
    /// True for a worker that has tasks, or can be given some by enabling it.
    #[must_use]
    pub fn can_have_tasks(&self, worker: &Seat<'_>) -> bool {
        let takes = worker.enabled || self.counts.may_be_enabled(self.case, worker);
        takes && is_sound(worker, self.case.now, self.reading) && self.counts.stays(worker)
    }

    /// True when `held` slots fill no more than the headroom of `capacity`.
    #[must_use]
    pub fn is_enough(&self, capacity: Count, held: Count) -> bool {
        self.case.policy.druid.headroom_ratio * as_f64(capacity) + 1e-9 >= as_f64(held)
    }
}

/// The fewest workers, lowest ranks first, on which `held` slots fit; all of them where they fit on none.
#[must_use]
pub fn smallest(fit: &Fit<'_, '_>, held: Count) -> Count {
    let Some(last) = fit.pool.workers.last() else { return 0 };
    if held == 0 {
        return 0;
    }
    let copies = fit.pool.copies().map_or(0, |stream| stream.replicas);
    let (mut capacity, mut usable): (Count, Count) = (0, 0);
    for worker in &fit.pool.workers {
        if fit.can_have_tasks(worker) {
            capacity = capacity.saturating_add(worker.capacity);
            usable += 1;
        }
        let count = worker.rank.saturating_add(1);
        if fit.is_enough(capacity, held) && usable >= copies && groups_fit(fit, count) {
            return count;
        }
    }
    last.rank.saturating_add(1)
}

/// True when the tasks of the workers beyond `count` find places that their availability groups allow.
fn groups_fit(fit: &Fit<'_, '_>, count: Count) -> bool {
    let (stay, go): (Vec<&Seat<'_>>, Vec<&Seat<'_>>) = fit.pool.workers.iter().partition(|worker| worker.rank < count);
    if go.iter().all(|worker| worker.availability_groups.is_empty()) {
        return true;
    }
    let mut load = Load::default();
    for worker in go {
        for group in &worker.availability_groups {
            load.add_group(group);
        }
        load.add_plain(worker.busy().saturating_sub(worker.availability_groups.len() as Count));
    }
    let mut bins: Vec<Bin> = stay.into_iter().filter(|worker| fit.can_have_tasks(worker)).map(|worker| Bin::of(as_worker(worker), None)).collect();
    load.place(&mut bins);
    load.is_empty()
}

fn as_worker<'a>(seat: &'a Seat<'_>) -> &'a Worker {
    seat
}
