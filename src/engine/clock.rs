//! The one place that reads the clock. Everything else is given `now`.

use crate::core::units::Timestamp;

/// The present moment.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one clock of the service")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// A moment of the monotonic clock, to measure how long something took.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one clock of the service")]
pub fn instant() -> std::time::Instant {
    std::time::Instant::now()
}
