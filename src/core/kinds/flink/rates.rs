//! What one vertex does and can do, over the window.
//!
//! ```text
//! true processing rate = records in per second / busy share of the time
//! ```
//!
//! For a source it may be an over-estimate (a source that waits for its queue looks idle), so a source with a standing
//! backlog is also *observed*: records per second / (1 - backpressured share). Where the two differ, the lower one
//! counts and both are shown. Rates over the window come from counters, whose resets are noticed; per-second gauges
//! are averages over a minute and climb from zero after a start.
//! Source: flink-autoscaler `ScalingMetrics`, `ScalingMetricEvaluator`; FLIP-271; DS2.

use super::{Spread, Vertex};
use crate::core::policy::{Aggregator, FlinkPolicy};
use crate::core::units::{Known, as_f64};

/// Busy time is taken from its totals when they tell of at least so long.
const SHORTEST_BASE_SECONDS: f64 = 5.0;

/// Figures of one vertex. Rates are records per second; infinite means "more than can be told".
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Records read per second.
    pub input: Option<f64>,
    /// Records written per second.
    pub output: Option<f64>,
    /// Mean busy share of the time, by the aggregator.
    pub busy: Option<f64>,
    /// Busy share of the busiest subtask now.
    pub busy_max: Option<f64>,
    /// Busy share of the mean subtask over the window.
    pub busy_avg: Option<f64>,
    /// Share of the time waiting for a slower vertex downstream, now, the worst subtask.
    pub back_pressured: Option<f64>,
    /// Records that wait at the source now.
    pub lag: Option<f64>,
    /// Growth of that, records per second.
    pub lag_rate: Option<f64>,
    /// True processing rate from busy time.
    pub busy_based: Option<f64>,
    /// True processing rate as observed at a standing backlog.
    pub observed: Option<f64>,
    /// The one that counts.
    pub capacity: Option<f64>,
    /// True when the counters of the newest reading are known to be incomplete.
    pub incomplete: bool,
    /// The counter of records read before and after it went back inside the window, where it did.
    pub reset: Option<(f64, f64)>,
}

/// The slope of a counter over the window. An interval in which it went back is left out of both, what was counted and
/// how long it took.
#[derive(Clone, Copy, Debug, Default)]
struct Slope {
    last: Option<(f64, f64)>,
    counted: f64,
    seconds: f64,
    reset: Option<(f64, f64)>,
}

impl Slope {
    fn add(&mut self, at: f64, value: f64, resets: bool) {
        if let Some((before, earlier)) = self.last {
            if resets && value < earlier {
                self.reset = Some((earlier, value));
            } else {
                self.counted += value - earlier;
                self.seconds += at - before;
            }
        }
        self.last = Some((at, value));
    }

    fn per_second(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.counted / self.seconds)
    }
}

/// The mean of finite values; infinite where there are only infinite ones.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: u32,
    infinite: bool,
}

impl Mean {
    fn add(&mut self, value: f64) {
        if value.is_finite() {
            self.sum += value;
            self.count += 1;
        } else if value == f64::INFINITY {
            self.infinite = true;
        }
    }

    fn value(&self) -> Option<f64> {
        match self.count {
            0 => self.infinite.then_some(f64::INFINITY),
            count => Some(self.sum / f64::from(count)),
        }
    }
}

