//! The readings of a target that later decisions need: as far back as the longest window of its policy.

use std::sync::Arc;

use super::source::Snapshot;
use crate::core::policy::Policy;
use crate::core::request::{Kind, Observed, Readings, Series};
use crate::core::units::{Timestamp, seconds_between};

/// The most readings that are kept.
const MOST: usize = 1000;

/// Readings of one target, oldest first.
#[derive(Clone, Debug)]
pub struct History {
    readings: Readings,
    /// Seconds that a reading is kept.
    keep_seconds: f64,
}

impl History {
    /// No reading yet.
    #[must_use]
    pub fn new(kind: Kind, policy: &Policy) -> Self {
        let stabilization = policy.scale_down.stabilization.longer(policy.scale_up.stabilization);
        // a job's own window, or what stabilization looks back on; and a little more, so that the oldest reading that is
        // kept is older than the window
        let window = match kind {
            Kind::FlinkJob => policy.flink.window,
            Kind::DruidSupervisor => policy.supervisor.window.longer(stabilization).longer(policy.idle_before_zero),
            Kind::KafkaGroup => policy.kafka.window.longer(stabilization).longer(policy.idle_before_zero),
            Kind::DruidWorkers | Kind::PubsubSubscription | Kind::Backlog => stabilization.longer(policy.idle_before_zero),
        };
        Self { readings: Readings::empty(kind), keep_seconds: window.seconds() * 1.2 + 120.0 }
    }

    /// The question's readings: `latest` (none when the reading failed) over what was read before.
    #[must_use]
    pub fn with(&self, latest: Option<Snapshot>) -> Readings {
        let mut readings = self.readings.clone();
        match (&mut readings, latest) {
            (Readings::DruidWorkers(series), Some(Snapshot::DruidWorkers(latest))) => series.latest = Some(Arc::new(latest)),
            (Readings::DruidSupervisor(series), Some(Snapshot::DruidSupervisor(latest))) => series.latest = Some(Arc::from(latest)),
            (Readings::FlinkJob(series), Some(Snapshot::FlinkJob(latest))) => series.latest = Some(Arc::new(latest)),
            (Readings::KafkaGroup(series), Some(Snapshot::KafkaGroup(latest))) => series.latest = Some(Arc::from(latest)),
            (Readings::PubsubSubscription(series), Some(Snapshot::PubsubSubscription(latest))) => series.latest = Some(Arc::from(latest)),
            (Readings::Backlog(series), Some(Snapshot::Backlog(latest))) => series.latest = Some(Arc::new(latest)),
            // a source of another kind cannot be configured
            _ => {}
        }
        readings
    }

    /// Takes over the readings of an earlier question of the same kind, as far as the window reaches.
    pub fn adopt(&mut self, asked: &Readings, now: Timestamp) {
        if asked.kind() == self.readings.kind() {
            let mut earlier = asked.clone();
            match &mut earlier {
                Readings::DruidWorkers(series) => series.latest = None,
                Readings::DruidSupervisor(series) => series.latest = None,
                Readings::FlinkJob(series) => series.latest = None,
                Readings::KafkaGroup(series) => series.latest = None,
                Readings::PubsubSubscription(series) => series.latest = None,
                Readings::Backlog(series) => series.latest = None,
            }
            self.readings = earlier;
            self.keep(asked, now);
        }
    }

    /// Keeps the newest reading of a question that has been answered.
    pub fn keep(&mut self, asked: &Readings, now: Timestamp) {
        let keep = self.keep_seconds;
        match (&mut self.readings, asked) {
            (Readings::DruidWorkers(into), Readings::DruidWorkers(from)) => push(into, from, now, keep),
            (Readings::DruidSupervisor(into), Readings::DruidSupervisor(from)) => push(into, from, now, keep),
            (Readings::FlinkJob(into), Readings::FlinkJob(from)) => push(into, from, now, keep),
            (Readings::KafkaGroup(into), Readings::KafkaGroup(from)) => push(into, from, now, keep),
            (Readings::PubsubSubscription(into), Readings::PubsubSubscription(from)) => push(into, from, now, keep),
            (Readings::Backlog(into), Readings::Backlog(from)) => push(into, from, now, keep),
            _ => {}
        }
    }
}

