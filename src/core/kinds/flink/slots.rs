//! Slots and `TaskManagers` of a job: how many its vertices need, and how many can be had.
//!
//! Vertices of one slot-sharing group share slots, so a group needs as many as its largest vertex has subtasks, and the
//! job the sum over its groups. The largest step, what the cluster can schedule, the quota and the upper bound of
//! `TaskManagers` cut raises, all of them by the same share; nothing below the present parallelism is taken away for want
//! of slots. Only an upper bound below the present `TaskManagers` takes away what runs, for that is what it says.
//! At the end a raise may fill the last `TaskManager`, whose slots are paid anyway (`fill`).

use std::cmp::Ordering;
use std::collections::HashMap;

use serde_json::{Value, json};

use super::bounds;
use super::vertex::Decision;
use super::{FlinkJobSnapshot, Vertex};
use crate::core::advice::{Action, ActionKind, ApiCall, Unit};
use crate::core::policy::{Direction, Policy, QuotaExceeded};
use crate::core::reasons::LimitCode;
use crate::core::units::{Amount, Count, Duration, as_f64};

/// A raise fills a `TaskManager` only as far as this share of the capacity from which on less would be asked for: the load may
/// fall by a quarter before what was filled is taken back.
const FILL_BELOW: f64 = 0.75;

/// The job's slots now.
pub struct Slots {
    /// What is counted.
    pub unit: Unit,
    /// `TaskManagers` (or slots) now.
    pub current: Option<Count>,
    /// Slots that the job needs now.
    pub used: Count,
    per_task_manager: Option<Count>,
    /// The slot-sharing group of each vertex, and how many groups there are.
    group_of: Vec<usize>,
    groups: usize,
}

/// `TaskManagers` of a job, where they are known.
#[must_use]
pub fn task_managers(job: &FlinkJobSnapshot) -> Option<Count> {
    Slots::of(job, None).current
}

impl Slots {
    /// Counts.
    #[must_use]
    pub fn of(job: &FlinkJobSnapshot, spec: Option<Count>) -> Self {
        let mut names: HashMap<&str, usize> = HashMap::new();
        let mut group_of = Vec::with_capacity(job.vertices.len());
        for vertex in &job.vertices {
            let next = names.len();
            group_of.push(*names.entry(vertex.slot_sharing_group.as_deref().unwrap_or("default")).or_insert(next));
        }
        let mut slots = Self { unit: Unit::Slots, current: None, used: 0, per_task_manager: None, group_of, groups: names.len() };
        let used = slots.needed(job.vertices.iter().map(|vertex| vertex.parallelism));
        let per_task_manager = job.slots_per_task_manager.filter(|slots| *slots > 0);
        let (unit, current) = match per_task_manager {
            Some(slots) => {
                (Unit::TaskManagers, spec.or(job.task_managers.filter(|count| *count > 0 || used == 0)).or_else(|| (used > 0).then(|| used.div_ceil(slots))))
            }
            None => (Unit::Slots, (used > 0).then_some(used)),
        };
        slots = Self { unit, current, used, per_task_manager, ..slots };
        slots
    }

    /// Slots of each group at some parallelism of each vertex.
    fn sizes(&self, parallelism: impl Iterator<Item = Count>) -> Vec<Count> {
        let mut sizes = vec![0; self.groups];
        for (group, slots) in self.group_of.iter().zip(parallelism) {
            if let Some(size) = sizes.get_mut(*group) {
                *size = slots.max(*size);
            }
        }
        sizes
    }

    /// Slots needed at some parallelism of each vertex.
    #[must_use]
    pub fn needed(&self, parallelism: impl Iterator<Item = Count>) -> Count {
        self.sizes(parallelism).into_iter().fold(0, Count::saturating_add)
    }

    /// Slots needed by what has been decided.
    #[must_use]
    pub fn decided(&self, decisions: &[Decision]) -> Count {
        self.needed(decisions.iter().map(|decision| decision.parallelism))
    }

    fn count(&self, slots: Count) -> Count {
        self.per_task_manager.map_or(slots, |each| slots.div_ceil(each))
    }

