//! When to ask, and what to keep: looks after targets, runs the decision, stores the advice.
//!
//! [`Engine::apply`] brings the running targets in line with a configuration: what is unchanged runs on, what has
//! changed starts anew and keeps its memory where kind and source are the same, what is gone disappears from the store
//! together with its series. An entry that stands for many targets ([`EntrySpec`]) looks for them by itself.

pub mod acting;
pub mod actuator;
pub mod clock;
mod fleet;
mod follow;
mod history;
mod perform;
mod poller;
mod schedule;
pub mod source;
pub mod store;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::actuator::{Actuator, Alone, Permit};
use self::fleet::{Changes, Fleet};
use self::perform::Performer;
use self::poller::Job;
use self::source::{Found, ReplicaSource, Source};
use self::store::{EntryState, Store, Target};
use crate::core::policy::{Policy, PolicyInput};
use crate::core::request::Kind;
use crate::core::units::Timestamp;

pub use self::fleet::{GRACE_SECONDS, MOST_MEMBERS};
pub use self::follow::EntrySpec;
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

/// The targets that an entry of this name would have, and the names of what would have none.
#[must_use]
pub fn targets_of(entry: &str, found: &[Found]) -> (Vec<(String, Found)>, Vec<String>) {
    let changes = Fleet::default().update(entry, found, Timestamp::UNIX_EPOCH, |_| false);
    (changes.begin, changes.left_out)
}

/// Everything that is to be looked after.
#[derive(Clone, Default)]
pub struct Plan {
    /// Targets that are named one by one.
    pub targets: Vec<TargetSpec>,
    /// Entries that stand for many.
    pub entries: Vec<EntrySpec>,
}

impl Plan {
    /// All targets that are named, and what the targets of the entries are made after.
    pub fn specs(&self) -> impl Iterator<Item = &TargetSpec> {
        self.targets.iter().chain(self.entries.iter().map(|entry| &entry.prototype))
    }
}

impl From<Vec<TargetSpec>> for Plan {
    fn from(targets: Vec<TargetSpec>) -> Self {
        Self { targets, entries: Vec::new() }
    }
}

struct Running {
    target: Arc<Target>,
    source_key: String,
    /// The entry that it belongs to.
    entry: Option<String>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// An entry that is being followed.
struct Following {
    configuration: Value,
    source_key: String,
    fleet: Fleet,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Table {
    targets: BTreeMap<String, Running>,
    entries: BTreeMap<String, Following>,
}

/// Looks after all targets.
pub struct Engine {
    inner: Arc<Inner>,
}

/// What the tasks of the entries share with the engine.
struct Inner {
    store: Arc<Store>,
    clock: Clock,
    permit: Arc<dyn Permit>,
    /// From when on the places in an interval are counted.
    epoch: Instant,
    table: Mutex<Table>,
}

impl Engine {
    /// An engine without targets, of an instance that is alone.
    #[must_use]
    pub fn new(store: Arc<Store>, clock: Clock) -> Self {
        Self { inner: Arc::new(Inner { store, clock, permit: Arc::new(Alone::new("loadline".to_owned())), epoch: Instant::now(), table: Mutex::default() }) }
    }

    /// The same, still without targets, acting only while it has a permit.
    #[must_use]
    pub fn with_permit(self, permit: Arc<dyn Permit>) -> Self {
        let Inner { store, clock, epoch, .. } = &*self.inner;
        Self { inner: Arc::new(Inner { store: Arc::clone(store), clock: Arc::clone(clock), permit, epoch: *epoch, table: Mutex::default() }) }
    }

    /// Brings the running targets in line. Must be called inside a tokio runtime.
    pub fn apply(&self, plan: impl Into<Plan>) {
        let Plan { targets, entries } = plan.into();
        let wanted: BTreeMap<String, TargetSpec> = targets.into_iter().map(|spec| (spec.name.clone(), spec)).collect();
        let entries: BTreeMap<String, EntrySpec> = entries.into_iter().map(|entry| (entry.prototype.name.clone(), entry)).collect();
        let mut table = self.inner.lock();
        let table = &mut *table;
        table.entries.retain(|name, following| {
            let stays = entries.contains_key(name);
            if !stays {
                following.stop.cancel();
                self.inner.store.remove_entry(name);
            }
            // a target that is named by itself has its name before one of many
            following.fleet.retain(|member, _| !wanted.contains_key(member));
            stays
        });
        for (name, entry) in entries {
            self.inner.follow(table, name, entry);
        }
        let stays = |name: &str, running: &Running| match &running.entry {
            None => wanted.contains_key(name),
            Some(entry) => wanted.contains_key(name) || table.entries.get(entry).is_some_and(|following| following.fleet.members().contains_key(name)),
        };
        table.targets.retain(|name, running| {
            let stays = stays(name, running);
            if !stays {
                running.stop.cancel();
                self.inner.store.remove(name);
            }
            stays
        });
        for (name, spec) in wanted {
            let before = table.targets.get(&name);
            if before.is_some_and(|before| before.entry.is_none() && before.target.configuration == spec.configuration) {
                continue;
            }
            self.inner.start(&mut table.targets, spec, None);
        }
    }

