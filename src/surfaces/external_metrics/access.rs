//! Who may read: what the cluster's own rules say, asked with a `SubjectAccessReview`
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authorization/>), or a list in the configuration.
//!
//! An HPA asks every 15 s for each of its metrics, so an answer of the cluster is kept for [`KEPT`], as the API servers'
//! own library does: a right that is taken away is gone after that time. Both answers are kept, and at most [`MOST`] of
//! them: beyond that the oldest goes. An answer that could not be had is not kept; the request fails, and an HPA holds.
//!
//! The group `system:masters` always may, as everywhere in Kubernetes: the availability probe comes with it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::front_proxy::Identity;
use super::{Cluster, Review};
use crate::engine::clock;

/// How long an answer of the cluster is kept.
pub const KEPT: Duration = Duration::from_secs(10);
/// The most answers that are kept.
pub const MOST: usize = 1024;

/// The group that may do everything.
const MASTERS: &str = "system:masters";

/// How it is decided who may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The cluster is asked.
    Review,
    /// These, whatever the cluster says.
    List {
        /// Users.
        users: Vec<String>,
        /// Groups.
        groups: Vec<String>,
    },
}

/// The answers of the cluster that are kept.
#[derive(Default)]
pub struct Access {
    kept: Mutex<HashMap<Review, (bool, Instant)>>,
}

impl Access {
    /// Whether `identity` may read the metric in a namespace.
    pub async fn allows(&self, rule: &Rule, cluster: &dyn Cluster, review: Review) -> Result<bool, String> {
        let Identity { user, groups, .. } = &review.identity;
        if groups.iter().any(|group| group == MASTERS) {
            return Ok(true);
        }
        if let Rule::List { users, groups: listed } = rule {
            return Ok(users.contains(user) || groups.iter().any(|group| listed.contains(group)));
        }
        let now = clock::instant();
        if let Some((allowed, at)) = self.lock().get(&review)
            && now.duration_since(*at) < KEPT
        {
            return Ok(*allowed);
        }
        let allowed = cluster.allows(&review).await?;
        self.keep(review, allowed, clock::instant());
        Ok(allowed)
    }

    fn keep(&self, review: Review, allowed: bool, now: Instant) {
        let mut kept = self.lock();
        if kept.len() >= MOST {
            kept.retain(|_, (_, at)| now.duration_since(*at) < KEPT);
        }
        if kept.len() >= MOST
            && let Some(oldest) = kept.iter().min_by_key(|(_, (_, at))| *at).map(|(review, _)| review.clone())
        {
            kept.remove(&oldest);
        }
        kept.insert(review, (allowed, now));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Review, (bool, Instant)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(user: &str) -> Review {
        Review { identity: Identity { user: user.to_owned(), ..Identity::default() }, namespace: "shop".to_owned() }
    }

    #[test]
    fn the_answers_that_are_kept_are_bounded_and_the_oldest_goes_first() {
        let (access, now) = (Access::default(), clock::instant());
        for number in 0..MOST {
            access.keep(review(&number.to_string()), true, now + Duration::from_micros(number.try_into().expect("small")));
        }
        access.keep(review("another"), false, now + Duration::from_secs(1));
        let kept = access.lock();
        assert_eq!(kept.len(), MOST);
        assert!(!kept.contains_key(&review("0")) && kept.contains_key(&review("1")) && kept.contains_key(&review("another")));
    }
}
