//! Loadline: how many replicas, which parallelism, and why.

pub mod cli;
pub mod config;
pub mod core;
pub mod demo;
pub mod engine;
pub mod sources;
pub mod surfaces;
pub mod telemetry;
