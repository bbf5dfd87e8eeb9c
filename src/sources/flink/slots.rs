//! Free slots are promised once.
//!
//! A job of a session cluster can have its own slots and the free ones. Two jobs that are raised at once would both be
//! promised the same free slots. So decisions on the jobs of one cluster are made one after the other, each notes how many
//! slots beyond its own its advice takes, and those are not offered to the others until a later advice of that job no
//! longer takes them. First come, first served: dividing the free slots among all jobs would leave none of fifty jobs
//! enough for one step. What others were promised is told in the reading (`slotsPromisedToOthers`).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::assemble;
use crate::core::advice::Advice;
use crate::core::kinds::FlinkJobSnapshot;
use crate::core::units::Count;
use crate::engine::source::{Snapshot, Turn};

/// What the latest advice of each target takes beyond the slots that its job has.
#[derive(Debug, Default)]
pub struct Promises(Mutex<BTreeMap<u64, Promise>>);

/// A promise to one job.
#[derive(Debug)]
struct Promise {
    job: String,
    slots: Count,
}

impl Promises {
    /// The target is gone, and what it was promised is free again.
    pub fn withdraw(&self, target: u64) {
        self.lock().remove(&target);
    }

    /// Begins the decision on a target: others wait until it is made.
    pub fn turn(&self, target: u64) -> SlotsTurn<'_> {
        SlotsTurn { promises: self.lock(), target, job: None }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Promise>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The decision on one target.
pub struct SlotsTurn<'a> {
    promises: MutexGuard<'a, BTreeMap<u64, Promise>>,
    target: u64,
    job: Option<Own>,
}

/// What the reading says of the job's own slots.
struct Own {
    id: String,
    in_use: Count,
    /// The slot sharing group of each vertex.
    groups: HashMap<String, String>,
}

impl Turn for SlotsTurn<'_> {
    fn offer(&mut self, snapshot: &mut Snapshot) {
        let Snapshot::FlinkJob(job) = snapshot else { return };
        let Some(id) = job.job_id.clone() else { return };
        let in_use = own_slots(job);
        // two targets may watch one job: it is promised the larger of both
        let mut others: BTreeMap<&str, Count> = BTreeMap::new();
        for promise in self.promises.values().filter(|promise| promise.job != id) {
            let most = others.entry(promise.job.as_str()).or_default();
            *most = promise.slots.max(*most);
        }
        let promised = others.values().fold(0, |sum: Count, slots| sum.saturating_add(*slots));
        if let Some(slots) = job.schedulable_slots.filter(|_| promised > 0) {
            let free = slots.saturating_sub(in_use);
            job.schedulable_slots = Some(slots - free.min(promised));
            job.slots_promised_to_others = Some(free.min(promised)).filter(|taken| *taken > 0);
        }
        let group = |group: &Option<String>| group.clone().unwrap_or_default();
        let ended = job.state.as_deref().is_none_or(assemble::has_ended);
        let groups = job.vertices.iter().filter(|_| !ended).map(|vertex| (vertex.id.clone(), group(&vertex.slot_sharing_group))).collect();
        self.job = Some(Own { id, in_use, groups });
    }

    fn took(&mut self, advice: &Advice) {
        // without a reading nothing was offered, and a hold takes nothing
        let Some(own) = self.job.take() else {
            self.promises.remove(&self.target);
            return;
        };
        let mut wanted: HashMap<&str, Count> = HashMap::new();
        for part in &advice.parts {
            let Some(group) = own.groups.get(&part.id) else { continue };
            let most = wanted.entry(group.as_str()).or_default();
            *most = part.recommended.unwrap_or(0).max(*most);
        }
        let slots = wanted.values().fold(0, |sum: Count, slots| sum.saturating_add(*slots)).saturating_sub(own.in_use);
        if slots > 0 {
            self.promises.insert(self.target, Promise { job: own.id, slots });
        } else {
            self.promises.remove(&self.target);
        }
    }
}

/// Slots of the job's present tasks, as far as they run.
fn own_slots(job: &FlinkJobSnapshot) -> Count {
    if job.state.as_deref() != Some("RUNNING") {
        return 0;
    }
    let mut groups: BTreeMap<Option<&str>, Count> = BTreeMap::new();
    for vertex in job.vertices.iter().filter(|vertex| vertex.finished != Some(true)) {
        let most = groups.entry(vertex.slot_sharing_group.as_deref()).or_default();
        *most = vertex.parallelism.max(*most);
    }
    groups.values().fold(0, |sum: Count, slots| sum.saturating_add(*slots))
}
