//! Whether this account is shown the tasks of every data source.
//!
//! Druid leaves what an account may not read out of its lists of tasks and supervisors, without a word and with status 200:
//! to such an account a full queue looks empty. The list of workers tells all that runs, whoever asks. So what runs on the
//! workers is looked for in the list of running tasks: at first, then every ten minutes, and each time while something is
//! missing. A task that ends between the two answers is missing too, so one that is missing has to be so twice, unless all
//! of them are; and what a single look says does not outlast the tasks that it was about. Seen on 37.0.0 with `druid-basic-security`.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::core::kinds::druid::Worker;

/// How long a look that found everything is good for.
const GOOD_FOR: Duration = Duration::from_secs(600);

/// What earlier looks have found.
#[derive(Debug, Default)]
pub(super) struct Sight(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// When all that ran was last found.
    whole_at: Option<Instant>,
    /// Tasks that ran and were not listed at the latest look.
    missing: HashSet<String>,
    /// What the latest look came to.
    is_partial: bool,
    /// True when two looks in a row missed the same task.
    is_confirmed: bool,
}

impl Sight {
    /// True when the list of running tasks is to be asked for. Where nothing runs there is nothing to compare.
    pub(super) fn is_due(&self, workers: &[Worker], now: Instant) -> bool {
        let mut seen = self.lock();
        if running(workers).next().is_none() {
            // what ended while it was looked for cannot be looked for again
            seen.is_partial &= seen.is_confirmed;
            return false;
        }
        seen.whole_at.is_none_or(|at| now.saturating_duration_since(at) >= GOOD_FOR)
    }

    /// Compares what runs with the ids that were listed.
    pub(super) fn look(&self, workers: &[Worker], listed: &HashSet<String>, now: Instant) {
        let missing: HashSet<String> = running(workers).filter(|id| !listed.contains(*id)).map(str::to_owned).collect();
        let none_is_listed = !missing.is_empty() && running(workers).all(|id| missing.contains(id));
        let mut seen = self.lock();
        seen.is_confirmed = missing.iter().any(|id| seen.missing.contains(id));
        seen.is_partial = none_is_listed || seen.is_confirmed;
        seen.whole_at = missing.is_empty().then_some(now);
        seen.missing = missing;
    }

    /// True when tasks are hidden from this account.
    pub(super) fn is_partial(&self) -> bool {
        self.lock().is_partial
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn running(workers: &[Worker]) -> impl Iterator<Item = &str> {
    workers.iter().flat_map(|worker| worker.tasks.iter().flatten()).map(|task| task.id.as_str())
}
