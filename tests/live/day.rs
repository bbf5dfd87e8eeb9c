//! A day of a pool of Druid workers in an hour: bursts of random size at random times, and three mishaps that scaling must
//! survive. Loadline is killed and started again, a worker is killed under its tasks, and the Overlord is restarted.
//!
//! `LIVE_DAY_MINUTES` makes it shorter. What is measured is printed as a table; the tasks of the worker that the test kills
//! are counted apart. The same day is driven by MIDAS's rule beside it, on a cluster of its own, at the same time: the same
//! bursts, the same mishaps, the same calls to disable and enable, and the same keeper that follows the number.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use loadline::engine::clock;

use crate::drained::{Drained, Look, MIN, Rule};

const MOST: u64 = 5;
const MINUTES: u64 = 55;
/// What the hour is for; a shorter day is asked for its share.
const REMOVALS: u64 = 50;

/// What is measured second by second.
#[derive(Default)]
struct Figures {
    /// How long each task has waited for a slot, in seconds.
    waited: BTreeMap<String, f64>,
    worker_seconds: f64,
    task_seconds: f64,
    last: Option<Instant>,
}

impl Figures {
    fn note(&mut self, drained: &Drained, look: &Look) {
        let now = clock::instant();
        let since = self.last.replace(now).map_or(0.0, |last| (now - last).as_secs_f64());
        self.worker_seconds += since * count(look.workers.len());
        self.task_seconds += since * count(look.workers.iter().map(|worker| worker.tasks.len()).sum());
        for task in look.tasks.iter().filter(|task| !task.pending && !self.waited.contains_key(&task.id)).map(|task| &task.id).collect::<BTreeSet<_>>() {
            if let Some(submitted) = drained.submitted.get(task) {
                self.waited.insert(task.clone(), (now - *submitted).as_secs_f64());
            }
        }
    }

    fn waited(&self, share: f64) -> f64 {
        let mut all: Vec<f64> = self.waited.values().copied().collect();
        all.sort_by(f64::total_cmp);
        let index = format!("{:.0}", share * count(all.len().saturating_sub(1))).parse::<usize>().unwrap();
        all.get(index).copied().unwrap_or(f64::NAN)
    }
}

fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}

/// What happens once in a day, at a share of it.
#[derive(Clone, Copy, PartialEq)]
enum Mishap {
    ServiceRestarts,
    WorkerDies,
    OverlordRestarts,
}

const MISHAPS: [(f64, Mishap); 3] = [(0.35, Mishap::ServiceRestarts), (0.5, Mishap::WorkerDies), (0.7, Mishap::OverlordRestarts)];

