//! What types alone do not refuse: duplicate ids, edges to nowhere, ratios above 1.

use std::collections::HashSet;

use super::{LastChange, Problem, Readings, Replicas, Series};
use crate::core::kinds::backlog::BacklogSnapshot;
use crate::core::kinds::druid::DruidWorkersSnapshot;
use crate::core::kinds::flink::Spread;
use crate::core::kinds::{DruidSupervisorSnapshot, FlinkJobSnapshot, KafkaGroupSnapshot};
use crate::core::units::{Amount, COUNT_MAX, Count, Timestamp};

/// The most vertices, workers or pending tasks in one reading.
const MOST_ITEMS: usize = 100_000;

/// Adds what is wrong with the counts of the scale target.
pub fn replicas(replicas: &Replicas, problems: &mut Vec<Problem>) {
    let change = replicas.last_change.unwrap_or(LastChange { at: Timestamp::MIN, from: None, to: None });
    for (path, count) in [
        ("replicas.spec", replicas.spec),
        ("replicas.ready", replicas.ready),
        ("replicas.status", replicas.status),
        ("replicas.starting", replicas.starting),
        ("replicas.lastChange.from", change.from),
        ("replicas.lastChange.to", change.to),
    ] {
        if let Some(count) = count.filter(|count| *count > COUNT_MAX) {
            problems.push(Problem::new(path, format!("{count} is out of range: expected at most {COUNT_MAX}")));
        }
    }
}

/// Adds what is wrong with the readings.
pub fn readings(readings: &Readings, problems: &mut Vec<Problem>) {
    match readings {
        Readings::DruidWorkers(series) => each(series, problems, druid),
        Readings::DruidSupervisor(series) => each(series, problems, supervisor),
        Readings::FlinkJob(series) => each(series, problems, flink),
        Readings::KafkaGroup(series) => each(series, problems, kafka),
        // nothing but amounts, which their types check
        Readings::PubsubSubscription(series) => each(series, problems, |_, _| {}),
        Readings::Backlog(series) => each(series, problems, backlog),
    }
}

fn each<S: super::Observed>(series: &Series<S>, problems: &mut Vec<Problem>, check: impl Fn(&S, &mut dyn FnMut(String, String))) {
    let mut visit = |prefix: &str, snapshot: &S| {
        let mut say = |path: String, message: String| problems.push(Problem::new(path, message).under(prefix));
        if let Some(offset) = snapshot.clock_offset_seconds().filter(|offset| offset.abs() > 31_536_000.0) {
            say("senderClockOffsetSeconds".to_owned(), format!("{offset} is out of range: expected less than a year"));
        }
        check(snapshot, &mut say);
    };
    if let Some(latest) = &series.latest {
        visit("snapshot", latest);
    }
    for (index, snapshot) in series.history.iter().enumerate() {
        visit(&format!("history[{index}]"), snapshot);
    }
}

fn ratio(say: &mut dyn FnMut(String, String), path: impl FnOnce() -> String, value: Option<Amount>) {
    // a busy share measured a hair above 1 is rounding of the source, not a fault of the caller
    if let Some(value) = value.map(Amount::get).filter(|value| *value > 1.5) {
        say(path(), format!("{value} is out of range: expected a share between 0 and 1"));
    }
}

fn druid(snapshot: &DruidWorkersSnapshot, say: &mut dyn FnMut(String, String)) {
    let workers = snapshot.workers.as_deref().unwrap_or_default();
    if workers.len() > MOST_ITEMS {
        say("workers".to_owned(), format!("{} workers are too many: expected at most {MOST_ITEMS}", workers.len()));
    }
    let mut hosts = HashSet::with_capacity(workers.len());
    for (index, worker) in workers.iter().enumerate() {
        if !hosts.insert(worker.host.as_str()) {
            say(format!("workers[{index}].host"), format!("\"{}\" is listed twice: expected each worker once", worker.host));
        }
    }
    if let Some(pending) = &snapshot.pending
        && pending.tasks.as_ref().is_some_and(|tasks| tasks.len() > MOST_ITEMS)
    {
        say("pending.tasks".to_owned(), format!("too many tasks: expected at most {MOST_ITEMS}"));
    }
    ratio(say, || "parallelIndexTaskSlotRatio".to_owned(), snapshot.parallel_index_task_slot_ratio);
}

fn supervisor(snapshot: &DruidSupervisorSnapshot, say: &mut dyn FnMut(String, String)) {
    ratio(say, || "idleRatio".to_owned(), snapshot.idle_ratio);
    if let Some(count) = snapshot.partitions.filter(|count| *count > MOST_ITEMS as Count) {
        say("partitions".to_owned(), format!("{count} are too many: expected at most {MOST_ITEMS}"));
    }
    let lags = snapshot.partition_lag.as_ref().map_or(0, std::collections::BTreeMap::len);
    let ends = snapshot.latest_offsets.as_ref().map_or(0, std::collections::BTreeMap::len);
    for (path, length) in [("partitionLag", lags), ("latestOffsets", ends)] {
        if length > MOST_ITEMS {
            say(path.to_owned(), format!("{length} partitions are too many: expected at most {MOST_ITEMS}"));
        }
    }
    for (path, count) in [("taskCount", snapshot.task_count), ("replicas", snapshot.replicas)] {
        if let Some(count) = count.filter(|count| *count > COUNT_MAX) {
            say(path.to_owned(), format!("{count} is out of range: expected at most {COUNT_MAX}"));
        }
    }
}

