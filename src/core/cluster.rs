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
use super::kinds::druid::{DEFAULT_CATEGORY, Worker};
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
        Readings::FlinkJob(_) | Readings::KafkaGroup(_) | Readings::PubsubSubscription(_) | Readings::Backlog(_) => {}
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
    let coming = peers.iter().filter_map(coming).fold(0, Count::saturating_add);
    // workers that have registered since are in the total already; all targets of a cluster list the same workers
    let listed = peers.iter().filter_map(open_slots).max().unwrap_or(0);
    let arrived = if coming > 0 { slots.total.saturating_sub(listed) } else { 0 };
    slots.coming = Some(coming.saturating_sub(arrived)).filter(|coming| *coming > 0);
}

/// Slots of the workers that a target is advised to have and has not yet. Of a target with pools only their workers are its
/// own.
fn coming(peer: &Peer<'_>) -> Option<Count> {
    let policy = &peer.request.policy.druid;
    let is_own = |worker: &&Worker| {
        let category = worker.category.as_deref().unwrap_or(DEFAULT_CATEGORY);
        policy.pools.as_ref().is_none_or(|pools| pools.iter().any(|(name, _)| name == category))
    };
    let own: Vec<&Worker> = listed(peer)?.iter().filter(is_own).collect();
    let more = peer.advice.recommended?.saturating_sub(own.len() as Count);
    let each = own.iter().map(|worker| worker.capacity).min().or(policy.slots_per_worker)?;
    Some(more.saturating_mul(each))
}

/// Slots of the workers that take tasks, in the newest reading of a target.
fn open_slots(peer: &Peer<'_>) -> Option<Count> {
    Some(listed(peer)?.iter().filter(|worker| worker.enabled).fold(0, |sum: Count, worker| sum.saturating_add(worker.capacity)))
}

fn listed<'a>(peer: &Peer<'a>) -> Option<&'a [Worker]> {
    let Readings::DruidWorkers(series) = &peer.request.readings else { return None };
    series.latest.as_ref()?.workers.as_deref()
}