/// Works out the figures of a vertex from its states over the window, oldest first.
#[must_use]
pub fn figures<'a>(states: impl Iterator<Item = (f64, &'a Vertex)>, latest: &Vertex, policy: &FlinkPolicy) -> Figures {
    if latest.finished == Some(true) {
        return Figures {
            input: Some(0.0),
            output: Some(0.0),
            busy: Some(0.0),
            lag: Some(0.0),
            lag_rate: Some(0.0),
            capacity: Some(f64::INFINITY),
            ..Figures::default()
        };
    }
    let is_source = latest.is_source();
    let (mut input, mut output, mut busy_total, mut lag) = (Slope::default(), Slope::default(), Slope::default(), Slope::default());
    let (mut busy, mut busy_mean, mut input_gauge, mut output_gauge, mut observed) =
        (Mean::default(), Mean::default(), Mean::default(), Mean::default(), Mean::default());
    for (at, vertex) in states {
        let complete = vertex.records_complete != Some(false);
        // where some records are missing a rate is still a rate, but a zero may be a missing one
        let counts = |rate: &f64| complete || *rate > 0.0;
        if complete {
            if let Some(records) = vertex.records_in {
                input.add(at, as_f64(records), true);
            }
            if let Some(records) = vertex.records_out {
                output.add(at, as_f64(records), true);
            }
        }
        // totals that are not all there yet are no zero: the next reading would look like a burst
        if let Some(seconds) = vertex.accumulated_busy_seconds.known().filter(|_| complete) {
            // busy is what is not idle, and idle time is booked when it ends: the total may go back a little
            let restarted = busy_total.last.is_some_and(|(_, earlier)| seconds < earlier / 2.0);
            busy_total.add(at, seconds, restarted);
        }
        if let Some(rate) = vertex.records_in_per_second.known().filter(counts) {
            input_gauge.add(rate);
        }
        if let Some(rate) = vertex.records_out_per_second.known().filter(counts) {
            output_gauge.add(rate);
        }
        if let Some(share) = vertex.busy_ratio.and_then(|spread| aggregate(spread, policy.busy_aggregator)) {
            busy.add(share.min(1.0));
            if let Some(mean) = vertex.busy_ratio.and_then(|spread| spread.avg.known()) {
                busy_mean.add(mean.min(1.0));
            }
        }
        if is_source {
            let records = vertex.pending_records.or(policy.missing_backlog_is_zero.then_some(0));
            if let Some(records) = records {
                lag.add(at, as_f64(records), false);
            }
            if complete || vertex.records_in_per_second.known().is_some_and(|rate| counts(&rate)) {
                observe(vertex, records.map(as_f64), policy, &mut observed);
            }
        }
    }
    let from_counter = input.per_second();
    let input_rate = from_counter.or(input_gauge.value());
    let parallelism = as_f64(latest.parallelism);
    let is_long_enough = !policy.gauge_rates && busy_total.seconds >= SHORTEST_BASE_SECONDS;
    let mean_by_total = busy_total.per_second().filter(|_| is_long_enough).map(|rate| (rate / parallelism).clamp(0.0, 1.0));
    let (busy_share, numerator) = match policy.busy_aggregator {
        Aggregator::Avg => (busy_total.per_second().map(|rate| rate / parallelism).or(busy.value()), input_rate),
        Aggregator::Max | Aggregator::Min => {
            let gauge = if is_source || !policy.gauge_rates { None } else { input_gauge.value() };
            // the gauges are averages of up to a minute, and lag behind every change; the totals do not
            let skew = busy.value().zip(busy_mean.value()).map_or(1.0, |(stands, mean)| if mean > 0.0 { stands / mean } else { 1.0 });
            let by_total = mean_by_total.map(|mean| (mean * skew).clamp(0.0, 1.0)).filter(|_| busy.value().is_some());
            (by_total.or(busy.value()), gauge.or(input_rate))
        }
    };
    let busy_based = busy_share.zip(numerator).map(|(busy, rate)| if rate <= 0.0 || busy <= 0.0 { f64::INFINITY } else { rate / busy });
    // a single observation is no more than an accident
    let observed = observed.value().filter(|rate| rate.is_infinite() || observed.count >= policy.observed_min_observations);
    let spread = latest.busy_ratio.unwrap_or_default();
    Figures {
        input: input_rate,
        output: output.per_second().or(output_gauge.value()),
        busy: busy_share,
        busy_max: spread.max.known().or(busy_share),
        busy_avg: mean_by_total.or(busy_mean.value()),
        back_pressured: latest.back_pressured_ratio.and_then(|spread| spread.max.known().or(spread.avg.known())),
        lag: lag.last.map(|(_, records)| records).filter(|_| latest.pending_records.is_some() || policy.missing_backlog_is_zero),
        lag_rate: lag.per_second(),
        busy_based,
        observed,
        capacity: choose(busy_based, observed, policy),
        incomplete: latest.records_complete == Some(false),
        reset: input.reset,
    }
}

fn aggregate(spread: Spread, aggregator: Aggregator) -> Option<f64> {
    match aggregator {
        Aggregator::Max => spread.max.known().or(spread.avg.known()),
        Aggregator::Avg => spread.avg.known(),
        Aggregator::Min => spread.min.known().or(spread.avg.known()),
    }
}

/// One observation of a source: what it reads at a standing backlog, had nothing held it back. A source without one
/// repeats the mean of what was observed before, once there is enough of it.
fn observe(vertex: &Vertex, lag: Option<f64>, policy: &FlinkPolicy, observed: &mut Mean) {
    let rate = vertex.records_in_per_second.known().or(vertex.records_out_per_second.known());
    let back_pressured = vertex.back_pressured_ratio.and_then(|spread| spread.avg.known().or(spread.max.known()));
    let (Some(rate), Some(back_pressured), Some(lag)) = (rate, back_pressured, lag) else { return };
    if rate <= 0.0 {
        observed.add(f64::INFINITY);
    } else if lag >= policy.observed_lag_threshold.seconds() * rate && back_pressured < 1.0 {
        observed.add(rate / (1.0 - back_pressured));
    } else if observed.count >= policy.observed_min_observations && observed.count > 0 {
        observed.add(observed.sum / f64::from(observed.count));
    }
}

fn choose(busy_based: Option<f64>, observed: Option<f64>, policy: &FlinkPolicy) -> Option<f64> {
    match (busy_based, observed) {
        (busy_based, None) => busy_based,
        (None, Some(observed)) => Some(observed),
        (Some(busy_based), Some(observed)) if !busy_based.is_finite() || busy_based > observed * (1.0 + policy.observed_switch_ratio) => Some(observed),
        (Some(busy_based), Some(_)) => Some(busy_based),
    }
}
