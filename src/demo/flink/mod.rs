//! A Flink job of five vertices, as a fluid: Source: orders -> Parse -> Enrich -> Count per key -> Out.
//!
//! - A subtask of vertex v serves `1 / cost` records a second; the vertex serves `parallelism / cost`. The job is as fast
//!   as its slowest vertex, counted in records of the source (`through` says how many records of v one of them becomes).
//! - What the job does not read waits at the source: backlog += arrivals - read. It lives outside the job and goes on
//!   filling while the job restarts.
//! - busy = records x cost; when a vertex is full, everything before it is backpressured for the rest of its time, and
//!   everything behind it is idle for the rest of its own.
//! - A rescale waits [`CHECKPOINT_SECONDS`], then the job is down for [`DOWNTIME_SECONDS`] and deploys for
//!   [`DEPLOY_SECONDS`]. All counters start anew, and the per-second metrics show what Flink's show after a start (see
//!   [`gauges`]).
//!
//! The scheduler is the adaptive one: it takes the upper bound of each vertex, as far as there are slots; all vertices
//! share slots, so the job needs as many as its widest vertex.
//!
//! Left out: buffers between the vertices, skew between subtasks, the caches of the `JobManager`.

mod gauges;
mod metrics;
mod wire;

use super::day::{Day, Pace};
use super::random::Random;
use super::{Model, Orders, float};
use gauges::Gauges;

pub(super) use wire::router;

/// The job's name.
pub(super) const JOB_NAME: &str = "demo-orders";
/// How many `TaskManager` processes the cluster has.
pub(super) const TASK_MANAGERS: u64 = 3;
/// Slots of a `TaskManager`.
pub(super) const SLOTS: u64 = 4;

/// Partitions that the source reads.
const PARTITIONS: u64 = 12;
/// Key groups of the job.
const MAX_PARALLELISM: u64 = 48;
/// Records that arrive in a second at the peak of the day: Enrich needs 9 subtasks for them at 70 %.
const ARRIVAL_AT_PEAK: f64 = 12_000.0;
/// From a changed requirement to the restart: the next checkpoint.
const CHECKPOINT_SECONDS: f64 = 1.0;
/// How long no task runs during a rescale.
const DOWNTIME_SECONDS: f64 = 0.8;
/// How long the new tasks take until they process records.
const DEPLOY_SECONDS: f64 = 1.0;

/// What a vertex is; the same for every day.
struct Kind {
    id: &'static str,
    name: &'static str,
    /// Seconds of a subtask for one record that it reads.
    cost: f64,
    /// Records that it reads for each record of the source.
    through: f64,
    /// Records that it writes for each one it reads.
    ratio: f64,
    ship_strategy: &'static str,
}

const KINDS: [Kind; 5] = [
    Kind { id: "bc4197a480c92c793190a9f8c0afc54c", name: "Source: orders", cost: 20e-6, through: 1.0, ratio: 1.0, ship_strategy: "" },
    Kind { id: "1f47228b81d2efa58e58f6f6ebb82081", name: "Parse", cost: 60e-6, through: 1.0, ratio: 1.0, ship_strategy: "FORWARD" },
    Kind { id: "e778491b4b4dd7931f07690f62af0797", name: "Enrich", cost: 500e-6, through: 1.0, ratio: 1.0, ship_strategy: "REBALANCE" },
    Kind { id: "b71731f1c0df9c3076c4a455334d0ad6", name: "Count per key", cost: 120e-6, through: 1.0, ratio: 0.05, ship_strategy: "HASH" },
    Kind { id: "4d648856f35492026b8f75b0a6ec795e", name: "Out: Writer", cost: 50e-6, through: 0.05, ratio: 0.0, ship_strategy: "FORWARD" },
];

/// The job.
pub(super) struct Job {
    day: Day,
    random: Random,
    time: f64,
    vertices: Vec<Vertex>,
    /// When the present attempt was deployed.
    deployed_at: f64,
    phase: Phase,
    restarts: u64,
    arrived: f64,
    read: f64,
}

/// A vertex now.
struct Vertex {
    kind: &'static Kind,
    parallelism: u64,
    lower: u64,
    upper: u64,
    totals: Totals,
    gauges: Gauges,
}

/// Sums over the subtasks since the attempt was deployed; times in milliseconds.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
struct Totals {
    read: f64,
    written: f64,
    busy: f64,
    back_pressured: f64,
    idle: f64,
}

