//! Bursts of tasks on a pool of workers that Loadline drains: it grows under them and is small again after them, and no task
//! is lost.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::drained::{Drained, Look, MIN, Rule};

const MOST: u64 = 4;

#[tokio::test]
async fn a_pool_grows_under_bursts_and_is_drained_after_them_without_a_lost_task() {
    let mut drained = Drained::start(1, MOST, Rule::Loadline).await;

    // 24 tasks of 22 s on the average need more slots than there can be, for a minute
    drained.burst("first", 24, 5, 40).await;
    drained.until("the pool has grown to its bound", Duration::from_secs(150), |look| look.workers.len() as u64 == MOST).await;
    drained.until("nothing is pending", Duration::from_secs(120), |look| look.tasks.iter().all(|task| !task.pending)).await;

    // work comes back while the pool is drained
    drained.until("a worker is drained", Duration::from_secs(120), |look| look.workers.iter().any(|worker| !worker.enabled)).await;
    drained.burst("second", 10, 5, 40).await;
    drained.until("all tasks have ended", Duration::from_secs(240), |look| look.ended(&drained.killed)).await;
    drained.until("the pool is at its minimum", Duration::from_secs(180), Look::at_minimum).await;

    assert_eq!(drained.lost().await, Vec::<String>::new());
    let (removals, faults) = drained.removals();
    assert_eq!(faults, Vec::<String>::new());
    assert!(removals as u64 >= MOST - MIN, "only {removals} workers were removed");
    let performed = drained.performed();
    assert!(performed.iter().all(|line| line.accepted), "a call was refused: {performed:?}");
    let logged = |action: &str| performed.iter().filter(|line| line.action == action).count();
    for action in ["disableWorker", "enableWorker"] {
        assert_eq!(drained.counted(action, "accepted").await, logged(action), "{action}: the metric and the log differ: {performed:?}");
    }
    // a worker that takes tasks again must be disabled once more before it goes; one that is listed as disabled for a moment
    // while it starts may be enabled without that
    let worker = |request: &str| request.rsplit('/').nth(1).unwrap().to_owned();
    let mut disabled = BTreeSet::new();
    let again = performed.iter().filter(|line| match line.action.as_str() {
        "disableWorker" => {
            assert!(disabled.insert(worker(&line.request)), "disabled twice: {performed:?}");
            false
        }
        _ => disabled.remove(&worker(&line.request)),
    });
    let again = again.count();
    assert_eq!(logged("disableWorker"), removals + again, "{performed:?}");
    drained.say(&format!("{removals} workers removed, {} disabled, {} enabled again", logged("disableWorker"), again));
}
