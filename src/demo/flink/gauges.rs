//! Flink's per-second metrics, with their artefacts.
//!
//! - A rate is an average over 60 seconds, brought up to date each 5 seconds, and starts at 0: after a start it climbs in
//!   a line for a minute. A scaler that divides it by the busy time right after a rescale is wrong by up to ten times.
//! - The busy, backpressured and idle times of a second are averages over the time measured so far, up to 60 seconds.
//! - Before the first update busy is 1000 ms on every subtask, with no record read.
//!
//! Measured on Flink 2.3; sources: `MeterView`, `TimerGauge`.

use std::collections::VecDeque;

use super::Totals;

/// How often the metrics are brought up to date.
const UPDATE_SECONDS: f64 = 5.0;
/// Updates that an average spans.
const SPAN: usize = 12;

/// The per-second metrics of a vertex.
pub(super) struct Gauges {
    next: f64,
    seen: VecDeque<(f64, Totals)>,
    parallelism: f64,
}

/// Their values: rates are sums over the subtasks, times are of one subtask in milliseconds a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PerSecond {
    pub(super) read: f64,
    pub(super) written: f64,
    pub(super) busy: f64,
    pub(super) back_pressured: f64,
    pub(super) idle: f64,
}

impl Gauges {
    /// Gauges of tasks that were deployed at this moment.
    pub(super) fn new(now: f64) -> Self {
        Self { next: now + UPDATE_SECONDS, seen: VecDeque::from([(now, Totals::default())]), parallelism: 1.0 }
    }

    /// Notes the totals when it is time to.
    pub(super) fn tick(&mut self, now: f64, totals: Totals, parallelism: u64) {
        self.parallelism = crate::demo::float(parallelism.max(1));
        if now + 1e-9 < self.next {
            return;
        }
        self.next += UPDATE_SECONDS;
        self.seen.push_back((now, totals));
        if self.seen.len() > SPAN + 1 {
            self.seen.pop_front();
        }
    }

    /// What the metrics say now.
    pub(super) fn read(&self) -> PerSecond {
        let (Some((from, old)), Some((to, new))) = (self.seen.front(), self.seen.back()) else { return PerSecond::UNMEASURED };
        let measured = to - from;
        if measured <= 0.0 {
            return PerSecond::UNMEASURED;
        }
        let span = UPDATE_SECONDS * 12.0;
        let time = |part: fn(&Totals) -> f64| (part(new) - part(old)) / measured / self.parallelism;
        PerSecond {
            read: (new.read - old.read) / span,
            written: (new.written - old.written) / span,
            busy: time(|totals| totals.busy),
            back_pressured: time(|totals| totals.back_pressured),
            idle: time(|totals| totals.idle),
        }
    }
}

impl PerSecond {
    /// Before the first update.
    const UNMEASURED: Self = Self { read: 0.0, written: 0.0, busy: 1000.0, back_pressured: 0.0, idle: 0.0 };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After so many seconds at 100 records a second and half of the time busy.
    fn after(seconds: u32) -> PerSecond {
        let mut gauges = Gauges::new(0.0);
        for tenth in 1..=seconds * 10 {
            let now = f64::from(tenth) / 10.0;
            gauges.tick(now, Totals { read: now * 100.0, written: 0.0, busy: now * 500.0, back_pressured: 0.0, idle: now * 500.0 }, 1);
        }
        gauges.read()
    }

    #[test]
    fn before_the_first_update_every_subtask_seems_busy_with_nothing_to_read() {
        assert_eq!(after(4), PerSecond::UNMEASURED);
    }

    #[test]
    fn a_rate_climbs_in_a_line_for_a_minute_and_the_busy_time_is_right_at_once() {
        assert!((after(15).read - 25.0).abs() < 1.0);
        assert!((after(15).busy - 500.0).abs() < 1.0);
        assert!((after(60).read - 100.0).abs() < 1.0);
        assert!((after(600).read - 100.0).abs() < 1.0);
    }
}
