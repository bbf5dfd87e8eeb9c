//! What is carried from one decision to the next, because readings cannot tell it: wishes of the past for
//! stabilization, the last activity, learned capacities, effects of changes, counters of the previous reading.
//!
//! It travels in the answer and comes back with the next question, so the service itself stays stateless. It is
//! validated like any input, and bounded: every list has a limit of its own, so that a memory stays far below
//! 256 KiB (or 1 KiB a part, if that is more). One of another kind or version is ignored, and that is said.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::kind::Kind;
use super::units::{Count, Duration, Timestamp, seconds_between};

/// The version written by this release.
pub const VERSION: u32 = 1;

/// The largest memory that is accepted without parts, in bytes.
pub const LARGEST_BYTES: usize = 256 * 1024;

/// What is carried between decisions of one target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Memory {
    /// The version of this form.
    pub version: u32,
    /// The kind it belongs to.
    pub kind: Kind,
    /// When the target was first seen: windows and quiet times count from here at the earliest.
    pub since: Timestamp,
    /// When it was last active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_active_at: Option<Timestamp>,
    /// Observation time of the last complete reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_complete_at: Option<Timestamp>,
    /// Since when readings have come without an outage, where there has been one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unbroken_since: Option<Timestamp>,
    /// Readings in a row that told nothing.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u32,
    /// The wanted count as last seen, and since when it has been that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<SpecSeen>,
    /// The count that was last recommended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended: Option<Count>,
    /// The count of the last raise, with no cut since: what MIDAS waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raised_to: Option<Count>,
    /// How often in a row the count was changed to something that was not recommended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub foreign_changes: u32,
    /// Wishes of the past, for stabilization.
    #[serde(default, skip_serializing_if = "Wishes::is_empty")]
    pub wishes: Wishes,
    /// The same for each part.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, PartMemory>,
    /// Capacity of one replica as last measured at saturation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CapacitySeen>,
    /// The previous reading's counter of arrivals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived: Option<CounterSeen>,
    /// The previous reading's backlog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<CounterSeen>,
    /// Measured downtime of rescales, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_seconds: Option<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// The wanted count, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpecSeen {
    /// The count.
    pub count: Count,
    /// Since when it has been that; the first sight at the earliest.
    pub since: Timestamp,
    /// The count before, where a change was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Count>,
}

/// What is carried for a part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PartMemory {
    /// Wishes of the past.
    pub wishes: Wishes,
    /// (parallelism, capacity) as last seen at another parallelism.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<EffectSeen>,
    /// What it could do at each parallelism it has had, oldest first; the newest may be the present one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capacities: Vec<CapacityAt>,
    /// A cut that waits, where the delay begins with the first lower wish.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed: Option<DelayedCut>,
    /// The parallelism that was last advised, until the rescale to it is no longer seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advised: Option<Count>,
    /// When it last had something to do, where it is idle for itself: a pool of workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_active_at: Option<Timestamp>,
}

impl PartMemory {
    /// The most (parallelism, capacity) pairs that are kept of a part.
    pub const MOST_CAPACITIES: usize = 8;
}

/// A cut that waits: since when lower has been wanted without a break, and what was wanted since.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DelayedCut {
    /// The parallelism that is to be lowered.
    pub from: Count,
    /// The first lower wish.
    pub since: Timestamp,
    /// Falling wishes, oldest first: the front is the largest. Each with whether it lay outside the band.
    wishes: VecDeque<(Timestamp, Count, bool)>,
}

impl DelayedCut {
    /// A delay that begins now.
    #[must_use]
    pub const fn new(from: Count, since: Timestamp) -> Self {
        Self { from, since, wishes: VecDeque::new() }
    }

    /// Records a lower wish, which makes earlier ones that are no larger irrelevant. Beyond [`Wishes::MOST`] steps two
    /// neighbours are merged into the later time with the larger wish, which can only delay a cut.
    pub fn record(&mut self, now: Timestamp, wish: Count, outside: bool) {
        while self.wishes.back().is_some_and(|(_, last, _)| *last <= wish) {
            self.wishes.pop_back();
        }
        self.wishes.push_back((now, wish, outside));
        if self.wishes.len() > Wishes::MOST
            && let Some((at, _, _)) = self.wishes.remove(1)
            && let Some(first) = self.wishes.front_mut()
        {
            first.0 = at;
        }
    }

    /// The largest wish not older than `window`, and whether it lay outside the band.
    #[must_use]
    pub fn largest(&self, now: Timestamp, window: Duration) -> Option<(Count, bool)> {
        self.wishes.iter().find(|(at, _, _)| seconds_between(*at, now) <= window.seconds()).map(|(_, wish, outside)| (*wish, *outside))
    }

