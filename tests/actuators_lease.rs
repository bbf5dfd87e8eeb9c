//! One active instance: leases on a fake API server, in real time of a few seconds, with its faults.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod leases;

use std::sync::Arc;
use std::time::{Duration, Instant};

use loadline::actuators::lease::Lease;
use loadline::engine::actuator::Permit;
use loadline::engine::clock;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use leases::{Api, DURATION};

/// An instance that asks for the lease until it is stopped.
struct Instance {
    lease: Arc<Lease>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Instance {
    fn start(api: &Api, identity: &str) -> Self {
        let (lease, stop) = (api.lease(identity), CancellationToken::new());
        let task = tokio::spawn(Arc::clone(&lease).run(stop.clone()));
        Self { lease, stop, task }
    }

    fn holds(&self) -> bool {
        self.lease.check().is_ok()
    }

    fn why(&self) -> String {
        self.lease.check().expect_err("it does not hold")
    }

    async fn until_it_holds(&self, others: &[&Self]) -> Duration {
        let began = clock::instant();
        while !self.holds() {
            assert!(began.elapsed() < DURATION * 10, "{}", self.why());
            never_both(self, others);
            sleep(Duration::from_millis(5)).await;
        }
        never_both(self, others);
        began.elapsed()
    }
}

fn never_both(one: &Instance, others: &[&Instance]) {
    let holding = others.iter().filter(|other| other.holds()).count() + usize::from(one.holds());
    assert!(holding <= 1, "{holding} instances may act at once");
}

/// Looks again and again for so long that at most one of two may act.
async fn watch(time: Duration, one: &Instance, other: &Instance) {
    let end = clock::instant() + time;
    while clock::instant() < end {
        never_both(one, &[other]);
        sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn of_two_that_race_one_holds_the_lease_and_the_other_says_who() {
    let api = Api::start().await;
    let (a, b) = (Instance::start(&api, "a"), Instance::start(&api, "b"));
    watch(DURATION * 3, &a, &b).await;
    let (holder, other) = if a.holds() { ("a", &b) } else { ("b", &a) };
    assert!(a.holds() != b.holds());
    assert_eq!(other.why(), format!("not the active instance: {holder} holds the lease streams/loadline"));
    assert_eq!(api.holder().as_deref(), Some(holder));
    let left = a.lease.check().or_else(|_| b.lease.check()).expect("held").expect("it ends");
    assert!(left <= DURATION * 2 / 3, "{left:?}");
}

#[tokio::test]
async fn a_lease_that_is_given_back_is_taken_at_once_and_one_of_an_instance_that_died_after_its_duration() {
    let api = Api::start().await;
    let a = Instance::start(&api, "a");
    a.until_it_holds(&[]).await;
    let b = Instance::start(&api, "b");
    watch(DURATION, &a, &b).await;
    a.stop.cancel();
    let waited = b.until_it_holds(&[&a]).await;
    assert!(waited < DURATION / 2, "{waited:?}");
    assert_eq!(a.why(), "not the active instance: it has given the lease back");

    let c = Instance::start(&api, "c");
    watch(DURATION, &b, &c).await;
    b.task.abort();
    let waited = c.until_it_holds(&[&a, &b]).await;
    // the last renewal may be a round old, and is seen up to a round later
    assert!(waited >= DURATION * 2 / 3 && waited < DURATION * 2, "{waited:?}");
    assert_eq!(b.why(), "not the active instance: the lease streams/loadline could not be renewed in time");
    let transitions = api.with(|state| state.lease.as_ref().and_then(|lease| lease.pointer("/spec/leaseTransitions")?.as_u64()));
    assert_eq!(transitions, Some(2));
}

#[tokio::test]
async fn without_the_api_server_the_permit_ends_before_anyone_else_can_have_it() {
    for fault in [503, 0] {
        let api = Api::start().await;
        let a = Instance::start(&api, "a");
        a.until_it_holds(&[]).await;
        api.with(|state| state.fault = Some(fault));
        let began = clock::instant();
        while a.holds() {
            assert!(began.elapsed() < DURATION, "it still acts {:?} after the API server went", began.elapsed());
            sleep(Duration::from_millis(5)).await;
        }
        sleep(DURATION / 2).await;
        assert!(a.why().starts_with("not the active instance: the lease streams/loadline cannot be had:"), "{}", a.why());
        api.with(|state| state.fault = None);
        a.until_it_holds(&[]).await;
    }
}

#[tokio::test]
async fn a_lease_that_another_one_writes_is_lost_at_once_and_so_is_one_whose_renewal_is_refused() {
    let api = Api::start().await;
    let a = Instance::start(&api, "a");
    a.until_it_holds(&[]).await;
    api.take("z", "2026-11-30T10:00:00.000000Z");
    sleep(DURATION / 2).await;
    assert_eq!(a.why(), "not the active instance: z holds the lease streams/loadline");
    // z never renews it
    a.until_it_holds(&[]).await;

    api.with(|state| state.conflicts = 1000);
    sleep(DURATION / 2).await;
    assert_eq!(a.why(), "not the active instance: another one has just written the lease streams/loadline");
}

#[tokio::test]
async fn what_the_clocks_of_others_say_does_not_matter() {
    let api = Api::start().await;
    // renewed again and again by one whose clock is six years late
    api.take("late", "2020-01-01T00:00:00.000000Z");
    let a = Instance::start(&api, "a");
    let end = clock::instant() + DURATION * 2;
    while clock::instant() < end {
        api.take("late", "2020-01-01T00:00:00.000000Z");
        assert!(!a.holds(), "it is renewed");
        sleep(DURATION / 10).await;
    }
    // not renewed any more by one whose clock is ahead by decades
    api.take("early", "2099-01-01T00:00:00.000000Z");
    let waited = a.until_it_holds(&[]).await;
    assert!(waited >= DURATION && waited < DURATION * 2, "{waited:?}");
    let lease = api.with(|state| state.lease.clone()).expect("a lease");
    assert_eq!(lease["metadata"]["labels"]["app"], "loadline", "what is not ours stays");
    let spec = &lease["spec"];
    assert_eq!((spec["leaseTransitions"].as_u64(), spec["leaseDurationSeconds"].as_u64()), (Some(4), Some(1)));
    let renewed = spec["renewTime"].as_str().expect("a time");
    assert!(renewed.len() == "2026-11-30T10:00:00.000000Z".len() && renewed.ends_with('Z'), "six digits, as Kubernetes reads them: {renewed}");
}

#[tokio::test]
async fn nothing_is_asked_for_without_a_target_that_performs() {
    let api = Api::start().await;
    let a = Instance::start(&api, "a");
    a.lease.want(false);
    sleep(DURATION / 2).await;
    let before = api.with(|state| state.calls.len());
    sleep(DURATION / 2).await;
    assert_eq!(api.with(|state| state.calls.len()), before);
    assert!(!a.holds());
    a.lease.want(true);
    a.until_it_holds(&[]).await;
    let begun: Instant = clock::instant();
    a.stop.cancel();
    a.task.await.expect("it ends");
    assert!(begun.elapsed() < DURATION);
    assert_eq!(api.holder().as_deref(), Some(""));
}
