//! One file per system that can be asked for readings.

pub mod druid;
pub mod fixed;
pub mod flink;
pub mod http;
pub mod kafka;
pub mod kubernetes;
pub mod prometheus;
pub mod pubsub;

use std::time::Duration;

/// How often a target looks, and how long one call may take.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Time between readings.
    pub interval: Duration,
    /// Time of one call.
    pub timeout: Duration,
}
