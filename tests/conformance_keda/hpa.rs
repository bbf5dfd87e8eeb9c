//! A `HorizontalPodAutoscaler` as Kubernetes builds it (1.33 and later), as far as external metrics go: proposals in
//! thousandths with the tolerance band, the largest of several, stabilization, rate limits, bounds.

/// The band in which nothing happens.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    pub up: f64,
    pub down: f64,
}

impl Tolerance {
    pub const DEFAULT: Self = Self { up: 0.1, down: 0.1 };
    pub const NONE: Self = Self { up: 0.0, down: 0.0 };

    fn holds(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// What one metric asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposal {
    pub desired: u64,
    /// Infinite or not a number where nothing runs.
    pub ratio: f64,
}

/// `AverageValue`: the sum of all items by the target and the pods that exist. No item is an error.
pub fn average_value(items: &[u64], target: u64, status: u64, tolerance: Tolerance) -> Option<Proposal> {
    let usage: u64 = if items.is_empty() { return None } else { items.iter().sum() };
    let ratio = usage as f64 / (target as f64 * status as f64);
    let desired = if tolerance.holds(ratio) { status } else { usage.div_ceil(target) };
    Some(Proposal { desired, ratio })
}

/// `Value`: the sum of all items by the target, times the pods that are ready.
pub fn value(items: &[u64], target: u64, spec: u64, ready: u64, tolerance: Tolerance) -> Option<Proposal> {
    let usage: u64 = if items.is_empty() { return None } else { items.iter().sum() };
    let ratio = usage as f64 / target as f64;
    let desired = if spec == 0 {
        usage.div_ceil(target)
    } else if tolerance.holds(ratio) {
        spec
    } else {
        (ratio * ready as f64).ceil() as u64
    };
    Some(Proposal { desired, ratio })
}

/// Several metrics: the largest; nothing happens where all fail, or some fail and the others would lower.
pub fn largest(proposals: &[Option<u64>], current: u64) -> Option<u64> {
    let most = proposals.iter().flatten().max().copied()?;
    (proposals.iter().all(Option::is_some) || most >= current).then_some(most)
}

/// The smallest proposal of the window for raising and the largest of that for lowering; both windows hold the newest.
pub fn stabilized(current: u64, up: &[u64], down: &[u64]) -> u64 {
    let (least, most) = (up.iter().min().copied().unwrap_or(current), down.iter().max().copied().unwrap_or(current));
    current.max(least).min(most)
}

/// How far it may go up at once by default: four more, or twice as many.
pub fn default_up_limit(current: u64) -> u64 {
    (current + 4).max(current * 2)
}

/// The same without any `behavior`.
pub fn legacy_up_limit(current: u64) -> u64 {
    (current * 2).max(4)
}

/// How far it may go down in a period by a policy of percent: cut off, not rounded.
pub fn percent_down_limit(at_start: u64, percent: u64) -> u64 {
    (at_start as f64 * (1.0 - percent as f64 / 100.0)) as u64
}

/// The least quantity of thousandths that is not below a decimal number.
pub fn milli(decimal: &str) -> u64 {
    let (whole, rest) = decimal.split_once('.').unwrap_or((decimal, ""));
    let thousandths: String = rest.chars().chain("000".chars()).take(3).collect();
    let more = rest.chars().skip(3).any(|digit| digit != '0');
    whole.parse::<u64>().expect("a number") * 1000 + thousandths.parse::<u64>().expect("a number") + u64::from(more)
}

/// One that goes on: bounds, windows of proposals, and no rate limits (a policy of `Pods` with a large number).
pub struct Hpa {
    pub tolerance: Tolerance,
    pub min: u64,
    pub max: u64,
    pub down_window_seconds: u64,
    past: Vec<(u64, u64)>,
}

impl Hpa {
    pub fn new(tolerance: Tolerance, min: u64, max: u64, down_window_seconds: u64) -> Self {
        Self { tolerance, min, max, down_window_seconds, past: Vec::new() }
    }

    /// One sync at a second: the count that it sets. `None` is a metric that failed.
    pub fn sync(&mut self, second: u64, spec: u64, status: u64, metric: Option<u64>) -> u64 {
        if spec == 0 {
            return 0;
        }
        let proposal = metric.and_then(|value| average_value(&[value], 1000, status, self.tolerance));
        let Some(desired) = largest(&[proposal.map(|proposal| proposal.desired)], spec) else { return spec };
        self.past.push((second, desired));
        self.past.retain(|(at, _)| at + self.down_window_seconds > second || *at == second);
        let down: Vec<u64> = self.past.iter().map(|(_, desired)| *desired).collect();
        stabilized(spec, &[desired], &down).clamp(self.min.max(1), self.max)
    }
}
