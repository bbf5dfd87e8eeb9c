//! One active instance: a Lease of Kubernetes (`coordination.k8s.io/v1`) that at most one instance holds
//! (<https://kubernetes.io/docs/concepts/architecture/leases/>).
//!
//! The holder renews the lease again and again; whoever finds that it has not changed for its duration takes it. Every
//! write names the `resourceVersion` that was read, so that of two writers one is refused (409). The times in the lease are
//! for people: whether it is renewed is judged by when it was *seen* to change, on the own monotonic clock, so that
//! clocks that differ do no harm.
//!
//! ```text
//! held until = start of the last renewal that succeeded + 2/3 duration
//! taken when   the lease has not been seen to change for its duration
//! ```
//!
//! The others see a renewal after its start, and wait for the whole duration. So the holder has stopped acting a third
//! of the duration before anyone else can begin, whatever the API server does, and also when it does not answer.
//! At the end the lease is given back: the next one need not wait.
//!
//! Without a performing target nothing is asked for and nothing is written.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::core::units::Timestamp;
use crate::engine::actuator::Permit;
use crate::engine::clock;
use crate::engine::source::{FailureKind, SourceError};
use crate::sources::http::{Answer, Client};

/// How a lease is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseOptions {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How long it lasts without being renewed; whole seconds.
    pub duration: Duration,
}

/// A lease that this instance holds or wants.
pub struct Lease {
    api: Client,
    options: LeaseOptions,
    identity: String,
    wanted: AtomicBool,
    state: Mutex<State>,
}

struct State {
    held_until: Option<Instant>,
    /// Why it is not held.
    why: String,
}

/// What was last seen of the lease, and since when it has been that.
struct Seen {
    version: String,
    since: Instant,
}

/// What a round came to.
enum Round {
    /// It is held, counted from the start of the round.
    Held,
    /// Another instance holds it.
    Other(String),
    /// Somebody else was faster: the next round shows who.
    Raced,
}

impl Lease {
    /// A lease that `api`, an API server of Kubernetes, keeps. Nothing is asked for before [`want`](Self::want).
    #[must_use]
    pub fn new(api: Client, options: LeaseOptions, identity: String) -> Self {
        let why = "not the active instance: the lease has not been asked for yet".to_owned();
        Self { api, options, identity, wanted: AtomicBool::new(false), state: Mutex::new(State { held_until: None, why }) }
    }

