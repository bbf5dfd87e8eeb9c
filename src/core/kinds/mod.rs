//! The kinds of workload: what each one reads, and what it makes of it.

pub mod backlog;
pub mod druid;
pub mod flink;
pub mod kafka;
pub mod pubsub;
pub mod supervisor;

pub use self::backlog::BacklogSnapshot;
pub use self::druid::DruidWorkersSnapshot;
pub use self::flink::FlinkJobSnapshot;
pub use self::kafka::KafkaGroupSnapshot;
pub use self::pubsub::PubsubSubscriptionSnapshot;
pub use self::supervisor::DruidSupervisorSnapshot;
use super::units::{Count, Timestamp};

/// What every reading says of itself, whatever it measured.
pub trait Observed {
    /// When the source measured it, on the sender's clock; absent means "now".
    fn observed_at(&self) -> Option<Timestamp>;
    /// When it arrived, on our clock.
    fn received_at(&self) -> Option<Timestamp>;
    /// The sender's clock minus ours, in seconds.
    fn clock_offset_seconds(&self) -> Option<f64>;
    /// The ready count at that time.
    fn replicas(&self) -> Option<Count>;
    /// What the source could not tell although it was to. Nothing is lowered without it; a kind that judges it by its own
    /// parts, as Druid's workers by pool, tells nothing here.
    fn missing(&self) -> &[String] {
        &[]
    }
}

/// Implements [`Observed`] for a snapshot that has the common fields.
macro_rules! observed {
    ($snapshot:ty $(, $missing:ident)?) => {
        impl crate::core::kinds::Observed for $snapshot {
            fn observed_at(&self) -> Option<crate::core::units::Timestamp> {
                self.observed_at
            }
            fn received_at(&self) -> Option<crate::core::units::Timestamp> {
                self.received_at
            }
            fn clock_offset_seconds(&self) -> Option<f64> {
                self.sender_clock_offset_seconds
            }
            fn replicas(&self) -> Option<crate::core::units::Count> {
                self.replicas
            }
            $(fn missing(&self) -> &[String] {
                &self.$missing
            })?
        }
    };
}
pub(crate) use observed;
