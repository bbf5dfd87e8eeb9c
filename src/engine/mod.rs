//! When to ask, and what to keep: polls targets, runs the decision, stores the advice.

pub mod clock;
pub mod source;
pub mod store;
