//! From the answers to a reading: no question is asked here.

use std::collections::BTreeMap;

use super::metrics::Values;
use super::wire::{Input, Job, JobRow, JobVertex, Metric, Number, Overview, TaskManager, TaskManagers};
use crate::core::kinds::FlinkJobSnapshot;
use crate::core::kinds::flink::{Edge, JobMemory, TaskCounts, Vertex};
use crate::core::units::{Amount, Count, Timestamp};

/// Milliseconds a second spent in garbage collection (Flink 1.20 and later).
const GC: &str = "Status.JVM.GarbageCollector.All.TimeMsPerSecond";
/// Milliseconds spent in garbage collection by all collectors so far.
const GC_ALL: &str = "Status.JVM.GarbageCollector.All.Time";
/// The beginning and the end of the same by one collector.
const GC_ONE: (&str, &str) = ("Status.JVM.GarbageCollector.", ".Time");
/// Heap in use, bytes.
const HEAP_USED: &str = "Status.JVM.Memory.Heap.Used";
/// Heap size, bytes.
const HEAP_MAX: &str = "Status.JVM.Memory.Heap.Max";

/// States that a job does not leave.
const ENDED: [&str; 4] = ["FINISHED", "CANCELED", "FAILED", "SUSPENDED"];
/// States of a task that has a slot.
const IN_A_SLOT: [&str; 5] = ["DEPLOYING", "INITIALIZING", "RUNNING", "CANCELING", "RECONCILING"];

/// True for a state that a job does not leave.
#[must_use]
pub fn has_ended(state: &str) -> bool {
    ENDED.contains(&state)
}

/// The job without its metrics, slots and times.
#[must_use]
pub fn job(row: &JobRow, job: &Job) -> FlinkJobSnapshot {
    // where tasks were started anew later than that, as after a wait for slots, they count
    let started = job.vertices.iter().filter(|vertex| vertex.status.as_deref() != Some("FINISHED")).filter_map(|vertex| vertex.start_time.positive()).max();
    let running = job.timestamps.get("RUNNING").copied().and_then(Number::positive);
    let since = running.map(|running| started.map_or(running, |started| started.max(running)));
    let since = since.and_then(|millis| Timestamp::from_millisecond(i64::try_from(millis).ok()?).ok());
    let inputs: BTreeMap<&str, &[Input]> = job.plan.nodes.iter().map(|node| (node.id.as_str(), node.inputs.as_slice())).collect();
    FlinkJobSnapshot {
        job_id: Some(job.jid.clone()),
        state: Some(row.state.clone()),
        // the details are cached for 3 s: those of a job that was not RUNNING then know only an earlier start
        running_since: since.filter(|_| row.state == "RUNNING" && job.state == "RUNNING"),
        tasks: tasks(row, job),
        vertices: job.vertices.iter().map(|each| vertex(each, inputs.get(each.id.as_str()).copied().unwrap_or_default())).collect(),
        ..FlinkJobSnapshot::default()
    }
}

/// Tasks by state: from the overview, which is not cached; while that has none, from the vertices.
fn tasks(row: &JobRow, job: &Job) -> Option<TaskCounts> {
    let listed = |state: &str| row.tasks.get(state).copied().and_then(Number::count).unwrap_or(0);
    let counts = TaskCounts { total: listed("total"), running: listed("running"), finished: listed("finished") };
    if counts.total > 0 {
        return Some(counts);
    }
    let sum = |of: &dyn Fn(&JobVertex) -> Option<Count>| job.vertices.iter().filter_map(of).fold(0, Count::saturating_add);
    let in_state = |state: &str| sum(&|vertex| vertex.tasks.get(state)?.count());
    let counts = TaskCounts { total: sum(&|vertex| vertex.parallelism.count()), running: in_state("RUNNING"), finished: in_state("FINISHED") };
    (counts.total > 0).then_some(counts)
}

