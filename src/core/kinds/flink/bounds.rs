//! The way of a vertex' wish to a parallelism that can be had: partitions, key groups, alignment, steps, its own bounds.
//!
//! Partitions and key groups come first, since subtasks above them have nothing to do; they also move a count down. Then
//! comes what is no more than jitter (hysteresis), then the alignment, then the largest step and the bounds of the
//! vertex. A raise that a step or a bound has cut is led down to the smallest count of the same peak: what is cut anyway
//! need not waste slots. Flink's own modes of alignment come after the steps, as they do there. Bounds never force a
//! move away from the present value.

use super::Vertex;
use crate::core::policy::{Alignment, FlinkPolicy, Policy};
use crate::core::reasons::LimitCode;
use crate::core::sizing::align::{self, FlinkMode};
use crate::core::sizing::limits::Ladder;
use crate::core::units::{Count, as_f64, ceil_count};

/// What a wish is led by.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The unrounded wish.
    pub needed: f64,
    /// True when the vertex is at its limit, so that its wish is more than jitter.
    pub is_urgent: bool,
    /// What the mean load of the subtasks asks for, where one subtask is far busier than the others.
    pub by_mean: Option<Count>,
}

/// Leads the wish to what the vertex can use.
pub fn lead(vertex: &Vertex, wish: Wish, policy: &Policy, ladder: &mut Ladder) {
    let current = vertex.parallelism;
    if policy.flink.cap_sources_at_partitions
        && let Some(most) = source_partitions(vertex)
    {
        ladder.at_most(LimitCode::PartitionLimit, most);
    }
    if let Some(groups) = vertex.max_parallelism {
        ladder.at_most(LimitCode::KeyGroupLimit, groups);
    }
    if let Some(by_mean) = wish.by_mean {
        ladder.at_most(LimitCode::SubtaskSkew, by_mean.max(current));
    }
    let mode = match policy.flink.alignment {
        Alignment::Off => None,
        Alignment::SamePeak => {
            if !hysteresis(ladder, current, wish, policy) {
                same_peak(vertex, wish.needed, policy, ladder);
            }
            None
        }
        Alignment::Balanced => Some(FlinkMode::Balanced),
        Alignment::EvenlySpread => Some(FlinkMode::EvenlySpread),
        Alignment::LegacyEvenlySpread => Some(FlinkMode::LegacyEvenlySpread),
        Alignment::LegacyMaximizeUtilisation => Some(FlinkMode::LegacyMaximizeUtilisation),
    };
    if policy.flink.alignment != Alignment::SamePeak {
        hysteresis(ladder, current, wish, policy);
    }
    let before = ladder.value;
    step(vertex, policy, ladder);
    match mode {
        Some(mode) if ladder.value != current => flink(vertex, mode, policy, ladder),
        None if ladder.value != before && policy.flink.alignment == Alignment::SamePeak => {
            let to = same_peak_down(vertex, ladder.value);
            ladder.to(LimitCode::EvenDistribution, to, as_f64(parts(vertex).unwrap_or(0)));
        }
        _ => {}
    }
}

/// The largest change of one decision and the bounds of the vertex.
fn step(vertex: &Vertex, policy: &Policy, ladder: &mut Ladder) {
    let current = vertex.parallelism;
    let (least, most) = of_vertex(vertex, &policy.flink);
    if ladder.value > current {
        let by_factor = policy.scale_up.max_factor.map_or(Count::MAX, |factor| ceil_count(as_f64(current) * (1.0 + factor)));
        ladder.at_most(LimitCode::ScaleUpLimit, by_factor);
    } else {
        let by_factor = policy.scale_down.max_factor.map_or(0, |factor| ceil_count(as_f64(current) * (1.0 - factor)));
        // what partitions or key groups have cut is no step of ours
        let cut_down = ladder.limits.iter().any(|limit| matches!(limit.code, LimitCode::PartitionLimit | LimitCode::KeyGroupLimit));
        let base = if cut_down { current.min(ladder.value) } else { current };
        ladder.at_least(LimitCode::ScaleDownLimit, by_factor.min(base));
    }
    ladder.at_least(LimitCode::MinReplicas, least.min(current));
    ladder.at_most(LimitCode::MaxReplicas, most.max(current));
    if let Some(groups) = vertex.max_parallelism {
        ladder.at_most(LimitCode::KeyGroupLimit, groups);
    }
}

/// Demand that has barely left the range of the present count does not move it. Returns true where that is so.
fn hysteresis(ladder: &mut Ladder, current: Count, wish: Wish, policy: &Policy) -> bool {
    let ratio = policy.hysteresis_ratio;
    if ratio <= 0.0 || wish.is_urgent || !ladder.limits.is_empty() {
        return false;
    }
    let near_above = ladder.value > current && wish.needed <= as_f64(current) * (1.0 + ratio);
    let near_below = ladder.value < current && wish.needed >= as_f64(current.saturating_sub(1)) * (1.0 - ratio);
    if near_above || near_below {
        ladder.to(LimitCode::Hysteresis, current, ratio);
    }
    near_above || near_below
}

