//! An entry that stands for many: looks for them once an interval, and brings its targets in line.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::fleet::Changes;
use super::poller::CALLS_TIME;
use super::source::{Discovery, FailureKind, Found, SourceError};
use super::store::{EntryState, SourceHealth};
use super::{Inner, TargetSpec, schedule};
use crate::core::units::shifted;

/// Names of what is left out that are told; the others are counted.
const MOST_NAMED: usize = 20;

/// An entry of the configuration that stands for many targets.
#[derive(Clone)]
pub struct EntrySpec {
    /// What holds for each of its targets. Its name is the entry's; its source, display name and configuration are
    /// replaced in each.
    pub prototype: TargetSpec,
    /// Looks for them.
    pub discovery: Arc<dyn Discovery>,
}

impl EntrySpec {
    /// One of its targets.
    pub(super) fn target(&self, name: &str, found: &Found) -> TargetSpec {
        let mut configuration = self.prototype.configuration.clone();
        if let Some(members) = configuration.as_object_mut() {
            members.insert("entry".to_owned(), self.prototype.name.clone().into());
            members.insert("name".to_owned(), name.into());
        }
        TargetSpec { name: name.to_owned(), display_name: found.name.clone(), configuration, source: self.discovery.source(found), ..self.prototype.clone() }
    }
}

/// Looks for the targets of an entry until it is stopped.
pub(super) async fn run(entry: EntrySpec, engine: Arc<Inner>, stop: CancellationToken) {
    let name = entry.prototype.name.clone();
    let (interval, whole) = (entry.prototype.interval, entry.prototype.timeout * CALLS_TIME);
    let mut state = EntryState::default();
    let mut next = tokio::time::Instant::now();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep_until(next) => {}
        }
        let found = tokio::select! {
            () = stop.cancelled() => return,
            found = timeout(whole, entry.discovery.find()) => found.unwrap_or_else(|_| Err(too_slow(whole))),
        };
        let wait = match found {
            Ok(found) => {
                let Some((changes, targets)) = engine.take_in(&entry, &found, &stop) else { return };
                note(&name, &mut state, found.len(), targets, changes);
                Duration::ZERO
            }
            Err(error) => failed(&name, &mut state, &error, interval),
        };
        let now = (engine.clock)();
        next = schedule::aligned(engine.epoch, entry.discovery.phase().unwrap_or(&name), interval, tokio::time::Instant::now() + wait);
        let seconds = next.saturating_duration_since(tokio::time::Instant::now()).as_secs_f64();
        state.next_search_at = Some(shifted(now, seconds));
        if state.health == SourceHealth::Up {
            state.found_at = Some(now);
        }
        engine.tell(&name, state.clone(), &stop);
    }
}

fn note(name: &str, state: &mut EntryState, found: usize, targets: usize, changes: Changes) {
    for (target, found) in &changes.begin {
        info!(entry = name, target, id = found.id, "found");
    }
    for target in &changes.end {
        info!(entry = name, target, "gone, and its target with it");
    }
    if changes.left_out.len() > state.left_out {
        warn!(entry = name, left_out = changes.left_out.len(), "more is found than one entry can stand for: some have no target");
    }
    if state.consecutive_failures > 0 {
        info!(entry = name, failures = state.consecutive_failures, "the search is answered again");
    }
    *state = EntryState {
        health: SourceHealth::Up,
        last_error: None,
        consecutive_failures: 0,
        found,
        targets,
        left_out: changes.left_out.len(),
        left_out_names: changes.left_out.into_iter().take(MOST_NAMED).collect(),
        ..state.clone()
    };
}

fn failed(name: &str, state: &mut EntryState, error: &SourceError, interval: Duration) -> Duration {
    if state.consecutive_failures == 0 {
        warn!(entry = name, %error, "the search failed; its targets stay as they are");
    }
    state.health = SourceHealth::Down;
    state.consecutive_failures = state.consecutive_failures.saturating_add(1);
    state.last_error = Some(error.to_string());
    // the first wait is the one up to the next interval
    schedule::distance(state.consecutive_failures, interval, error.retry_after).saturating_sub(interval)
}

fn too_slow(limit: Duration) -> SourceError {
    SourceError::new(FailureKind::Timeout, format!("no list of jobs within {} s", limit.as_secs_f64()))
}
