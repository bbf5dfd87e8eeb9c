//! The arithmetic that the kinds share: from rates to a wish, from a wish to a count, and what a consumer makes of it.

pub mod align;
pub mod capacity;
pub mod consumer;
pub mod limits;
pub mod rate;
pub mod wish;
