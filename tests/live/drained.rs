//! The whole loop around Druid's workers: Loadline judges and drains, and a keeper follows its number as a `StatefulSet`
//! would.
//!
//! The keeper answers as the Kubernetes API does, so the count that Loadline knows is the one that was asked for, as in a
//! cluster. From the list of workers alone it could not know which worker's pod is already going.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use loadline::engine::clock;
use serde_json::Value;

use crate::druid_lab::{DruidLab, Task, Worker};
use crate::exposition::Exposition;
use crate::service::Service;

const TARGET: &str = "druid-mm";
/// The least workers, and the slots of each.
pub const MIN: u64 = 1;
const SLOTS: &str = "2";

/// Who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The defaults of the kind: nothing may be lost.
    Loadline,
    /// MIDAS's rule, for comparison: what it loses is counted.
    Midas,
}

impl Rule {
    fn policy(self) -> &'static str {
        match self {
            Self::Loadline => "scaleDown: { stabilization: 20s }",
            Self::Midas => "preset: midas\n      slotsPerWorker: 2",
        }
    }
}

fn configuration(http: u16, grpc: u16, overlord: &str, most: u64, rule: Rule) -> String {
    let rule = rule.policy();
    format!(
        r#"server: {{ http: "127.0.0.1:{http}", grpc: "127.0.0.1:{grpc}", lease: {{ enabled: false }} }}
defaults: {{ interval: 5s, timeout: 4s }}
targets:
  - name: {TARGET}
    kind: druidWorkers
    source: {{ druid: {{ url: "{overlord}" }} }}
    replicas: {{ kubernetes: {{ apiVersion: apps/v1, kind: StatefulSet, name: druid-mm, namespace: druid }} }}
    policy:
      min: {MIN}
      max: {most}
      drain: perform
      startup: 60s
      staleAfter: 20s
      {rule}
"#
    )
}

/// Numbers that look random and are the same each time (splitmix64).
pub struct Dice(u64);

impl Dice {
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        least + (mixed ^ (mixed >> 31)) % (most - least + 1)
    }
}

/// The cluster, the service that looks after it, and who follows it.
pub struct Drained {
    pub lab: DruidLab,
    pub service: Service,
    pub dice: Dice,
    pub rule: Rule,
    most: u64,
    began: Instant,
    /// When each task was submitted.
    pub submitted: BTreeMap<String, Instant>,
    /// Tasks of a worker that the test itself has killed: no others may fail.
    pub killed: BTreeSet<String>,
}

/// One look.
pub struct Look {
    pub tasks: Vec<Task>,
    pub workers: Vec<Worker>,
    pub advice: Value,
}

impl Look {
    /// True when all tasks have ended but those.
    pub fn ended(&self, killed: &BTreeSet<String>) -> bool {
        self.tasks.iter().all(|task| task.state != "RUNNING" || killed.contains(&task.id))
    }

    /// True when only the least workers are left, and they take tasks.
    pub fn at_minimum(&self) -> bool {
        self.workers.len() as u64 == MIN && self.workers.iter().all(|worker| worker.enabled)
    }
}

impl Drained {
    /// Starts all three.
    pub async fn start(seed: u64, most: u64, rule: Rule) -> Self {
        let settings = [("WORKERS", &*MIN.to_string()), ("SLOTS", SLOTS)];
        let mut lab = match rule {
            Rule::Loadline => DruidLab::start(&settings).await,
            Rule::Midas => DruidLab::start_beside(&settings).await,
        };
        let service = Service::start_in(&lab.cluster(), |http, grpc| configuration(http, grpc, &lab.url(), most, rule)).await;
        lab.keep(MIN, most, &service.url(&format!("/v1/targets/{TARGET}/advice")));
        Self { lab, service, dice: Dice(seed), rule, most, began: clock::instant(), submitted: BTreeMap::new(), killed: BTreeSet::new() }
    }

    /// From now on time is counted.
    pub fn begin(&mut self) {
        self.began = clock::instant();
    }

    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub fn say(&self, text: &str) {
        eprintln!("live: {:?}: {:4.0} s: {text}", self.rule, self.elapsed().as_secs_f64());
    }

