//! Fields of `pubsubSubscription`: their defaults, and what they must satisfy.

use super::{PolicyInput, Preset};
use crate::core::units::{Count, Duration};

/// Fields of `pubsubSubscription` with their values in force.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "each is a field of PolicyInput, and documented there")]
pub struct PubsubPolicy {
    pub ack_deadline: Duration,
    pub max_outstanding_per_replica: Option<Count>,
    /// The number is taken as it was published, as KEDA does, instead of being carried to now.
    pub as_published: bool,
}

impl PolicyInput {
    /// What is in force for a subscription.
    pub(super) fn pubsub(&self) -> PubsubPolicy {
        PubsubPolicy {
            ack_deadline: self.ack_deadline.unwrap_or(Duration::from_secs(10)),
            max_outstanding_per_replica: self.max_outstanding_per_replica,
            as_published: self.preset == Some(Preset::KedaGcpPubsub),
        }
    }

    /// Ranges of these fields.
    pub(super) fn check_pubsub(&self, say: &mut impl FnMut(&str, String)) {
        if self.max_outstanding_per_replica == Some(0) {
            say("maxOutstandingPerReplica", "0 is out of range: expected at least 1".to_owned());
        }
        if let Some(deadline) = self.ack_deadline.filter(|deadline| deadline.seconds() <= 0.0) {
            say("ackDeadline", format!("{deadline} is out of range: expected more than 0s"));
        }
    }

    /// The fields by name, and whether they are given.
    pub(super) const fn pubsub_fields(&self) -> [(&'static str, bool); 2] {
        [("ackDeadline", self.ack_deadline.is_some()), ("maxOutstandingPerReplica", self.max_outstanding_per_replica.is_some())]
    }
}