fn vertex(vertex: &JobVertex, inputs: &[Input]) -> Vertex {
    let totals = &vertex.metrics;
    let complete = match (totals.read_records_complete, totals.write_records_complete) {
        (None, None) => None,
        (read, written) => Some(read.unwrap_or(true) && written.unwrap_or(true)),
    };
    Vertex {
        id: vertex.id.clone(),
        name: vertex.name.clone(),
        parallelism: vertex.parallelism.count().unwrap_or(0),
        max_parallelism: vertex.max_parallelism.positive(),
        slot_sharing_group: vertex.slot_sharing_group.clone(),
        finished: vertex.status.as_ref().map(|status| status == "FINISHED"),
        inputs: inputs.iter().map(|input| Edge { from: input.id.clone(), ship_strategy: input.ship_strategy.clone() }).collect(),
        busy_ratio: None,
        back_pressured_ratio: None,
        // a total may be a little negative, as idle time is booked when the idle spell ends
        accumulated_busy_seconds: totals.accumulated_busy_time.0.and_then(|millis| Amount::new(millis.max(0.0) / 1000.0)),
        records_in_per_second: None,
        records_out_per_second: None,
        records_in: totals.read_records.count(),
        records_out: totals.write_records.count(),
        records_complete: complete,
        pending_records: None,
        partitions: None,
        partitions_by_topic: BTreeMap::new(),
    }
}

/// Slots that the job has: for each slot sharing group the most tasks of one vertex that are in a slot. A job that waits
/// for slots or has ended has none.
#[must_use]
pub fn slots_in_use(job: &Job) -> Count {
    let mut groups: BTreeMap<Option<&str>, Count> = BTreeMap::new();
    for vertex in &job.vertices {
        let tasks = IN_A_SLOT.iter().filter_map(|state| vertex.tasks.get(*state)?.count()).fold(0, Count::saturating_add);
        let most = groups.entry(vertex.slot_sharing_group.as_deref()).or_default();
        *most = tasks.max(*most);
    }
    groups.values().fold(0, |sum: Count, slots| sum.saturating_add(*slots))
}

/// Puts the slots of the cluster into the reading. What an adaptive job reserved and does not use yet counts for nobody:
/// it is neither free nor in use.
pub fn put_slots(snapshot: &mut FlinkJobSnapshot, in_use: Count, overview: &Overview, managers: &TaskManagers) {
    let slots: Vec<Option<Count>> = managers.taskmanagers.iter().map(|manager| manager.slots_number.count()).collect();
    snapshot.task_managers = Count::try_from(slots.len()).ok();
    snapshot.slots_per_task_manager = slots.first().copied().flatten().filter(|first| slots.iter().all(|each| *each == Some(*first)));
    let all = |of: fn(&TaskManager) -> Number| {
        let first = of(managers.taskmanagers.first()?);
        managers.taskmanagers.iter().all(|manager| of(manager) == first).then_some(first)
    };
    snapshot.task_manager_cpu = all(|manager| manager.total_resource.cpu_cores).and_then(Number::amount).filter(|cpu| cpu.get() > 0.0);
    snapshot.task_manager_memory_bytes = all(|manager| manager.memory_configuration.total_process_memory).and_then(Number::positive);
    let total = overview.slots_total.count().unwrap_or(Count::MAX);
    snapshot.schedulable_slots = overview.slots_available.count().map(|free| free.saturating_add(in_use).min(total));
}

/// Without totals, which are those of the attempt before, or none.
#[must_use]
pub fn without_figures(vertex: Vertex) -> Vertex {
    Vertex { accumulated_busy_seconds: None, records_in: None, records_out: None, records_complete: None, ..vertex }
}

/// Without averages, which climb from 0 for a minute.
pub fn without_averages(vertex: &mut Vertex) {
    (vertex.busy_ratio, vertex.back_pressured_ratio) = (None, None);
    (vertex.records_in_per_second, vertex.records_out_per_second) = (None, None);
}

/// The names worth asking the TaskManagers for among those that they have: the share of garbage collection, else its
/// counters, and the heap.
#[must_use]
pub fn memory_names(rows: &[Metric]) -> Vec<String> {
    let there = |name: &str| rows.iter().any(|row| row.id == name);
    let gc: Vec<String> = match [GC, GC_ALL].into_iter().find(|name| there(name)) {
        Some(name) => vec![name.to_owned()],
        None => rows.iter().filter(|row| is_gc_counter(&row.id)).map(|row| row.id.clone()).collect(),
    };
    gc.into_iter().chain([HEAP_USED, HEAP_MAX].into_iter().filter(|name| there(name)).map(str::to_owned)).collect()
}