    /// Stops all targets. Readings under way are given up; what has been decided stays in the store.
    pub async fn stop(&self) {
        let Table { targets, entries } = std::mem::take(&mut *self.inner.lock());
        for stop in entries.values().map(|following| &following.stop).chain(targets.values().map(|running| &running.stop)) {
            stop.cancel();
        }
        let tasks = entries.into_values().map(|following| following.task).chain(targets.into_values().map(|running| running.task));
        for task in tasks.collect::<Vec<_>>() {
            // a task that panicked has nothing more to say
            let _ = task.await;
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a target, or starts it anew with what it knew before.
    fn start(&self, targets: &mut BTreeMap<String, Running>, spec: TargetSpec, entry: Option<&str>) {
        let target = Arc::new(Target::new(spec.name.clone(), spec.display_name, spec.namespace, spec.kind, spec.configuration).in_cluster(spec.cluster));
        if let Some(before) = targets.get(&spec.name) {
            before.stop.cancel();
            if before.target.kind == target.kind && before.source_key == spec.source_key {
                target.adopt(&before.target);
            }
        }
        target.act(|acting| acting.performs = spec.actuator.is_some());
        self.store.insert(Arc::clone(&target));
        let stop = CancellationToken::new();
        let performer = spec.actuator.map(|actuator| Performer {
            actuator,
            permit: Arc::clone(&self.permit),
            target: Arc::clone(&target),
            clock: Arc::clone(&self.clock),
            interval: spec.interval,
            stop: stop.clone(),
            paused: spec.policy.paused,
            checked_at: None,
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
        let run = poller::run(Arc::clone(&target), job, Arc::clone(&self.store), Arc::clone(&self.clock), self.epoch, stop.clone());
        let running = Running { target, source_key: spec.source_key, entry: entry.map(str::to_owned), stop, task: tokio::spawn(run) };
        targets.insert(spec.name, running);
    }

    /// Follows an entry. One that is unchanged is followed on; of one that has changed, the targets that it still stands
    /// for start anew with what they knew.
    fn follow(self: &Arc<Self>, table: &mut Table, name: String, entry: EntrySpec) {
        let EntrySpec { prototype, discovery } = &entry;
        let mut fleet = Fleet::default();
        if let Some(before) = table.entries.get_mut(&name) {
            if before.configuration == prototype.configuration {
                return;
            }
            before.stop.cancel();
            if before.source_key == prototype.source_key {
                fleet = std::mem::take(&mut before.fleet);
                fleet.retain(|_, member| discovery.stands_for(&member.found.name));
            }
        }
        for (target, member) in fleet.members() {
            self.start(&mut table.targets, entry.target(target, &member.found), Some(&name));
        }
        let stop = CancellationToken::new();
        let (configuration, source_key) = (prototype.configuration.clone(), prototype.source_key.clone());
        let task = tokio::spawn(follow::run(entry, Arc::clone(self), stop.clone()));
        self.store.set_entry(&name, EntryState { targets: fleet.members().len(), ..EntryState::default() });
        table.entries.insert(name, Following { configuration, source_key, fleet, stop, task });
    }

    /// Brings the targets of an entry in line with what was found. `None` once the entry is no longer followed.
    fn take_in(&self, entry: &EntrySpec, found: &[Found], stop: &CancellationToken) -> Option<(Changes, usize)> {
        let mut table = self.lock();
        if stop.is_cancelled() {
            return None;
        }
        let Table { targets, entries } = &mut *table;
        let name = entry.prototype.name.as_str();
        let fleet = &mut entries.get_mut(name)?.fleet;
        let changes = fleet.update(name, found, (self.clock)(), |taken| targets.contains_key(taken));
        let members = fleet.members().len();
        for target in &changes.end {
            if let Some(running) = targets.remove(target) {
                running.stop.cancel();
            }
            self.store.remove(target);
        }
        for (target, found) in &changes.begin {
            self.start(targets, entry.target(target, found), Some(name));
        }
        Some((changes, members))
    }

    /// Publishes how the search of an entry fares, while it is followed.
    fn tell(&self, name: &str, state: EntryState, stop: &CancellationToken) {
        let _table = self.lock();
        if !stop.is_cancelled() {
            self.store.set_entry(name, state);
        }
    }
}
