//! From rates to a wish.
//!
//! ```text
//! n = (arrival x (1 + growth) + backlog' / (catchUpWithin - startup - pause)) / (targetUtilization x capacity)
//! backlog' = backlog + arrival x pause + max(0, arrival - served now) x startup
//! ```
//!
//! What waits has to be gone in time, while what arrives is served as well; the pause that the change causes and the
//! start of the new replicas add to what waits. The obvious alternative, backlog by a threshold, asks for thirty
//! replicas where three suffice, and for one where a busy group keeps up without a backlog.
//! Rates are items per second, times are seconds, the wish is an unrounded count.

use crate::core::policy::Policy;
use crate::core::units::{Count, as_f64};

/// What is known of a queue and of those who serve it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Items that arrive per second.
    pub arrival: f64,
    /// Items that wait.
    pub backlog: f64,
    /// Items served per second now, by all replicas; the arrival where unknown.
    pub served: f64,
    /// Items per second that one replica can serve when always busy; above 0.
    pub capacity: f64,
}

/// A wish, with and without the price of the change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    /// Replicas wanted if the count is changed: start-up and pause included.
    pub when_changed: f64,
    /// Replicas wanted if nothing is changed: neither is paid.
    pub when_kept: f64,
    /// False: the objective is shorter than start-up and pause, so no count meets it.
    pub reachable: bool,
}

/// The wish for a load.
#[must_use]
pub fn need(load: Load, policy: &Policy) -> Need {
    let arrival = load.arrival * (1.0 + policy.growth_ratio);
    let (startup, pause) = (policy.startup.seconds(), policy.pause.seconds());
    let within = policy.catch_up_within.seconds();
    let per_replica = policy.target_utilization * load.capacity;
    let reachable = within > startup + pause;
    // an objective that cannot be met is missed by as little as possible: as long again as the change itself takes
    let drain = if reachable { within - startup - pause } else { (startup + pause).max(1.0) };
    let grown = load.backlog + arrival * pause + (arrival - load.served).max(0.0) * startup;
    let kept = if within > 0.0 { load.backlog / within } else { load.backlog / drain };
    Need { when_changed: (arrival + grown / drain) / per_replica, when_kept: (arrival + kept) / per_replica, reachable }
}

/// Seconds until a backlog is gone at `count` replicas. A change of the count costs `pause` seconds in which nothing is
/// served, and `startup` seconds in which no more is served than now. `None` is never.
#[must_use]
pub fn catch_up(load: Load, count: Count, startup: f64, pause: f64) -> Option<f64> {
    if load.backlog <= 0.0 {
        return Some(0.0);
    }
    let spare = as_f64(count) * load.capacity - load.arrival;
    if spare <= 0.0 {
        return None;
    }
    let waiting = load.backlog + load.arrival * pause + (load.arrival - load.served).max(0.0) * startup;
    Some(startup + pause + waiting / spare)
}

/// Busy share of `count` replicas at this arrival, at most 1; none without replicas.
#[must_use]
pub fn utilization(arrival: f64, capacity: f64, count: Count) -> Option<f64> {
    let whole = as_f64(count) * capacity;
    (whole > 0.0).then(|| (arrival / whole).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::policy::PolicyInput;
    use crate::core::request::Kind;

    fn policy() -> Policy {
        PolicyInput::default().resolve(Kind::Backlog).expect("defaults are valid")
    }

    #[test]
    fn a_backlog_is_gone_in_time_with_start_up_and_pause_paid() {
        let load = Load { arrival: 330.0, backlog: 12_000.0, served: 300.0, capacity: 60.0 };
        let need = need(load, &policy());
        assert!((need.when_changed - (330.0 + 17_100.0 / 230.0) / 48.0).abs() < 1e-9, "{need:?}");
        assert!(need.reachable);
    }

    #[test]
    fn catching_up_needs_spare_capacity() {
        let load = Load { arrival: 330.0, backlog: 12_000.0, served: 300.0, capacity: 60.0 };
        assert_eq!(catch_up(load, 5, 0.0, 0.0), None, "300/s never catch up with 330/s");
        let seconds = catch_up(load, 8, 60.0, 10.0).expect("480/s do");
        assert!((seconds - 184.0).abs() < 1e-9, "70 s until they work, and 17100 wait by then");
    }

    #[test]
    fn an_objective_shorter_than_the_change_itself_cannot_be_met() {
        let policy =
            PolicyInput { catch_up_within: Some(crate::core::units::Duration::from_secs(60)), ..PolicyInput::default() }.resolve(Kind::Backlog).expect("valid");
        assert!(!need(Load { arrival: 1.0, backlog: 10.0, served: 1.0, capacity: 1.0 }, &policy).reachable);
    }
}
