//! Targets of one Druid cluster know of each other: the supervisors' tasks run in the workers' slots.
//!
//! - The reading of the workers learns how many tasks each supervisor is going to have (`streaming[].nextTaskCount`),
//!   before the slots of today cut that. So workers are asked for before tasks are pending.
//! - The reading of a supervisor learns how many slots are on their way (`workerSlots.coming`): what the workers' advice
//!   leads to beyond the slots there are. So a raise is cut to slots that exist or that are about to.
//!
//! Both stand in the reading, so the question can be saved and asked again with the same answer. Why not one decision
//! over all of them: each target has readings, windows and limits of its own, and each has to be right alone. The two
//! meet within two intervals. An advice that is no longer valid tells nothing.

use std::sync::Arc;

use super::advice::Advice;
use super::kinds::druid::Worker;
use super::kinds::{DruidSupervisorSnapshot, DruidWorkersSnapshot};
use super::reasons::LimitCode;
use super::request::{Readings, Request};
use super::units::Count;

/// Another target of the cluster: its last question and its answer, which is still valid.
#[derive(Clone, Copy, Debug)]
pub struct Peer<'a> {
    /// The question.
    pub request: &'a Request,
    /// The answer.
    pub advice: &'a Advice,
}

/// Adds to the newest reading what the other targets of the cluster know.
pub fn relate(readings: &mut Readings, peers: &[Peer<'_>]) {
    match readings {
        Readings::DruidWorkers(series) => {
            if let Some(latest) = &mut series.latest {
                supervisors(Arc::make_mut(latest), peers);
            }
        }
        Readings::DruidSupervisor(series) => {
            if let Some(latest) = &mut series.latest {
                workers(Arc::make_mut(latest), peers);
            }
        }
        Readings::FlinkJob(_) | Readings::KafkaGroup(_) | Readings::Backlog(_) => {}
    }
}

fn supervisors(reading: &mut DruidWorkersSnapshot, peers: &[Peer<'_>]) {
    for peer in peers {
        let Readings::DruidSupervisor(series) = &peer.request.readings else { continue };
        let id = series.latest.as_ref().and_then(|latest| latest.supervisor.as_deref());
        for row in reading.streaming.iter_mut().filter(|row| Some(row.supervisor.as_str()) == id) {
            row.next_task_count = before_slots(peer.advice);
        }
    }
}

/// The count that is wanted after every limit but the slots of today.
fn before_slots(advice: &Advice) -> Option<Count> {
    let cut = advice.limits.iter().find(|limit| limit.code == LimitCode::WorkerSlots);
    cut.map(|limit| limit.from).or(advice.recommended)
}

fn workers(reading: &mut DruidSupervisorSnapshot, peers: &[Peer<'_>]) {
    let Some(slots) = &mut reading.worker_slots else { return };
    let promised = peers.iter().filter_map(promised).fold(0, Count::saturating_add);
    // workers that have registered since are in the total already
    slots.coming = Some(promised.saturating_sub(slots.total)).filter(|coming| *coming > 0);
}

/// Slots of the workers that a target has and is advised to have.
fn promised(peer: &Peer<'_>) -> Option<Count> {
    let Readings::DruidWorkers(series) = &peer.request.readings else { return None };
    let workers = series.latest.as_ref()?.workers.as_ref()?;
    let there = workers.iter().filter(|worker| worker.enabled).fold(0, |sum: Count, worker| sum.saturating_add(worker.capacity));
    let more = peer.advice.recommended?.saturating_sub(workers.len() as Count);
    let each = workers.iter().map(|worker: &Worker| worker.capacity).min().or(peer.request.policy.druid.slots_per_worker)?;
    Some(there.saturating_add(more.saturating_mul(each)))
}