    fn slots(&self, count: Count) -> Count {
        count.saturating_mul(self.per_task_manager.unwrap_or(1))
    }

    /// Slots as `TaskManagers` (or slots): what is there, more or less the difference. Spare `TaskManagers` of a shared
    /// cluster are neither bought nor given back.
    #[must_use]
    pub fn answer(&self, current: Count, slots: Count) -> Count {
        let (before, after) = (self.count(self.used), self.count(slots));
        match after.cmp(&before) {
            Ordering::Greater => current.max(after),
            Ordering::Equal => current,
            Ordering::Less => current.saturating_sub(before - after).max(after),
        }
    }

    /// True when a change needs more than the quota, where that forbids it. Only vertices that change count, in whole
    /// `TaskManagers` rounded down, and only where they become more.
    #[must_use]
    pub fn is_over_quota(&self, job: &FlinkJobSnapshot, policy: &Policy, decisions: &[Decision]) -> bool {
        if policy.flink.quota_exceeded != QuotaExceeded::Block {
            return false;
        }
        let each = self.per_task_manager.unwrap_or(1);
        let changes = || job.vertices.iter().zip(decisions).map(|(vertex, decision)| (vertex.parallelism, decision.parallelism));
        let before = self.needed(changes().map(|(from, to)| if from == to { 0 } else { from }));
        let after = self.needed(changes().map(|(from, to)| if from == to { 0 } else { to }));
        if after / each <= before / each {
            return false;
        }
        let count = as_f64(after / each);
        let (cpu, memory) = (job.task_manager_cpu.map_or(0.0, Amount::get), as_f64(job.task_manager_memory_bytes.unwrap_or(0)));
        policy.flink.quota_cpu.is_some_and(|most| count * cpu > most)
            || policy.flink.quota_memory_bytes.is_some_and(|most| count * memory > as_f64(most))
            || policy.flink.quota_slots.is_some_and(|most| after > most)
    }

    /// The policy for the count of `TaskManagers`: steps and windows have acted on the vertices already.
    #[must_use]
    pub fn job_policy(&self, policy: &Policy) -> Policy {
        let free = || Direction { stabilization: Duration::ZERO, cooldown: Duration::ZERO, max_step: None, max_factor: None };
        let (min, max) = if self.unit == Unit::Slots { (0, Count::MAX) } else { (policy.min, policy.max) };
        Policy { min, max, scale_up: free(), scale_down: free(), paused: false, hysteresis_ratio: 0.0, ..policy.clone() }
    }

    /// Slots that can be had, by what bounds them.
    fn can_be_had(&self, job: &FlinkJobSnapshot, policy: &Policy, min: Count) -> [(LimitCode, Option<Count>); 6] {
        let quota = &policy.flink;
        let current = self.current.unwrap_or_default();
        let by_step = policy.scale_up.max_step.map(|step| self.slots(current.max(self.count(self.used)).saturating_add(step)));
        let by_cpu = quota.quota_cpu.zip(job.task_manager_cpu.map(Amount::get)).filter(|(_, cpu)| *cpu > 0.0).map(|(most, cpu)| self.slots(floor(most / cpu)));
        let by_memory =
            quota.quota_memory_bytes.zip(job.task_manager_memory_bytes).filter(|(_, bytes)| *bytes > 0).map(|(most, bytes)| self.slots(most / bytes));
        let by_bound = self.per_task_manager.map(|_| self.slots(policy.max.max(min)));
        [
            (LimitCode::ScaleUpLimit, by_step),
            (LimitCode::SchedulableSlots, job.schedulable_slots),
            (LimitCode::Quota, quota.quota_slots),
            (LimitCode::Quota, by_cpu),
            (LimitCode::Quota, by_memory),
            (LimitCode::MaxReplicas, by_bound),
        ]
    }
}

