//! Wishes of the past from posted readings alone, for callers who send `history` and no `memory`.
//!
//! Stabilization asks for the largest wish of its window. `memory` carries those wishes; without it they are worked out
//! again, each with the readings that were known then: at no more than a few moments, spread over the window, since each
//! costs a decision. Where the history is shorter than the window, it is judged as far as it goes.

use super::graph::Graph;
use super::rates::Figures;
use super::window::Window;
use super::{FlinkJobSnapshot, facts, vertex};
use crate::core::decide::Case;
use crate::core::memory::PartMemory;
use crate::core::request::Series;
use crate::core::trust;
use crate::core::units::seconds_between;

/// The most moments that are looked at.
const MOST: usize = 12;

/// What `memory` would hold of each vertex of `job`, as far as readings tell; empty where it is not needed.
#[must_use]
pub fn parts(case: &Case<'_>, series: &Series<FlinkJobSnapshot>, job: &FlinkJobSnapshot) -> Vec<PartMemory> {
    let window = case.policy.scale_down.stabilization.longer(case.policy.scale_up.stabilization).seconds();
    if case.memory.is_some() || series.history.is_empty() || window <= 0.0 {
        return Vec::new();
    }
    let age = |job: &FlinkJobSnapshot| seconds_between(trust::measured_at(job, case.now), case.now);
    let first = series.history.iter().position(|job| age(job) <= window).unwrap_or(series.history.len());
    let within = series.history.len() - first;
    let every = within.div_ceil(MOST).max(1);
    let mut parts = vec![PartMemory::default(); job.vertices.len()];
    for index in (first..series.history.len()).step_by(every) {
        let Some(then) = series.history.get(index) else { continue };
        let earlier = series.history.get(..index).unwrap_or_default().to_vec();
        look(case, &Series { latest: Some(then.clone()), history: earlier }, then, job, &mut parts);
    }
    parts
}

/// Decides as it would have been decided then, and notes the wishes.
fn look(case: &Case<'_>, series: &Series<FlinkJobSnapshot>, then: &FlinkJobSnapshot, job: &FlinkJobSnapshot, parts: &mut [PartMemory]) {
    let case = Case { now: trust::measured_at(then, case.now), ..*case };
    if !facts::not_ready(&case, then).is_empty() {
        return;
    }
    let policy = case.policy;
    let window = Window::collect(&case, series, then);
    let figures: Vec<Figures> = window.figures(then, &policy.flink);
    let pace = facts::Pace::of(&case, then, &window);
    let targets = Graph::of(then).targets(then, &figures, policy, pace.within, &[]);
    let (facts, _) = facts::of_job(&case, then, &figures, &targets, &window, pace, true);
    for ((vertex, figures), target) in then.vertices.iter().zip(&figures).zip(&targets) {
        let position = job.vertices.iter().position(|now| now.id == vertex.id);
        if let Some(part) = position.and_then(|position| parts.get_mut(position)) {
            let decision = vertex::decide(&case, vertex, figures, target, &facts, Some(part), true);
            part.wishes = decision.wishes;
        }
    }
}