/// What the job does now.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    Running,
    /// The requirement differs from the present parallelism; the job runs on until the next checkpoint.
    Rescaling {
        at: f64,
    },
    Restarting {
        until: f64,
    },
}

impl Job {
    /// A job that fits the first hour of the day.
    pub(super) fn new(pace: Pace) -> Self {
        let vertex = |kind: &'static Kind| {
            let parallelism = if kind.name == "Enrich" { 2 } else { 1 };
            Vertex { kind, parallelism, lower: 1, upper: parallelism, totals: Totals::default(), gauges: Gauges::new(0.0) }
        };
        Self {
            day: Day::new(pace),
            random: Random::new(0x666c_696e_6b21),
            time: 0.0,
            vertices: KINDS.iter().map(vertex).collect(),
            deployed_at: 0.0,
            phase: Phase::Running,
            restarts: 0,
            arrived: 0.0,
            read: 0.0,
        }
    }

    /// Carries out orders: the parallelism that they name becomes the upper bound of the vertex.
    pub(super) fn obey(&mut self, orders: &Orders) {
        for vertex in &mut self.vertices {
            if let Some(wanted) = orders.parallelism.get(vertex.kind.id) {
                vertex.upper = (*wanted).clamp(1, MAX_PARALLELISM);
                vertex.lower = vertex.lower.min(vertex.upper);
            }
        }
    }

    /// Records that wait at the source.
    fn backlog(&self) -> f64 {
        self.arrived - self.read
    }

    /// True while tasks process records.
    fn is_processing(&self) -> bool {
        !matches!(self.phase, Phase::Restarting { .. }) && self.time >= self.deployed_at + DEPLOY_SECONDS
    }

    /// Slots in use: all vertices share them.
    fn slots_used(&self) -> u64 {
        if matches!(self.phase, Phase::Restarting { .. }) { 0 } else { self.vertices.iter().map(|vertex| vertex.parallelism).max().unwrap_or(0) }
    }

    fn schedule(&mut self) {
        let differs = self.vertices.iter().any(|vertex| vertex.parallelism != vertex.goal());
        match self.phase {
            Phase::Running if differs => self.phase = Phase::Rescaling { at: self.time + CHECKPOINT_SECONDS },
            Phase::Rescaling { .. } if !differs => self.phase = Phase::Running,
            Phase::Rescaling { at } if self.time >= at => self.phase = Phase::Restarting { until: self.time + DOWNTIME_SECONDS },
            Phase::Restarting { until } if self.time >= until => self.deploy(),
            _ => {}
        }
    }

    /// Starts the job at the parallelism that is asked for; everything is counted from here.
    fn deploy(&mut self) {
        self.phase = Phase::Running;
        self.restarts += 1;
        self.deployed_at = self.time;
        for vertex in &mut self.vertices {
            vertex.parallelism = vertex.goal();
            vertex.totals = Totals::default();
            vertex.gauges = Gauges::new(self.time);
        }
    }

    /// Records of the source that flow through the job in so many seconds, and the vertex that holds them back.
    fn flow(&self, seconds: f64) -> (f64, Option<usize>) {
        let waiting = self.backlog();
        let able = self.vertices.iter().map(|vertex| float(vertex.parallelism) * seconds / (vertex.kind.cost * vertex.kind.through));
        let (slowest, most) = able.enumerate().fold((0, f64::INFINITY), |slowest, next| if next.1 < slowest.1 { next } else { slowest });
        if waiting <= most { (waiting, None) } else { (most, Some(slowest)) }
    }

    fn process(&mut self, seconds: f64) {
        let (records, slowest) = self.flow(seconds);
        self.read += records;
        for (place, vertex) in self.vertices.iter_mut().enumerate() {
            let read = records * vertex.kind.through;
            let time = float(vertex.parallelism) * seconds * 1000.0;
            let busy = (read * vertex.kind.cost * 1000.0).min(time);
            let totals = &mut vertex.totals;
            totals.read += read;
            totals.written += read * vertex.kind.ratio;
            totals.busy += busy;
            if slowest.is_some_and(|slowest| place < slowest) {
                totals.back_pressured += time - busy;
            } else {
                totals.idle += time - busy;
            }
        }
    }
}

impl Model for Job {
    fn time(&self) -> f64 {
        self.time
    }

    fn step(&mut self, seconds: f64) {
        self.time += seconds;
        self.arrived += self.day.share(self.time) * ARRIVAL_AT_PEAK * seconds * self.random.between(0.9, 1.1);
        self.schedule();
        if self.is_processing() {
            self.process(seconds);
        }
        for vertex in &mut self.vertices {
            vertex.gauges.tick(self.time, vertex.totals, vertex.parallelism);
        }
    }
}