    /// Says whether any target performs, so that the lease is needed.
    pub fn want(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Relaxed);
    }

    /// Acquires and renews until it is stopped, then gives the lease back.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut seen = None;
        let mut failed = false;
        // as often as Kubernetes' own components do: every 2 s for 15 s
        let every = self.options.duration * 2 / 15;
        loop {
            let wanted = self.wanted.load(Ordering::Relaxed);
            if wanted {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = self.round(&mut seen, &mut failed) => {}
                }
            } else if self.holds() {
                self.release().await;
            }
            if stop.run_until_cancelled(tokio::time::sleep(every)).await.is_none() {
                break;
            }
        }
        if self.holds() {
            self.release().await;
        }
    }

    fn holds(&self) -> bool {
        self.state().held_until.is_some()
    }

    async fn round(&self, seen: &mut Option<Seen>, failed: &mut bool) {
        let started = clock::instant();
        let held = self.holds();
        let name = self.label();
        match self.try_hold(seen, held).await {
            Ok(Round::Held) => {
                if !held {
                    info!(lease = name, identity = self.identity, "this is the active instance");
                }
                *failed = false;
                self.state().held_until = started.checked_add(self.options.duration * 2 / 3);
            }
            Ok(Round::Other(holder)) => {
                *failed = false;
                self.lose(format!("not the active instance: {holder} holds the lease {name}"));
            }
            Ok(Round::Raced) => self.lose(format!("not the active instance: another one has just written the lease {name}")),
            Err(error) => {
                if !*failed {
                    warn!(lease = name, %error, "the lease cannot be renewed");
                }
                *failed = true;
                let passed = self.state().held_until.is_none_or(|until| clock::instant() >= until);
                if passed {
                    self.lose(format!("not the active instance: the lease {name} cannot be had: {error}"));
                }
            }
        }
    }

    fn lose(&self, why: String) {
        let mut state = self.state();
        if state.held_until.take().is_some() {
            warn!(lease = self.label(), why, "this is no longer the active instance");
        }
        state.why = why;
    }

    async fn try_hold(&self, seen: &mut Option<Seen>, held: bool) -> Result<Round, SourceError> {
        let session = self.api.session();
        let answer = session.ask(&self.path()).await?;
        if answer.status == 404 {
            *seen = None;
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": { "name": self.options.name, "namespace": self.options.namespace }, "spec": {},
            });
            return self.write(Method::POST, &self.collection(), self.taken(lease, true)?).await;
        }
        let lease: Value = answer.success()?.json()?;
        let version = lease.pointer("/metadata/resourceVersion").and_then(Value::as_str).ok_or_else(|| unexpected("metadata.resourceVersion"))?;
        let since = match seen {
            Some(seen) if seen.version == version => seen.since,
            _ => {
                let since = clock::instant();
                *seen = Some(Seen { version: version.to_owned(), since });
                since
            }
        };
        let holder = lease.pointer("/spec/holderIdentity").and_then(Value::as_str).unwrap_or_default().to_owned();
        if holder == self.identity {
            return self.write(Method::PUT, &self.path(), self.taken(lease, !held)?).await;
        }
        // theirs counts where it is longer: two instances may be configured differently for a while
        let theirs = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_u64).map_or(Duration::ZERO, Duration::from_secs);
        let expired = clock::instant().duration_since(since) >= theirs.max(self.options.duration);
        if !holder.is_empty() && !expired {
            return Ok(Round::Other(holder));
        }
        self.write(Method::PUT, &self.path(), self.taken(lease, true)?).await
    }

    async fn write(&self, method: Method, path: &str, lease: Value) -> Result<Round, SourceError> {
        let answer: Answer = self.api.session().submit(method, path, Some(&lease)).await?;
        if answer.status == 409 {
            return Ok(Round::Raced);
        }
        answer.success()?;
        Ok(Round::Held)
    }

    /// The lease with this instance as its holder; everything else in it stays.
    fn taken(&self, mut lease: Value, anew: bool) -> Result<Value, SourceError> {
        let now = micro_time(clock::now());
        let spec = spec(&mut lease)?;
        if anew {
            let before = spec.get("leaseTransitions").and_then(Value::as_u64);
            let by_other = spec.get("holderIdentity").and_then(Value::as_str) != Some(self.identity.as_str());
            spec.insert("leaseTransitions".to_owned(), json!(before.map_or(0, |before| before.saturating_add(u64::from(by_other)))));
            spec.insert("acquireTime".to_owned(), json!(now));
        }
        spec.insert("holderIdentity".to_owned(), json!(self.identity));
        spec.insert("leaseDurationSeconds".to_owned(), json!(self.options.duration.as_secs().max(1)));
        spec.insert("renewTime".to_owned(), json!(now));
        Ok(lease)
    }

    /// Gives the lease back. From here on this instance does not act, whether that succeeds or not.
    async fn release(&self) {
        {
            let mut state = self.state();
            state.held_until = None;
            "not the active instance: it has given the lease back".clone_into(&mut state.why);
        }
        match self.give_back().await {
            Ok(()) => info!(lease = self.label(), "the lease is given back"),
            Err(error) => warn!(lease = self.label(), %error, "the lease cannot be given back: it runs out by itself"),
        }
    }

    async fn give_back(&self) -> Result<(), SourceError> {
        let mut lease: Value = self.api.session().get_json(&self.path()).await?;
        if lease.pointer("/spec/holderIdentity").and_then(Value::as_str) != Some(self.identity.as_str()) {
            return Ok(());
        }
        let now = micro_time(clock::now());
        let spec = spec(&mut lease)?;
        spec.insert("holderIdentity".to_owned(), json!(""));
        spec.insert("renewTime".to_owned(), json!(now));
        // refused: somebody has taken it already
        self.write(Method::PUT, &self.path(), lease).await.map(|_| ())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn label(&self) -> String {
        format!("{}/{}", self.options.namespace, self.options.name)
    }

    fn collection(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.options.namespace)
    }

    fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.options.name)
    }
}

impl Permit for Lease {
    fn check(&self) -> Result<Option<Duration>, String> {
        let state = self.state();
        let Some(until) = state.held_until else { return Err(state.why.clone()) };
        let left = until.saturating_duration_since(clock::instant());
        if left.is_zero() {
            return Err(format!("not the active instance: the lease {} could not be renewed in time", self.label()));
        }
        Ok(Some(left))
    }

    fn identity(&self) -> &str {
        &self.identity
    }
}

fn spec(lease: &mut Value) -> Result<&mut Map<String, Value>, SourceError> {
    let object = lease.as_object_mut().ok_or_else(|| unexpected("the lease"))?;
    object.entry("spec").or_insert_with(|| json!({})).as_object_mut().ok_or_else(|| unexpected("spec"))
}

fn unexpected(what: &str) -> SourceError {
    SourceError::new(FailureKind::Unexpected, format!("unexpected value at {what}"))
}

/// A time as Kubernetes' `MicroTime` has it: six digits, no more and no fewer.
fn micro_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
