//! When a target is looked at, and when its source is asked.
//!
//! Decisions are made once an interval, whatever the source does, so that a hold ages and a fallback comes in time. A
//! source that fails is asked at growing distances: after 1, 2, 4 and then 8 intervals, or after what it asked for in
//! `Retry-After` if that is later. Targets start spread over their interval by a hash of their name, so that a thousand
//! of them do not ask in the same instant, and each keeps its place. Targets that share what they ask (the jobs of one
//! cluster) share their place as well, whenever each of them began.

use std::time::Duration;

use tokio::time::Instant;

/// The largest distance between two tries, in intervals.
const MOST_INTERVALS: u32 = 8;
/// No wish for a later try is followed for longer than this.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// Where in its interval a target of this name starts: FNV-1a over the name.
#[must_use]
pub fn offset(name: &str, interval: Duration) -> Duration {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    // the upper bits are mixed best
    let part = u32::try_from(hash >> 40).unwrap_or(0) % 1000;
    interval * part / 1000
}

/// The next moment after `after` at which those that go by this name have their turn.
#[must_use]
pub fn aligned(epoch: Instant, name: &str, interval: Duration, after: Instant) -> Instant {
    let first = epoch + offset(name, interval);
    let Some(since) = after.checked_duration_since(first) else { return first };
    let turns = since.as_nanos().checked_div(interval.as_nanos()).and_then(|turns| u32::try_from(turns).ok()).unwrap_or(0);
    first + interval * turns.saturating_add(1)
}

/// When one that begins now first has its turn: at once where the turn of the others has only just been.
#[must_use]
pub fn first(epoch: Instant, name: &str, interval: Duration, now: Instant) -> Instant {
    let next = aligned(epoch, name, interval, now);
    let until = next.saturating_duration_since(now);
    let only_just = until <= interval && until >= interval * 3 / 4;
    if only_just && now >= epoch + offset(name, interval) { now } else { next }
}

/// How long to wait before a source is asked again after so many failures in a row; a hair less than whole intervals, so
/// that the try falls on a decision.
#[must_use]
pub fn distance(failures: u32, interval: Duration, retry_after: Option<Duration>) -> Duration {
    let intervals = if failures == 0 { 1 } else { 1_u32.checked_shl(failures - 1).unwrap_or(MOST_INTERVALS).clamp(1, MOST_INTERVALS) };
    let own = interval * intervals;
    let asked = retry_after.map_or(Duration::ZERO, |after| after.min(LONGEST_RETRY_AFTER));
    own.max(asked).saturating_sub(interval / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(30);

    #[test]
    fn tries_grow_apart_up_to_eight_intervals() {
        let seconds: Vec<u64> = (0..8).map(|failures| (distance(failures, INTERVAL, None) + INTERVAL / 10).as_secs()).collect();
        assert_eq!(seconds, [30, 30, 60, 120, 240, 240, 240, 240]);
    }

    #[test]
    fn retry_after_is_followed_where_it_is_later_and_reasonable() {
        assert_eq!(distance(1, INTERVAL, Some(Duration::from_secs(300))), Duration::from_secs(297));
        assert_eq!(distance(1, INTERVAL, Some(Duration::from_secs(1))), Duration::from_secs(27));
        assert!(distance(1, INTERVAL, Some(Duration::from_secs(1_000_000))) <= LONGEST_RETRY_AFTER);
    }

    #[test]
    fn those_that_share_a_place_have_their_turn_together_whenever_they_began() {
        #[expect(clippy::disallowed_methods, reason = "any moment will do")]
        let epoch = Instant::from_std(std::time::Instant::now());
        let place = offset("cluster", INTERVAL);
        assert_eq!(aligned(epoch, "cluster", INTERVAL, epoch), epoch + place);
        for seconds in [31, 44, 300, 3_001] {
            let now = epoch + Duration::from_secs(seconds);
            let next = aligned(epoch, "cluster", INTERVAL, now);
            assert!(next > now && next <= now + INTERVAL);
            assert_eq!(next.duration_since(epoch + place).as_millis() % INTERVAL.as_millis(), 0);
        }
        let turn = epoch + place + INTERVAL * 3;
        assert_eq!(first(epoch, "cluster", INTERVAL, turn + Duration::from_secs(2)), turn + Duration::from_secs(2), "with the others of this turn");
        assert_eq!(first(epoch, "cluster", INTERVAL, turn + Duration::from_secs(20)), turn + INTERVAL);
    }

    #[test]
    fn targets_are_spread_over_their_interval_and_keep_their_place() {
        let offsets: Vec<Duration> = (0..100).map(|n| offset(&format!("target-{n}"), INTERVAL)).collect();
        assert_eq!(offset("target-7", INTERVAL), offsets[7]);
        let first_half = offsets.iter().filter(|offset| **offset < INTERVAL / 2).count();
        assert!((25..=75).contains(&first_half), "{first_half} of 100 in the first half");
        assert!(offsets.iter().all(|offset| *offset < INTERVAL));
    }
}