fn flink(job: &FlinkJobSnapshot, say: &mut dyn FnMut(String, String)) {
    if job.vertices.len() > MOST_ITEMS {
        say("vertices".to_owned(), format!("{} vertices are too many: expected at most {MOST_ITEMS}", job.vertices.len()));
        return;
    }
    let mut ids = HashSet::with_capacity(job.vertices.len());
    for (index, vertex) in job.vertices.iter().enumerate() {
        if !ids.insert(vertex.id.as_str()) {
            say(format!("vertices[{index}].id"), format!("\"{}\" is there twice: expected each vertex once", vertex.id));
        }
        if vertex.parallelism == 0 {
            say(format!("vertices[{index}].parallelism"), "0 is out of range: expected at least 1".to_owned());
        }
        if vertex.max_parallelism == Some(0) {
            say(format!("vertices[{index}].maxParallelism"), "0 is out of range: expected at least 1".to_owned());
        }
        for (name, spread) in [("busyRatio", vertex.busy_ratio), ("backPressuredRatio", vertex.back_pressured_ratio)] {
            let Spread { max, avg, min } = spread.unwrap_or_default();
            for (part, value) in [("max", max), ("avg", avg), ("min", min)] {
                ratio(say, || format!("vertices[{index}].{name}.{part}"), value);
            }
            let (max, avg, min) = (max.map(Amount::get), avg.map(Amount::get), min.map(Amount::get));
            for (part, value, bound) in [("avg", avg, max), ("min", min, avg.or(max))] {
                if let Some((value, bound)) = value.zip(bound).filter(|(value, bound)| *value > *bound + 1e-6) {
                    say(format!("vertices[{index}].{name}.{part}"), format!("{value} is above {bound}: expected min <= avg <= max"));
                }
            }
        }
    }
    for (index, vertex) in job.vertices.iter().enumerate() {
        for (edge, input) in vertex.inputs.iter().enumerate() {
            if !ids.contains(input.from.as_str()) {
                say(format!("vertices[{index}].inputs[{edge}].from"), format!("\"{}\" is no vertex of this job: expected the id of one", input.from));
            }
        }
    }
    if let Some(tasks) = &job.tasks
        && tasks.running.saturating_add(tasks.finished) > tasks.total
    {
        say(
            "tasks.running".to_owned(),
            format!("{} running and {} finished of {} tasks: expected at most the total", tasks.running, tasks.finished, tasks.total),
        );
    }
}

fn kafka(group: &KafkaGroupSnapshot, say: &mut dyn FnMut(String, String)) {
    ratio(say, || "busyRatio".to_owned(), group.busy_ratio);
    for (path, count) in [("members", group.members), ("tasks", group.tasks)] {
        if let Some(count) = count.filter(|count| *count > COUNT_MAX) {
            say(path.to_owned(), format!("{count} is out of range: expected at most {COUNT_MAX}"));
        }
    }
    let topics = group.topics.as_deref().unwrap_or_default();
    let listed: usize = topics.iter().map(|topic| topic.listed().len()).sum();
    if topics.len() > MOST_ITEMS || listed > MOST_ITEMS {
        say("topics".to_owned(), format!("{} topics with {listed} partitions are too many: expected at most {MOST_ITEMS} of each", topics.len()));
        return;
    }
    if group.subtopologies.as_ref().is_some_and(|parts| parts.len() > MOST_ITEMS || parts.iter().any(|part| part.source_partitions.len() > MOST_ITEMS)) {
        say("subtopologies".to_owned(), format!("too many entries: expected at most {MOST_ITEMS}"));
    }
    let mut names = HashSet::with_capacity(topics.len());
    for (index, topic) in topics.iter().enumerate() {
        if !names.insert(topic.name.as_str()) {
            say(format!("topics[{index}].name"), format!("\"{}\" is listed twice: expected each topic once", topic.name));
        }
        ratio(say, || format!("topics[{index}].recordsPerOffset"), topic.records_per_offset);
        if let Some(count) = topic.partition_count.filter(|count| *count > MOST_ITEMS as Count) {
            say(format!("topics[{index}].partitionCount"), format!("{count} is out of range: expected at most {MOST_ITEMS}"));
        }
        let mut numbers = HashSet::with_capacity(topic.listed().len());
        for (place, partition) in topic.listed().iter().enumerate() {
            let mut at = |field: &str, message: String| say(format!("topics[{index}].partitions[{place}].{field}"), message);
            if !numbers.insert(partition.partition) {
                at("partition", format!("{} is listed twice: expected each partition once", partition.partition));
            }
            if partition.offsets_by_age.len() > 100 {
                at("offsetsByAge", format!("{} entries are too many: expected at most 100", partition.offsets_by_age.len()));
            }
        }
    }
}

fn backlog(snapshot: &BacklogSnapshot, say: &mut dyn FnMut(String, String)) {
    ratio(say, || "busyRatio".to_owned(), snapshot.busy_ratio);
    if snapshot.per_replica.as_ref().is_some_and(|values| values.len() > MOST_ITEMS) {
        say("perReplica".to_owned(), format!("too many values: expected at most {MOST_ITEMS}"));
    }
    if snapshot.signals.len() > 100 {
        say("signals".to_owned(), format!("{} signals are too many: expected at most 100", snapshot.signals.len()));
    }
}
