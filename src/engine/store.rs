//! The advice store: what the engine has decided last, and the only thing that surfaces read.
//!
//! Each target has one cell that is swapped whole, so a reader never waits and never sees half a decision. Reading is
//! always relative to a moment: after `valid_until` an advice has no number any more, whatever it was before.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use serde::Serialize;
use tokio::sync::broadcast;
use utoipa::ToSchema;

use super::acting::Acting;
use crate::core::advice::{Advice, Outcome};
use crate::core::request::{Kind, Request};
use crate::core::units::{Count, Timestamp};

/// The most past decisions that are kept for a target.
pub const MOST_PAST: usize = 720;

/// All targets, by name.
pub struct Store {
    targets: ArcSwap<BTreeMap<String, Arc<Target>>>,
    entries: ArcSwap<BTreeMap<String, EntryState>>,
    events: broadcast::Sender<Event>,
}

/// One target: what it is, and what was decided last.
pub struct Target {
    /// The name in the configuration; for one of many, entry + `.` + slug.
    pub name: String,
    /// The name for people: the job's or the group's own.
    pub display_name: String,
    /// The scale target's namespace; empty when none is configured.
    pub namespace: String,
    /// The kind of workload.
    pub kind: Kind,
    /// The cluster that it belongs to, where it is named.
    pub cluster: Option<String>,
    /// The configuration in force as JSON, without secrets.
    pub configuration: serde_json::Value,
    state: ArcSwap<State>,
    acting: Mutex<Acting>,
    /// Unix milliseconds of the last read by each consumer interface; 0 is never.
    reads: [AtomicI64; Interface::ALL.len()],
}

/// Who reads advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// KEDA's metrics-api trigger, or anyone who reads the advice of a target over HTTP.
    MetricsApi,
    /// Prometheus.
    Prometheus,
    /// KEDA's external scaler.
    Grpc,
    /// The external metrics API.
    ExternalMetrics,
}

impl Interface {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::MetricsApi, Self::Prometheus, Self::Grpc, Self::ExternalMetrics];

    /// The label's value.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MetricsApi => "metrics_api",
            Self::Prometheus => "prometheus",
            Self::Grpc => "grpc",
            Self::ExternalMetrics => "external_metrics",
        }
    }
}

/// What is known of a target now.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The newest decision.
    pub advice: Option<Arc<Advice>>,
    /// The question behind it.
    pub request: Option<Arc<Request>>,
    /// Past decisions, oldest first; at most [`MOST_PAST`].
    pub past: Arc<VecDeque<Past>>,
    /// How the source fares.
    pub source: SourceState,
}

/// How a source fares.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceState {
    /// Up, down, or not asked yet.
    pub health: SourceHealth,
    /// When the last good reading was measured, on our clock.
    pub observed_at: Option<Timestamp>,
    /// Why the last try failed, where it did.
    pub last_error: Option<String>,
    /// Failures in a row.
    pub consecutive_failures: u32,
    /// When it is asked next.
    pub next_reading_at: Option<Timestamp>,
    /// HTTP calls that the last reading took.
    pub calls_per_reading: u32,
    /// HTTP calls that the last reading shares with other targets.
    pub shared_calls_per_reading: u32,
}

/// How the search of an entry fares that stands for many targets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EntryState {
    /// Up, down, or not searched yet.
    pub health: SourceHealth,
    /// Why the last search failed, where it did.
    pub last_error: Option<String>,
    /// Failures in a row.
    pub consecutive_failures: u32,
    /// How many the last search found.
    pub found: usize,
    /// Its targets, those that are kept for a while included.
    pub targets: usize,
    /// How many have no target, as there are too many.
    pub left_out: usize,
    /// The names of the first of them.
    pub left_out_names: Vec<String>,
    /// When the last search succeeded.
    pub found_at: Option<Timestamp>,
    /// When it searches next.
    pub next_search_at: Option<Timestamp>,
}

/// The health of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum SourceHealth {
    /// Not asked yet.
    #[default]
    Starting,
    /// The last try gave a reading.
    Up,
    /// The last try failed.
    Down,
}

/// A past decision, for charts.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Past {
    /// When it was made.
    pub at: Timestamp,
    /// What came out.
    pub outcome: Outcome,
    /// The wanted count then.
    pub current: Option<Count>,
    /// The wish.
    pub wanted: Option<Count>,
    /// The recommendation.
    pub recommended: Option<Count>,
    /// Codes of the reasons.
    pub reasons: Vec<&'static str>,
    /// Codes of the limits.
    pub limits: Vec<&'static str>,
    /// The main inputs by name.
    pub inputs: BTreeMap<&'static str, f64>,
}

/// A line for those who follow along.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// The target.
    pub name: String,
    /// What came out.
    pub outcome: Outcome,
    /// The recommendation.
    pub recommended: Option<Count>,
}

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

impl Store {
    /// A store without targets.
    #[must_use]
    pub fn new() -> Self {
        let (events, _) = broadcast::channel(256);
        Self { targets: ArcSwap::default(), entries: ArcSwap::default(), events }
    }

    /// All targets now, by name. The map is never changed in place.
    #[must_use]
    pub fn targets(&self) -> Arc<BTreeMap<String, Arc<Target>>> {
        self.targets.load_full()
    }

    /// One target.
    #[must_use]
    pub fn target(&self, name: &str) -> Option<Arc<Target>> {
        self.targets.load().get(name).cloned()
    }

