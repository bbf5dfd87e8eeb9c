//! A Druid cluster: pods of a `StatefulSet` with task slots, a queue of pending tasks, one Kafka supervisor.
//!
//! - A pod takes [`BOOT_SECONDS`] of simulated time to register. Fewer replicas remove the highest ordinals at once, and
//!   kill what runs there: the cluster does not protect the operator from a bad number.
//! - Pending tasks are placed oldest first by `fillCapacity`: the fullest enabled worker that has a slot.
//! - The supervisor keeps one reading task per group. After a simulated hour a task publishes its segments for some
//!   minutes and keeps its slot; its successor is submitted as it stops reading. So once an hour the streams need twice
//!   their slots for a while.
//! - Batch tasks come with the load of the day, two each hour, and a round of compaction late in the day.
//!
//! Every task ends in exactly one place: submitted = pending + running + completed + killed.

mod stream;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::VecDeque;

use super::day::{Day, Pace};
use super::random::Random;
use super::{Model, Orders};
use stream::Stream;

pub(super) use wire::router;

/// Slots of a pod.
pub(super) const CAPACITY: usize = 4;
/// The most pods there can be.
pub(super) const MOST_PODS: u64 = 8;
/// Simulated time from the creation of a pod to its registration.
pub(super) const BOOT_SECONDS: f64 = 720.0;

/// Batch tasks that come in a simulated second at the peak of the day: 34.5 an hour of 25 minutes each fill 14 slots.
const BATCH_PER_SECOND_AT_PEAK: f64 = 34.5 / 3600.0;
/// What the Overlord takes to place a task, in real seconds.
const ASSIGNMENT_SECONDS: f64 = 0.3;
/// A simulated hour.
const HOUR: f64 = 3600.0;

/// The cluster.
pub(super) struct Cluster {
    pace: Pace,
    day: Day,
    random: Random,
    time: f64,
    hours: u64,
    due: f64,
    next_id: u64,
    pods: Vec<Pod>,
    pending: VecDeque<Task>,
    stream: Stream,
    tally: Tally,
}

/// A pod of the `StatefulSet`; its place in the list is its ordinal.
struct Pod {
    registers_at: f64,
    enabled: bool,
    tasks: Vec<Task>,
    last_completed: Option<f64>,
}

/// A task, pending or running.
struct Task {
    id: String,
    work: Work,
    created: f64,
    started: f64,
    /// Real seconds from its start to its end, publishing included.
    length: f64,
}

/// What a task does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Reads partitions of the group and publishes.
    Stream { group: usize },
    /// Native batch ingestion.
    Batch,
    /// Compaction of yesterday's segments.
    Compact,
}

/// Where the tasks went.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct Tally {
    submitted: usize,
    completed: usize,
    killed: usize,
}

impl Cluster {
    /// Two pods, registered, and nothing to do yet.
    pub(super) fn new(pace: Pace) -> Self {
        let pod = || Pod { registers_at: 0.0, enabled: true, tasks: Vec::new(), last_completed: None };
        Self {
            pace,
            day: Day::new(pace),
            random: Random::new(0x6c6f_6164_6c69_6e65),
            time: 0.0,
            hours: 0,
            due: 0.0,
            next_id: 0,
            pods: vec![pod(), pod()],
            pending: VecDeque::new(),
            stream: Stream::default(),
            tally: Tally::default(),
        }
    }

    /// Carries out orders, as a careful operator would: workers first, then the count; and no pod goes while another is
    /// still booting, because the count was judged without it.
    pub(super) fn obey(&mut self, orders: &Orders) {
        for host in &orders.disable {
            self.enable(host, false);
        }
        for host in &orders.enable {
            self.enable(host, true);
        }
        let Some(wanted) = orders.recommended else { return };
        let wanted = usize::try_from(wanted.clamp(1, MOST_PODS)).unwrap_or(1);
        let booting = self.pods.iter().any(|pod| !pod.is_registered(self.time));
        if wanted > self.pods.len() || !booting {
            self.set_replicas(wanted);
        }
    }

    /// Sets the count of the `StatefulSet`: the highest ordinals go, with all that runs on them.
    fn set_replicas(&mut self, replicas: usize) {
        for pod in self.pods.drain(replicas.min(self.pods.len())..) {
            self.tally.killed += pod.tasks.len();
        }
        let registers_at = self.time + self.pace.real(BOOT_SECONDS);
        self.pods.resize_with(replicas, || Pod { registers_at, enabled: true, tasks: Vec::new(), last_completed: None });
    }

    /// Gives a worker new tasks, or no more of them. False when there is no such worker.
    fn enable(&mut self, host: &str, enabled: bool) -> bool {
        let time = self.time;
        let worker = self.pods.iter_mut().enumerate().find(|(ordinal, pod)| pod.is_registered(time) && host_of(*ordinal) == host);
        worker.map(|(_, pod)| pod.enabled = enabled).is_some()
    }

