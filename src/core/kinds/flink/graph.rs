//! Demand through the job graph: what each vertex has to process so that the sources keep up and catch up.
//!
//! A source has to process what arrives, `records in per second + growth of the backlog`, and to catch up,
//! `backlog / catchUpWithin`. Every other vertex gets its inputs' demand times the output ratio of the edge. Where a
//! vertex has several inputs, the rate over one edge is what the vertex reads less what its other inputs write, if
//! those write nowhere else; otherwise all that the input writes, which is an over-estimate. When that contradicts what
//! the vertex itself counts, its own counter wins.
//! Source: flink-autoscaler `ScalingMetricEvaluator`; DS2 (OSDI 2018).

use std::collections::HashMap;

use super::rates::Figures;
use super::reach::Share;
use super::{FlinkJobSnapshot, Vertex};
use crate::core::policy::Policy;

/// From here on edge demand and own input contradict each other.
const CONTRADICTION: f64 = 2.0;

/// What a vertex has to process. Records per second; `None` is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Target {
    /// What arrives.
    pub rate: Option<f64>,
    /// What has to be caught up.
    pub catch_up: Option<f64>,
    /// True when the backlog that stands behind it is not known.
    pub backlog_unknown: bool,
    /// What the edges alone would say, where that contradicts the vertex' own input.
    pub contradicted: Option<f64>,
}

/// The job graph by position.
pub struct Graph {
    /// Positions, inputs before outputs.
    order: Vec<usize>,
    inputs: Vec<Vec<usize>>,
    outputs: Vec<usize>,
}

impl Graph {
    /// Reads the edges. Vertices on a cycle come last, in the order given.
    #[must_use]
    pub fn of(job: &FlinkJobSnapshot) -> Self {
        let positions: HashMap<&str, usize> = job.vertices.iter().enumerate().map(|(index, vertex)| (vertex.id.as_str(), index)).collect();
        let mut outputs = vec![0; job.vertices.len()];
        let mut followers: Vec<Vec<usize>> = vec![Vec::new(); job.vertices.len()];
        let inputs: Vec<Vec<usize>> = job
            .vertices
            .iter()
            .enumerate()
            .map(|(index, vertex)| {
                let mut from: Vec<usize> = Vec::with_capacity(vertex.inputs.len());
                for position in vertex.inputs.iter().filter_map(|edge| positions.get(edge.from.as_str()).copied()) {
                    // two edges from one vertex carry its records once: neither counts them alone
                    if !from.contains(&position) {
                        from.push(position);
                    }
                }
                for input in &from {
                    if let (Some(count), Some(follows)) = (outputs.get_mut(*input), followers.get_mut(*input)) {
                        *count += 1;
                        follows.push(index);
                    }
                }
                from
            })
            .collect();
        let mut waiting: Vec<usize> = inputs.iter().map(Vec::len).collect();
        let mut order: Vec<usize> = (0..job.vertices.len()).filter(|index| waiting.get(*index) == Some(&0)).collect();
        let mut next = 0;
        while let Some(done) = order.get(next).copied() {
            next += 1;
            for follower in followers.get(done).into_iter().flatten() {
                if let Some(left) = waiting.get_mut(*follower) {
                    *left = left.saturating_sub(1);
                    if *left == 0 {
                        order.push(*follower);
                    }
                }
            }
        }
        if order.len() < job.vertices.len() {
            let mut seen = vec![false; job.vertices.len()];
            for index in &order {
                if let Some(flag) = seen.get_mut(*index) {
                    *flag = true;
                }
            }
            order.extend((0..job.vertices.len()).filter(|index| seen.get(*index) == Some(&false)));
        }
        Self { order, inputs, outputs }
    }

    /// The sources that feed a vertex, by position; itself where it is one.
    #[must_use]
    pub fn sources_of(&self, position: usize) -> Vec<usize> {
        let (mut sources, mut waiting, mut seen) = (Vec::new(), vec![position], vec![false; self.inputs.len()]);
        while let Some(position) = waiting.pop() {
            if seen.get_mut(position).is_none_or(|seen| std::mem::replace(seen, true)) {
                continue;
            }
            match self.inputs.get(position).map(Vec::as_slice) {
                Some([]) => sources.push(position),
                inputs => waiting.extend(inputs.into_iter().flatten()),
            }
        }
        sources
    }

