//! One file per system that can be asked for readings.

pub mod druid;
pub mod fixed;
pub mod flink;
pub mod http;
pub mod kafka;
pub mod kubernetes;
