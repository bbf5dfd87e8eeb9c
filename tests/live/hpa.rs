//! Loadline in front of a real HPA: the API server's aggregator, the HPA controller, and a custom resource with a scale.
//!
//! The demand comes from a server of this test that speaks Prometheus' query API, and the policy makes one replica of one
//! item that waits, so the recommended count is what the test wants it to be. What a kubelet would do the test does: it
//! writes into the status of a workload what its spec says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use loadline::engine::clock;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::kubernetes_lab::KubernetesLab;
use crate::service::Service;

/// The workload whose HPA has no tolerance.
const EXACT: &str = "exact";
/// The one whose HPA has the default tolerance.
const BAND: &str = "band";
const GROUP: &str = "lab.loadline.test";
/// The HPA controller looks every 2 s: so long nothing may happen where nothing shall.
const QUIET: Duration = Duration::from_secs(9);
const STALE_AFTER_SECONDS: u64 = 8;

/// What waits, by the query that asks for it; a source that is down answers nothing.
#[derive(Clone, Default)]
struct Demand {
    known: Arc<Mutex<(BTreeMap<String, u64>, bool)>>,
}

impl Demand {
    async fn serve(&self) -> String {
        async fn answer(State(demand): State<Demand>, body: Bytes) -> Response {
            let form: BTreeMap<_, _> = url::form_urlencoded::parse(&body).into_owned().collect();
            let now = clock::now().as_millisecond();
            let known = demand.known.lock().unwrap();
            let (query, down) = (form["query"].as_str(), known.1);
            if down {
                return StatusCode::SERVICE_UNAVAILABLE.into_response();
            }
            let time = format!("{}.{:03}", now / 1000, now % 1000);
            let value = if query == "sampled" { Some(time) } else { known.0.get(query).map(u64::to_string) };
            let rows: Vec<Value> = value.into_iter().map(|value| json!({ "metric": {}, "value": [now / 1000, value] })).collect();
            Json(json!({ "status": "success", "data": { "resultType": "vector", "result": rows } })).into_response()
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/api/v1/query", axum::routing::post(answer)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    }

    fn set(&self, target: &str, waiting: u64) {
        self.known.lock().unwrap().0.insert(target.to_owned(), waiting);
    }

    fn down(&self, down: bool) {
        self.known.lock().unwrap().1 = down;
    }
}

fn configuration(http: u16, grpc: u16, lab: &KubernetesLab, demand: &str) -> String {
    let target = |name: &str, more: &str| {
        format!(
            r#"  - name: {name}
    namespace: shop
    kind: backlog
    source: {{ prometheus: {{ url: "{demand}", queries: {{ backlog: {name}, observedAt: sampled }} }} }}
    replicas: {{ kubernetes: {{ apiVersion: {GROUP}/v1, kind: Workload, name: {name} }} }}
    policy: {{ min: 1, max: 200, perReplicaBacklog: 1, staleAfter: {STALE_AFTER_SECONDS}s, scaleDown: {{ stabilization: 0s }}{more} }}
"#
        )
    };
    format!(
        "server:\n  http: \"127.0.0.1:{http}\"\n  grpc: \"127.0.0.1:{grpc}\"\n  externalMetrics:\n    listen: \"127.0.0.1:{}\"\n    tls: {{ certFile: {}, keyFile: {} }}\ndefaults: {{ interval: 1s, timeout: 1s }}\ntargets:\n{}{}",
        lab.free_port(),
        lab.file("loadline.crt").display(),
        lab.file("loadline.key").display(),
        target(EXACT, ""),
        target(BAND, ", consumer: { kind: hpa, max: 200 }"),
    )
}

/// The cluster with the two workloads, their HPAs, and Loadline as the server of the external metrics API.
struct Scene {
    lab: Arc<KubernetesLab>,
    service: Service,
    demand: Demand,
    /// Pods that are there beyond what is wanted, as in a rolling update.
    surge: Arc<AtomicU64>,
    kubelet: tokio::task::JoinHandle<()>,
}

impl Scene {
    async fn start() -> Self {
        let lab = Arc::new(KubernetesLab::start().await);
        let demand = Demand::default();
        let url = demand.serve().await;
        for target in [EXACT, BAND] {
            demand.set(target, 1);
        }
        lab.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &workloads()).await;
        // the examples as they stand
        lab.apply("hpa-external-metrics/rbac.yaml", |_| ()).await;
        lab.namespace("shop").await;
        let role = json!({ "metadata": { "name": "counts" }, "rules": [{ "apiGroups": [GROUP], "resources": ["workloads/scale"], "verbs": ["get"] }] });
        lab.create("/apis/rbac.authorization.k8s.io/v1/namespaces/shop/roles", &role).await;
        let binding = json!({
            "metadata": { "name": "counts" }, "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "counts" },
            "subjects": [{ "kind": "ServiceAccount", "name": "loadline", "namespace": "loadline" }],
        });
        lab.create("/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings", &binding).await;
        for name in [EXACT, BAND] {
            let workload = json!({ "apiVersion": format!("{GROUP}/v1"), "kind": "Workload", "metadata": { "name": name }, "spec": { "replicas": 1 } });
            // the definition takes a moment until it is served
            let limit = clock::instant() + Duration::from_secs(20);
            while lab.ask(Method::POST, &format!("/apis/{GROUP}/v1/namespaces/shop/workloads"), Some(&workload)).await.0 != 201 {
                assert!(clock::instant() < limit, "workloads are not served after 20 s");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
        let service = Service::start_in(&lab.pod("loadline", "loadline").await, |http, grpc| configuration(http, grpc, &lab, &url)).await;
        let surge = Arc::new(AtomicU64::new(0));
        let kubelet = tokio::spawn(kubelet(Arc::clone(&lab), Arc::clone(&surge)));
        Self { lab, service, demand, surge, kubelet }
    }

    /// Creates the Service and the `APIService` of the example, with what a process on this machine needs: it is no pod.
    async fn register(&self) {
        let bundle = base64(&std::fs::read(self.lab.file("ca.crt")).unwrap());
        let port = self.lab.free_port();
        self.lab
            .apply("hpa-external-metrics/apiservice.yaml", |object| {
                if object["kind"] == "Service" {
                    object["spec"] = json!({ "type": "ExternalName", "externalName": "localhost" });
                } else {
                    object["spec"]["caBundle"] = json!(bundle);
                    object["spec"]["service"]["port"] = json!(port);
                }
            })
            .await;
        let available = async || {
            let service = self.lab.get("/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.external.metrics.k8s.io").await;
            service["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(|one| one["type"] == "Available" && one["status"] == "True"))
        };
        self.until("the API server finds Loadline", Duration::from_secs(60), available).await;
        for (name, tolerance) in [(EXACT, true), (BAND, false)] {
            self.lab
                .apply("hpa-external-metrics/hpa.yaml", |hpa| {
                    hpa["metadata"]["name"] = json!(name);
                    hpa["spec"]["scaleTargetRef"] = json!({ "apiVersion": format!("{GROUP}/v1"), "kind": "Workload", "name": name });
                    hpa["spec"]["maxReplicas"] = json!(200);
                    // either form of selector
                    hpa["spec"]["metrics"][0]["external"]["metric"]["selector"] = match name {
                        EXACT => json!({ "matchLabels": { "target": name } }),
                        _ => json!({ "matchExpressions": [{ "key": "target", "operator": "In", "values": [name, "another"] }] }),
                    };
                    for direction in ["scaleUp", "scaleDown"] {
                        if !tolerance {
                            hpa["spec"]["behavior"][direction].as_object_mut().unwrap().remove("tolerance");
                        }
                    }
                })
                .await;
        }
    }

    async fn until(&self, what: &str, limit: Duration, there: impl AsyncFn() -> bool) {
        let end = clock::instant() + limit;
        while !there().await {
            assert!(clock::instant() < end, "not after {limit:?}: {what}\n{}", self.lab.logs());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn advice(&self, target: &str) -> Value {
        self.service.get(&format!("/v1/targets/{target}/advice")).await
    }

    async fn replicas(&self, name: &str) -> u64 {
        let workload = self.lab.get(&format!("/apis/{GROUP}/v1/namespaces/shop/workloads/{name}")).await;
        workload["spec"]["replicas"].as_u64().unwrap_or_else(|| panic!("no count in {workload}"))
    }

    /// When the HPA last read the advice.
    async fn last_read(&self, target: &str) -> f64 {
        let text = self.service.text("/metrics").await;
        let line = text.lines().find(|line| line.starts_with("loadline_consumer_last_read") && line.contains("\"external_metrics\"") && line.contains(target));
        line.and_then(|line| line.rsplit(' ').next()).and_then(|value| value.parse().ok()).unwrap_or(0.0)
    }

    /// Sets the demand, waits until the HPA has read what is recommended for it twice, and gives the advice with all counts that
    /// were seen on the way.
    async fn asks_for(&self, target: &str, waiting: u64) -> (Value, BTreeSet<u64>) {
        self.demand.set(target, waiting);
        let mut seen = BTreeSet::from([self.replicas(target).await]);
        let end = clock::instant() + Duration::from_secs(40);
        let (mut reads, mut last) = (0, None);
        loop {
            let advice = self.advice(target).await;
            let read = self.last_read(target).await;
            match last {
                None if advice["recommended"] == waiting => last = Some(read),
                Some(before) if read > before => (reads, last) = (reads + 1, Some(read)),
                _ => {}
            }
            seen.insert(self.replicas(target).await);
            // what was read is carried out within the same sync, and the sync after finds nothing to do
            if reads >= 3 {
                return (advice, seen);
            }
            assert!(clock::instant() < end, "{target} asks for {waiting}: {reads} reads, {advice}\n{}", self.lab.logs());
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    }

    /// Watches the counts for a while in which they shall not move.
    async fn holds(&self, what: &str, counts: [(&str, u64); 2]) {
        let end = clock::instant() + QUIET;
        while clock::instant() < end {
            for (name, count) in counts {
                assert_eq!(self.replicas(name).await, count, "{what}: {name} moves");
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        eprintln!("live: holds for {} s: {what}", QUIET.as_secs());
    }

    /// The condition of an HPA that says whether it can tell what is wanted.
    async fn scaling_active(&self, name: &str) -> (String, String) {
        let hpa = self.lab.get(&format!("/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/{name}")).await;
        let conditions = hpa["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|one| one["type"] == "ScalingActive").unwrap_or_default();
        (found["status"].as_str().unwrap_or_default().to_owned(), found["reason"].as_str().unwrap_or_default().to_owned())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.kubelet.abort();
    }
}

#[tokio::test]
#[ignore = "two minutes, and half an hour to build Kubernetes the first time: just live hpa"]
async fn an_hpa_without_tolerance_lands_exactly_and_one_with_it_holds_what_was_said_and_both_hold_what_they_have_without_a_number() {
    let mut scene = Scene::start().await;
    scene.until("there is advice", Duration::from_secs(20), async || scene.advice(EXACT).await["recommended"] == 1).await;
    check(&scene, false).await;
    scene.register().await;
    check(&scene, true).await;
    let path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/loadline-recommended?labelSelector=target%3Dexact";
    let list = scene.lab.get(path).await;
    assert_eq!((&list["kind"], &list["items"][0]["value"]), (&json!("ExternalMetricValueList"), &json!("1")), "{list}");
    // without a selector both would be added up
    let (status, answer) = scene.lab.ask(Method::GET, path.split('?').next().unwrap(), None).await;
    assert_eq!((status, &answer["reason"]), (400, &json!("BadRequest")), "{answer}");
    discovered(&scene).await;

    eprintln!("live: tolerance 0");
    let mut before = 1;
    for wanted in [9, 10, 11, 100, 3] {
        let (advice, seen) = scene.asks_for(EXACT, wanted).await;
        assert_eq!(scene.replicas(EXACT).await, wanted);
        assert_eq!(advice["current"], wanted, "the scale that the HPA has set is read");
        assert!(seen.is_subset(&BTreeSet::from([before, wanted])), "{before} -> {wanted} by way of {seen:?}");
        eprintln!("live:   recommended {wanted}: {before} -> {wanted}");
        before = wanted;
    }

    eprintln!("live: the default tolerance");
    let mut held = Vec::new();
    for wanted in [9, 10, 11, 9, 12, 100, 105, 110, 111, 100, 99, 89, 3] {
        let (advice, _) = scene.asks_for(BAND, wanted).await;
        let holds = scene.replicas(BAND).await;
        eprintln!("live:   recommended {wanted}: the HPA holds {holds}, Loadline said {}", advice["consumer"]["willHold"]);
        assert_eq!(advice["consumer"]["willHold"], holds, "{advice}");
        held.push(holds);
    }
    assert_eq!(held, [9, 10, 10, 10, 12, 100, 100, 100, 111, 111, 99, 89, 3]);

    eprintln!("live: one pod more than is wanted, as in a rolling update");
    for name in [EXACT, BAND] {
        scene.asks_for(name, 20).await;
        assert_eq!(scene.replicas(name).await, 20);
    }
    scene.surge.store(1, Ordering::Relaxed);
    let mut seen: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    let end = clock::instant() + Duration::from_secs(20);
    while clock::instant() < end {
        for name in [EXACT, BAND] {
            seen.entry(name).or_default().insert(scene.replicas(name).await);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    scene.surge.store(0, Ordering::Relaxed);
    eprintln!("live:   recommended 20: without tolerance {:?}, with the default one {:?}", seen[EXACT], seen[BAND]);
    assert_eq!(seen[EXACT], BTreeSet::from([20]));
    assert!(seen[BAND].len() > 1, "the HPA takes the pods that are there for those that are wanted");
    for name in [EXACT, BAND] {
        scene.asks_for(name, 3).await;
    }

    let counts = [(EXACT, 3), (BAND, 3)];
    scene.demand.down(true);
    let valid = async || scene.advice(EXACT).await["recommended"].is_u64();
    assert!(valid().await, "the last number is valid for a while");
    scene.until("the advice expires", Duration::from_secs(STALE_AFTER_SECONDS + 5), async || !valid().await).await;
    scene.holds("a source that is dead, and an advice that has expired", counts).await;
    assert_eq!(scene.scaling_active(EXACT).await, ("False".to_owned(), "FailedGetExternalMetric".to_owned()));

    scene.service.restart().await;
    scene.holds("Loadline restarted beside a dead source", counts).await;
    scene.demand.down(false);
    for (name, wanted) in [(EXACT, 5), (BAND, 6)] {
        scene.asks_for(name, wanted).await;
        assert_eq!(scene.replicas(name).await, wanted);
    }
    assert_eq!(scene.scaling_active(EXACT).await.0, "True");
    scene.service.restart().await;
    scene.holds("Loadline restarted", [(EXACT, 5), (BAND, 6)]).await;
}

/// The API server lists the metric in its own discovery, and has nothing to say against the other documents.
async fn discovered(scene: &Scene) {
    let listed = async || {
        let groups = scene.lab.discovery().await;
        let groups = groups["items"].as_array().cloned().unwrap_or_default();
        let ours = groups.into_iter().find(|group| group["metadata"]["name"] == "external.metrics.k8s.io").unwrap_or_default();
        let version = &ours["versions"][0];
        version["freshness"] == "Current" && version["resources"][0]["resource"] == "loadline-recommended"
    };
    scene.until("the cluster's discovery lists the metric", Duration::from_secs(60), listed).await;
    let log = std::fs::read_to_string(scene.lab.log("kube-apiserver")).unwrap();
    let complaints: Vec<&str> = log.lines().filter(|line| line.starts_with(['E', 'W']) && line.contains("v1beta1.external.metrics.k8s.io")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}

/// What `loadline check --kubernetes` says of it, before and after the API is registered.
async fn check(scene: &Scene, registered: bool) {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.args(["check", "--kubernetes"]).arg(scene.service.configuration()).envs(scene.lab.pod("loadline", "loadline").await);
    let output = command.output().await.unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert_eq!(output.status.code(), Some(i32::from(!registered)), "{text}");
    let owner = if registered { "Service loadline/loadline-external-metrics serves it" } else { "nobody serves it" };
    for words in [owner, "exact: 1 replicas wanted", "common names [\"front-proxy-client\"]", "the HPA controller may read loadline-recommended in shop"] {
        assert!(text.contains(words), "no \"{words}\" in {text}");
    }
}

#[tokio::test]
#[ignore = "two minutes, and half an hour to build Kubernetes the first time: just live hpa"]
async fn of_two_instances_one_holds_the_lease_and_the_other_takes_it_after_its_duration_or_at_once_when_it_is_given_back() {
    let lab = KubernetesLab::start().await;
    lab.apply("lease/rbac.yaml", |_| ()).await;
    lab.create("/api/v1/namespaces/streams/serviceaccounts", &json!({ "metadata": { "name": "loadline" } })).await;
    // it performs, so it needs the lease; there is no Druid, so there is nothing to do
    let configuration = |http: u16, grpc: u16| {
        format!(
            "server:\n  http: \"127.0.0.1:{http}\"\n  grpc: \"127.0.0.1:{grpc}\"\n  lease: {{ duration: 6s }}\ntargets:\n  - {{ name: workers, kind: druidWorkers, source: {{ druid: {{ url: \"http://127.0.0.1:9\" }} }}, policy: {{ drain: perform }} }}\n"
        )
    };
    let start = async |name: &str| {
        let mut environment = lab.pod("streams", "loadline").await;
        environment.push(("HOSTNAME", name.to_owned()));
        Service::start_in(&environment, configuration).await
    };
    let lease = async || lab.ask(Method::GET, "/apis/coordination.k8s.io/v1/namespaces/streams/leases/loadline", None).await.1["spec"].clone();
    let holder = async || lease().await["holderIdentity"].as_str().unwrap_or_default().split('_').next().unwrap_or_default().to_owned();
    let until = async |name: &str| {
        let began = clock::instant();
        while holder().await != name {
            assert!(began.elapsed() < Duration::from_secs(30), "{name} does not hold {}", lease().await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        began.elapsed()
    };
    let first = start("one").await;
    until("one").await;
    let mut second = start("two").await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(holder().await, "one", "it is renewed");
    assert_eq!((&lease().await["leaseDurationSeconds"], &lease().await["leaseTransitions"]), (&json!(6), &json!(0)));

    // killed without a word
    drop(first);
    let took = until("two").await;
    eprintln!("live: the lease of an instance that was killed is taken after {:.1} s", took.as_secs_f64());
    assert!(Duration::from_secs(5) <= took && took < Duration::from_secs(9), "{took:?}");
    assert_eq!(lease().await["leaseTransitions"], 1);

    // told to stop
    let _third = start("three").await;
    second.terminate().await;
    let took = until("three").await;
    eprintln!("live: a lease that is given back is taken after {:.1} s", took.as_secs_f64());
    assert!(took < Duration::from_secs(3), "{took:?}");
}

/// Writes the count of each workload's spec, and the surge, into its status, again and again.
async fn kubelet(lab: Arc<KubernetesLab>, surge: Arc<AtomicU64>) {
    loop {
        for name in [EXACT, BAND] {
            let path = format!("/apis/{GROUP}/v1/namespaces/shop/workloads/{name}");
            let (_, workload) = lab.ask(Method::GET, &path, None).await;
            let there = workload["spec"]["replicas"].as_u64().map(|wanted| wanted + surge.load(Ordering::Relaxed));
            if there.is_some() && workload["status"]["replicas"].as_u64() != there {
                lab.patch(&format!("{path}/status"), &json!({ "status": { "replicas": there, "selector": format!("app={name}") } })).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// A kind with nothing but a scale.
fn workloads() -> Value {
    let counts = json!({ "type": "object", "properties": { "replicas": { "type": "integer" }, "selector": { "type": "string" } } });
    let schema = json!({ "type": "object", "properties": { "spec": counts, "status": counts } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": format!("workloads.{GROUP}") },
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": { "plural": "workloads", "singular": "workload", "kind": "Workload", "listKind": "WorkloadList" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
                "subresources": { "status": {}, "scale": { "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector" } },
            }],
        },
    })
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::prelude::BASE64_STANDARD.encode(bytes)
}
