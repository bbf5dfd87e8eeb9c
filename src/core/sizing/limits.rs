//! The way of a wish to a count, with every cut and lift on record.

use crate::core::advice::Limit;
use crate::core::memory::Wishes;
use crate::core::policy::{Damping, Direction, Policy};
use crate::core::reasons::{LimitCode, Reason, Secs};
use crate::core::units::{Count, Timestamp, as_f64};

/// A value on its way from the wish to the recommendation.
#[derive(Clone, Debug)]
pub struct Ladder {
    /// The value now.
    pub value: Count,
    /// What has cut or lifted it, in order.
    pub limits: Vec<Limit>,
}

impl Ladder {
    /// Starts at the wish.
    #[must_use]
    pub const fn new(wish: Count) -> Self {
        Self { value: wish, limits: Vec::new() }
    }

    /// Moves to a value, and records that where it is another.
    pub fn to(&mut self, code: LimitCode, to: Count, at: f64) {
        if to != self.value {
            self.limits.push(Limit { code, from: self.value, to, at });
            self.value = to;
        }
    }

    /// Cuts to at most so many.
    pub fn at_most(&mut self, code: LimitCode, most: Count) {
        if self.value > most {
            self.to(code, most, as_f64(most));
        }
    }

    /// Lifts to at least so many.
    pub fn at_least(&mut self, code: LimitCode, least: Count) {
        if self.value < least {
            self.to(code, least, as_f64(least));
        }
    }

    /// True when a limit that passes with time has acted.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.limits.iter().any(|limit| limit.code.passes_with_time())
    }
}

/// The largest change of one decision, both ways. At least one step stays possible, so that no setting freezes a count.
pub fn steps(ladder: &mut Ladder, current: Count, up: &Direction, down: &Direction) {
    if ladder.value > current {
        let by_step = up.max_step.unwrap_or(Count::MAX);
        let by_factor = up.max_factor.map_or(Count::MAX, |factor| floor(as_f64(current) * factor + 1e-9).max(1));
        ladder.at_most(LimitCode::ScaleUpLimit, current.saturating_add(by_step.min(by_factor)));
    } else if ladder.value < current {
        let by_step = down.max_step.unwrap_or(Count::MAX);
        let by_factor = down.max_factor.map_or(Count::MAX, |factor| floor(as_f64(current) * factor + 1e-9).max(1));
        ladder.at_least(LimitCode::ScaleDownLimit, current.saturating_sub(by_step.min(by_factor)));
    }
}

fn floor(value: f64) -> Count {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what a count can hold")]
    let count = value.floor().clamp(0.0, 9e15) as Count;
    count
}

/// Stabilization: the most moderate wish of the window counts, but an old wish never moves the count by itself.
///
/// `wishes` must already hold the present one. Returns the reason when a lower wish has to wait.
pub fn stabilize(ladder: &mut Ladder, current: Count, wishes: &Wishes, now: Timestamp, policy: &Policy) -> Option<Reason> {
    if policy.damping == Damping::Consumer {
        return None;
    }
    let wanted = ladder.value;
    if wanted < current {
        let window = policy.scale_down.stabilization;
        let held = wishes.largest(now, window).map_or(wanted, |(_, largest)| largest).clamp(wanted, current);
        if held > wanted {
            ladder.to(LimitCode::ScaleDownStabilized, held, as_f64(held));
            return Some(Reason::Stabilizing { wanted, held, window_seconds: Secs::from(window) });
        }
    } else if wanted > current {
        let window = policy.scale_up.stabilization;
        let held = wishes.smallest(now, window).map_or(wanted, |(_, smallest)| smallest).clamp(current, wanted);
        if held < wanted {
            ladder.to(LimitCode::ScaleUpStabilized, held, as_f64(held));
        }
    }
    None
}

/// Cooldown: time since the last change, by the direction that is wanted now.
pub fn cooldown(ladder: &mut Ladder, current: Count, seconds_since_change: Option<f64>, policy: &Policy) {
    let Some(since) = seconds_since_change else { return };
    let wait = if ladder.value > current { policy.scale_up.cooldown } else { policy.scale_down.cooldown };
    let left = wait.seconds() - since;
    if left > 0.0 && ladder.value != current {
        ladder.to(LimitCode::Cooldown, current, left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::units::Duration;

    #[test]
    fn a_step_limit_never_freezes_a_count() {
        let limited = Direction { stabilization: Duration::ZERO, cooldown: Duration::ZERO, max_step: None, max_factor: Some(0.1) };
        let mut up = Ladder::new(20);
        steps(&mut up, 4, &limited, &limited);
        assert_eq!(up.value, 5);
        let mut down = Ladder::new(1);
        steps(&mut down, 4, &limited, &limited);
        assert_eq!(down.value, 3);
    }

    #[test]
    fn removing_sixty_percent_keeps_forty() {
        let limited = Direction { stabilization: Duration::ZERO, cooldown: Duration::ZERO, max_step: None, max_factor: Some(0.6) };
        let mut down = Ladder::new(2);
        steps(&mut down, 100, &limited, &limited);
        assert_eq!((down.value, down.limits.len()), (40, 1));
    }
}
