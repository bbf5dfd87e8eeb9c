//! The closed loop: Loadline sets the parallelism of a real job itself, and the job has to come to rest.
//!
//! A job of the lab is started at parallelism 1 everywhere, with costs that are spent asleep, so that the right
//! parallelism of each vertex is known: ceil(records per second x cost / target utilization). What is counted is what
//! Flink counts: its restarts, its backlog, its backpressure.

use std::time::Duration;

use loadline::engine::clock;
use serde_json::Value;

use crate::exposition::Exposition;
use crate::lab::Lab;
use crate::service::Service;

const JOB: &str = "lab-loop";
const TARGET_UTILIZATION: f64 = 0.7;
const SETTLES: Duration = Duration::from_secs(20);
const WINDOW: Duration = Duration::from_secs(90);
const SCALE_DOWN: Duration = Duration::from_secs(120);

/// As long as two rescales in a row may take: a window, two minutes of readings in between, and a minute for Flink's averages.
const TWO_RESCALES: Duration = Duration::from_secs(330);

/// When the rate halves in the whole loop.
const HALVES: Duration = Duration::from_secs(400);

/// A cluster of 12 slots: a TaskManager can be lost, and 8 subtasks still find a place.
const CLUSTER: [(&str, &str); 3] = [("SCHEDULER", "adaptive"), ("TASKMANAGERS", "3"), ("SLOTS", "4")];

fn configuration(http: u16, grpc: u16, flink: &str) -> String {
    format!(
        r#"server: {{ http: "127.0.0.1:{http}", grpc: "127.0.0.1:{grpc}" }}
defaults: {{ interval: 5s, timeout: 4s }}
targets:
  - name: {JOB}
    kind: flinkJob
    source: {{ flink: {{ url: "{flink}", job: {JOB} }} }}
    policy:
      apply: perform
      targetUtilization: {TARGET_UTILIZATION}
      staleAfter: 20s
      window: {window}s
      stabilizationAfterStart: {settles}s
      restart: 10s
      scaleDown: {{ stabilization: {down}s }}
"#,
        window = WINDOW.as_secs(),
        settles = SETTLES.as_secs(),
        down = SCALE_DOWN.as_secs()
    )
}

/// A vertex, and the parallelism that its load and cost ask for.
type Wanted<'a> = (&'a str, u64);

fn needed(records_per_second: f64, cost_us: f64) -> u64 {
    let subtasks = (records_per_second * cost_us / 1e6 / TARGET_UTILIZATION).ceil().max(1.0);
    format!("{subtasks:.0}").parse().unwrap()
}

/// The loop under test.
struct Loop {
    lab: Lab,
    service: Service,
    began: std::time::Instant,
}

impl Loop {
    /// Starts a cluster, a job with these arguments, and the service that looks after it.
    async fn start(arguments: &str, settings: &[(&str, &str)]) -> Self {
        let settings: Vec<(&str, &str)> = CLUSTER.iter().chain(settings).copied().collect();
        let lab = Lab::start_with("", &settings).await;
        lab.submit(&format!("-- --name {JOB} {arguments}")).await;
        lab.runs(1).await;
        let service = Service::start(|http, grpc| configuration(http, grpc, &lab.url())).await;
        Self { lab, service, began: clock::instant() }
    }

    fn say(&self, text: &str) {
        eprintln!("live: {:4.0} s: {text}", self.began.elapsed().as_secs_f64());
    }

    async fn advice(&self) -> Value {
        self.service.get(&format!("/v1/targets/{JOB}/advice")).await
    }

    /// Rescales that Loadline has asked for and Flink has accepted.
    async fn asked(&self) -> u64 {
        let page = Exposition::parse(&self.service.text("/metrics").await);
        let count = page.labelled("loadline_actions_performed_total", JOB, &[("action", "setParallelism"), ("result", "accepted")]);
        count.map_or(0, |count| format!("{count:.0}").parse().unwrap())
    }

