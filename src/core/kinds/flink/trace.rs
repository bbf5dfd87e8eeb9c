//! The limits of the job from those of its vertices: how the wish in `TaskManagers` became the recommendation.
//!
//! A limit of a vertex changes the count of the job only where that vertex decides how many slots its group needs. So the
//! limits of all vertices are walked through in the order in which decisions are made, and one is noted for the job
//! wherever it changes the count.

use super::FlinkJobSnapshot;
use super::slots::Slots;
use super::vertex::Decision;
use crate::core::reasons::{Limit, LimitCode};
use crate::core::units::Count;

/// The order in which limits act.
const ORDER: [LimitCode; 22] = [
    LimitCode::ExcludedVertex,
    LimitCode::InsideOwnBand,
    LimitCode::PartitionLimit,
    LimitCode::KeyGroupLimit,
    LimitCode::SubtaskSkew,
    LimitCode::Hysteresis,
    LimitCode::EvenDistribution,
    LimitCode::ScaleUpLimit,
    LimitCode::ScaleDownLimit,
    LimitCode::MinReplicas,
    LimitCode::BusyRatioLimit,
    LimitCode::ScaleDownStabilized,
    LimitCode::ScaleUpStabilized,
    LimitCode::Cooldown,
    LimitCode::SchedulableSlots,
    LimitCode::Quota,
    LimitCode::MaxReplicas,
    LimitCode::DownstreamLimit,
    LimitCode::ChangeNotWorthwhile,
    LimitCode::TaskManagerSlots,
    LimitCode::ExcludedPeriod,
    LimitCode::Held,
];

/// The limits that lead the job's count from the wish to what has been decided. `from` is the count that is wanted.
#[must_use]
pub fn of_job(job: &FlinkJobSnapshot, slots: &Slots, current: Count, wanted: Count, decisions: &[Decision]) -> Vec<Limit> {
    let mut values: Vec<Count> = job.vertices.iter().zip(decisions).map(|(vertex, decision)| decision.wanted.unwrap_or(vertex.parallelism)).collect();
    // (step, position of the vertex, limit): each vertex' limits in their own order, those of all in the order of decisions
    let mut steps: Vec<(usize, usize, &Limit)> = Vec::new();
    for (position, decision) in decisions.iter().enumerate() {
        let mut step = 0;
        for limit in &decision.ladder.limits {
            step = step.max(ORDER.iter().position(|code| *code == limit.code).unwrap_or(ORDER.len()));
            steps.push((step, position, limit));
        }
    }
    steps.sort_by_key(|(step, ..)| *step);
    let mut limits: Vec<Limit> = Vec::new();
    let mut at = wanted;
    let mut steps = steps.into_iter().peekable();
    while let Some((step, position, limit)) = steps.next() {
        if let Some(value) = values.get_mut(position) {
            *value = limit.to;
        }
        // limits of one step act together
        if steps.peek().is_some_and(|(next, ..)| *next == step) {
            continue;
        }
        let count = slots.answer(current, slots.needed(values.iter().copied()));
        if count != at {
            limits.push(Limit { from: at, to: count, code: limit.code, at: limit.at });
            at = count;
        }
    }
    limits
}
