//! From a load to a wish with its kind of reason: the part of rate sizing that is the same for every queue.
//!
//! Staying costs neither a start nor a pause, so the present count is kept as long as it is enough by itself; a change is
//! sized with both paid ([`rate`]). A delay objective looks only at what waits for longer than it may. The obvious
//! alternative, the larger of lag by a threshold and lag by time, moves a busy queue without a lag and has no end for one
//! that can never catch up. Counts are unrounded.

use super::rate::{self, Load, Need};
use crate::core::policy::Policy;
use crate::core::units::{Count, as_f64, ceil_count};

/// Why a wish is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Fewer would do.
    Spare,
    /// The present count is enough, and needed.
    Within,
    /// What arrives asks for more.
    Arrival,
    /// What waits asks for more.
    CatchUp,
}

/// A wish by rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ByRates {
    /// Replicas, unrounded.
    pub needed: f64,
    /// Why.
    pub why: Why,
    /// With and without the price of a change.
    pub need: Need,
}

/// The wish for a load; `is_quiet` when what waits says nothing.
#[must_use]
pub fn by_rates(load: Load, policy: &Policy, current: Count, is_quiet: bool) -> ByRates {
    let need = rate::need(load, policy);
    let is_enough = current > 0 && ceil_count(need.when_changed) > current && ceil_count(need.when_kept) <= current;
    let needed = if is_enough { as_f64(current) } else { need.when_changed };
    let why = match ceil_count(needed) {
        wanted if wanted < current => Why::Spare,
        wanted if is_enough || wanted == current => Why::Within,
        _ if is_quiet => Why::Arrival,
        _ => Why::CatchUp,
    };
    ByRates { needed, why, need }
}

/// The wish of a delay objective that is missed: what waits for longer than `most_seconds` has to be gone in time, and
/// nothing is lowered meanwhile. Without a load it grows with the delay, at most doubling at a time.
#[must_use]
pub fn by_delay(load: Option<Load>, lag_seconds: f64, most_seconds: f64, current: Count, policy: &Policy) -> f64 {
    let current = as_f64(current.max(1));
    match load {
        Some(load) => {
            let over = Load { backlog: (load.backlog - most_seconds * load.arrival).max(0.0), ..load };
            rate::need(over, policy).when_changed.max(current)
        }
        None => current * (lag_seconds / most_seconds).min(2.0),
    }
}

/// An objective that no count within the bounds meets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unreachable {
    /// It is not longer than the change itself, which takes so many seconds.
    ShorterThanChange(f64),
    /// The largest count needs so many seconds; `None` is for ever.
    AtMost(Option<f64>),
}

/// Whether the objective of `catchUpWithin` can be met with at most `most` replicas.
#[must_use]
pub fn unreachable(load: Load, need: Need, most: Count, policy: &Policy) -> Option<Unreachable> {
    let (startup, pause) = (policy.startup.seconds(), policy.pause.seconds());
    if !need.reachable {
        return Some(Unreachable::ShorterThanChange(startup + pause));
    }
    if load.backlog <= 0.0 || ceil_count(need.when_changed) <= most {
        return None;
    }
    let seconds = rate::catch_up(load, most, startup, pause);
    seconds.is_none_or(|seconds| seconds > policy.catch_up_within.seconds()).then_some(Unreachable::AtMost(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::policy::PolicyInput;
    use crate::core::request::Kind;

    #[test]
    fn the_present_count_is_kept_while_it_is_enough_by_itself() {
        let policy = PolicyInput::default().resolve(Kind::Backlog).expect("defaults");
        // 400/s arrive at 5 x 100/s: what waits is gone in 300 s as it is
        let load = Load { arrival: 380.0, backlog: 3_000.0, served: 400.0, capacity: 100.0 };
        let kept = by_rates(load, &policy, 5, false);
        assert_eq!((ceil_count(kept.needed), kept.why), (5, Why::Within));
        assert_eq!(by_rates(load, &policy, 4, false).why, Why::CatchUp);
        assert_eq!(by_rates(load, &policy, 9, false).why, Why::Spare);
    }

    #[test]
    fn a_missed_delay_without_a_capacity_at_most_doubles_the_count() {
        let policy = PolicyInput::default().resolve(Kind::Backlog).expect("defaults");
        assert!((by_delay(None, 600.0, 60.0, 4, &policy) - 8.0).abs() < 1e-9);
        assert!((by_delay(None, 90.0, 60.0, 4, &policy) - 6.0).abs() < 1e-9);
    }
}
