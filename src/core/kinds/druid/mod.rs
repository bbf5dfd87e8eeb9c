//! Druid MiddleManagers and Indexers: task slots against pending tasks.

mod reading;

pub use self::reading::*;