impl Drained {
    /// False where the mishap has to wait for its moment.
    async fn suffer(&mut self, mishap: Mishap, look: &Look) -> bool {
        let draining = look.workers.iter().any(|worker| !worker.enabled);
        let busy = look.workers.iter().rev().find(|worker| !worker.tasks.is_empty());
        match mishap {
            // in the middle of a drain, of which nothing must be forgotten
            Mishap::ServiceRestarts if draining => {
                self.service.restart().await;
                self.say("the service was killed and started again");
            }
            Mishap::WorkerDies => {
                let Some(worker) = busy else { return false };
                let ordinal = worker.host.split(['.', ':']).next().and_then(|label| label.rsplit('-').next()).unwrap();
                let mut lost: BTreeSet<String> = worker.tasks.iter().cloned().collect();
                self.lab.kill(&format!("worker-{ordinal}"));
                // a task that was placed between the look and the kill dies with it
                let after = self.lab.workers().await;
                lost.extend(after.into_iter().filter(|row| row.host == worker.host).flat_map(|row| row.tasks));
                self.say(&format!("{} was killed with {lost:?}", worker.host));
                self.killed = lost;
            }
            Mishap::OverlordRestarts if busy.is_some() => {
                self.lab.run("down.sh", &["coordinator"]);
                self.lab.run("node.sh", &["coordinator"]);
                let limit = clock::instant() + Duration::from_secs(120);
                while !self.lab.lists_workers().await {
                    assert!(clock::instant() < limit, "the Overlord is not back after two minutes");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                self.say("the Overlord was restarted");
            }
            Mishap::ServiceRestarts | Mishap::OverlordRestarts => return false,
        }
        true
    }
}

/// What a day comes to.
struct Day {
    rows: Vec<(&'static str, f64)>,
    lost: Vec<String>,
    removals: usize,
    faults: Vec<String>,
}

async fn day(mut drained: Drained, minutes: u64) -> Day {
    let length = Duration::from_secs(minutes * 60);
    drained.begin();
    let mut figures = Figures::default();
    let (mut mishaps, mut bursts, mut next) = (MISHAPS.to_vec(), 0, Duration::ZERO);

    while drained.elapsed() < length {
        let look = drained.look().await;
        figures.note(&drained, &look);
        if drained.elapsed() >= next {
            bursts += 1;
            let tasks = drained.dice.between(4, 24);
            let longest = drained.dice.between(15, 60);
            drained.burst(&format!("burst{bursts}"), tasks, 5, longest).await;
            // from when it was due: both rules get the same day
            next += Duration::from_secs(drained.dice.between(100, 180));
        }
        if let Some((share, mishap)) = mishaps.first().copied()
            && drained.elapsed() >= length.mul_f64(share)
            && drained.suffer(mishap, &look).await
        {
            mishaps.remove(0);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let limit = clock::instant() + Duration::from_secs(420);
    loop {
        let look = drained.look().await;
        figures.note(&drained, &look);
        if look.ended(&drained.killed) && look.at_minimum() {
            break;
        }
        if clock::instant() >= limit {
            assert_eq!(drained.rule, Rule::Midas, "not at rest: workers {:?}, {}", look.workers, look.advice);
            drained.say("not at rest, and given up");
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    let lost = drained.lost().await;
    let (removals, faults) = drained.removals();
    let performed = drained.performed();
    let kept = drained.lab.kept();
    let wanted = |more: bool| kept.iter().filter(|line| line["action"] == "wanted" && (line["now"].as_u64() > line["before"].as_u64()) == more).count();
    let calls = |action: &str| performed.iter().filter(|line| line.action == action && line.accepted).count();
    let rows = vec![
        ("minutes", drained.elapsed().as_secs_f64() / 60.0),
        ("bursts", count(bursts)),
        ("tasks", count(drained.submitted.len())),
        ("tasks lost to scaling", count(lost.len())),
        ("tasks of the killed worker", count(drained.killed.len())),
        ("mishaps of 3", count(MISHAPS.len() - mishaps.len())),
        ("counts raised", count(wanted(true))),
        ("counts lowered", count(wanted(false))),
        ("workers removed", count(removals)),
        ("workers disabled", count(calls("disableWorker"))),
        ("workers enabled again", count(calls("enableWorker"))),
        ("calls that failed", count(performed.iter().filter(|line| !line.accepted).count())),
        ("workers, mean", figures.worker_seconds / drained.elapsed().as_secs_f64()),
        ("slots in use, share", figures.task_seconds / (2.0 * figures.worker_seconds)),
        ("wait for a slot, median s", figures.waited(0.5)),
        ("wait for a slot, 95 % s", figures.waited(0.95)),
        ("wait for a slot, longest s", figures.waited(1.0)),
    ];
    Day { rows, lost, removals, faults }
}

#[tokio::test]
#[ignore = "an hour: just live druid-day"]
async fn a_day_of_bursts_and_mishaps_loses_no_task_to_scaling() {
    let minutes: u64 = std::env::var("LIVE_DAY_MINUTES").ok().map_or(MINUTES, |text| text.parse().expect("LIVE_DAY_MINUTES is a number"));
    let (ours, midas) = (Drained::start(7, MOST, Rule::Loadline).await, Drained::start(7, MOST, Rule::Midas).await);
    let (ours, midas) = tokio::join!(day(ours, minutes), day(midas, minutes));
    eprintln!("live: | {:<28} | Loadline |   MIDAS |", "");
    for ((name, value), (_, other)) in ours.rows.iter().zip(&midas.rows) {
        eprintln!("live: | {name:<28} | {value:>8.2} | {other:>7.2} |");
    }
    assert_eq!((ours.lost, ours.faults), (Vec::new(), Vec::new()), "lost to scaling, and removals that were not clean");
    let least = REMOVALS * minutes / MINUTES;
    assert!(ours.removals as u64 >= least.max(MIN), "only {} workers were removed, not {least}: no test", ours.removals);
}
