//! Placing pending tasks on workers, as the Overlord would: a task needs its slots on one worker, at most one task of an
//! availability group runs on a worker, and `index_parallel` supervisor tasks take at most a share of a worker's slots.
//!
//! Largest first, first fit. Tasks that need one slot and nothing else, nearly all of them, are placed by arithmetic
//! after the others, so that thousands of tasks on hundreds of workers cost microseconds.

use super::{PendingTask, Worker};
use crate::core::units::Count;

/// Slots of one worker that tasks may take.
#[derive(Clone, Debug)]
pub struct Bin {
    free: Count,
    parallel_free: Count,
    groups: Vec<String>,
}

/// The limit for `index_parallel` supervisor tasks on a worker: `clamp(floor(ratio x capacity), 1, capacity)`.
#[must_use]
pub fn parallel_limit(capacity: Count, ratio: Option<f64>) -> Count {
    let Some(ratio) = ratio else { return capacity };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the capacity")]
    let limit = (ratio * crate::core::units::as_f64(capacity)).floor().clamp(0.0, 1e9) as Count;
    limit.max(1).min(capacity)
}

impl Bin {
    /// The slots that are free on a worker.
    #[must_use]
    pub fn of(worker: &Worker, ratio: Option<f64>) -> Self {
        let used = worker.parallel_index();
        Self {
            free: worker.capacity.saturating_sub(worker.busy()),
            parallel_free: parallel_limit(worker.capacity, ratio).saturating_sub(used),
            groups: worker.availability_groups.clone(),
        }
    }

    /// An empty worker.
    #[must_use]
    pub fn empty(capacity: Count, ratio: Option<f64>) -> Self {
        Self { free: capacity, parallel_free: parallel_limit(capacity, ratio), groups: Vec::new() }
    }

    fn takes(&self, task: &Task<'_>) -> bool {
        self.free >= task.slots
            && (!task.parallel || self.parallel_free >= task.slots)
            && task.group.is_none_or(|group| !self.groups.iter().any(|known| known == group))
    }

    fn put(&mut self, task: &Task<'_>) {
        self.free -= task.slots;
        if task.parallel {
            self.parallel_free -= task.slots;
        }
        if let Some(group) = task.group {
            self.groups.push(group.to_owned());
        }
    }
}

/// A task that has to be placed.
#[derive(Clone, Copy, Debug)]
struct Task<'a> {
    slots: Count,
    parallel: bool,
    group: Option<&'a str>,
}

/// What has to be placed: tasks with wishes of their own, and a number of plain ones of one slot.
#[derive(Clone, Debug, Default)]
pub struct Load<'a> {
    special: Vec<Task<'a>>,
    plain: Count,
}

impl<'a> Load<'a> {
    /// Adds a task. `ratio_matters` is true when there is a limit for `index_parallel` tasks.
    pub fn add(&mut self, task: &'a PendingTask, ratio_matters: bool) {
        let slots = task.slots();
        let parallel = ratio_matters && task.task_type.as_deref() == Some("index_parallel");
        let group = task.availability_group.as_deref();
        if slots == 1 && !parallel && group.is_none() {
            self.plain += 1;
        } else {
            self.special.push(Task { slots, parallel, group });
        }
    }

    /// Adds a task of one slot that shares no worker with another one of its group.
    pub fn add_group(&mut self, group: &'a str) {
        self.special.push(Task { slots: 1, parallel: false, group: Some(group) });
    }

    /// Adds plain slots.
    pub const fn add_plain(&mut self, slots: Count) {
        self.plain = self.plain.saturating_add(slots);
    }

    /// Slots in all.
    #[must_use]
    pub fn slots(&self) -> Count {
        self.special.iter().fold(self.plain, |sum, task| sum.saturating_add(task.slots))
    }

    /// Largest tasks first.
    pub fn sort(&mut self) {
        self.special.sort_by_key(|task| std::cmp::Reverse(task.slots));
    }

    /// Takes out what fits into the bins, in their order.
    pub fn place(&mut self, bins: &mut [Bin]) {
        // bins fill up from the front: those that are full are looked at no more
        let mut full = 0;
        self.special.retain(|task| {
            full += bins.iter().skip(full).take_while(|bin| bin.free == 0).count();
            match bins.iter_mut().skip(full).find(|bin| bin.takes(task)) {
                Some(bin) => {
                    bin.put(task);
                    false
                }
                None => true,
            }
        });
        for bin in bins {
            let taken = bin.free.min(self.plain);
            bin.free -= taken;
            self.plain -= taken;
        }
    }

