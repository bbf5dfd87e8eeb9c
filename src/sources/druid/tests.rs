//! Answers in the documented shapes, shortened.

use super::*;
use crate::core::units::Timestamp;
use crate::engine::source::FailureKind;
use crate::sources::http::Answer;

fn ok(body: &'static str) -> Answer {
    Answer::of(200, body)
}

const WORKERS: &str = r#"[
 {"worker":{"scheme":"http","host":"druid-mm-0.druid-mm.druid.svc:8091","ip":"10.1.4.7","capacity":3,"version":"0","category":"_default_worker_category"},
  "currCapacityUsed":3,"currParallelIndexCapacityUsed":1,"availabilityGroups":["g"],
  "runningTasks":["index_kafka_orders_1","index_kafka_orders_2","index_parallel_b_1"],"lastCompletedTaskTime":"2026-03-02T09:58:11.001Z","blacklistedUntil":null,"new":1},
 {"worker":{"scheme":"http","host":"druid-mm-1.druid-mm.druid.svc:8091","ip":"10.1.4.8","capacity":3,"version":""},
  "currCapacityUsed":0,"runningTasks":[],"blacklistedUntil":"2026-03-02T10:30:00.000Z"}]"#;

const SUPERVISORS: &str = r#"[
 {"id":"orders","state":"RUNNING","suspended":false,"spec":{"type":"kafka","spec":{"ioConfig":{"taskCount":2,"replicas":2,"stopTaskCount":1}}}},
 {"id":"defaults","state":"RUNNING","spec":{"type":"kinesis","ioConfig":{}}},
 {"id":"asleep","state":"SUSPENDED","suspended":true,"spec":{"type":"kafka","spec":{"ioConfig":{"taskCount":9}}}},
 {"id":"compact","state":"RUNNING","spec":{"type":"autocompact"}}]"#;

#[test]
fn a_worker_with_an_empty_version_is_disabled() {
    let workers = wire::workers(&ok(WORKERS)).expect("workers");
    assert_eq!((workers[0].enabled, workers[1].enabled), (true, false));
    assert_eq!(workers[0].ordinal(), Some(0));
    assert_eq!((workers[0].used, workers[0].parallel_index_used), (3, Some(1)));
    assert_eq!((workers[1].parallel_index_used, workers[1].category.as_deref()), (None, None), "an old version says less");
    assert!(workers[1].blacklisted_until.is_some());
}

#[test]
fn a_worker_list_without_its_fields_is_no_worker_list() {
    for body in ["{}", "[{}]", r#"[{"worker":{"host":"a:1","version":"0"},"currCapacityUsed":0}]"#, "null"] {
        assert_eq!(wire::workers(&ok(body)).expect_err(body).kind, FailureKind::Unexpected, "{body}");
    }
}

