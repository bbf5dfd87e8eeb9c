//! What one replica can do, and how well that is known.
//!
//! A replica that waits for work tells nothing of how fast it could be, so only *saturated* ones measure: those for
//! which work has waited all the time. The mean over all would buy too many where one is behind and the others idle.
//! What an idle one does is a lower bound, never a capacity: dividing by it asks for any number at all.
//! Items per second and replica. Source: DS2 (OSDI 2018) for the idea of a true rate.

use crate::core::units::{Count, Timestamp, as_f64, seconds_between};

/// A measure that is not older is as good as one of now.
const FRESH_SECONDS: f64 = 3_600.0;
/// What was measured longer ago tells nothing of now.
const BELIEVED_SECONDS: f64 = 6.0 * 3_600.0;
/// Two measures of the same differ by so much.
const NOISE: f64 = 0.05;

/// How the capacity of a replica is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The policy says it.
    Declared,
    /// So many saturated ones of so many show it, or rate and busy share do.
    Measured {
        /// Saturated ones.
        saturated: Count,
        /// All of them.
        of: Count,
    },
    /// It was measured earlier.
    Remembered,
    /// At least so much: what they do while they also wait.
    LowerBound,
}

/// The capacity of one replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// Items per second; above 0.
    pub per_replica: f64,
    /// How it is known.
    pub source: Source,
    /// How long ago it was measured, in seconds.
    pub age_seconds: f64,
}

impl Capacity {
    /// A capacity, where the number can be one.
    #[must_use]
    pub fn new(per_replica: f64, source: Source, age_seconds: f64) -> Option<Self> {
        (per_replica.is_finite() && per_replica > 0.0).then_some(Self { per_replica, source, age_seconds })
    }

    /// True when it is only what a replica has been seen to do.
    #[must_use]
    pub fn is_lower_bound(&self) -> bool {
        self.source == Source::LowerBound
    }

    /// True when this reading measured it.
    #[must_use]
    pub fn is_fresh_measure(&self) -> bool {
        matches!(self.source, Source::Measured { .. })
    }

    /// How many estimates it puts into an answer: none when measured, one when declared, two when it is a lower bound.
    #[must_use]
    pub fn estimates(&self) -> usize {
        match self.source {
            Source::Measured { .. } => 0,
            Source::Remembered => usize::from(self.age_seconds > FRESH_SECONDS),
            Source::Declared => 1,
            Source::LowerBound => 2,
        }
    }
}

/// What one member of a group did over a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worked {
    /// Items per second.
    pub per_second: f64,
    /// True when work has waited for it all the time.
    pub always_behind: bool,
}

/// The capacity that members show: the mean of the saturated ones, else the mean of all as a lower bound.
#[must_use]
pub fn of_members(members: &[Worked]) -> Option<Capacity> {
    let mean = |of: &dyn Fn(&&Worked) -> bool| {
        let rates: Vec<f64> = members.iter().filter(of).map(|member| member.per_second).collect();
        let count = rates.len() as Count;
        (count > 0).then(|| (rates.iter().sum::<f64>() / as_f64(count), count))
    };
    if let Some((rate, saturated)) = mean(&|member| member.always_behind && member.per_second > 0.0) {
        return Capacity::new(rate, Source::Measured { saturated, of: members.len() as Count }, 0.0);
    }
    mean(&|_| true).and_then(|(rate, _)| Capacity::new(rate, Source::LowerBound, 0.0))
}

/// A capacity that was measured at some time. Where more is seen now than was measured then, the measure has been proved
/// wrong: what is seen is a lower bound. After six hours it is one as well, since databases, code and data
/// change, and a single slow hour would else be paid for ever.
#[must_use]
pub fn remembered(per_replica: f64, at: Timestamp, seen_now: Option<f64>, now: Timestamp) -> Option<Capacity> {
    let age = seconds_between(at, now).max(0.0);
    match seen_now {
        Some(seen) if seen > per_replica * (1.0 + NOISE) => Capacity::new(seen, Source::LowerBound, 0.0),
        Some(seen) if age > BELIEVED_SECONDS => Capacity::new(seen, Source::LowerBound, 0.0),
        _ => Capacity::new(per_replica, Source::Remembered, age),
    }
}

/// Share of the gain that was to be expected when `from` replicas became `to`, both saturated: 1 when throughput grew in
/// proportion, 0 when it did not grow. `None` where nothing was added.
#[must_use]
pub fn marginal_gain(from: Count, before: f64, to: Count, after: f64) -> Option<f64> {
    if from == 0 || to <= from || before <= 0.0 {
        return None;
    }
    let expected = before / as_f64(from) * as_f64(to - from);
    Some((after - before) / expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_members_that_were_always_behind_show_a_capacity() {
        let worked = |per_second, always_behind| Worked { per_second, always_behind };
        let one = of_members(&[worked(300.0, true), worked(120.0, false), worked(90.0, false)]).expect("known");
        assert_eq!((one.per_replica, one.source), (300.0, Source::Measured { saturated: 1, of: 3 }), "the mean of 170 would buy 1.8 times too many");
        let none = of_members(&[worked(300.0, false), worked(300.0, false)]).expect("known");
        assert_eq!((none.per_replica, none.source), (300.0, Source::LowerBound));
        assert_eq!(of_members(&[worked(0.0, true)]), None, "a rate of zero is no capacity");
    }

    #[test]
    fn a_measure_that_is_proved_wrong_or_old_is_a_lower_bound() {
        let now: Timestamp = "2026-11-30T10:00:00Z".parse().expect("a time");
        let ago = |seconds: i64| now.checked_sub(jiff::SignedDuration::from_secs(seconds)).expect("a time");
        let source = |seconds, seen| remembered(10.0, ago(seconds), seen, now).map(|capacity| (capacity.per_replica, capacity.source));
        assert_eq!(source(600, Some(7.0)), Some((10.0, Source::Remembered)));
        assert_eq!(source(600, Some(40.0)), Some((40.0, Source::LowerBound)), "four times as much is done than was said to be possible");
        assert_eq!(source(7 * 3600, Some(7.0)), Some((7.0, Source::LowerBound)));
        assert_eq!(remembered(10.0, ago(7_200), None, now).map(|capacity| capacity.estimates()), Some(1));
    }

    #[test]
    fn a_raise_that_brings_nothing_has_no_gain() {
        let gain = marginal_gain(4, 800.0, 8, 820.0).expect("known");
        assert!((gain - 0.025).abs() < 1e-12, "{gain}");
        assert_eq!(marginal_gain(8, 800.0, 4, 820.0), None);
        assert_eq!(marginal_gain(0, 0.0, 4, 820.0), None);
    }
}