    fn submit(&mut self, work: Work, length: f64) {
        self.next_id += 1;
        let id = match work {
            Work::Stream { group } => format!("index_kafka_orders_{group}_{:06x}", self.next_id),
            Work::Batch => format!("index_parallel_customers_{:06x}", self.next_id),
            Work::Compact => format!("compact_orders_{:06x}", self.next_id),
        };
        self.tally.submitted += 1;
        self.pending.push_back(Task { id, work, created: self.time, started: 0.0, length: self.pace.real(length) });
    }

    fn finish_tasks(&mut self) {
        let time = self.time;
        for pod in &mut self.pods {
            let before = pod.tasks.len();
            pod.tasks.retain(|task| task.started + task.length > time);
            let done = before - pod.tasks.len();
            if done > 0 {
                pod.last_completed = Some(time);
                self.tally.completed += done;
            }
        }
    }

    fn submit_batches(&mut self, seconds: f64) {
        let simulated = seconds / self.pace.real(1.0);
        self.due += self.day.share(self.time) * BATCH_PER_SECOND_AT_PEAK * simulated * self.random.between(0.0, 2.0);
        while self.due >= 1.0 {
            self.due -= 1.0;
            let length = self.random.between(10.0, 40.0) * 60.0;
            self.submit(Work::Batch, length);
        }
        let hours = super::whole(self.time / self.pace.real(HOUR));
        if hours > self.hours {
            self.hours = hours;
            let (work, count) = if hours % 24 == 22 { (Work::Compact, 8) } else { (Work::Batch, 2) };
            for _ in 0..count {
                let length = self.random.between(15.0, 30.0) * 60.0;
                self.submit(work, length);
            }
        }
    }

    /// The supervisor: a group without a reading task gets one.
    fn supervise(&mut self) {
        let hour = self.pace.real(HOUR);
        let mut reading = [false; stream::GROUPS];
        let running = self.pods.iter().flat_map(|pod| &pod.tasks).filter(|task| self.time < task.started + hour);
        for task in running.chain(&self.pending) {
            if let Work::Stream { group } = task.work
                && let Some(seen) = reading.get_mut(group)
            {
                *seen = true;
            }
        }
        for (group, seen) in reading.into_iter().enumerate() {
            if !seen {
                let publishing = self.random.between(6.0, 12.0) * 60.0;
                self.submit(Work::Stream { group }, HOUR + publishing);
            }
        }
    }

    /// `fillCapacity`: the oldest task first, to the enabled worker with the fewest free slots.
    fn place(&mut self) {
        let time = self.time;
        while self.pending.front().is_some_and(|task| task.created + ASSIGNMENT_SECONDS <= time) {
            let open = self.pods.iter_mut().filter(|pod| pod.enabled && pod.is_registered(time) && pod.tasks.len() < CAPACITY);
            // `min_by_key` keeps the first of equals: the lowest ordinal
            let Some(pod) = open.min_by_key(|pod| CAPACITY - pod.tasks.len()) else { return };
            let Some(mut task) = self.pending.pop_front() else { return };
            task.started = time;
            pod.tasks.push(task);
        }
    }
}

impl Model for Cluster {
    fn time(&self) -> f64 {
        self.time
    }

    fn step(&mut self, seconds: f64) {
        self.time += seconds;
        self.finish_tasks();
        self.submit_batches(seconds);
        self.supervise();
        self.place();
        let hour = self.pace.real(HOUR);
        let mut reading = [false; stream::GROUPS];
        for task in self.pods.iter().flat_map(|pod| &pod.tasks) {
            if let (Work::Stream { group }, false) = (task.work, task.is_publishing(self.time, hour))
                && let Some(reads) = reading.get_mut(group)
            {
                *reads = true;
            }
        }
        self.stream.flow(seconds, self.day.share(self.time), reading);
    }
}

impl Pod {
    fn is_registered(&self, time: f64) -> bool {
        self.registers_at <= time
    }
}

impl Task {
    fn is_publishing(&self, time: f64, hour: f64) -> bool {
        matches!(self.work, Work::Stream { .. }) && time >= self.started + hour
    }

    fn type_name(&self) -> &'static str {
        match self.work {
            Work::Stream { .. } => "index_kafka",
            Work::Batch => "index_parallel",
            Work::Compact => "compact",
        }
    }

    fn data_source(&self) -> &'static str {
        if self.work == Work::Batch { "customers" } else { "orders" }
    }
}

/// The host and port of a pod, as a headless service would name it.
fn host_of(ordinal: usize) -> String {
    format!("druid-mm-{ordinal}.druid-mm.demo.svc:8091")
}