    /// The demand of every vertex, by position. A backlog is to be gone `within` so many seconds; of what a source is
    /// asked for its share counts, all of it where none is given.
    #[must_use]
    pub fn targets(&self, job: &FlinkJobSnapshot, figures: &[Figures], policy: &Policy, within: f64, shares: &[Share]) -> Vec<Target> {
        let mut targets = vec![Target::default(); job.vertices.len()];
        for position in &self.order {
            let (Some(vertex), Some(own)) = (job.vertices.get(*position), figures.get(*position)) else { continue };
            let inputs = self.inputs.get(*position).map_or(&[][..], Vec::as_slice);
            let target = if inputs.is_empty() {
                source(vertex, own, policy, within, shares.get(*position))
            } else {
                self.downstream(inputs, own, figures, &targets, policy)
            };
            if let Some(slot) = targets.get_mut(*position) {
                *slot = target;
            }
        }
        targets
    }

    fn downstream(&self, inputs: &[usize], own: &Figures, figures: &[Figures], targets: &[Target], policy: &Policy) -> Target {
        let mut target = Target { rate: Some(0.0), catch_up: Some(0.0), ..Target::default() };
        // growth of the inputs' demand over what they read, weighted by what they read
        let (mut wanted, mut read) = (0.0, 0.0);
        for input in inputs {
            let (Some(from), Some(demand)) = (figures.get(*input), targets.get(*input)) else { continue };
            let ratio = self.ratio(*input, inputs, own, figures, policy);
            target.rate = target.rate.zip(demand.rate).zip(ratio).map(|((sum, rate), ratio)| sum + rate * ratio);
            target.catch_up = target.catch_up.zip(demand.catch_up).zip(ratio).map(|((sum, rate), ratio)| sum + rate * ratio);
            target.backlog_unknown |= demand.backlog_unknown;
            wanted += demand.rate.unwrap_or(0.0);
            read += from.input.unwrap_or(0.0);
        }
        if policy.flink.doubt_holds
            && policy.contradiction_checks
            && inputs.len() + usize::from(self.writes_elsewhere(inputs)) > 1
            && let (Some(edges), Some(input)) = (target.rate, own.input)
            && read > 0.0
        {
            let by_own = input * wanted / read;
            let (low, high) = if edges < by_own { (edges, by_own) } else { (by_own, edges) };
            if high > low * CONTRADICTION && high > 1e-9 {
                let scale = if edges > 0.0 { by_own / edges } else { 0.0 };
                target = Target { rate: Some(by_own), catch_up: target.catch_up.map(|rate| rate * scale), contradicted: Some(edges), ..target };
            }
        }
        target
    }

    fn writes_elsewhere(&self, inputs: &[usize]) -> bool {
        inputs.iter().any(|input| self.outputs.get(*input).copied().unwrap_or(0) > 1)
    }

    /// Records over the edge for each record that the input reads; 0 unless both are known to flow.
    fn ratio(&self, input: usize, inputs: &[usize], own: &Figures, figures: &[Figures], policy: &Policy) -> Option<f64> {
        let from = figures.get(input)?;
        let others = || inputs.iter().filter(|other| **other != input);
        let written = || others().map(|other| figures.get(*other)?.output.filter(|_| self.outputs.get(*other) == Some(&1))).sum::<Option<f64>>();
        let edge = if inputs.len() == 1 {
            own.input
        } else if let Some(written) = written() {
            own.input.map(|read| read - written)
        } else {
            from.output
        };
        let (Some(edge), Some(read)) = (edge, from.input) else { return (!policy.flink.doubt_holds).then_some(0.0) };
        match (edge > 0.0, read > 0.0) {
            (true, true) => Some(edge / read),
            // records without a source of them: the ratio is unknown, not huge and not zero
            (true, false) if policy.flink.doubt_holds => None,
            _ => Some(0.0),
        }
    }
}

fn source(vertex: &Vertex, own: &Figures, policy: &Policy, within: f64, share: Option<&Share>) -> Target {
    let declared = policy.flink.source_rates.iter().find(|(name, _)| *name == vertex.id || Some(name) == vertex.name.as_ref()).map(|(_, rate)| rate.get());
    let growth = 1.0 + policy.growth_ratio;
    let mut target = match (own.lag, own.lag_rate) {
        (Some(lag), rate) => Target {
            // a single reading tells no growth: what is read is what arrives, at least
            rate: own.input.map(|read| (read + rate.unwrap_or(0.0)).max(0.0) * growth),
            catch_up: Some(if within > 0.0 { lag / within } else { 0.0 }),
            ..Target::default()
        },
        (None, _) => Target {
            rate: declared.map_or(own.input, Some).map(|rate| rate * growth),
            catch_up: Some(0.0),
            backlog_unknown: declared.is_none(),
            contradicted: None,
        },
    };
    if let Some(share) = share {
        target.rate = target.rate.map(|rate| rate * share.rate);
        target.catch_up = target.catch_up.map(|rate| rate * share.catch_up);
    }
    target
}
