//! Kafka's protocol, as far as reading needs it. The messages are those of `kafka-protocol`, which are generated from
//! Kafka's own schema.

pub mod client;
mod connection;
mod messages;
mod scram;
pub mod security;
