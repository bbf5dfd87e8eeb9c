//! One target: asks its source, decides, publishes. Each target has a task and a schedule of its own, so a source that
//! hangs delays nobody else.

use std::sync::Arc;
use std::time::Duration;

use metrics::{counter, histogram};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::history::History;
use super::perform::Performer;
use super::source::{FailureKind, ReplicaSource, Snapshot, Source, SourceError};
use super::store::{SourceHealth, SourceState, State, Store, Target, is_valid};
use super::{Clock, schedule};
use crate::core::advice::{Advice, Outcome};
use crate::core::cluster::{self, Peer};
use crate::core::memory::Memory;
use crate::core::policy::{Policy, PolicyInput};
use crate::core::request::{Observed, Readings, Replicas, Request};
use crate::core::trust;
use crate::core::units::{Timestamp, seconds_between, shifted};

/// A reading takes several calls; each has the configured time, the whole this many times as much.
pub const CALLS_TIME: u32 = 4;

/// What a task needs to look after a target.
pub struct Job {
    /// The policy as given.
    pub given: PolicyInput,
    /// The policy in force.
    pub policy: Policy,
    /// Time between decisions.
    pub interval: Duration,
    /// Time of one call.
    pub timeout: Duration,
    /// Where readings come from.
    pub source: Arc<dyn Source>,
    /// Where counts come from.
    pub replicas: Option<Arc<dyn ReplicaSource>>,
    /// What carries the advice out, where the policy asks for that.
    pub performer: Option<Performer>,
}

/// Looks after a target until it is stopped. Those that share something are read at the same place of the interval,
/// counted from `epoch`; others begin spread over it.
pub async fn run(target: Arc<Target>, job: Job, store: Arc<Store>, clock: Clock, epoch: Instant, stop: CancellationToken) {
    let mut poller = Poller::new(target, job, store, clock);
    let (now, interval) = (Instant::now(), poller.job.interval);
    let first = match poller.job.source.phase() {
        Some(shared) => schedule::first(epoch, shared, interval, now),
        None => now + schedule::offset(&poller.target.name, interval),
    };
    let mut ticks = interval_at(first, interval);
    // a reading that took longer than the interval is followed by the next one on time, not by a burst
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let (advice, read) = tokio::select! {
            () = stop.cancelled() => return,
            round = poller.step() => round,
        };
        // not given up half-way: what was sent is waited for and told, within the time that a stop may take
        if let (Some(advice), Some(performer)) = (advice, &mut poller.job.performer) {
            performer.step(&advice, read.as_ref()).await;
        }
    }
}

struct Poller {
    target: Arc<Target>,
    job: Job,
    store: Arc<Store>,
    clock: Clock,
    history: History,
    memory: Memory,
    state: SourceState,
    /// When the source may be asked again.
    next_try: Option<Timestamp>,
    failure: Option<SourceError>,
    replicas: Replicas,
}

impl Poller {
    fn new(target: Arc<Target>, job: Job, store: Arc<Store>, clock: Clock) -> Self {
        let now = clock();
        let kept = target.state();
        // after a reload the memory of the same target goes on; a new target's windows start now
        let memory = kept.advice.as_ref().map_or_else(|| Memory::new(target.kind, now), |advice| advice.memory.clone());
        let mut history = History::new(target.kind, &job.policy);
        if let Some(request) = &kept.request {
            history.adopt(&request.readings, now);
        }
        Self { state: kept.source.clone(), replicas: Replicas::default(), next_try: None, failure: None, target, job, store, clock, history, memory }
    }

    /// One round: ask, if it is time to; decide; publish. Counts are read each time, whatever the source does. Gives the
    /// decision and the reading, where there was one.
    async fn step(&mut self) -> (Option<Arc<Advice>>, Option<Snapshot>) {
        let now = (self.clock)();
        let due = self.next_try.is_none_or(|at| now >= at);
        let whole = self.job.timeout * CALLS_TIME;
        let counts = async {
            match &self.job.replicas {
                Some(source) => Some(timeout(whole, source.read()).await.unwrap_or_else(|_| Err(too_slow(whole)))),
                None => None,
            }
        };
        let started = super::clock::instant();
        let reading = async {
            if !due {
                return None;
            }
            let reading = timeout(whole, self.job.source.read()).await.unwrap_or_else(|_| Err(too_slow(whole)));
            let result = reading.as_ref().map_or_else(|error| error.kind.name(), |_| "ok");
            histogram!("loadline_source_request_duration_seconds", "result" => result).record(started.elapsed().as_secs_f64());
            counter!("loadline_source_requests_total", "result" => result).increment(1);
            Some(reading)
        };
        let (reading, counts) = tokio::join!(reading, counts);
        let snapshot = match reading {
            None => None,
            Some(Ok(mut reading)) => {
                self.succeeded(reading.calls);
                if let Some(performer) = &self.job.performer {
                    performer.tell(&mut reading.snapshot);
                }
                Some(reading.snapshot)
            }
            Some(Err(error)) => {
                self.failed(error);
                None
            }
        };
        match counts {
            Some(Ok(replicas)) => self.replicas = replicas,
            // counts of the past are not the counts of now
            Some(Err(error)) => {
                self.replicas = Replicas::default();
                if self.failure.is_none() {
                    self.state.last_error = Some(format!("the counts of the scale target are unknown: {error}"));
                }
            }
            None => {}
        }
        let read = snapshot.clone().filter(|_| self.job.performer.is_some());
        (self.decide(snapshot), read)
    }

