//! Druid's workers, item by item: what counts as a slot, as demand, as a worker that may go, and what MIDAS makes of the
//! same. Each remark says what the naive answer would be.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod asking;
mod druid_lowering;
mod druid_midas_defects;
mod druid_slots;
mod druid_streams;