/// Quotas that cannot be held to, since the size of a `TaskManager` is not known.
#[must_use]
pub fn unknown_quotas(job: &FlinkJobSnapshot, policy: &Policy) -> Vec<String> {
    let mut missing = Vec::new();
    if policy.flink.quota_cpu.is_some() && job.task_manager_cpu.is_none_or(|cpu| cpu.get() <= 0.0) {
        missing.push("taskManagerCpu, without which quota.cpu bounds nothing".to_owned());
    }
    if policy.flink.quota_memory_bytes.is_some() && job.task_manager_memory_bytes.is_none_or(|bytes| bytes == 0) {
        missing.push("taskManagerMemoryBytes, without which quota.memoryBytes bounds nothing".to_owned());
    }
    missing
}

/// Cuts raises to the slots that can be had, and everything to the upper bound of `TaskManagers`.
pub fn fit(job: &FlinkJobSnapshot, slots: &Slots, policy: &Policy, min: Count, decisions: &mut [Decision]) {
    for (code, most) in slots.can_be_had(job, policy, min) {
        let blocks = code == LimitCode::Quota && policy.flink.quota_exceeded == QuotaExceeded::Block;
        if let Some(most) = most.filter(|_| !blocks) {
            cut(job, slots, code, most, decisions);
        }
    }
    if slots.per_task_manager.is_some() {
        shrink(slots, slots.slots(policy.max.max(min)), decisions);
    }
    if let (Some(step), Some(current)) = (policy.scale_down.max_step, slots.current) {
        let least = slots.answer(current, slots.used).saturating_sub(step);
        if slots.answer(current, slots.decided(decisions)) < least {
            lift(job, slots, |needed| slots.answer(current, needed) >= least, step, decisions);
        }
    }
}

fn floor(value: f64) -> Count {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what a count can hold")]
    let count = value.floor().clamp(0.0, 9e15) as Count;
    count
}

/// The largest share of a change, from none to all, at which `fits` still holds.
fn largest_share(fits: impl Fn(f64) -> bool) -> f64 {
    let (mut good, mut bad) = (0.0, 1.0);
    for _ in 0..40 {
        let middle = f64::midpoint(good, bad);
        if fits(middle) { good = middle } else { bad = middle }
    }
    good
}

/// Cuts all raises by the same share until they fit.
fn cut(job: &FlinkJobSnapshot, slots: &Slots, code: LimitCode, most: Count, decisions: &mut [Decision]) {
    let at = |share: f64, decisions: &[Decision]| slots.needed(job.vertices.iter().zip(decisions).map(|(vertex, decision)| raised(vertex, decision, share)));
    if at(1.0, decisions) <= most {
        return;
    }
    // never below what runs: a job is not shrunk because others take its slots
    let most = most.max(slots.used.min(at(0.0, decisions)));
    let share = largest_share(|share| at(share, decisions) <= most);
    for (vertex, decision) in job.vertices.iter().zip(decisions) {
        let to = bounds::same_peak_down(vertex, raised(vertex, decision, share));
        if to < decision.parallelism {
            decision.lead(code, to, as_f64(most));
        }
    }
}

/// A raise of which only a share is taken; anything else as it is.
fn raised(vertex: &Vertex, decision: &Decision, share: f64) -> Count {
    if decision.parallelism <= vertex.parallelism {
        return decision.parallelism;
    }
    vertex.parallelism + floor(as_f64(decision.parallelism - vertex.parallelism) * share + 1e-6)
}

/// Lowers what runs to an upper bound below it: every group by the same share, at least one slot each.
fn shrink(slots: &Slots, most: Count, decisions: &mut [Decision]) {
    let sizes = slots.sizes(decisions.iter().map(|decision| decision.parallelism));
    if sizes.iter().sum::<Count>() <= most {
        return;
    }
    let part = |size: Count, share: f64| floor(as_f64(size) * share + 1e-6).max(1);
    let share = largest_share(|share| sizes.iter().map(|size| part(*size, share)).sum::<Count>() <= most);
    for (group, decision) in slots.group_of.iter().zip(decisions) {
        let to = part(sizes.get(*group).copied().unwrap_or(1), share);
        if decision.parallelism > to {
            decision.lead(LimitCode::MaxReplicas, to, as_f64(most));
            decision.outside = true;
            decision.forced = true;
        }
    }
}

