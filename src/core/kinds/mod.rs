//! The kinds of workload: what each one reads, and what it makes of it.

pub mod backlog;
pub mod druid;
pub mod flink;

pub use self::backlog::BacklogSnapshot;
pub use self::druid::DruidWorkersSnapshot;
pub use self::flink::FlinkJobSnapshot;

/// Implements [`Observed`](super::request::Observed) for a snapshot that has the common fields.
macro_rules! observed {
    ($snapshot:ty) => {
        impl crate::core::request::Observed for $snapshot {
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
        }
    };
}
pub(crate) use observed;
