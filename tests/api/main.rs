//! The HTTP interface as callers meet it.

mod advice;
mod events;
mod page;
mod service;
mod socket;
mod support;
mod targets;