impl Vertex {
    /// The parallelism that the scheduler gives it: the upper bound, as far as there are slots.
    fn goal(&self) -> u64 {
        self.upper.clamp(1, TASK_MANAGERS * SLOTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        Job::new(Pace::default())
    }

    fn ask(job: &mut Job, vertex: usize, upper: u64) {
        job.vertices[vertex].upper = upper;
    }

    #[test]
    fn no_record_is_lost_and_the_backlog_is_never_negative_over_two_days() {
        let mut job = job();
        for second in 1..1440_u32 {
            job.advance(f64::from(second));
            if second % 60 == 0 {
                ask(&mut job, 2, 1 + u64::from(second) / 60 % 12);
            }
            assert!(job.backlog() >= 0.0, "{} at {second} s", job.backlog());
            assert!((job.arrived - job.read - job.backlog()).abs() < 1e-6);
            let read: Vec<f64> = job.vertices.iter().map(|vertex| vertex.totals.read / vertex.kind.through).collect();
            assert!(read.iter().all(|records| (records - read[0]).abs() < 1e-3), "{read:?} at {second} s");
        }
        assert!(job.restarts > 10);
    }

    #[test]
    fn the_three_times_of_a_vertex_add_up_to_its_running_time() {
        let mut job = job();
        job.advance(300.0);
        let ran = (job.time - job.deployed_at - DEPLOY_SECONDS) * 1000.0;
        for vertex in &job.vertices {
            let sum = vertex.totals.busy + vertex.totals.back_pressured + vertex.totals.idle;
            assert!((sum - ran * float(vertex.parallelism)).abs() < 250.0 * float(vertex.parallelism), "{}: {sum} of {ran}", vertex.kind.name);
        }
    }

    #[test]
    fn the_slow_vertex_is_full_what_is_before_it_is_backpressured_and_what_is_behind_it_is_not() {
        let mut job = job();
        job.advance(200.0);
        let share = |place: usize, part: fn(&Totals) -> f64| part(&job.vertices[place].totals) / (199.0 * 1000.0 * float(job.vertices[place].parallelism));
        assert!(share(2, |totals| totals.busy) > 0.6);
        assert!(share(0, |totals| totals.back_pressured) > 0.4 && share(1, |totals| totals.back_pressured) > 0.4);
        assert!(share(3, |totals| totals.back_pressured) == 0.0 && share(4, |totals| totals.back_pressured) == 0.0);
        assert!(job.backlog() > 10_000.0, "{}", job.backlog());
    }

    #[test]
    fn a_rescale_waits_for_a_checkpoint_stops_the_job_shortly_and_resets_the_counters() {
        let mut job = job();
        job.advance(10.0);
        ask(&mut job, 2, 4);
        job.advance(10.5);
        assert_eq!((job.vertices[2].parallelism, job.restarts), (2, 0));
        job.advance(11.5);
        assert!(matches!(job.phase, Phase::Restarting { .. }));
        assert_eq!(job.slots_used(), 0);
        let waiting = job.backlog();
        job.advance(12.5);
        assert_eq!((job.vertices[2].parallelism, job.restarts, job.phase), (4, 1, Phase::Running));
        assert!(job.vertices.iter().all(|vertex| vertex.totals == Totals::default()));
        assert!(job.backlog() > waiting);
    }

    #[test]
    fn a_requirement_beyond_the_slots_is_met_as_far_as_they_go() {
        let mut job = job();
        job.obey(&Orders { parallelism: [(KINDS[2].id.to_owned(), 30)].into(), ..Orders::default() });
        job.advance(10.0);
        assert_eq!((job.vertices[2].upper, job.vertices[2].parallelism, job.slots_used()), (30, 12, 12));
    }

    #[test]
    fn the_peak_of_the_day_needs_nine_subtasks_of_enrich_at_seventy_percent_and_twelve_slots_are_enough() {
        let wanted = ARRIVAL_AT_PEAK * KINDS[2].cost / 0.7;
        assert!(wanted > 8.0 && wanted <= 9.0, "{wanted}");
        let mut job = job();
        ask(&mut job, 2, 9);
        ask(&mut job, 3, 3);
        job.advance(719.0);
        assert!(job.backlog() < 2000.0, "{}", job.backlog());
    }
}