    /// Adds a target, or replaces the one of that name (its state is then the new one's).
    pub fn insert(&self, target: Arc<Target>) {
        self.targets.rcu(|targets| {
            let mut targets = BTreeMap::clone(targets);
            targets.insert(target.name.clone(), Arc::clone(&target));
            targets
        });
    }

    /// Removes a target; its series go with it.
    pub fn remove(&self, name: &str) {
        self.targets.rcu(|targets| {
            let mut targets = BTreeMap::clone(targets);
            targets.remove(name);
            targets
        });
    }

    /// The entries that stand for many targets, by name.
    #[must_use]
    pub fn entries(&self) -> Arc<BTreeMap<String, EntryState>> {
        self.entries.load_full()
    }

    /// Sets what is known of an entry.
    pub fn set_entry(&self, name: &str, state: EntryState) {
        self.entries.rcu(|entries| {
            let mut entries = BTreeMap::clone(entries);
            entries.insert(name.to_owned(), state.clone());
            entries
        });
    }

    /// Forgets an entry.
    pub fn remove_entry(&self, name: &str) {
        self.entries.rcu(|entries| {
            let mut entries = BTreeMap::clone(entries);
            entries.remove(name);
            entries
        });
    }

    /// Follows new decisions. Slow followers lose the oldest lines and are told how many.
    #[must_use]
    pub fn follow(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// Publishes a decision of a target together with the state of its source.
    pub fn publish(&self, target: &Target, request: Arc<Request>, advice: Arc<Advice>, source: SourceState) {
        let event = Event { name: target.name.clone(), outcome: advice.outcome, recommended: advice.recommended };
        target.state.rcu(|state| {
            let mut past = VecDeque::clone(&state.past);
            past.push_back(Past::of(&advice));
            while past.len() > MOST_PAST {
                past.pop_front();
            }
            State { advice: Some(Arc::clone(&advice)), request: Some(Arc::clone(&request)), past: Arc::new(past), source: source.clone() }
        });
        // no follower is no fault
        let _ = self.events.send(event);
    }
}

impl Target {
    /// A target of which nothing is known yet.
    #[must_use]
    pub fn new(name: String, display_name: String, namespace: String, kind: Kind, configuration: serde_json::Value) -> Self {
        Self {
            name,
            display_name,
            namespace,
            kind,
            cluster: None,
            configuration,
            state: ArcSwap::default(),
            acting: Mutex::default(),
            reads: Default::default(),
        }
    }

    /// The same, as a part of a cluster.
    #[must_use]
    pub fn in_cluster(self, cluster: Option<String>) -> Self {
        Self { cluster, ..self }
    }

    /// What is known of it, as it was stored.
    #[must_use]
    pub fn state(&self) -> Arc<State> {
        self.state.load_full()
    }

    /// Keeps the state of a target that this one takes the place of, what is under way for it, and who reads it.
    pub fn adopt(&self, before: &Self) {
        self.state.store(before.state());
        let kept = before.acting(Acting::clone);
        self.act(|acting| *acting = kept);
        for (cell, read) in self.reads.iter().zip(&before.reads) {
            cell.store(read.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Looks at what is done for it.
    pub fn acting<T>(&self, look: impl FnOnce(&Acting) -> T) -> T {
        look(&self.acting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes what is done for it.
    pub fn act<T>(&self, note: impl FnOnce(&mut Acting) -> T) -> T {
        note(&mut self.acting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes that a consumer has read the advice.
    pub fn note_read(&self, interface: Interface, now: Timestamp) {
        if let Some(cell) = self.reads.get(interface as usize) {
            cell.store(now.as_millisecond(), Ordering::Relaxed);
        }
    }

    /// When a consumer last read the advice, in Unix seconds.
    #[must_use]
    pub fn last_read(&self, interface: Interface) -> Option<f64> {
        let millis = self.reads.get(interface as usize)?.load(Ordering::Relaxed);
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of this era fit a double")]
        (millis > 0).then_some(millis as f64 / 1000.0)
    }

    /// The newest advice as it may be told at `now`: after `valid_until` without a number.
    #[must_use]
    pub fn advice_at(&self, now: Timestamp) -> Option<Arc<Advice>> {
        let advice = self.state.load().advice.clone()?;
        if is_valid(&advice, now) {
            return Some(advice);
        }
        let mut expired = Advice::clone(&advice);
        expired.recommended = None;
        expired.active = None;
        expired.outcome = Outcome::Hold;
        Some(Arc::new(expired))
    }

    /// The number of the newest advice, while it is valid.
    #[must_use]
    pub fn recommended_at(&self, now: Timestamp) -> Option<Count> {
        let state = self.state.load();
        let advice = state.advice.as_ref()?;
        if is_valid(advice, now) { advice.recommended } else { None }
    }
}

/// True until `valid_until`; an advice that never rested on a reading is never valid.
#[must_use]
pub fn is_valid(advice: &Advice, now: Timestamp) -> bool {
    advice.valid_until.is_some_and(|until| now <= until)
}

impl Past {
    fn of(advice: &Advice) -> Self {
        Self {
            at: advice.evaluated_at,
            outcome: advice.outcome,
            current: advice.current,
            wanted: advice.wanted,
            recommended: advice.recommended,
            reasons: advice.reasons.iter().map(|reason| reason.code().name()).collect(),
            limits: advice.limits.iter().map(|limit| limit.code.name()).collect(),
            inputs: advice.inputs.iter().filter_map(|input| input.value.map(|value| (input.name, value))).collect(),
        }
    }
}