    /// Forgets wishes older than `window`.
    pub fn forget(&mut self, now: Timestamp, window: Duration) {
        while self.wishes.len() > 1 && self.wishes.front().is_some_and(|(at, _, _)| seconds_between(*at, now) > window.seconds()) {
            self.wishes.pop_front();
        }
    }
}

/// What a part could do at some parallelism.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CapacityAt {
    /// The parallelism.
    pub parallelism: Count,
    /// Records per second when always busy, of all subtasks.
    pub capacity_per_second: f64,
    /// When it was last measured at this parallelism.
    pub at: Timestamp,
}

/// Notes what a part can do now. The newest pair is renewed for as long as the parallelism stays what it is, so the list
/// holds one pair for each stay at a parallelism, as it was when the stay ended.
pub fn note_capacity(capacities: &mut Vec<CapacityAt>, seen: CapacityAt) {
    if capacities.last().is_some_and(|last| last.parallelism == seen.parallelism) {
        capacities.pop();
    } else if capacities.len() >= PartMemory::MOST_CAPACITIES {
        capacities.remove(0);
    }
    capacities.push(seen);
}

/// A change of a part's parallelism whose effect is still to be judged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EffectSeen {
    /// Parallelism before.
    pub from: Count,
    /// Parallelism that was recommended.
    pub to: Count,
    /// Capacity before, records per second.
    pub capacity_before: f64,
    /// Capacity that was expected after, records per second: from the final value, not from the uncapped wish.
    pub capacity_expected: f64,
}

/// A capacity of one replica.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CapacitySeen {
    /// Items per second.
    pub per_replica_per_second: f64,
    /// When it was measured.
    pub at: Timestamp,
}

/// A value of the previous reading.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CounterSeen {
    /// The value.
    pub value: u64,
    /// When it was measured.
    pub at: Timestamp,
}

/// Wishes of the past as two staircases: what is needed for the largest and for the smallest wish of any window, and
/// no more.
///
/// A new wish removes every earlier one that it makes irrelevant, so the front is always the extreme of the window,
/// and the length is the number of steps, not of readings. Beyond [`Wishes::MOST`] steps two neighbours are merged
/// into the later time with the more cautious value, which can only delay a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Wishes {
    /// Falling values, oldest first: the front is the largest.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    peaks: VecDeque<(Timestamp, Count)>,
    /// Rising values, oldest first: the front is the smallest.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    lows: VecDeque<(Timestamp, Count)>,
}

impl Wishes {
    /// The most steps that are kept of either staircase.
    pub const MOST: usize = 64;

    /// True when no wish has been recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.peaks.is_empty()
    }

    /// Records a wish and forgets those older than `window`.
    pub fn record(&mut self, now: Timestamp, wish: Count, window: Duration) {
        while self.peaks.back().is_some_and(|(_, last)| *last <= wish) {
            self.peaks.pop_back();
        }
        self.peaks.push_back((now, wish));
        while self.lows.back().is_some_and(|(_, last)| *last >= wish) {
            self.lows.pop_back();
        }
        self.lows.push_back((now, wish));
        for steps in [&mut self.peaks, &mut self.lows] {
            while steps.len() > 1 && steps.front().is_some_and(|(at, _)| seconds_between(*at, now) > window.seconds()) {
                steps.pop_front();
            }
            if steps.len() > Self::MOST {
                merge_second(steps);
            }
        }
    }

    /// The largest wish not older than `window`.
    #[must_use]
    pub fn largest(&self, now: Timestamp, window: Duration) -> Option<(Timestamp, Count)> {
        self.peaks.iter().find(|(at, _)| seconds_between(*at, now) <= window.seconds()).copied()
    }

    /// When a wish of more than `wish` was recorded last.
    #[must_use]
    pub fn newest_above(&self, wish: Count) -> Option<Timestamp> {
        self.peaks.iter().rev().find(|(_, past)| *past > wish).map(|(at, _)| *at)
    }

    /// The smallest wish not older than `window`.
    #[must_use]
    pub fn smallest(&self, now: Timestamp, window: Duration) -> Option<(Timestamp, Count)> {
        self.lows.iter().find(|(at, _)| seconds_between(*at, now) <= window.seconds()).copied()
    }
}

/// The first step keeps its (more cautious) value and takes the time of the second.
fn merge_second(steps: &mut VecDeque<(Timestamp, Count)>) {
    if let Some((at, _)) = steps.remove(1)
        && let Some(first) = steps.front_mut()
    {
        first.0 = at;
    }
}

