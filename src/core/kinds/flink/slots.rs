//! Slots and `TaskManagers` of a job: how many its vertices need, and how many can be had.
//!
//! Vertices of one slot-sharing group share slots, so a group needs as many as its largest vertex has subtasks, and the
//! job the sum over its groups. What the cluster can schedule, the quota and the upper bound of `TaskManagers` cut raises,
//! all of them by the same share; nothing below the present parallelism is taken away for want of slots.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::vertex::Decision;
use super::{FlinkJobSnapshot, Vertex};
use crate::core::advice::{Action, ActionKind, ApiCall, Unit};
use crate::core::policy::{Direction, Policy};
use crate::core::reasons::LimitCode;
use crate::core::units::{Amount, Count, Duration, as_f64};

/// The job's slots now.
pub struct Slots {
    /// What is counted.
    pub unit: Unit,
    /// `TaskManagers` (or slots) now.
    pub current: Option<Count>,
    /// Slots that the job needs now.
    used: Count,
    per_task_manager: Option<Count>,
}

/// `TaskManagers` of a job, where they are known.
#[must_use]
pub fn task_managers(job: &FlinkJobSnapshot) -> Option<Count> {
    Slots::of(job, None).current
}

/// Slots needed at some parallelism of each vertex.
fn needed(job: &FlinkJobSnapshot, parallelism: impl Fn(usize, &Vertex) -> Count) -> Count {
    let mut groups: BTreeMap<&str, Count> = BTreeMap::new();
    for (position, vertex) in job.vertices.iter().enumerate() {
        let group = groups.entry(vertex.slot_sharing_group.as_deref().unwrap_or("default")).or_default();
        *group = (*group).max(parallelism(position, vertex));
    }
    groups.values().fold(0, |sum: Count, slots| sum.saturating_add(*slots))
}

impl Slots {
    /// Counts.
    #[must_use]
    pub fn of(job: &FlinkJobSnapshot, spec: Option<Count>) -> Self {
        let used = needed(job, |_, vertex| vertex.parallelism);
        let per_task_manager = job.slots_per_task_manager.filter(|slots| *slots > 0);
        let (unit, current) = match per_task_manager {
            Some(slots) => (Unit::TaskManagers, spec.or(job.task_managers).or_else(|| (used > 0).then(|| used.div_ceil(slots)))),
            None => (Unit::Slots, (used > 0).then_some(used)),
        };
        Self { unit, current, used, per_task_manager }
    }

    fn count(&self, slots: Count) -> Count {
        self.per_task_manager.map_or(slots, |each| slots.div_ceil(each))
    }

    /// The wish and the recommendation as `TaskManagers` (or slots): what is there, more or less the difference. Spare
    /// `TaskManagers` of a shared cluster are neither bought nor given back.
    #[must_use]
    pub fn answer(&self, job: &FlinkJobSnapshot, decisions: &[Decision], changed: bool) -> (Option<f64>, Option<Count>) {
        let Some(current) = self.current else { return (None, None) };
        let of = |slots: Count| {
            let (before, after) = (self.count(self.used), self.count(slots));
            if after >= before { current.max(after) } else { current.saturating_sub(before - after).max(after) }
        };
        let wanted = needed(job, |position, vertex| decisions.get(position).and_then(|decision| decision.wanted).unwrap_or(vertex.parallelism));
        let told = needed(job, |position, vertex| decisions.get(position).map_or(vertex.parallelism, |decision| decision.parallelism));
        let wish = if decisions.iter().all(|decision| decision.wanted.is_none()) { None } else { Some(as_f64(of(wanted))) };
        (wish.or(changed.then(|| as_f64(of(told)))), Some(if changed { of(told) } else { current }))
    }

    /// The policy for the count of `TaskManagers`: steps and windows have acted on the vertices already.
    #[must_use]
    pub fn job_policy(&self, policy: &Policy) -> Policy {
        let free = || Direction { stabilization: Duration::ZERO, cooldown: Duration::ZERO, max_step: None, max_factor: None };
        let (min, max) = if self.unit == Unit::Slots { (0, Count::MAX) } else { (policy.min, policy.max) };
        Policy { min, max, scale_up: free(), scale_down: free(), paused: false, hysteresis_ratio: 0.0, ..policy.clone() }
    }
}

/// Cuts raises to the slots that can be had.
pub fn fit(job: &FlinkJobSnapshot, slots: &Slots, policy: &Policy, min: Count, decisions: &mut [Decision]) {
    let by_bound = slots.per_task_manager.map(|each| policy.max.max(min).max(slots.current.unwrap_or(0)).saturating_mul(each));
    let quota = &policy.flink;
    let each = slots.per_task_manager.unwrap_or(1);
    let by_cpu =
        quota.quota_cpu.zip(job.task_manager_cpu.map(Amount::get)).filter(|(_, cpu)| *cpu > 0.0).map(|(most, cpu)| floor(most / cpu).saturating_mul(each));
    let by_memory =
        quota.quota_memory_bytes.zip(job.task_manager_memory_bytes).filter(|(_, bytes)| *bytes > 0).map(|(most, bytes)| (most / bytes).saturating_mul(each));
    for (code, most) in [
        (LimitCode::SchedulableSlots, job.schedulable_slots),
        (LimitCode::Quota, quota.quota_slots),
        (LimitCode::Quota, by_cpu),
        (LimitCode::Quota, by_memory),
        (LimitCode::MaxReplicas, by_bound),
    ] {
        if let Some(most) = most {
            cut(job, slots.used, code, most, decisions);
        }
    }
}

fn floor(value: f64) -> Count {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what a count can hold")]
    let count = value.floor().clamp(0.0, 9e15) as Count;
    count
}

/// Cuts all raises by the same share until they fit.
fn cut(job: &FlinkJobSnapshot, used: Count, code: LimitCode, most: Count, decisions: &mut [Decision]) {
    let at = |share: f64, decisions: &[Decision]| {
        needed(job, |position, vertex| decisions.get(position).map_or(vertex.parallelism, |decision| shared(vertex, decision, share)))
    };
    // never below what runs: a job is not shrunk because others take its slots
    let most = most.max(used.min(at(0.0, decisions)));
    if at(1.0, decisions) <= most {
        return;
    }
    let (mut fits, mut too_much) = (0.0, 1.0);
    for _ in 0..40 {
        let middle = f64::midpoint(fits, too_much);
        if at(middle, decisions) <= most { fits = middle } else { too_much = middle }
    }
    for (vertex, decision) in job.vertices.iter().zip(decisions) {
        let to = same_peak_down(vertex, shared(vertex, decision, fits));
        if to < decision.parallelism {
            decision.ladder.value = decision.parallelism;
            decision.ladder.to(code, to, as_f64(most));
            decision.parallelism = to;
        }
    }
}

/// A raise of which only a share is taken; anything else as it is.
fn shared(vertex: &Vertex, decision: &Decision, share: f64) -> Count {
    if decision.parallelism <= vertex.parallelism {
        return decision.parallelism;
    }
    vertex.parallelism + floor(as_f64(decision.parallelism - vertex.parallelism) * share + 1e-6)
}

/// The smallest parallelism of the same peak that is not below the present one: what is cut anyway need not waste slots.
fn same_peak_down(vertex: &Vertex, cut: Count) -> Count {
    let parts = if vertex.is_source() { vertex.partition_count() } else { vertex.max_parallelism.filter(|_| vertex.is_keyed()) };
    match parts {
        Some(parts) if cut > vertex.parallelism && cut < parts => parts.div_ceil(parts.div_ceil(cut)).max(vertex.parallelism),
        _ => cut,
    }
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
