//! Agreement with Apache Flink's own autoscaler, and the rows in which it errs. `cargo test conformance` runs all of it.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a test fails by panicking"
)]

mod conformance;
