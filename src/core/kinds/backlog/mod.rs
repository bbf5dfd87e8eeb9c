//! Queues.

mod reading;

pub use self::reading::*;
