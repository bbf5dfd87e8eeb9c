//! One file per system that can be told to change. They speak through the guarded client of the sources and read the same
//! wire types; what is done when is the engine's to say.

pub mod druid;
pub mod flink;
pub mod lease;
