//! When to ask, and what to keep: looks after targets, runs the decision, stores the advice.
//!
//! [`Engine::apply`] brings the running targets in line with a configuration: what is unchanged runs on, what has
//! changed starts anew and keeps its memory where kind and source are the same, what is gone disappears from the store
//! together with its series.

pub mod acting;
pub mod actuator;
pub mod clock;
mod history;
mod perform;
mod poller;
mod schedule;
pub mod source;
pub mod store;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::actuator::{Actuator, Alone, Permit};
use self::perform::Performer;
use self::poller::Job;
use self::source::{ReplicaSource, Source};
use self::store::{Store, Target};
use crate::core::policy::{Policy, PolicyInput};
use crate::core::request::Kind;
use crate::core::units::Timestamp;

pub use self::poller::CALLS_TIME;

/// The present moment, as the engine is told it: tests bring their own.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A target to look after.
#[derive(Clone)]
pub struct TargetSpec {
    /// Its name, unique.
    pub name: String,
    /// Its name for people.
    pub display_name: String,
    /// The scale target's namespace; empty when none is configured.
    pub namespace: String,
    /// The kind of workload.
    pub kind: Kind,
    /// The cluster that it belongs to, where it is named: targets of one cluster know of each other.
    pub cluster: Option<String>,
    /// The policy as given.
    pub given: PolicyInput,
    /// The policy in force.
    pub policy: Policy,
    /// Time between decisions.
    pub interval: Duration,
    /// Time of one call.
    pub timeout: Duration,
    /// The configuration in force as JSON, without secrets: what is equal runs on after a reload.
    pub configuration: Value,
    /// What is read: targets of the same kind and source keep their memory over a reload.
    pub source_key: String,
    /// Where readings come from.
    pub source: Arc<dyn Source>,
    /// Where counts come from.
    pub replicas: Option<Arc<dyn ReplicaSource>>,
    /// What carries the advice out, where the policy asks for that.
    pub actuator: Option<Arc<dyn Actuator>>,
}

struct Running {
    target: Arc<Target>,
    source_key: String,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Looks after all targets.
pub struct Engine {
    store: Arc<Store>,
    clock: Clock,
    permit: Arc<dyn Permit>,
    running: Mutex<BTreeMap<String, Running>>,
}

impl Engine {
    /// An engine without targets, of an instance that is alone.
    #[must_use]
    pub fn new(store: Arc<Store>, clock: Clock) -> Self {
        Self { store, clock, permit: Arc::new(Alone::new("loadline".to_owned())), running: Mutex::new(BTreeMap::new()) }
    }

    /// The same, acting only while it has a permit.
    #[must_use]
    pub fn with_permit(self, permit: Arc<dyn Permit>) -> Self {
        Self { permit, ..self }
    }

    /// Brings the running targets in line. Must be called inside a tokio runtime.
    pub fn apply(&self, specs: Vec<TargetSpec>) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted: BTreeMap<String, TargetSpec> = specs.into_iter().map(|spec| (spec.name.clone(), spec)).collect();
        running.retain(|name, running| {
            let stays = wanted.contains_key(name);
            if !stays {
                running.stop.cancel();
                self.store.remove(name);
            }
            stays
        });
        for (name, spec) in wanted {
            let before = running.get(&name);
            if before.is_some_and(|before| before.target.configuration == spec.configuration) {
                continue;
            }
            let target = Arc::new(Target::new(spec.name, spec.display_name, spec.namespace, spec.kind, spec.configuration).in_cluster(spec.cluster));
            if let Some(before) = before {
                before.stop.cancel();
                if before.target.kind == target.kind && before.source_key == spec.source_key {
                    target.adopt(&before.target);
                }
            }
            target.act(|acting| acting.performs = spec.actuator.is_some());
            self.store.insert(Arc::clone(&target));
            let stop = CancellationToken::new();
            let performer = spec.actuator.map(|actuator| {
                let (permit, clock) = (Arc::clone(&self.permit), Arc::clone(&self.clock));
                Performer {
                    actuator,
                    permit,
                    target: Arc::clone(&target),
                    clock,
                    interval: spec.interval,
                    stop: stop.clone(),
                    paused: spec.policy.paused,
                    checked_at: None,
                }
            });
            let job = Job {
                given: spec.given,
                policy: spec.policy,
                interval: spec.interval,
                timeout: spec.timeout,
                source: spec.source,
                replicas: spec.replicas,
                performer,
            };
            let task = tokio::spawn(poller::run(Arc::clone(&target), job, Arc::clone(&self.store), Arc::clone(&self.clock), stop.clone()));
            running.insert(name, Running { target, source_key: spec.source_key, stop, task });
        }
    }

    /// Stops all targets. Readings under way are given up; what has been decided stays in the store.
    pub async fn stop(&self) {
        let running = std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        for running in running.values() {
            running.stop.cancel();
        }
        for running in running.into_values() {
            // a task that panicked has nothing more to say
            let _ = running.task.await;
        }
    }
}
