//! KEDA's external scaler, asked as KEDA asks it.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test fails by panicking, and its numbers are small whole ones"
)]

#[path = "../external_metrics/authority.rs"]
#[expect(dead_code, reason = "the tests of the external metrics API need more")]
mod authority;
mod binary;
mod calls;
mod client;
mod hostile;
mod streams;
mod support;
mod tls;
