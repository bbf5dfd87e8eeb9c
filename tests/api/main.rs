//! The HTTP interface as callers meet it.
#![expect(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test that cannot go on fails")]

mod advice;
mod events;
mod page;
mod service;
mod socket;
mod support;
mod targets;
