//! How old the figures of a job are, and from when on they are facts.
//!
//! ```text
//! fetched at    = start of RUNNING + uptime                (both on the JobManager's clock)
//! age           = now of /jobs/:id - fetched at
//! settled       = fetched at - start of the vertex >= 15 s (totals, backlog)
//! averaged      = fetched at - start of the vertex >= 70 s (rates and busy times)
//! ```
//!
//! The `JobManager` answers from metrics that it fetched at most `metrics.fetcher.update-interval` (10 s) before it was
//! asked, and `uptime` is one of them: it tells when. Where that moment lies in the future, the metrics are those of an
//! attempt before: a restart or a rescale is already in the job's details, and the metrics do not know it yet. Where
//! `uptime` falls while the details name no other start, it is the details (a cache of 3 s) that are behind.
//!
//! Why figures are left out after a start: in the first 10 s they can be those of the attempt before; then every subtask
//! is shown as 100 % busy with no record read, or 0 % busy; the backlog is the old one, or has just gone into buffers; and
//! rates and busy times are averages over 60 s that climb from 0. Totals are right as soon as they belong to the attempt,
//! so rates and busy times come from totals until the averages are facts.
//! Source: Flink's `MetricFetcherImpl`, `UpTimeGauge`, `MeterView`, `TimerGauge`; measured on 2.3.0 and 1.20.5.

use std::collections::HashMap;

use super::wire::{Job, JobVertex, Metric};
use crate::core::kinds::flink::{Spread, Vertex};
use crate::core::units::{Amount, Count, as_f64};

/// From when on totals and the backlog are facts: the fetch interval of 10 s, and half of that again.
const SETTLED_MILLIS: f64 = 15_000.0;
/// From when on averages are facts: their 60 s, and the fetch interval.
const AVERAGED_MILLIS: f64 = 70_000.0;
/// The oldest that metrics can be right after a question, where nothing tells: the default fetch interval.
const OLDEST_MILLIS: f64 = 10_000.0;
/// Two clocks of one machine, read one after the other.
const TOLERANCE_MILLIS: f64 = 1_000.0;

/// What the job's own metrics say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Availability {
    /// Restarts so far; rescales count.
    pub restarts: Option<Count>,
    /// Milliseconds since it last came into RUNNING, when the metrics were fetched.
    uptime: Option<Count>,
    /// False: there are no metrics of the job at all.
    any: bool,
}

impl Availability {
    /// From `/jobs/:id/metrics?get=numRestarts,uptime`.
    #[must_use]
    pub fn of(rows: &[Metric]) -> Self {
        let value = |name: &str| rows.iter().find(|row| row.id == name).and_then(|row| row.value.count());
        Self { restarts: value("numRestarts"), uptime: value("uptime"), any: !rows.is_empty() }
    }
}

/// The moment that the figures of a reading are of, in milliseconds on the JobManager's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fetched {
    at: f64,
    now: f64,
}

impl Fetched {
    /// Age when the job's details were written.
    #[must_use]
    pub fn age_seconds(self) -> f64 {
        (self.now - self.at).max(0.0) / 1000.0
    }

    /// True for two answers from one fetch.
    #[must_use]
    pub fn is_same(self, other: Self) -> bool {
        (self.at - other.at).abs() < 0.5
    }

    /// Whether the totals and the backlog of a vertex are facts.
    #[must_use]
    pub fn settled(self, vertex: &JobVertex) -> bool {
        self.since_start(vertex).is_some_and(|millis| millis >= SETTLED_MILLIS)
    }

    /// Whether its averages are.
    #[must_use]
    pub fn averaged(self, vertex: &JobVertex) -> bool {
        self.since_start(vertex).is_some_and(|millis| millis >= AVERAGED_MILLIS)
    }

    fn since_start(self, vertex: &JobVertex) -> Option<f64> {
        vertex.start_time.positive().map(|start| self.at - as_f64(start))
    }
}

/// What is kept from one reading of a job to the next.
#[derive(Clone, Debug, Default)]
pub struct Attempt {
    running: Option<Count>,
    uptime: Option<Count>,
    totals: HashMap<String, Totals>,
}

/// Totals of a vertex at a moment; milliseconds, and records.
#[derive(Clone, Copy, Debug)]
struct Totals {
    at: f64,
    read: Option<Count>,
    written: Option<Count>,
    busy_seconds: Option<Amount>,
}

impl Attempt {
    /// The moment that the figures are of. `None`: there are none of the present attempt.
    pub fn fetched(&mut self, job: &Job, said: Availability) -> Option<Fetched> {
        let running = job.timestamps.get("RUNNING").and_then(|at| at.positive()).filter(|_| job.state == "RUNNING" && said.any)?;
        let now = as_f64(job.now.positive()?);
        let Some(uptime) = said.uptime else { return Some(Fetched { at: now - OLDEST_MILLIS, now }) };
        // the details are behind where the uptime fell and they name the same start
        let behind = self.running == Some(running) && self.uptime.is_some_and(|before| uptime < before);
        let at = as_f64(running) + as_f64(uptime);
        if uptime == 0 || behind || at > now + TOLERANCE_MILLIS {
            return None;
        }
        (self.running, self.uptime) = (Some(running), Some(uptime));
        Some(Fetched { at: at.min(now), now })
    }

