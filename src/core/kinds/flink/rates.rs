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

/// Works out the figures of a vertex from its states over the window, oldest first. Of the states `earlier` than the
/// window only what a source was observed to do counts, for it stands in for a later reading without a backlog.
#[must_use]
pub fn figures<'a>(
    states: impl Iterator<Item = (f64, &'a Vertex)>,
    latest: &Vertex,
    earlier: impl Iterator<Item = (f64, &'a Vertex)>,
    policy: &FlinkPolicy,
) -> Figures {
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
    let (mut busy, mut busy_mean, mut input_gauge, mut output_gauge) = (Mean::default(), Mean::default(), Mean::default(), Mean::default());
    let mut observations = Observations::default();
    for (at, vertex) in earlier.filter(|_| is_source) {
        observations.add(at, observe_source(vertex, policy), policy.window.seconds(), policy);
    }
    let mut begin = None;
    for (at, vertex) in states {
        let complete = policy.trust_counters || vertex.records_complete != Some(false);
        // where some records are missing a rate is still a rate, but a zero may be a missing one
        let counts = |rate: &f64| complete || *rate > 0.0;
        if complete {
            if let Some(records) = vertex.records_in {
                input.add(at, as_f64(records), !policy.trust_counters);
            }
            if let Some(records) = vertex.records_out {
                output.add(at, as_f64(records), !policy.trust_counters);
            }
        }
        // totals that are not all there yet are no zero: the next reading would look like a burst
        if let Some(seconds) = vertex.accumulated_busy_seconds.known().filter(|_| complete) {
            // busy is what is not idle, and idle time is booked when it ends: the total may go back a little
            let restarted = busy_total.last.is_some_and(|(_, earlier)| seconds < earlier / 2.0);
            busy_total.add(at, seconds, restarted && !policy.trust_counters);
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
            let seen = observe_source(vertex, policy).filter(|_| complete || vertex.records_in_per_second.known().is_some_and(|rate| counts(&rate)));
            observations.add(at, seen, policy.window.seconds(), policy);
        }
        begin = begin.or(Some(at));
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
    let busy_based = busy_based(busy_share, numerator);
    let observed = observations.mean(begin.unwrap_or(0.0), policy);
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
        incomplete: !policy.trust_counters && latest.records_complete == Some(false),
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

/// What a source reads at a standing backlog, had nothing held it back: records per second. Infinite where it reads
/// nothing. `None` where it has too little backlog, or is held back all the time.
#[must_use]
pub fn observe(rate: f64, back_pressured: f64, lag: f64, policy: &FlinkPolicy) -> Option<f64> {
    if rate <= 0.0 {
        return Some(f64::INFINITY);
    }
    (lag >= policy.observed_lag_threshold.seconds() * rate && back_pressured < 1.0).then(|| rate / (1.0 - back_pressured))
}

fn observe_source(vertex: &Vertex, policy: &FlinkPolicy) -> Option<Seen> {
    let rate = vertex.records_in_per_second.known().or(vertex.records_out_per_second.known())?;
    let back_pressured = vertex.back_pressured_ratio.and_then(|spread| spread.avg.known().or(spread.max.known()))?;
    let lag = vertex.pending_records.or(policy.missing_backlog_is_zero.then_some(0))?;
    Some(Seen(observe(rate, back_pressured, as_f64(lag), policy)))
}

/// What a source was observed to do, over time. A reading without a standing backlog repeats the mean of what was observed
/// in the window before it, once there is enough of it; a single observation is no more than an accident.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    seen: Vec<(f64, f64)>,
    previous: Option<f64>,
}

impl Observations {
    /// Adds a reading, and returns what stands for it. `seen` is `None` for a reading that does not tell even its rate.
    pub fn add(&mut self, at: f64, seen: Option<Seen>, window: f64, policy: &FlinkPolicy) -> Option<f64> {
        let value = seen.and_then(|Seen(observed)| observed.or_else(|| self.mean(self.previous? - window, policy)));
        self.seen.extend(value.map(|value| (at, value)));
        self.previous = Some(at);
        value
    }

    /// The mean of what was observed from a time on: of finite values, if they are enough; infinite where there are only
    /// infinite ones.
    #[must_use]
    pub fn mean(&self, from: f64, policy: &FlinkPolicy) -> Option<f64> {
        let mut mean = Mean::default();
        for (_, value) in self.seen.iter().rev().take_while(|(at, _)| *at >= from - 1e-6) {
            mean.add(*value);
        }
        mean.value().filter(|rate| rate.is_infinite() || mean.count >= policy.observed_min_observations)
    }
}

/// One reading of a source that tells its rate: what it was observed to do, `None` without a standing backlog.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen(pub Option<f64>);

/// Records per second by the busy share of the time: infinite where nothing comes in, and where nothing is busy.
fn busy_based(busy: Option<f64>, rate: Option<f64>) -> Option<f64> {
    match (busy, rate?) {
        (_, 0.0) => Some(f64::INFINITY),
        (Some(busy), rate) if busy > 0.0 => Some(rate / busy),
        (Some(_), _) => Some(f64::INFINITY),
        (None, _) => None,
    }
}

/// The true processing rate, from the busy share and the rate of a vertex, and from what a source was observed to do.
/// Infinite is "more than can be told".
#[must_use]
pub fn true_processing_rate(busy: Option<f64>, rate: Option<f64>, observed: Option<f64>, policy: &FlinkPolicy) -> Option<f64> {
    choose(busy_based(busy, rate), observed, policy)
}

fn choose(busy_based: Option<f64>, observed: Option<f64>, policy: &FlinkPolicy) -> Option<f64> {
    match (busy_based, observed) {
        (busy_based, None) => busy_based,
        (None, Some(observed)) => Some(observed),
        (Some(busy_based), Some(observed)) if !busy_based.is_finite() || busy_based > observed * (1.0 + policy.observed_switch_ratio) => Some(observed),
        (Some(busy_based), Some(_)) => Some(busy_based),
    }
}