    /// Why what is left does not go into bins that have room: nothing where they have none.
    #[must_use]
    pub fn obstacles(&self, bins: &[Bin]) -> Vec<&'static str> {
        let open = || bins.iter().filter(|bin| bin.free > 0);
        let mut found = Vec::new();
        for task in self.special.iter().filter(|_| open().next().is_some()) {
            let obstacle = if open().all(|bin| bin.free < task.slots) {
                "a task needs more slots than any worker has free"
            } else if task.parallel && open().all(|bin| bin.parallel_free < task.slots) {
                "index_parallel tasks may take no more of any worker"
            } else if task.group.is_some() {
                "a task of the same availability group runs wherever there is room"
            } else {
                "what a task needs is not free on one worker"
            };
            if !found.contains(&obstacle) {
                found.push(obstacle);
            }
        }
        found
    }

    /// True when nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.plain == 0 && self.special.is_empty()
    }

    /// Takes out the tasks that no empty worker of `capacity` slots could take: how many, and their slots.
    pub fn take_larger(&mut self, capacity: Count, ratio: Option<f64>) -> (Count, Count) {
        let mut larger: (Count, Count) = (0, 0);
        let empty = Bin::empty(capacity, ratio);
        self.special.retain(|task| {
            let fits = empty.takes(task);
            if !fits {
                larger = (larger.0 + 1, larger.1.saturating_add(task.slots));
            }
            fits
        });
        larger
    }

    /// How many new workers of `capacity` slots hold what is left. Tasks larger than a worker are left out.
    #[must_use]
    pub fn new_workers(mut self, capacity: Count, ratio: Option<f64>) -> Count {
        if capacity == 0 {
            return 0;
        }
        self.take_larger(capacity, ratio);
        let mut bins: Vec<Bin> = Vec::new();
        let mut full = 0;
        for task in &self.special {
            full += bins.iter().skip(full).take_while(|bin| bin.free == 0).count();
            if let Some(bin) = bins.iter_mut().skip(full).find(|bin| bin.takes(task)) {
                bin.put(task);
            } else {
                let mut bin = Bin::empty(capacity, ratio);
                if bin.takes(task) {
                    bin.put(task);
                    bins.push(bin);
                }
            }
        }
        let free = bins.iter().fold(0, |sum: Count, bin| sum.saturating_add(bin.free));
        (bins.len() as Count).saturating_add(self.plain.saturating_sub(free).div_ceil(capacity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(slots: Count, kind: &str, group: Option<&str>) -> PendingTask {
        PendingTask {
            id: "t".to_owned(),
            task_type: Some(kind.to_owned()),
            data_source: None,
            category: None,
            required_capacity: Some(slots),
            availability_group: group.map(str::to_owned),
            placeable: None,
            created_time: None,
        }
    }

    #[test]
    fn the_share_for_parallel_index_supervisors_is_rounded_down_and_at_least_one() {
        for (capacity, ratio, slots) in [(4, 0.5, 2), (4, 1.0, 4), (3, 0.1, 1), (15, 0.25, 3)] {
            assert_eq!(parallel_limit(capacity, Some(ratio)), slots);
        }
    }

    #[test]
    fn two_tasks_of_a_group_need_two_workers_though_one_has_room() {
        let tasks = [task(1, "index_kafka", Some("orders")), task(1, "index_kafka", Some("orders"))];
        let mut load = Load::default();
        for task in &tasks {
            load.add(task, false);
        }
        assert_eq!(load.new_workers(15, None), 2);
    }

    #[test]
    fn a_task_of_three_slots_does_not_fit_into_three_workers_with_one_free_slot_each() {
        let tasks = [task(3, "index", None)];
        let mut load = Load::default();
        load.add(&tasks[0], false);
        let mut bins = vec![Bin::empty(1, None), Bin::empty(1, None), Bin::empty(1, None)];
        load.place(&mut bins);
        assert_eq!(load.slots(), 3);
        assert_eq!(load.new_workers(4, None), 1);
    }

    #[test]
    fn parallel_index_supervisors_leave_room_for_their_sub_tasks() {
        let tasks: Vec<PendingTask> = (0..4).map(|_| task(1, "index_parallel", None)).collect();
        let mut load = Load::default();
        for task in &tasks {
            load.add(task, true);
        }
        assert_eq!(load.new_workers(4, Some(0.5)), 2);
    }
}