impl Memory {
    /// The memory of a target that is seen for the first time: its windows start now.
    #[must_use]
    pub fn new(kind: Kind, now: Timestamp) -> Self {
        Self {
            version: VERSION,
            kind,
            since: now,
            last_active_at: None,
            last_complete_at: None,
            unbroken_since: None,
            failures: 0,
            spec: None,
            recommended: None,
            raised_to: None,
            foreign_changes: 0,
            wishes: Wishes::default(),
            parts: BTreeMap::new(),
            capacity: None,
            arrived: None,
            backlog: None,
            restart_seconds: None,
        }
    }

    /// What is wrong with a memory that was sent, where something is.
    #[must_use]
    pub fn flaw(&self, now: Timestamp) -> Option<String> {
        let long = std::iter::once(&self.wishes)
            .chain(self.parts.values().map(|part| &part.wishes))
            .any(|wishes| wishes.peaks.len().max(wishes.lows.len()) > Wishes::MOST)
            || self.parts.values().filter_map(|part| part.delayed.as_ref()).any(|cut| cut.wishes.len() > Wishes::MOST);
        if long {
            return Some(format!("a list of wishes has more than {} steps: expected a memory that this service returned", Wishes::MOST));
        }
        if self.parts.values().any(|part| part.capacities.len() > PartMemory::MOST_CAPACITIES) {
            return Some(format!("a list of capacities has more than {} pairs: expected a memory that this service returned", PartMemory::MOST_CAPACITIES));
        }
        // an hour of grace: the caller's `now` need not be ours
        if seconds_between(now, self.since) > 3600.0 {
            return Some(format!("since {} lies in the future of {now}: expected a time of the past", self.since));
        }
        if let Some(at) = self.last_complete_at.filter(|at| seconds_between(now, *at) > 3600.0) {
            return Some(format!("lastCompleteAt {at} lies in the future of {now}: expected a time of the past"));
        }
        let not_positive = |value: f64| !value.is_finite() || value < 0.0;
        if let Some(seconds) = self.restart_seconds.filter(|seconds| not_positive(*seconds)) {
            return Some(format!("restartSeconds is {seconds}: expected at least 0"));
        }
        if let Some(seen) = self.capacity.filter(|seen| not_positive(seen.per_replica_per_second)) {
            return Some(format!("capacity.perReplicaPerSecond is {}: expected at least 0", seen.per_replica_per_second));
        }
        if let Some(seen) = self.parts.values().flat_map(|part| &part.capacities).find(|seen| seen.parallelism == 0 || not_positive(seen.capacity_per_second)) {
            return Some(format!(
                "a capacity of {} at parallelism {}: expected at least 0 records per second at a parallelism of at least 1",
                seen.capacity_per_second, seen.parallelism
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).expect("a time")
    }

    #[test]
    fn the_largest_wish_of_the_window_counts_not_of_all_time() {
        let mut wishes = Wishes::default();
        let window = Duration::from_mins(60);
        for (minutes_ago, wish) in [(70, 40), (50, 22), (30, 26), (10, 18), (0, 20)] {
            wishes.record(at(-60 * minutes_ago), wish, window);
        }
        assert_eq!(wishes.largest(at(0), window).map(|(_, wish)| wish), Some(26));
        assert_eq!(wishes.smallest(at(0), window).map(|(_, wish)| wish), Some(18));
    }

    #[test]
    fn a_stay_at_a_parallelism_leaves_one_pair_and_only_the_newest_stays_are_kept() {
        let mut capacities = Vec::new();
        for (second, parallelism) in [4, 4, 8, 8, 8, 4, 16, 4, 5, 6, 7, 9].into_iter().enumerate() {
            note_capacity(&mut capacities, CapacityAt { parallelism, capacity_per_second: 100.0, at: at(i64::try_from(second).expect("small")) });
        }
        let kept: Vec<Count> = capacities.iter().map(|seen| seen.parallelism).collect();
        assert_eq!(kept, [8, 4, 16, 4, 5, 6, 7, 9], "the first stay at 4 has gone");
        assert_eq!(capacities.first().map(|seen| seen.at), Some(at(4)), "as it was when the stay ended");
    }

    #[test]
    fn a_long_staircase_is_bounded_and_stays_cautious() {
        let mut wishes = Wishes::default();
        let window = Duration::from_mins(600);
        for step in 0..1000 {
            wishes.record(at(step * 30), 2000 - step.unsigned_abs(), window);
        }
        assert!(wishes.peaks.len() <= Wishes::MOST);
        assert!(wishes.largest(at(1000 * 30), window).map(|(_, wish)| wish) >= Some(2000 - 1000 + 1));
    }
}