/// The same-peak rule over partitions or key groups.
fn same_peak(vertex: &Vertex, needed: f64, policy: &Policy, ladder: &mut Ladder) {
    let Some(parts) = parts(vertex) else { return };
    let current = vertex.parallelism;
    let demand = if ladder.limits.is_empty() { needed.min(as_f64(ladder.value)) } else { as_f64(ladder.value) };
    let fitted = align::same_peak(parts, ladder.value, demand, policy.target_utilization, policy.flink.utilization_max);
    // a value that is no worse than the present one is not worth a rescale
    let fitted = if ladder.value > current { fitted.max(current) } else { fitted.min(current.max(ladder.value)) };
    let (_, most) = of_vertex(vertex, &policy.flink);
    let upper = parts.min(vertex.max_parallelism.unwrap_or(Count::MAX)).min(most.max(current));
    ladder.to(LimitCode::EvenDistribution, fitted.min(upper.max(ladder.value)), as_f64(parts));
}

/// Flink's own modes.
fn flink(vertex: &Vertex, mode: FlinkMode, policy: &Policy, ladder: &mut Ladder) {
    let Some(parts) = parts(vertex) else { return };
    let (least, most) = of_vertex(vertex, &policy.flink);
    let current = vertex.parallelism;
    let upper = parts.min(vertex.max_parallelism.unwrap_or(Count::MAX)).min(most.max(current));
    let fitted = align::flink(mode, parts, current, ladder.value, least.min(current), upper);
    ladder.to(LimitCode::EvenDistribution, fitted, as_f64(parts));
}

/// Partitions of a source.
fn source_partitions(vertex: &Vertex) -> Option<Count> {
    if vertex.is_source() { vertex.partition_count() } else { None }
}

/// What is shared out over the subtasks: partitions of a source, key groups of a keyed vertex.
fn parts(vertex: &Vertex) -> Option<Count> {
    source_partitions(vertex).or_else(|| vertex.max_parallelism.filter(|_| vertex.is_keyed()))
}

/// The smallest parallelism of the same peak as a raise to `to` that is not below the present one.
#[must_use]
pub fn same_peak_down(vertex: &Vertex, to: Count) -> Count {
    match parts(vertex) {
        Some(parts) if to > vertex.parallelism && to < parts => parts.div_ceil(parts.div_ceil(to)).max(vertex.parallelism),
        _ => to,
    }
}

/// True when the busiest subtask has less to do at `to` than at `from`.
#[must_use]
pub fn is_lighter(vertex: &Vertex, from: Count, to: Count) -> bool {
    parts(vertex).map_or(to > from, |parts| align::peak(parts, to) < align::peak(parts, from))
}

/// The most subtasks that a vertex may ever have: its own bound, partitions, key groups.
#[must_use]
pub fn most(vertex: &Vertex, policy: &Policy) -> Count {
    let partitions = source_partitions(vertex).filter(|_| policy.flink.cap_sources_at_partitions);
    let (_, most) = of_vertex(vertex, &policy.flink);
    most.min(partitions.unwrap_or(Count::MAX)).min(vertex.max_parallelism.unwrap_or(Count::MAX))
}

/// Subtasks above the number of partitions read nothing, so this bound also moves a count down.
pub fn partitions_at_last(vertex: &Vertex, policy: &Policy, ladder: &mut Ladder) -> bool {
    let most = source_partitions(vertex).filter(|_| policy.flink.cap_sources_at_partitions).unwrap_or(Count::MAX);
    ladder.at_most(LimitCode::PartitionLimit, most);
    vertex.parallelism > most
}

/// Bounds of a vertex: the first pattern that fits it, else those of all.
fn of_vertex(vertex: &Vertex, policy: &FlinkPolicy) -> (Count, Count) {
    let own = policy.vertex_limits.iter().find(|(pattern, _)| matches(vertex, pattern)).map(|(_, bounds)| *bounds).unwrap_or_default();
    (own.min.unwrap_or(policy.vertex_min), own.max.unwrap_or(policy.vertex_max))
}

/// True for a vertex that keeps its parallelism.
#[must_use]
pub fn is_excluded(vertex: &Vertex, policy: &FlinkPolicy) -> bool {
    policy.exclude_vertices.iter().any(|pattern| matches(vertex, pattern))
}

/// An id, or a name in which `*` stands for anything.
fn matches(vertex: &Vertex, pattern: &str) -> bool {
    if pattern == vertex.id {
        return true;
    }
    let Some(name) = vertex.name.as_deref() else { return false };
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut last = None;
    for piece in pieces {
        if let Some(before) = last.replace(piece) {
            let Some(at) = rest.find(before) else { return false };
            rest = rest.get(at + before.len()..).unwrap_or_default();
        }
    }
    match last {
        None => rest.is_empty(),
        Some(end) => rest.ends_with(end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_vertices_by_id_or_by_name() {
        let vertex: Vertex = serde_json::from_value(serde_json::json!({ "id": "abc", "name": "Source: orders", "parallelism": 1 })).expect("a vertex");
        for (pattern, fits) in
            [("abc", true), ("Source*", true), ("*orders", true), ("*: o*", true), ("Source: orders", true), ("orders", false), ("*order", false), ("*", true)]
        {
            assert_eq!(matches(&vertex, pattern), fits, "{pattern}");
        }
    }
}