fn is_gc_counter(name: &str) -> bool {
    name.starts_with(GC_ONE.0) && name.ends_with(GC_ONE.1)
}

/// The largest share of the time spent in garbage collection, where it is measured.
#[must_use]
pub fn gc_time_ratio(values: &Values) -> Option<f64> {
    values.max(GC).map(|millis| millis / 1000.0)
}

/// Milliseconds spent in garbage collection so far, of all TaskManagers.
#[must_use]
pub fn gc_millis(values: &Values) -> Option<f64> {
    values.total(is_gc_counter).map(Amount::get)
}

/// Memory pressure: garbage collection, and the fullest heap.
#[must_use]
pub fn memory(values: &Values, gc_time_ratio: Option<f64>) -> Option<JobMemory> {
    let share = |value: f64| Amount::new(value.clamp(0.0, 1.0));
    let heap = values.max(HEAP_USED).zip(values.max(HEAP_MAX)).filter(|(_, max)| *max > 0.0);
    let memory = JobMemory { gc_time_ratio: gc_time_ratio.and_then(share), heap_used_ratio: heap.and_then(|(used, max)| share(used / max)) };
    (memory != JobMemory::default()).then_some(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_collection_is_asked_for_as_a_share_else_by_its_counters() {
        let names = |list: &[&str]| memory_names(&list.iter().map(|id| Metric { id: (*id).to_owned(), ..Metric::default() }).collect::<Vec<_>>());
        let (all, old, young) =
            ("Status.JVM.GarbageCollector.All.Time", "Status.JVM.GarbageCollector.G1_Old.Time", "Status.JVM.GarbageCollector.G1_Young.Time");
        assert_eq!(names(&[old, GC, all, HEAP_MAX, HEAP_USED, "Status.JVM.CPU.Load"]), [GC, HEAP_USED, HEAP_MAX]);
        assert_eq!(names(&[old, young, all, "Status.JVM.GarbageCollector.All.Count"]), [all]);
        assert_eq!(names(&[old, young, HEAP_USED]), [old, young, HEAP_USED]);
        let row = |id: &str, sum: f64| Metric { id: id.to_owned(), sum: Number(Some(sum)), ..Metric::default() };
        assert_eq!(gc_millis(&Values::new([row(old, 500.0), row(young, 1500.0), row(HEAP_USED, 7.0)])), Some(2000.0));
    }

    #[test]
    fn slots_are_shared_inside_a_group_and_added_over_groups() {
        let vertex = |group: &str, state: &str, tasks: u64| serde_json::json!({ "id": "a", "parallelism": tasks, "slotSharingGroupId": group, "tasks": { state: tasks } });
        let vertices = [vertex("g", "RUNNING", 2), vertex("g", "RUNNING", 3), vertex("h", "DEPLOYING", 4), vertex("i", "SCHEDULED", 8)];
        let job: Job = serde_json::from_value(serde_json::json!({ "jid": "j", "state": "RUNNING", "vertices": vertices })).expect("a job");
        assert_eq!(slots_in_use(&job), 7);
    }

    #[test]
    fn unequal_task_managers_have_no_common_number_of_slots() {
        let read = |slots: &[u64]| {
            let rows: Vec<_> = slots.iter().map(|slots| serde_json::json!({ "slotsNumber": slots })).collect();
            let managers = serde_json::from_value(serde_json::json!({ "taskmanagers": rows })).expect("managers");
            let overview = serde_json::from_str(r#"{"slots-total":8,"slots-available":3}"#).expect("an overview");
            let mut snapshot = FlinkJobSnapshot::default();
            put_slots(&mut snapshot, 2, &overview, &managers);
            (snapshot.task_managers, snapshot.slots_per_task_manager, snapshot.schedulable_slots)
        };
        assert_eq!(read(&[4, 4]), (Some(2), Some(4), Some(5)));
        assert_eq!(read(&[4, 2]), (Some(2), None, Some(5)));
        assert_eq!(read(&[]), (Some(0), None, Some(5)));
    }
}