    /// Another topology, parallelism or start: totals begin anew.
    pub fn forget_totals(&mut self) {
        self.totals.clear();
    }

    /// Rates and busy time from the totals since the first settled reading of the attempt, for as long as the averages
    /// are no facts.
    pub fn put_rates(&mut self, vertex: &mut Vertex, fetched: Fetched) {
        if vertex.records_complete == Some(false) {
            return;
        }
        let present = Totals { at: fetched.at, read: vertex.records_in, written: vertex.records_out, busy_seconds: vertex.accumulated_busy_seconds };
        let first = *self.totals.entry(vertex.id.clone()).or_insert(present);
        let seconds = (present.at - first.at) / 1000.0;
        if seconds < 1.0 {
            return;
        }
        let rate = |first: Option<f64>, now: Option<f64>| first.zip(now).and_then(|(first, now)| Amount::new((now - first) / seconds));
        vertex.records_in_per_second = rate(first.read.map(as_f64), present.read.map(as_f64));
        vertex.records_out_per_second = rate(first.written.map(as_f64), present.written.map(as_f64));
        let busy = rate(first.busy_seconds.map(Amount::get), present.busy_seconds.map(Amount::get));
        let share = busy.and_then(|busy| Amount::new((busy.get() / as_f64(vertex.parallelism.max(1))).min(1.0)));
        vertex.busy_ratio = share.map(|share| Spread { avg: Some(share), ..Spread::default() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job whose details were written at `now` and name a start of RUNNING, in seconds.
    fn job(now: u64, running: u64) -> Job {
        let vertex = serde_json::json!({ "id": "a", "parallelism": 2, "start-time": running * 1000 });
        serde_json::from_value(
            serde_json::json!({ "jid": "j", "state": "RUNNING", "now": now * 1000, "timestamps": { "RUNNING": running * 1000 }, "vertices": [vertex] }),
        )
        .expect("a job")
    }

    fn up(seconds: u64) -> Availability {
        Availability { restarts: Some(0), uptime: Some(seconds * 1000), any: true }
    }

    #[test]
    fn the_uptime_tells_how_old_the_figures_are() {
        let age = |job: &Job, said| Attempt::default().fetched(job, said).map(Fetched::age_seconds);
        assert_eq!(age(&job(1000, 900), up(93)), Some(7.0));
        assert_eq!(age(&job(1000, 900), up(100)), Some(0.0));
        assert_eq!(age(&job(1000, 900), Availability { uptime: None, ..up(0) }), Some(10.0), "where it is not told they may be that old");
        assert_eq!(age(&job(1000, 900), Availability::default()), None, "no metrics at all");
    }

    #[test]
    fn metrics_of_the_attempt_before_and_details_that_are_behind_are_no_figures() {
        let mut attempt = Attempt::default();
        assert!(attempt.fetched(&job(1000, 900), up(98)).is_some());
        assert_eq!(attempt.fetched(&job(1012, 1010), up(98)), None, "the job started two seconds ago and is said to be up for 98");
        assert!(attempt.fetched(&job(1040, 1010), up(29)).is_some());
        assert_eq!(attempt.fetched(&job(1071, 1010), up(1)), None, "it started anew, and the details do not know it");
        assert_eq!(attempt.fetched(&job(1073, 1070), up(0)), None, "fetched while it was down");
    }

    #[test]
    fn totals_are_facts_after_fifteen_seconds_and_averages_after_seventy() {
        let settled = |uptime: u64| {
            let job = job(1000, 900);
            let fetched = Attempt::default().fetched(&job, up(uptime)).expect("figures");
            (fetched.settled(&job.vertices[0]), fetched.averaged(&job.vertices[0]))
        };
        assert_eq!([settled(14), settled(15), settled(69), settled(70)], [(false, false), (true, false), (true, false), (true, true)]);
    }

    #[test]
    fn rates_come_put_rates_until_the_averages_are_facts() {
        let mut vertex: Vertex =
            serde_json::from_str(r#"{"id":"a","parallelism":2,"recordsIn":1000,"recordsOut":10,"accumulatedBusySeconds":5}"#).expect("a vertex");
        let mut attempt = Attempt::default();
        attempt.put_rates(&mut vertex, Fetched { at: 20_000.0, now: 20_000.0 });
        assert_eq!((vertex.records_in_per_second, vertex.busy_ratio), (None, None), "one reading tells no rate");
        (vertex.records_in, vertex.accumulated_busy_seconds) = (Some(21_000), Amount::new(14.0));
        attempt.put_rates(&mut vertex, Fetched { at: 30_000.0, now: 30_000.0 });
        assert_eq!((vertex.records_in_per_second, vertex.records_out_per_second), (Amount::new(2000.0), Amount::new(0.0)));
        assert_eq!(vertex.busy_ratio.and_then(|busy| busy.avg), Amount::new(0.45), "nine seconds of two subtasks in ten");
    }
}
