//! From the answers to a reading: no question is asked here.

use std::collections::BTreeMap;

use super::JobSelector;
use super::metrics::Values;
use super::wire::{Input, Job, JobRow, JobVertex, JobsOverview, Number, Overview, TaskManagers};
use crate::core::kinds::FlinkJobSnapshot;
use crate::core::kinds::flink::{Edge, JobMemory, TaskCounts, Vertex};
use crate::core::units::{Amount, Count, Timestamp};

/// Milliseconds a second spent in garbage collection (Flink 1.20 and later).
pub const GC: &str = "Status.JVM.GarbageCollector.All.TimeMsPerSecond";
/// Heap in use, bytes.
pub const HEAP_USED: &str = "Status.JVM.Memory.Heap.Used";
/// Heap size, bytes.
pub const HEAP_MAX: &str = "Status.JVM.Memory.Heap.Max";

/// States that a job does not leave.
const ENDED: [&str; 4] = ["FINISHED", "CANCELED", "FAILED", "SUSPENDED"];
/// States of a task that has a slot.
const IN_A_SLOT: [&str; 5] = ["DEPLOYING", "INITIALIZING", "RUNNING", "CANCELING", "RECONCILING"];

/// The job that is meant. Of several with one name the newest that has not ended, else the newest.
#[must_use]
pub fn choose<'a>(jobs: &'a JobsOverview, wanted: &JobSelector) -> Option<&'a JobRow> {
    let meant = |row: &&JobRow| match wanted {
        JobSelector::Name(name) => row.name == *name,
        JobSelector::Id(id) => row.jid.eq_ignore_ascii_case(id),
    };
    jobs.jobs.iter().filter(meant).max_by_key(|row| (!ENDED.contains(&row.state.as_str()), row.start_time.count().unwrap_or(0)))
}

/// The job without its metrics, slots and times.
#[must_use]
pub fn job(row: &JobRow, job: &Job) -> FlinkJobSnapshot {
    let since =
        job.timestamps.get("RUNNING").copied().and_then(Number::positive).and_then(|millis| Timestamp::from_millisecond(i64::try_from(millis).ok()?).ok());
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

/// The totals of all vertices, to the bit. None where no vertex reports its busy time: such totals may well stand still.
#[must_use]
pub fn totals(job: &Job) -> Option<Vec<[u64; 5]>> {
    let bits = |number: Number| number.0.unwrap_or(-1.0).to_bits();
    let times = job.vertices.iter().any(|vertex| vertex.metrics.accumulated_busy_time.0.is_some_and(|millis| millis > 0.0));
    let all = || job.vertices.iter().map(|vertex| &vertex.metrics);
    times.then(|| {
        all()
            .map(|totals| {
                [
                    bits(totals.read_records),
                    bits(totals.write_records),
                    bits(totals.accumulated_busy_time),
                    bits(totals.accumulated_idle_time),
                    bits(totals.accumulated_backpressured_time),
                ]
            })
            .collect()
    })
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
    let total = overview.slots_total.count().unwrap_or(Count::MAX);
    snapshot.schedulable_slots = overview.slots_available.count().map(|free| free.saturating_add(in_use).min(total));
}

/// Memory pressure from the largest values over the `TaskManagers`.
#[must_use]
pub fn memory(values: &Values) -> Option<JobMemory> {
    let share = |value: f64| Amount::new(value.clamp(0.0, 1.0));
    let heap = values.max(HEAP_USED).zip(values.max(HEAP_MAX)).filter(|(_, max)| *max > 0.0);
    let memory =
        JobMemory { gc_time_ratio: values.max(GC).and_then(|millis| share(millis / 1000.0)), heap_used_ratio: heap.and_then(|(used, max)| share(used / max)) };
    (memory != JobMemory::default()).then_some(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overview(rows: &[(&str, &str, &str, u64)]) -> JobsOverview {
        let rows = rows.iter().map(|(jid, name, state, start)| serde_json::json!({ "jid": jid, "name": name, "state": state, "start-time": start }));
        serde_json::from_value(serde_json::json!({ "jobs": rows.collect::<Vec<_>>() })).expect("an overview")
    }

    #[test]
    fn of_several_jobs_with_one_name_the_newest_that_has_not_ended_is_meant() {
        let jobs = overview(&[("a", "x", "RUNNING", 1), ("b", "x", "RESTARTING", 2), ("c", "x", "FAILED", 3), ("d", "y", "RUNNING", 4)]);
        let named = |name: &str| choose(&jobs, &JobSelector::Name(name.to_owned())).map(|row| row.jid.as_str());
        assert_eq!((named("x"), named("y"), named("z")), (Some("b"), Some("d"), None));
        assert_eq!(choose(&jobs, &JobSelector::Id("C".to_owned())).map(|row| row.state.as_str()), Some("FAILED"));
        let ended = overview(&[("a", "x", "FINISHED", 1), ("b", "x", "CANCELED", 2)]);
        assert_eq!(choose(&ended, &JobSelector::Name("x".to_owned())).map(|row| row.jid.as_str()), Some("b"));
    }

    #[test]
    fn totals_differ_as_soon_as_time_has_passed_and_tell_nothing_before_they_are_there() {
        let job = |busy: &str, idle: u64| -> Job {
            let metrics = serde_json::json!({ "read-records": 5, "accumulated-busy-time": busy, "accumulated-idle-time": idle });
            serde_json::from_value(serde_json::json!({ "jid": "j", "state": "RUNNING", "vertices": [{ "id": "a", "parallelism": 1, "metrics": metrics }] }))
                .expect("a job")
        };
        assert_eq!(totals(&job("10.0", 100)), totals(&job("10.0", 100)));
        assert_ne!(totals(&job("10.0", 100)), totals(&job("10.0", 5100)), "an idle task's idle time goes on");
        assert_eq!((totals(&job("NaN", 0)), totals(&job("0", 0))), (None, None));
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
