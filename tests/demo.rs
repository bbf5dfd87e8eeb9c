//! The simulated clusters answer in the shapes that the real ones document.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails where it panics")]

use std::time::Duration;

use loadline::demo::{self, DRUID_TARGET, Demo, FLINK_TARGET, Orders, Pace};
use reqwest::{Client, Response};
use serde_json::{Value, json};

/// A demonstration, and a client to ask it.
struct Clusters {
    demo: Demo,
    client: Client,
}

impl Clusters {
    async fn start(follow: impl Fn(&str) -> Option<Orders> + Send + Sync + 'static) -> Self {
        let demo = demo::start(Pace { day: Duration::from_secs(120) }, follow).await.unwrap();
        Self { demo, client: Client::builder().no_proxy().build().unwrap() }
    }

    async fn idle() -> Self {
        Self::start(|_| None).await
    }

    fn druid_url(&self, path: &str) -> String {
        format!("http://{}/druid/indexer/v1{path}", self.demo.druid)
    }

    fn flink_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.demo.flink)
    }

    async fn druid(&self, path: &str) -> Value {
        json_of(self.client.get(self.druid_url(path)).send().await.unwrap()).await
    }

    async fn flink(&self, path: &str) -> Value {
        json_of(self.client.get(self.flink_url(path)).send().await.unwrap()).await
    }

    /// The id of the job, once its tasks run.
    async fn running_job(&self) -> String {
        for _ in 0..100 {
            let jobs = self.flink("/jobs/overview").await;
            if jobs["jobs"][0]["tasks"]["running"] == jobs["jobs"][0]["tasks"]["total"] {
                return jobs["jobs"][0]["jid"].as_str().unwrap().to_owned();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the job's tasks do not run after 10 s");
    }
}

async fn json_of(response: Response) -> Value {
    assert!(response.status().is_success(), "{} {}", response.status(), response.url());
    assert_eq!(response.headers()["content-type"], "application/json", "{}", response.url());
    serde_json::from_str(&response.text().await.unwrap()).unwrap()
}

/// Fails unless each of these members is there.
#[track_caller]
fn has(value: &Value, members: &[&str]) {
    for member in members {
        assert!(value.get(member).is_some(), "no `{member}` in {value}");
    }
}

#[tokio::test]
async fn the_overlord_lists_workers_tasks_and_the_supervisor_as_druid_does() {
    let clusters = Clusters::idle().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let workers = clusters.druid("/workers").await;
    assert_eq!(workers.as_array().unwrap().len(), 2);
    has(&workers[0], &["currCapacityUsed", "currParallelIndexCapacityUsed", "availabilityGroups", "runningTasks", "lastCompletedTaskTime", "blacklistedUntil"]);
    has(&workers[0]["worker"], &["scheme", "host", "ip", "capacity", "version", "category"]);
    assert_eq!(workers[0]["worker"]["host"], "druid-mm-0.druid-mm.demo.svc:8091");

    let running = clusters.druid("/runningTasks?type=index_kafka").await;
    assert_eq!(running.as_array().unwrap().len(), 4);
    has(&running[0], &["id", "groupId", "type", "createdTime", "statusCode", "runnerStatusCode", "duration", "location", "dataSource"]);
    assert_eq!(running[0]["runnerStatusCode"], "RUNNING");
    assert!(clusters.druid("/pendingTasks").await.is_array());
    assert_eq!(clusters.druid("/waitingTasks").await, json!([]));
    assert_eq!(clusters.druid("/worker").await["selectStrategy"]["type"], "fillCapacity");

    let supervisors = clusters.druid("/supervisor?full").await;
    assert_eq!(supervisors[0]["id"], "orders");
    assert_eq!(supervisors[0]["spec"]["spec"]["ioConfig"]["taskCount"], 4);
    assert_eq!(clusters.druid("/supervisor").await, json!(["orders"]));
    let status = clusters.druid("/supervisor/orders/status").await;
    let payload = &status["payload"];
    has(
        payload,
        &["partitions", "replicas", "durationSeconds", "publishingTasks", "latestOffsets", "aggregateLag", "offsetsLastUpdated", "state", "suspended"],
    );
    assert_eq!(payload["activeTasks"].as_array().unwrap().len(), 4);
    has(&payload["activeTasks"][0], &["id", "startTime", "remainingSeconds", "type", "currentOffsets", "lag"]);
    assert_eq!(payload["latestOffsets"].as_object().unwrap().len(), 12);
}

#[tokio::test]
async fn a_disabled_worker_announces_an_empty_version_until_it_is_enabled() {
    let clusters = Clusters::idle().await;
    let host = "druid-mm-1.druid-mm.demo.svc:8091";
    let post = async |path: String| json_of(clusters.client.post(clusters.druid_url(&path)).send().await.unwrap()).await;
    assert_eq!(post(format!("/worker/{host}/disable")).await, json!({ host: "disabled" }));
    assert_eq!(clusters.druid("/workers").await[1]["worker"]["version"], "");
    assert_eq!(post(format!("/worker/{host}/enable").replace(':', "%3A")).await, json!({ host: "enabled" }));
    assert_eq!(clusters.druid("/workers").await[1]["worker"]["version"], "0");
    let unknown = clusters.client.post(clusters.druid_url("/worker/nowhere:8091/disable")).send().await.unwrap();
    assert_eq!(unknown.status(), 500);
}

#[tokio::test]
async fn the_job_manager_describes_job_vertices_and_slots_as_flink_does() {
    let clusters = Clusters::idle().await;
    let job = clusters.running_job().await;
    has(&clusters.flink("/overview").await, &["taskmanagers", "slots-total", "slots-available", "flink-version"]);
    assert_eq!(clusters.flink("/config").await["features"]["web-rescale"], true);
    assert_eq!(clusters.flink(&format!("/jobs/{job}/status")).await["status"], "RUNNING");

    let details = clusters.flink(&format!("/jobs/{job}")).await;
    has(&details, &["jid", "name", "state", "schedulerType", "start-time", "maxParallelism", "now", "timestamps", "status-counts"]);
    let vertices = details["vertices"].as_array().unwrap();
    assert_eq!(vertices.len(), 5);
    for vertex in vertices {
        has(vertex, &["id", "slotSharingGroupId", "name", "maxParallelism", "parallelism", "status", "start-time", "tasks"]);
        has(&vertex["metrics"], &["read-records", "read-records-complete", "write-records", "accumulated-busy-time", "accumulated-backpressured-time"]);
    }
    let nodes = details["plan"]["nodes"].as_array().unwrap();
    assert!(nodes[0].get("inputs").is_none());
    assert_eq!((&nodes[3]["inputs"][0]["id"], &nodes[3]["inputs"][0]["ship_strategy"]), (&vertices[2]["id"], &json!("HASH")));

    let managers = clusters.flink("/taskmanagers").await;
    has(&managers["taskmanagers"][0], &["id", "slotsNumber", "freeSlots", "totalResource", "hardware", "memoryConfiguration"]);
    let restarts = clusters.flink(&format!("/jobs/{job}/metrics?get=numRestarts,noSuchMetric")).await;
    assert_eq!(restarts, json!([{ "id": "numRestarts", "value": "0" }]));
    let heap = clusters.flink("/taskmanagers/metrics?get=Status.JVM.Memory.Heap.Used,Status.JVM.Memory.Heap.Max&agg=max").await;
    assert!(heap[0]["max"].as_f64().unwrap() < heap[1]["max"].as_f64().unwrap());
}

#[tokio::test]
async fn aggregated_metrics_are_all_or_nothing_and_those_of_unknown_things_are_empty() {
    let clusters = Clusters::idle().await;
    let job = clusters.running_job().await;
    let details = clusters.flink(&format!("/jobs/{job}")).await;
    let source = format!("/jobs/{job}/vertices/{}/subtasks/metrics", details["vertices"][0]["id"].as_str().unwrap());
    let names = clusters.flink(&source).await;
    assert!(names.as_array().unwrap().iter().any(|name| name["id"] == "Source__orders.pendingRecords"));

    let row = clusters.flink(&format!("{source}?get=busyTimeMsPerSecond,Source__orders.pendingRecords&agg=max,avg")).await;
    assert_eq!(row.as_array().unwrap().len(), 2);
    assert!(row[0]["max"].is_number() && row[0].get("sum").is_none(), "{row}");
    has(&clusters.flink(&format!("{source}?get=numRecordsIn")).await[0], &["min", "max", "avg", "sum", "skew"]);

    assert_eq!(clusters.flink(&format!("{source}?get=busyTimeMsPerSecond,noSuchMetric")).await, json!([]));
    assert_eq!(clusters.flink(&format!("{source}?get=isBackPressured")).await, json!([]));
    assert_eq!(clusters.flink(&format!("/jobs/{job}/vertices/{}/subtasks/metrics", "0".repeat(32))).await, json!([]));
    let unknown = clusters.client.get(clusters.flink_url(&format!("/jobs/{}", "f".repeat(32)))).send().await.unwrap();
    assert_eq!(unknown.status(), 404);
    let wrong = clusters.client.get(clusters.flink_url(&format!("{source}?get=numRecordsIn&agg=p99"))).send().await.unwrap();
    assert_eq!(wrong.status(), 400);
}

#[tokio::test]
async fn requirements_that_are_put_are_carried_out_by_a_restart_and_wrong_ones_are_refused() {
    let clusters = Clusters::idle().await;
    let job = clusters.running_job().await;
    let path = format!("/jobs/{job}/resource-requirements");
    let put = async |body: &Value| clusters.client.put(clusters.flink_url(&path)).body(body.to_string()).send().await.unwrap().status();
    let mut wanted = clusters.flink(&path).await;
    assert_eq!(wanted.as_object().unwrap().len(), 5);
    let enrich = clusters.flink(&format!("/jobs/{job}")).await["vertices"][2]["id"].as_str().unwrap().to_owned();

    wanted[&enrich]["parallelism"]["upperBound"] = json!(0);
    assert_eq!(put(&wanted).await, 400);
    wanted[&enrich]["parallelism"]["upperBound"] = json!(49);
    assert_eq!(put(&wanted).await, 400);
    assert_eq!(put(&json!({ enrich.as_str(): wanted[&enrich].clone() })).await, 400);
    wanted[&enrich]["parallelism"]["upperBound"] = json!(5);
    assert_eq!(put(&wanted).await, 200);

    tokio::time::sleep(Duration::from_secs(3)).await;
    clusters.running_job().await;
    let details = clusters.flink(&format!("/jobs/{job}")).await;
    assert_eq!(details["vertices"][2]["parallelism"], 5);
    assert_eq!(clusters.flink(&format!("/jobs/{job}/metrics?get=numRestarts")).await[0]["value"], "1");
    assert_eq!(clusters.flink("/overview").await["slots-available"], 7);
}

#[tokio::test]
async fn orders_are_carried_out_and_a_dropped_demonstration_stops_answering() {
    let clusters = Clusters::start(|target| match target {
        DRUID_TARGET => Some(Orders { recommended: Some(4), ..Orders::default() }),
        FLINK_TARGET => Some(Orders { parallelism: [("e778491b4b4dd7931f07690f62af0797".to_owned(), 3)].into(), ..Orders::default() }),
        _ => None,
    })
    .await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(clusters.druid("/workers").await.as_array().unwrap().len(), 4);
    let job = clusters.running_job().await;
    assert_eq!(clusters.flink(&format!("/jobs/{job}")).await["vertices"][2]["parallelism"], 3);

    let url = clusters.flink_url("/overview");
    let Clusters { demo, client } = clusters;
    drop(demo);
    for _ in 0..50 {
        if client.get(&url).send().await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{url} still answers after the demonstration was dropped");
}
