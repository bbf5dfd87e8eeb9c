//! Flink jobs.

mod reading;

pub use self::reading::*;