#[test]
fn a_task_runner_without_workers_is_not_an_empty_cluster() {
    let error = wire::accept_workers(Answer::of(500, r#"{"error":"Task Runner does not support worker listing"}"#)).err().expect("refused");
    assert_eq!(error.kind, FailureKind::Unsupported);
    let error = wire::accept_workers(Answer::of(500, r#"{"error":"something else"}"#)).err().expect("refused");
    assert_eq!((error.kind, error.message.as_str()), (FailureKind::Status, "HTTP 500"));
}

#[test]
fn the_age_of_the_oldest_pending_task_comes_from_its_creation() {
    let now: Timestamp = "2026-03-02T10:00:44.120Z".parse().expect("time");
    let body = r#"[{"id":"t1","type":"index_kafka","createdTime":"2026-03-02T10:00:04.120Z","queueInsertionTime":"1970-01-01T00:00:00.000Z","statusCode":"RUNNING",
      "runnerStatusCode":"PENDING","dataSource":"orders","errorMsg":null},{"id":"t2","type":"compact","createdTime":"2026-03-02T10:00:30.000Z","dataSource":"a"}]"#;
    let pending = wire::pending(&ok(body), now).expect("pending");
    assert_eq!((pending.count, pending.oldest_seconds.map(Amount::get)), (2, Some(40.0)));
    let tasks = pending.tasks.expect("tasks");
    assert_eq!((tasks[0].required_capacity, tasks[0].data_source.as_deref()), (None, Some("orders")));

    let early: Timestamp = "2026-03-02T09:00:00Z".parse().expect("time");
    assert_eq!(wire::pending(&ok(body), early).expect("pending").oldest_seconds.map(Amount::get), Some(0.0), "their clock is ahead");
    assert_eq!(wire::pending(&ok("[]"), now).expect("none").oldest_seconds, None);
}

#[test]
fn an_overlord_that_was_never_configured_spreads_tasks_equally() {
    for (body, name) in
        [("null", "equalDistribution"), ("", "equalDistribution"), (r#"{"type":"default","selectStrategy":{"type":"fillCapacity"}}"#, "fillCapacity")]
    {
        assert_eq!(wire::placement(&ok(body)).expect(name).strategy, name);
    }
    assert!(wire::placement(&ok("[1]")).is_err());
}

#[test]
fn a_strong_category_is_the_only_one_that_may_take_a_task_and_a_weak_one_is_not() {
    let of = |strong: bool| {
        let map = r#"{"index_kafka":{"defaultCategory":"stream","categoryAffinity":{"orders":"hot"}},"compact":{"defaultCategory":null}}"#;
        let body = format!(r#"{{"selectStrategy":{{"type":"fillCapacityWithCategorySpec","workerCategorySpec":{{"strong":{strong},"categoryMap":{map}}}}}}}"#);
        let placement = wire::placement(&Answer::of(200, body)).expect("a placement");
        [("index_kafka", "orders"), ("index_kafka", "other"), ("compact", "orders"), ("index", "orders")]
            .map(|(kind, source)| placement.category(kind, Some(source)))
    };
    assert_eq!(of(true), [Some("hot".to_owned()), Some("stream".to_owned()), None, None]);
    assert_eq!(of(false), [None, None, None, None]);
}

#[test]
fn only_streaming_supervisors_that_are_not_suspended_are_forecast() {
    let list = wire::supervisors(&ok(SUPERVISORS)).expect("supervisors");
    let rows: Vec<_> =
        list.iter().map(|row| (row.task_type.as_str(), row.streaming.task_count, row.streaming.replicas, row.streaming.stop_task_count)).collect();
    assert_eq!(rows, [("index_kafka", 2, 2, Some(1)), ("index_kinesis", 1, 1, None)]);
}

#[test]
fn running_tasks_learn_their_phase_and_what_is_not_told_stays_unknown() {
    let status = r#"{"id":"orders","payload":{"activeTasks":[{"id":"index_kafka_orders_1","remainingSeconds":2400,"type":"ACTIVE"}],
      "publishingTasks":[{"id":"index_kafka_orders_2","remainingSeconds":1742}]}}"#;
    let groups = wire::status(&ok(status)).expect("status");
    assert_eq!(groups.rollover().map(Amount::get), Some(2400.0));
    let mut list = wire::supervisors(&ok(SUPERVISORS)).expect("supervisors");
    let mut workers = wire::workers(&ok(WORKERS)).expect("workers");
    refine(&mut workers, &[(list.remove(0), Some(groups))]);
    let facts = |workers: &[Worker]| -> Vec<_> {
        workers[0].tasks.iter().flatten().map(|task| (task.task_type.clone(), task.phase, task.remaining_seconds.map(Amount::get))).collect()
    };
    let kafka = || Some("index_kafka".to_owned());
    let batch = (Some("index_parallel".to_owned()), Some(Phase::Running), None);
    let expected = [(kafka(), Some(Phase::Reading), Some(2400.0)), (kafka(), Some(Phase::Publishing), None), batch.clone()];
    assert_eq!(facts(&workers), expected);

    let mut unknown = wire::workers(&ok(WORKERS)).expect("workers");
    refine(&mut unknown, &[]);
    assert_eq!(facts(&unknown), [(kafka(), None, None), (kafka(), None, None), batch]);
}

#[test]
fn a_rollover_is_unknown_without_numbers_and_now_when_overdue() {
    let rollover =
        |tasks: &str| wire::status(&Answer::of(200, format!(r#"{{"payload":{{"activeTasks":{tasks}}}}}"#))).expect("status").rollover().map(Amount::get);
    assert_eq!(rollover("[]"), None);
    assert_eq!(rollover(r#"[{"id":"a","remainingSeconds":null}]"#), None);
    assert_eq!(rollover(r#"[{"id":"a","remainingSeconds":60},{"id":"b","remainingSeconds":20}]"#), Some(20.0));
    assert_eq!(rollover(r#"[{"id":"a","remainingSeconds":60},{"id":"b","remainingSeconds":-5}]"#), Some(0.0));
}