/// Takes back a share of all cuts until enough is left.
fn lift(job: &FlinkJobSnapshot, slots: &Slots, is_enough: impl Fn(Count) -> bool, step: Count, decisions: &mut [Decision]) {
    let lowered = |vertex: &Vertex, decision: &Decision, share: f64| {
        if decision.parallelism >= vertex.parallelism || decision.forced {
            return decision.parallelism;
        }
        vertex.parallelism - floor(as_f64(vertex.parallelism - decision.parallelism) * share + 1e-6)
    };
    let at = |share: f64, decisions: &[Decision]| slots.needed(job.vertices.iter().zip(decisions).map(|(vertex, decision)| lowered(vertex, decision, share)));
    let share = largest_share(|share| is_enough(at(share, decisions)));
    for (vertex, decision) in job.vertices.iter().zip(decisions) {
        let to = lowered(vertex, decision, share);
        if to > decision.parallelism {
            decision.lead(LimitCode::ScaleDownLimit, to, as_f64(step));
        }
    }
}

/// Gives the largest raise of a slot-sharing group the rest of the last `TaskManager`, where that makes its busiest
/// subtask lighter, may be had, and leaves it well inside its band, so that it is not lowered again for it.
pub fn fill(job: &FlinkJobSnapshot, slots: &Slots, policy: &Policy, min: Count, decisions: &mut [Decision]) {
    let Some(each) = slots.per_task_manager else { return };
    let sizes = slots.sizes(decisions.iter().map(|decision| decision.parallelism));
    let after = sizes.iter().sum::<Count>();
    let could = slots.can_be_had(job, policy, min).into_iter().filter_map(|(_, most)| most).min().unwrap_or(Count::MAX);
    let spare = after.div_ceil(each).saturating_mul(each).min(could).saturating_sub(after);
    if spare == 0 {
        return;
    }
    let is_largest_raise = |(group, vertex, decision): (&usize, &Vertex, &Decision)| {
        decision.parallelism > vertex.parallelism && decision.wanted >= Some(decision.parallelism) && sizes.get(*group) == Some(&decision.parallelism)
    };
    let largest =
        slots.group_of.iter().zip(&job.vertices).zip(decisions.iter()).position(|((group, vertex), decision)| is_largest_raise((group, vertex, decision)));
    let Some(position) = largest else { return };
    let (Some(vertex), Some(decision)) = (job.vertices.get(position), decisions.get_mut(position)) else { return };
    let Some((curve, band)) = decision.curve.as_ref().zip(decision.band.down_above) else { return };
    let most = decision.parallelism.saturating_add(spare).min(bounds::most(vertex, policy));
    let fits = |to: &Count| curve.capacity(*to) <= FILL_BELOW * band && bounds::is_lighter(vertex, decision.parallelism, *to);
    let Some(to) = (decision.parallelism + 1..=most).rev().find(fits) else { return };
    // of several counts with the same peak the smallest will do
    decision.lead(LimitCode::TaskManagerSlots, bounds::same_peak_down(vertex, to), as_f64(each));
}

/// The step that sets the parallelism of all vertices, with the exact call and the text of the overrides.
#[must_use]
pub fn set_parallelism(job: &FlinkJobSnapshot, decisions: &[Decision]) -> Action {
    let mut body = serde_json::Map::new();
    let (mut overrides, mut changes) = (Vec::new(), Vec::new());
    for (vertex, decision) in job.vertices.iter().zip(decisions) {
        body.insert(vertex.id.clone(), json!({ "parallelism": { "lowerBound": 1, "upperBound": decision.parallelism } }));
        overrides.push(format!("{}:{}", vertex.id, decision.parallelism));
        if decision.parallelism != vertex.parallelism && changes.len() < 8 {
            changes.push(format!("{} from {} to {}", vertex.label(), vertex.parallelism, decision.parallelism));
        }
    }
    let request = job.job_id.as_ref().map(|id| ApiCall { method: "PUT", path: format!("/jobs/{id}/resource-requirements"), body: Some(Value::Object(body)) });
    Action {
        request,
        overrides: Some(overrides.join(",")),
        ..Action::new(ActionKind::SetParallelism, format!("set the parallelism of {}", changes.join(", ")))
    }
}