    /// Waits until nothing is backpressured, the backlog shrinks or is gone, and every vertex has its parallelism within
    /// one; then the rescales so far. Fails when that takes longer than `limit`, or more rescales than `most`.
    async fn comes_to_rest(&self, wanted: &[Wanted<'_>], most: u64, limit: Duration) -> u64 {
        let deadline = clock::instant() + limit;
        loop {
            let rescales = self.lab.restarts(JOB).await;
            assert!(rescales <= most, "{rescales} rescales, at most {most} are needed: {}", self.advice().await);
            let (before, pressure) = (self.lab.backlog(JOB).await, self.lab.back_pressure(JOB).await);
            tokio::time::sleep(Duration::from_secs(12)).await;
            let after = self.lab.backlog(JOB).await;
            let advice = self.advice().await;
            let present = parallelism(&advice);
            let fits = wanted.iter().all(|(name, wanted)| present.iter().any(|(part, now)| part == name && now.abs_diff(*wanted) <= 1));
            let rests = advice["outcome"] != "change" && (advice["reasons"][0]["code"] != "Restarting");
            if fits && rests && pressure < 0.1 && (after < before || after < 3000.0) {
                self.say(&format!(
                    "at rest after {rescales} rescales: {present:?}, wanted {wanted:?}, backlog {before} then {after}, backpressure {pressure:.2}"
                ));
                return rescales;
            }
            assert!(
                clock::instant() < deadline,
                "not at rest: {present:?}, wanted {wanted:?}; backlog {before} then {after}; backpressure {pressure}; {rescales} rescales; {advice}"
            );
        }
    }

    /// What must not change while nothing is to be done: rescales asked for, restarts, parallelism.
    async fn standing(&self) -> (u64, u64, Vec<(String, u64)>) {
        (self.asked().await, self.lab.restarts(JOB).await, parallelism(&self.advice().await))
    }

    /// Nothing is asked for, and nothing changes, for so long.
    async fn stays(&self, time: Duration) {
        let before = self.standing().await;
        let end = clock::instant() + time;
        while clock::instant() < end {
            tokio::time::sleep(Duration::from_secs(3)).await;
            let advice = self.advice().await;
            assert!(advice["outcome"] != "change", "{advice}");
        }
        assert_eq!(self.standing().await, before);
        self.say(&format!("{} s of rest", time.as_secs()));
    }

    /// Kills a `TaskManager`, and holds until the window is full again: counted from the last restart, as Flink itself may
    /// need more than one until it knows which slots are left.
    async fn outlives_a_lost_task_manager(&self, vertex: &str) {
        let (asked, restarts, present) = self.standing().await;
        self.lab.kill_task_manager_of(JOB, vertex).await;
        let limit = clock::instant() + Duration::from_secs(360);
        let (mut seen, mut full_at) = (restarts, None);
        while full_at.is_none_or(|at| clock::instant() < at) {
            assert!(clock::instant() < limit, "the window is not full six minutes after the loss: {seen} restarts, {restarts} before it");
            let now = self.lab.restarts(JOB).await;
            if now != seen {
                self.say(&format!("a restart without one of the TaskManagers: {}", self.lab.failure(JOB).await.unwrap_or_default()));
                (seen, full_at) = (now, Some(clock::instant() + SETTLES + WINDOW));
            }
            let advice = self.advice().await;
            assert!(advice["outcome"] != "change", "after the loss of a TaskManager: {advice}");
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        assert_eq!((self.asked().await, parallelism(&self.advice().await)), (asked, present), "the loss of a TaskManager moves nothing");
        self.say(&format!("held until the window was full again, over {} restarts", seen - restarts));
    }
}

/// The present parallelism of each vertex.
fn parallelism(advice: &Value) -> Vec<(String, u64)> {
    let parts = advice["parts"].as_array().map_or(&[][..], Vec::as_slice);
    parts.iter().map(|part| (part["name"].as_str().unwrap().to_owned(), part["current"].as_u64().unwrap())).collect()
}

#[tokio::test]
async fn a_job_at_parallelism_one_comes_to_rest_in_two_rescales_and_the_loss_of_a_task_manager_moves_nothing() {
    let looped = Loop::start("--job pipeline --rate 6000 --parse-cost-us 150 --swing 0.05 --period-s 40", &[]).await;
    let wanted = [("Source: orders", 1), ("Parse", needed(6000.0, 150.0)), ("Enrich", needed(6000.0, 500.0)), ("Count per key (2 s)", 1), ("Out: Writer", 1)];
    let rescales = looped.comes_to_rest(&wanted, 2, TWO_RESCALES).await;
    assert!(rescales >= 1, "parallelism 1 was enough: the job is no test");
    assert_eq!(looped.asked().await, rescales, "each rescale was asked for once");
    looped.outlives_a_lost_task_manager("Enrich").await;
}

#[tokio::test]
#[ignore = "twenty minutes: just live flink-loop"]
async fn the_whole_loop_up_down_quiet_and_a_loss() {
    let halves = format!("--job pipeline --rate 6000 --parse-cost-us 150 --swing 0.05 --period-s 40 --step-at-s {} --step-factor 0.5", HALVES.as_secs());
    let looped = Loop::start(&halves, &[]).await;
    let at =
        |rate: f64| [("Source: orders", 1), ("Parse", needed(rate, 150.0)), ("Enrich", needed(rate, 500.0)), ("Count per key (2 s)", 1), ("Out: Writer", 1)];
    let raised = looped.comes_to_rest(&at(6000.0), 2, TWO_RESCALES).await;
    while looped.began.elapsed() < HALVES {
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(looped.lab.restarts(JOB).await, raised, "before the rate changes nothing has to");
    }
    looped.say("the rate halves");
    while looped.lab.restarts(JOB).await == raised {
        assert!(looped.began.elapsed() < HALVES + Duration::from_secs(420), "never lowered: {}", looped.advice().await);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    assert!(looped.began.elapsed() >= HALVES + SCALE_DOWN, "lowered before it was wanted for long enough");
    let lowered = looped.comes_to_rest(&at(3000.0), raised + 1, Duration::from_secs(180)).await;
    assert_eq!(lowered, raised + 1, "one rescale down");
    assert_eq!(looped.lab.failure(JOB).await, None, "no task has failed");
    looped.stays(Duration::from_secs(600)).await; // under the jitter of the rate
    looped.outlives_a_lost_task_manager("Enrich").await;
}

#[tokio::test]
#[ignore = "five minutes: just live flink-loop"]
async fn a_join_of_two_sources_comes_to_rest() {
    let looped = Loop::start("--job join --a-rate 3000 --b-rate 1000 --enrich-cost-us 1000", &[]).await;
    let wanted = [
        ("Source: orders", 1),
        ("Source: payments", 1),
        ("Map orders", 1),
        ("Filter payments", 1),
        ("Join", 1),
        ("Enrich", needed(3500.0, 1000.0)),
        ("Out: Writer", 1),
    ];
    // what the join lets through is known late, so the first step is small, and what has piled up until then is worked off
    looped.comes_to_rest(&wanted, 2, Duration::from_secs(540)).await;
}

#[tokio::test]
#[ignore = "five minutes: just live flink-loop"]
async fn a_job_of_chained_operators_comes_to_rest() {
    let looped = Loop::start("--job chained --rate 6000 --parse-cost-us 150", &[]).await;
    let wanted = [("Source: orders -> Parse", needed(6000.0, 150.0)), ("Enrich", needed(6000.0, 500.0)), ("Count per key (2 s) -> Out: Writer", 1)];
    looped.comes_to_rest(&wanted, 2, TWO_RESCALES).await;
}

#[tokio::test]
#[ignore = "five minutes: just live flink-loop"]
async fn a_job_on_flink_1_20_comes_to_rest() {
    let looped = Loop::start("--job pipeline --rate 6000 --parse-cost-us 150", &[("FLINK_VERSION", "1.20.5")]).await;
    let wanted = [("Source: orders", 1), ("Parse", needed(6000.0, 150.0)), ("Enrich", needed(6000.0, 500.0)), ("Count per key (2 s)", 1), ("Out: Writer", 1)];
    looped.comes_to_rest(&wanted, 2, TWO_RESCALES).await;
}