    /// So many tasks at once, each of a length between these.
    pub async fn burst(&mut self, name: &str, tasks: u64, least: u64, longest: u64) {
        for n in 0..tasks {
            let id = format!("{name}_{n}");
            self.lab.noop(&id, self.dice.between(least, longest)).await;
            self.submitted.insert(id, clock::instant());
        }
        self.say(&format!("{name}: {tasks} tasks of {least} to {longest} s"));
    }

    /// Looks at everything; what must never be is checked each time.
    pub async fn look(&self) -> Look {
        // a keeper that has failed says so in its log, which is read here: nobody would follow the number
        self.lab.kept();
        let tasks = self.lab.tasks().await;
        for task in tasks.iter().filter(|task| self.rule == Rule::Loadline && !self.killed.contains(&task.id)) {
            assert_ne!(task.state, "FAILED", "{task:?}; the keeper: {:?}", self.lab.kept());
        }
        let advice = self.service.get(&format!("/v1/targets/{TARGET}/advice")).await;
        if let Some(recommended) = advice["recommended"].as_u64() {
            assert!((MIN..=self.most).contains(&recommended), "out of bounds: {advice}");
        }
        Look { tasks, workers: self.lab.workers().await, advice }
    }

    /// Looks each second until something is so.
    pub async fn until(&self, what: &str, limit: Duration, mut so: impl FnMut(&Look) -> bool) {
        let deadline = clock::instant() + limit;
        loop {
            let look = self.look().await;
            if so(&look) {
                self.say(what);
                return;
            }
            let open = look.tasks.iter().filter(|task| task.state == "RUNNING").count();
            assert!(clock::instant() < deadline, "not after {limit:?}: {what}: {open} tasks, workers {:?}, {}", look.workers, look.advice);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// The tasks that were submitted and have not ended well, without those of the worker that the test has killed.
    pub async fn lost(&self) -> Vec<String> {
        let tasks: BTreeMap<String, Task> = self.lab.tasks().await.into_iter().map(|task| (task.id.clone(), task)).collect();
        let ended_well = |id: &String| tasks.get(id).is_some_and(|task| task.state == "SUCCESS");
        self.submitted.keys().filter(|id| !self.killed.contains(*id) && !ended_well(id)).cloned().collect()
    }

    /// What the service says that it has done.
    pub fn performed(&self) -> Vec<Performed> {
        self.service.log_lines().iter().filter(|line| line["message"] == "performed").map(Performed::of).collect()
    }

    /// What it has counted of that since it was started.
    pub async fn counted(&self, action: &str, result: &str) -> usize {
        let page = Exposition::parse(&self.service.text("/metrics").await);
        let count = page.labelled("loadline_actions_performed_total", TARGET, &[("action", action), ("result", result)]);
        count.map_or(0, |count| format!("{count:.0}").parse().unwrap())
    }

    /// Workers that were removed, and what was wrong with that: each had been disabled before and had nothing left to do, as
    /// far as it could be asked.
    pub fn removals(&self) -> (usize, Vec<String>) {
        let performed = self.performed();
        let kept = self.lab.kept();
        let (mut removals, mut faults) = (0, Vec::new());
        for stopping in kept.iter().filter(|line| line["action"] == "stopping") {
            let at: Timestamp = stopping["at"].as_str().unwrap().parse().unwrap();
            let worker = format!("/druid-mm-{}.", stopping["ordinal"]);
            let last = performed.iter().rfind(|line| line.at < at && line.accepted && line.request.contains(&worker));
            if last.map(|line| line.action.as_str()) != Some("disableWorker") {
                faults.push(format!("{stopping} was not disabled before"));
            }
            // on a busy machine an answer may not come in time
            if stopping["tasks"].as_array().is_some_and(|tasks| !tasks.is_empty()) {
                faults.push(format!("{stopping} had tasks"));
            }
            removals += 1;
        }
        faults.extend(kept.iter().filter(|line| line["how"] == "grace is over").map(|line| format!("{line} did not end in time")));
        (removals, faults)
    }
}

/// A line of the service's log: something that it has done.
#[derive(Debug)]
pub struct Performed {
    pub at: Timestamp,
    pub action: String,
    pub request: String,
    pub accepted: bool,
}

impl Performed {
    fn of(line: &Value) -> Self {
        let text = |name: &str| line[name].as_str().unwrap_or_else(|| panic!("no {name} in {line}")).to_owned();
        Self { at: text("timestamp").parse().unwrap(), action: text("action"), request: text("request"), accepted: line["result"] == "accepted" }
    }
}
