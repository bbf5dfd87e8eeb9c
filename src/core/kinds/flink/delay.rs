//! Cuts that wait, counted from the first lower wish: the delayed scale-down of Flink's autoscaler.
//!
//! The delay begins with the first wish below the present parallelism. Until it has passed nothing is lowered; then the
//! largest wish of the delay counts, with what it said of the band. A wish that is not lower ends it, a rescale of any
//! vertex as well. The default looks back over the wishes that are remembered instead, which differs where nothing is
//! remembered: there nothing objects to a cut.
//! Source: flink-autoscaler `DelayedScaleDown`, `JobVertexScaler`.

use crate::core::memory::DelayedCut;
use crate::core::units::{Count, Duration, Timestamp, seconds_between};

/// What comes of a wish: the parallelism, and whether it lies outside the band.
#[must_use]
pub fn settle(delayed: &mut Option<DelayedCut>, current: Count, wish: Count, outside: bool, now: Timestamp, delay: Duration) -> (Count, bool) {
    if wish >= current {
        *delayed = None;
        return (wish, outside);
    }
    if delay.seconds() <= 0.0 {
        return (wish, outside);
    }
    let cut = delayed.get_or_insert_with(|| DelayedCut::new(current, now));
    cut.record(now, wish, outside);
    if seconds_between(cut.since, now) < delay.seconds() {
        return (current, outside);
    }
    cut.forget(now, delay);
    cut.largest(now, delay).unwrap_or((wish, outside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_begins_with_the_first_lower_wish_and_then_its_largest_counts() {
        let at = |seconds: i64| Timestamp::from_second(1_800_000_000 + seconds).expect("a time");
        let minute = Duration::from_mins(1);
        let mut delayed = None;
        let mut ask = |second: i64, wish: Count, outside: bool| settle(&mut delayed, 100, wish, outside, at(second), minute);
        assert_eq!(ask(0, 80, true), (100, true));
        assert_eq!(ask(10, 90, false), (100, false));
        assert_eq!(ask(59, 70, true), (100, true));
        assert_eq!(ask(60, 70, true), (90, false), "the largest, with what it said of the band");
        assert_eq!(ask(71, 60, true), (70, true), "90 is older than a minute");
        assert_eq!(ask(80, 100, true), (100, true), "not lower");
        assert_eq!(ask(81, 60, true), (100, true), "so the delay begins anew");
    }
}
