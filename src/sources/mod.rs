//! One file per system that can be asked for readings. Wire types are private, parsing is a pure function of bytes, and
//! all calls go through the one guarded client.

pub mod druid;
pub mod fixed;
pub mod flink;
pub mod http;
pub mod kubernetes;
