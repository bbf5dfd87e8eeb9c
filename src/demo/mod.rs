//! The demonstration: a small Druid and Flink of our own on loopback.