fn push<S: Observed>(into: &mut Series<S>, from: &Series<S>, now: Timestamp, keep_seconds: f64) {
    let Some(latest) = &from.latest else { return };
    // a source that had nothing new to say repeats the reading before, at its time
    if latest.observed_at().is_some() && into.history.last().is_some_and(|last| last.observed_at() == latest.observed_at()) {
        into.history.pop();
    }
    into.history.push(Arc::clone(latest));
    into.history.retain(|reading| reading.observed_at().is_none_or(|at| seconds_between(at, now) <= keep_seconds));
    if into.history.len() > MOST {
        // every second one of the older half goes: the further back, the further apart
        let half = into.history.len() / 2;
        let mut index = 0;
        into.history.retain(|_| {
            index += 1;
            index > half || index % 2 == 1
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::kinds::BacklogSnapshot;
    use crate::core::policy::PolicyInput;

    impl History {
        fn len(&self) -> usize {
            match &self.readings {
                Readings::DruidWorkers(series) => series.history.len(),
                Readings::DruidSupervisor(series) => series.history.len(),
                Readings::FlinkJob(series) => series.history.len(),
                Readings::KafkaGroup(series) => series.history.len(),
                Readings::PubsubSubscription(series) => series.history.len(),
                Readings::Backlog(series) => series.history.len(),
            }
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).expect("a time")
    }

    fn reading(seconds: i64) -> Snapshot {
        Snapshot::Backlog(BacklogSnapshot { observed_at: Some(at(seconds)), backlog: Some(1), ..BacklogSnapshot::default() })
    }

    #[test]
    fn readings_are_kept_for_the_window_and_no_longer() {
        let policy = PolicyInput::default().resolve(Kind::Backlog).expect("defaults");
        let mut history = History::new(Kind::Backlog, &policy);
        for step in 0..100 {
            let asked = history.with(Some(reading(step * 30)));
            history.keep(&asked, at(step * 30));
        }
        let kept = history.len();
        assert!((11..=30).contains(&kept), "{kept} readings for five minutes at 30 s");
    }

    #[test]
    fn a_reading_that_is_repeated_is_kept_once() {
        let policy = PolicyInput::default().resolve(Kind::Backlog).expect("defaults");
        let mut history = History::new(Kind::Backlog, &policy);
        for seconds in [0, 0, 10, 10, 20] {
            let asked = history.with(Some(reading(seconds)));
            history.keep(&asked, at(seconds + 5));
        }
        assert_eq!(history.len(), 3);
    }

    #[test]
    fn more_readings_than_fit_are_thinned_where_they_are_oldest() {
        let policy = PolicyInput { scale_down: serde_json::from_str(r#"{"stabilization":"10h"}"#).expect("valid"), ..PolicyInput::default() }
            .resolve(Kind::Backlog)
            .expect("valid");
        let mut history = History::new(Kind::Backlog, &policy);
        for step in 0..3000 {
            let asked = history.with(Some(reading(step * 10)));
            history.keep(&asked, at(step * 10));
        }
        assert!(history.len() <= MOST);
        let oldest = match history.with(None) {
            Readings::Backlog(series) => series.history.first().and_then(|reading| reading.observed_at),
            _ => None,
        };
        assert_eq!(oldest, Some(at(0)), "the window is still covered");
    }

    #[test]
    fn a_failed_reading_leaves_the_history_as_it_is() {
        let policy = PolicyInput::default().resolve(Kind::Backlog).expect("defaults");
        let mut history = History::new(Kind::Backlog, &policy);
        let asked = history.with(None);
        history.keep(&asked, at(0));
        assert_eq!(history.len(), 0);
    }
}