    fn succeeded(&mut self, calls: u32) {
        if self.state.consecutive_failures > 0 {
            info!(target = %self.target.name, failures = self.state.consecutive_failures, "the source answers again");
        }
        self.state.health = SourceHealth::Up;
        self.state.consecutive_failures = 0;
        self.state.last_error = None;
        self.state.calls_per_reading = calls;
        self.state.shared_calls_per_reading = self.job.source.shared_calls();
        self.failure = None;
        self.next_try = None;
    }

    fn failed(&mut self, error: SourceError) {
        if self.state.consecutive_failures == 0 {
            warn!(target = %self.target.name, %error, "the source gave no reading");
        }
        self.state.health = SourceHealth::Down;
        self.state.consecutive_failures = self.state.consecutive_failures.saturating_add(1);
        self.state.last_error = Some(error.to_string());
        let wait = schedule::distance(self.state.consecutive_failures, self.job.interval, error.retry_after);
        self.next_try = Some(shifted((self.clock)(), wait.as_secs_f64()));
        self.failure = Some(error);
    }

    fn decide(&mut self, mut snapshot: Option<Snapshot>) -> Option<Arc<Advice>> {
        let now = (self.clock)();
        let source = Arc::clone(&self.job.source);
        let mut turn = source.turn();
        if let (Some(turn), Some(snapshot)) = (&mut turn, &mut snapshot) {
            turn.offer(snapshot);
        }
        let mut readings = self.history.with(snapshot);
        self.relate(&mut readings, now);
        if let Some(at) = measured(&readings, now) {
            self.state.observed_at = Some(at);
        }
        let request = Arc::new(Request {
            name: Some(self.target.name.clone()),
            now,
            replicas: self.replicas.clone(),
            failure: self.failure.as_ref().map(|error| error.failure(self.state.consecutive_failures)),
            readings,
            given: self.job.given.clone(),
            policy: self.job.policy.clone(),
            memory: Some(self.memory.clone()),
            memory_ignored: None,
        });
        let started = super::clock::instant();
        // a fault in the arithmetic must not end the watch over a target: its last number expires by itself, and is missed
        let decided = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| crate::core::advise(&request)));
        let Ok(advice) = decided.map(Arc::new) else {
            error!(target = %self.target.name, "the decision panicked: this is a fault of Loadline, and the request behind it is lost");
            return None;
        };
        if let Some(turn) = &mut turn {
            turn.took(&advice);
        }
        drop(turn);
        histogram!("loadline_evaluation_duration_seconds").record(started.elapsed().as_secs_f64());
        counter!("loadline_evaluations_total", "outcome" => advice.outcome.name()).increment(1);
        self.history.keep(&request.readings, now);
        self.memory = advice.memory.clone();
        let step = self.job.interval.as_secs_f64();
        self.state.next_reading_at =
            Some(self.next_try.map_or_else(|| shifted(now, step), |at| if seconds_between(now, at) > 0.0 { at } else { shifted(now, step) }));
        self.log(&advice);
        self.store.publish(&self.target, request, Arc::clone(&advice), self.state.clone());
        Some(advice)
    }

    /// Adds what the other targets of the cluster know, as far as their advice is still valid.
    fn relate(&self, readings: &mut Readings, now: Timestamp) {
        let Some(cluster) = &self.target.cluster else { return };
        let states: Vec<_> = self
            .store
            .targets()
            .values()
            .filter(|other| other.cluster.as_ref() == Some(cluster) && other.name != self.target.name)
            .map(|other| other.state())
            .collect();
        let valid = |state: &&Arc<State>| state.advice.as_ref().is_some_and(|advice| is_valid(advice, now));
        let peers: Vec<Peer<'_>> =
            states.iter().filter(valid).filter_map(|state| Some(Peer { request: state.request.as_deref()?, advice: state.advice.as_deref()? })).collect();
        cluster::relate(readings, &peers);
    }

    /// A decision that differs from the last is news; the same again is not.
    fn log(&self, advice: &Advice) {
        let before = self.target.state();
        let same = before
            .advice
            .as_ref()
            .is_some_and(|before| before.outcome == advice.outcome && before.recommended == advice.recommended && before.current == advice.current);
        let reason = advice.reasons.first().map(ToString::to_string).unwrap_or_default();
        if same || (before.advice.is_none() && advice.outcome != Outcome::Change) {
            debug!(target = %self.target.name, outcome = advice.outcome.name(), recommended = ?advice.recommended, reason);
        } else {
            info!(target = %self.target.name, outcome = advice.outcome.name(), current = ?advice.current, wanted = ?advice.wanted, recommended = ?advice.recommended, reason, "advice");
        }
    }
}

fn too_slow(limit: Duration) -> SourceError {
    SourceError::new(FailureKind::Timeout, format!("no complete reading within {} s", limit.as_secs_f64()))
}

/// When the newest reading was measured.
fn measured(readings: &Readings, now: Timestamp) -> Option<Timestamp> {
    fn at(reading: Option<&Arc<impl Observed>>, now: Timestamp) -> Option<Timestamp> {
        reading.map(|reading| trust::measured_at(reading.as_ref(), now))
    }
    match readings {
        Readings::DruidWorkers(series) => at(series.latest.as_ref(), now),
        Readings::DruidSupervisor(series) => at(series.latest.as_ref(), now),
        Readings::FlinkJob(series) => at(series.latest.as_ref(), now),
        Readings::KafkaGroup(series) => at(series.latest.as_ref(), now),
        Readings::PubsubSubscription(series) => at(series.latest.as_ref(), now),
        Readings::Backlog(series) => at(series.latest.as_ref(), now),
    }
}
