//! Loadline: how many replicas, which parallelism, and why.
//!
//! It accepts readings of a workload, or pulls them, and answers with a count, the reasons with their numbers, the limits
//! that cut the wish, and the steps to take. The decision is a pure function of the request:
//!
//! ```
//! use loadline::core::{advise, request::parse};
//!
//! let body = br#"{
//!     "kind": "druidWorkers",
//!     "now": "2026-11-30T10:00:00Z",
//!     "replicas": { "spec": 2, "ready": 2 },
//!     "snapshot": {
//!         "workers": [
//!             { "host": "druid-mm-0:8091", "capacity": 15, "used": 15 },
//!             { "host": "druid-mm-1:8091", "capacity": 15, "used": 14 }
//!         ],
//!         "pending": { "count": 20, "oldestSeconds": 40 }
//!     }
//! }"#;
//! let request = parse(body, "2026-11-30T10:00:00Z".parse()?).expect("a valid request");
//! let advice = advise(&request);
//!
//! assert_eq!(advice.recommended, Some(4));
//! assert_eq!(advice.reasons[0].code().name(), "PendingTasks");
//! println!("{}", advice.reasons[0]);
//! # Ok::<(), jiff::Error>(())
//! ```
//!
//! The layers, each knowing only those before it: [`core`] decides, [`config`] reads the configuration, [`engine`] looks
//! after targets, [`sources`] ask other systems, [`actuators`] change them, [`surfaces`] answer callers, [`cli`] wires them together. [`demo`] is a small
//! Druid and a small Flink to watch.

pub mod actuators;
pub mod cli;
pub mod config;
pub mod core;
pub mod demo;
pub mod engine;
pub mod sources;
pub mod surfaces;
pub mod telemetry;
