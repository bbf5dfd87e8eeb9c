//! From what each way of looking asks for to the one wish, the same for every queue.
//!
//! The largest wish counts and all say why. What is not above `activationBacklog` counts as nothing where zero is allowed;
//! what is active keeps one replica; where nobody is there and something is to do one is started, and tells how fast it is.
//! Where nothing can be asked for the count is held, and what is missing is named. Counts are unrounded.

use super::{Case, Judged};
use crate::core::reasons::{Maybe, Num, Rate, Reason};
use crate::core::units::{Count, ceil_count};

/// A wish with its reason.
pub type Wish = (f64, Reason);

/// What a queue shows besides its wishes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown {
    /// What waits.
    pub backlog: Option<f64>,
    /// What arrives per second.
    pub arrival: Option<f64>,
    /// Items in work.
    pub in_flight: Count,
    /// True when the traffic by itself keeps a replica.
    pub is_traffic: bool,
}

/// Settles the wishes. False where nothing is asked for: then the count is held, and `missing` says why.
pub fn settle(case: &Case<'_>, mut wishes: Vec<Wish>, shown: Shown, missing: impl FnOnce() -> String, judged: &mut Judged) -> bool {
    let traffic = || Reason::ActiveTraffic { arrival_per_second: Maybe(shown.arrival.map(Rate)), in_flight: shown.in_flight };
    if wishes.is_empty() && judged.current == Some(0) && judged.active == Some(true) {
        wishes.push((1.0, traffic()));
    }
    wishes.sort_by(|a, b| b.0.total_cmp(&a.0));
    let Some((wish, _)) = wishes.first() else {
        judged.complete = false;
        judged.hold.push(Reason::DemandUnknown { detail: missing() });
        judged.hold.append(&mut judged.no_lower);
        return false;
    };
    let mut wish = *wish;
    judged.why.extend(wishes.into_iter().map(|(_, reason)| reason));
    let current = judged.current.unwrap_or(0);
    if judged.active == Some(false) && case.min == 0 {
        // a backlog that is not above activationBacklog counts as none
        wish = 0.0;
    }
    if judged.active == Some(true) && ceil_count(wish) == 0 {
        wish = 1.0;
        judged.why.insert(0, traffic());
    } else if case.min == 0 && current > 0 && shown.is_traffic && shown.backlog.is_some_and(|backlog| backlog <= 0.0) && ceil_count(wish) > 0 {
        // at the floor of zero it is the traffic that keeps one
        judged.why.push(traffic());
    }
    if judged.current == Some(0) && ceil_count(wish) > 0 {
        judged.why.insert(0, Reason::ScaleFromZero { demand: Num(shown.backlog.unwrap_or(0.0)) });
    }
    judged.wish = Some(wish);
    judged.always_helps = 1;
    true
}

/// Whether zero is wanted and allowed: then the kind tells how long nothing has been to do ([`Judged::idle_for`]).
#[must_use]
pub fn is_for_zero(case: &Case<'_>, judged: &Judged) -> bool {
    case.min == 0 && judged.wish.is_some_and(|wish| ceil_count(wish) == 0)
}
