//! The HTTP interface as callers meet it.
#![expect(missing_docs, reason = "test names are sentences")]

mod advice;
mod events;
mod page;
mod service;
mod socket;
mod support;
mod targets;
