//! The external metrics API as the API server's aggregator meets it: the built binary behind TLS, certificates of authorities
//! that exist for one test, and a cluster that says whom to believe and who may read.

#![expect(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails where it panics")]

mod authority;
mod cluster;
mod service;
mod trust;

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use authority::Authority;
use service::{Answer, HPA, Service, VALUES, answer, show};

/// Who looks whether the API can be reached.
const PROBE: &str = "system:kube-aggregator";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const GROUP: &str = "external.metrics.k8s.io";

/// An error document of this code and reason, with these words.
#[track_caller]
fn refused(answer: &Answer, code: u16, reason: &str, words: &str) {
    assert_eq!((answer.status, answer.content_type.as_str()), (code, "application/json"), "{answer:?}");
    let body = &answer.body;
    assert_eq!((&body["kind"], &body["apiVersion"], &body["status"], &body["code"]), (&json!("Status"), &json!("v1"), &json!("Failure"), &json!(code)));
    assert_eq!(body["reason"], reason);
    assert!(body["message"].as_str().is_some_and(|message| message.contains(words)), "no \"{words}\" in {body}");
}

#[track_caller]
fn items(answer: &Answer) -> Vec<Value> {
    assert_eq!((answer.status, answer.content_type.as_str()), (200, "application/json"), "{answer:?}");
    assert_eq!((&answer.body["kind"], &answer.body["apiVersion"]), (&json!("ExternalMetricValueList"), &json!("external.metrics.k8s.io/v1beta1")));
    assert!(answer.body["metadata"].is_object());
    answer.body["items"].as_array().expect("a list, also where it is empty").clone()
}

#[tokio::test]
async fn what_the_api_server_asks_by_itself_is_answered_as_it_expects() {
    let service = Service::start().await;
    let aggregator = service.aggregator();
    let resource = json!({ "name": "loadline-recommended", "singularName": "", "namespaced": true, "kind": "ExternalMetricValueList", "verbs": ["get"] });

    // the probe for availability, and the old form of discovery: without groups
    let found = answer(aggregator.request(Method::GET, "/apis/external.metrics.k8s.io/v1beta1").header("X-Remote-User", PROBE)).await;
    assert_eq!((found.status, found.content_type.as_str()), (200, "application/json"));
    assert_eq!((&found.body["kind"], &found.body["groupVersion"]), (&json!("APIResourceList"), &json!("external.metrics.k8s.io/v1beta1")));
    assert_eq!(found.body["resources"], json!([resource]));

    // the discovery aggregator takes the content type at its word, whatever the order of its parameters
    let ask = |accept: &str| {
        answer(
            aggregator
                .request(Method::GET, "/apis")
                .header("X-Remote-User", PROBE)
                .header("X-Remote-Group", "system:masters")
                .header("Accept", accept.to_owned()),
        )
    };
    let found = ask(AGGREGATED).await;
    assert_eq!((found.status, found.content_type.as_str()), (200, AGGREGATED));
    assert_eq!((&found.body["kind"], &found.body["apiVersion"]), (&json!("APIGroupDiscoveryList"), &json!("apidiscovery.k8s.io/v2")));
    let version = &found.body["items"][0]["versions"][0];
    assert_eq!(
        (&found.body["items"][0]["metadata"]["name"], &version["version"], &version["freshness"]),
        (&json!(GROUP), &json!("v1beta1"), &json!("Current"))
    );
    assert_eq!((&version["resources"][0]["resource"], &version["resources"][0]["scope"]), (&json!("loadline-recommended"), &json!("Namespaced")));
    // an older one, which names both versions, and one that names what nobody knows
    assert_eq!(ask("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList").await.body["apiVersion"], "apidiscovery.k8s.io/v2beta1");
    refused(&ask("application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList").await, 406, "NotAcceptable", "as=APIGroupDiscoveryList");
    refused(&ask("application/vnd.kubernetes.protobuf").await, 406, "NotAcceptable", "application/json");
    // kubectl: the first form that is known
    assert_eq!(ask(&format!("application/vnd.kubernetes.protobuf,{AGGREGATED},application/json")).await.content_type, AGGREGATED);
    for accept in ["application/json, */*", "*/*"] {
        let found = ask(accept).await;
        assert_eq!((&found.body["kind"], &found.body["groups"][0]["name"]), (&json!("APIGroupList"), &json!(GROUP)), "{accept}");
    }

    // the OpenAPI collectors
    let found = aggregator.ask_as("system:aggregator", "/openapi/v2").await;
    assert_eq!((found.status, &found.body["swagger"], &found.body["paths"]), (200, &json!("2.0"), &json!({})));
    let found = aggregator.ask_as("system:aggregator", "/openapi/v3").await;
    assert_eq!((found.status, &found.body["paths"]), (200, &json!({})));

    assert_eq!(aggregator.ask_as(PROBE, "/apis/external.metrics.k8s.io").await.body["preferredVersion"]["version"], "v1beta1");
    assert!(aggregator.ask_as(PROBE, "/version").await.body["gitVersion"].is_string());
    refused(&aggregator.ask_as(PROBE, "/apis/custom.metrics.k8s.io").await, 404, "NotFound", "no such path");
    refused(&aggregator.ask_as(PROBE, &format!("{VALUES}/status")).await, 404, "NotFound", "no such path");
    refused(&answer(aggregator.request(Method::POST, VALUES).header("X-Remote-User", HPA)).await, 405, "MethodNotAllowed", "expected GET");
    // none of this asks the cluster who may do what
    assert_eq!(service.cluster.with(|known| known.reviews.len()), 0);
}

#[tokio::test]
async fn an_hpa_reads_the_number_of_its_target_in_its_own_namespace_by_either_form_of_selector() {
    let service = Service::start().await;
    let aggregator = service.aggregator();
    for selector in [
        "target=orders",
        "target==orders",
        "target in (orders)",
        "target in (orders,bills)",
        "target notin (payments)",
        "target!=payments",
        "target,target=orders",
    ] {
        let items = items(&aggregator.values(selector).await);
        let recommended = service.advice("orders").await["recommended"].as_u64().expect("a number");
        assert_eq!(items.len(), 1, "{selector}");
        // quantities are text
        assert_eq!(items[0]["value"], recommended.to_string(), "{selector}");
        assert_eq!((&items[0]["metricName"], &items[0]["metricLabels"]), (&json!("loadline-recommended"), &json!({ "target": "orders" })));
        let at: jiff::Timestamp = items[0]["timestamp"].as_str().expect("text").parse().expect("a time");
        assert!(at.duration_until(loadline::engine::clock::now()).as_secs() < 10 && at.subsec_nanosecond() == 0, "{at}");
    }
    // an HPA adds up what it gets
    for selector in ["", "target", "target in (orders,payments)", "!app"] {
        refused(&aggregator.values(selector).await, 400, "BadRequest", "the selector fits several targets, \"orders\" and \"payments\"");
    }
    // of another namespace, of no target, of a label that there is not
    for selector in ["target=bills", "target=nothing", "!target", "target=orders,app=x"] {
        assert_eq!(items(&aggregator.values(selector).await), Vec::<Value>::new(), "{selector}");
    }
    let office = "/apis/external.metrics.k8s.io/v1beta1/namespaces/office/loadline-recommended";
    assert_eq!(items(&aggregator.ask_as(HPA, &format!("{office}?labelSelector=target%3Dorders")).await), Vec::<Value>::new());
    assert_eq!(items(&aggregator.ask_as(HPA, &format!("{office}?labelSelector=target%3Dbills&limit=500")).await).len(), 1);
    refused(&aggregator.values("target=orders,").await, 400, "BadRequest", "labelSelector: ");
    refused(&aggregator.ask_as(HPA, &VALUES.replace("loadline-recommended", "queue-length")).await, 404, "NotFound", "no metric \"queue-length\"");
    let read = service.metrics().await;
    let read = |target: &str| {
        read.lines().any(|line| line.starts_with("loadline_consumer_last_read_timestamp_seconds") && line.contains("external_metrics") && line.contains(target))
    };
    assert!(read("\"orders\"") && read("\"bills\"") && !read("\"payments\""), "who reads is told only of what was read");
}

#[tokio::test]
async fn without_a_valid_number_there_is_no_item_and_never_a_zero() {
    let mut service = Service::start().await;
    let aggregator = service.aggregator();
    assert_eq!(items(&aggregator.values("target=orders").await).len(), 1);
    drop(service.demo.take());
    let service = service;
    service.until(Duration::from_secs(20), async || service.advice("orders").await["recommended"].is_null()).await;
    assert_eq!(items(&aggregator.values("target=orders").await), Vec::<Value>::new());
}

#[tokio::test]
async fn who_is_not_the_front_proxy_is_refused_whatever_its_headers_say() {
    let service = Service::start().await;
    let (ours, stranger) = (&service.front_proxy, Authority::new("stranger"));
    // the same name, and the same key usage, of another authority
    let other = stranger.client("front-proxy-client");
    for (shown, words) in [
        (None, "shows no client certificate"),
        (Some(other), "not of the front proxy's authority"),
        (Some(ours.client("kubelet")), "common name \"kubelet\" is not among [\"front-proxy-client\"]"),
        (Some(ours.server("front-proxy-client")), "not of the front proxy's authority"),
    ] {
        let caller = service.client(shown.as_ref());
        for path in [VALUES, "/apis", "/apis/external.metrics.k8s.io/v1beta1", "/openapi/v2", "/no/such/path"] {
            let ask = caller.request(Method::GET, path).header("X-Remote-User", "system:admin").header("X-Remote-Group", "system:masters");
            refused(&answer(ask).await, 401, "Unauthorized", words);
        }
        // whoever watches the pod needs no name
        assert_eq!(answer(caller.request(Method::GET, "/livez")).await.status, 200);
    }
    refused(&answer(service.aggregator().request(Method::GET, "/apis")).await, 401, "Unauthorized", "names no user");
    refused(&service.aggregator().ask_as("", "/apis").await, 401, "Unauthorized", "names no user");
    assert_eq!(service.cluster.with(|known| known.reviews.len()), 0);
}

#[tokio::test]
async fn the_cluster_says_who_may_read_and_is_asked_once_in_a_while() {
    let service = Service::start().await;
    let aggregator = service.aggregator();
    let ask = |user: &'static str| {
        let ask = aggregator.request(Method::GET, VALUES).query(&[("labelSelector", "target=orders")]).header("X-Remote-User", user);
        answer(ask.header("X-Remote-Uid", "7").header("X-Remote-Group", "a").header("X-Remote-Group", "b").header("X-Remote-Extra-Scopes%2Fread", "all"))
    };
    for _ in 0..3 {
        assert_eq!(items(&ask(HPA).await).len(), 1);
        refused(&ask("mallory").await, 403, "Forbidden", "mallory may not list loadline-recommended.external.metrics.k8s.io in the namespace shop");
    }
    let reviews = service.cluster.with(|known| std::mem::take(&mut known.reviews));
    let review = |user: &str| {
        json!({
            "user": user, "uid": "7", "groups": ["a", "b"], "extra": { "scopes/read": ["all"] },
            "resourceAttributes": { "namespace": "shop", "verb": "list", "group": GROUP, "version": "v1beta1", "resource": "loadline-recommended" },
        })
    };
    assert_eq!(reviews, [review(HPA), review("mallory")]);
    // the answer is of this user in this namespace
    refused(&aggregator.ask_as("mallory", &VALUES.replace("shop", "office")).await, 403, "Forbidden", "namespace office");
    assert_eq!(service.cluster.with(|known| known.reviews.len()), 1);
    // not to know is no permission, and nothing that is kept
    service.cluster.with(|known| known.broken = true);
    refused(&aggregator.ask_as("someone", VALUES).await, 503, "ServiceUnavailable", "cannot be told whether someone may read");
    service.cluster.with(|known| (known.broken, known.allowed) = (false, vec!["someone".to_owned()]));
    assert_eq!(items(&aggregator.ask_as("someone", &format!("{VALUES}?labelSelector=target%3Dorders")).await).len(), 1);
    // the probes come with the group that may do everything
    let count = service.cluster.with(|known| known.reviews.len());
    let ask = aggregator.request(Method::GET, VALUES).query(&[("labelSelector", "target=orders")]);
    assert_eq!(items(&answer(ask.header("X-Remote-User", PROBE).header("X-Remote-Group", "system:masters")).await).len(), 1);
    assert_eq!(service.cluster.with(|known| known.reviews.len()), count);
    // a right that is taken away is gone after ten seconds
    service.cluster.with(|known| known.allowed.clear());
    tokio::time::sleep(Duration::from_secs(11)).await;
    refused(&aggregator.ask_as("someone", VALUES).await, 403, "Forbidden", "someone may not list");
}

#[tokio::test]
async fn a_list_of_users_and_groups_takes_the_place_of_the_clusters_rules() {
    let service = Service::start_with("    allow: { users: [ada], groups: [readers] }\n", |known| known.broken = true).await;
    let aggregator = service.aggregator();
    let ask = |user: &str, group: &str| {
        answer(
            aggregator.request(Method::GET, VALUES).header("X-Remote-User", user).header("X-Remote-Group", group).query(&[("labelSelector", "target=orders")]),
        )
    };
    for (user, group, status) in [("ada", "x", 200), ("bob", "readers", 200), ("bob", "x", 403), (HPA, "system:authenticated", 403)] {
        assert_eq!(ask(user, group).await.status, status, "{user} of {group}");
    }
    assert_eq!(service.cluster.with(|known| known.reviews.len()), 0);
}

#[tokio::test]
async fn until_it_is_known_whom_to_believe_nobody_is_believed() {
    let service = Service::start_with("", |known| known.authentication = None).await;
    let aggregator = service.aggregator();
    refused(&aggregator.values("target=orders").await, 503, "ServiceUnavailable", "not known whom to believe");
    service.cluster.with(|known| known.authentication = Some(cluster::authentication(&service.front_proxy)));
    service.until(Duration::from_secs(40), async || aggregator.values("target=orders").await.status == 200).await;
}

#[tokio::test]
async fn a_certificate_that_is_replaced_is_shown_without_a_restart_and_a_broken_one_is_not() {
    let service = Service::start().await;
    let fresh = Authority::new("fresh");
    // shown to those alone who trust the first authority
    assert_eq!(service.aggregator().ask_as(PROBE, "/apis").await.status, 200);
    std::fs::write(service.dir.path().join("tls.crt"), "not a certificate").expect("written");
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(service.aggregator().ask_as(PROBE, "/apis").await.status, 200, "the last good one stays");
    show(&service.dir, &fresh.server("second"));
    let reached = async || service.aggregator().request(Method::GET, "/livez").send().await.is_ok();
    service.until(Duration::from_secs(15), async || !reached().await).await;
    show(&service.dir, &service.servers.server("third"));
    service.until(Duration::from_secs(15), reached).await;
}

#[tokio::test]
async fn a_configuration_that_cannot_be_served_is_told_at_the_start() {
    let servers = Authority::new("servers");
    let dir = tempfile::TempDir::new().expect("a folder");
    let file = dir.path().join("loadline.yaml");
    let path = dir.path().display();
    let run = |environment: &[(&str, &str)]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_loadline"));
        command
            .args(["serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--config"])
            .arg(&file)
            .env_remove("KUBERNETES_SERVICE_HOST")
            .envs(environment.iter().copied());
        let output = command.output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let write = |cert: &str| {
        let text = format!("server:\n  externalMetrics:\n    listen: \"127.0.0.1:0\"\n    tls: {{ certFile: {path}/{cert}, keyFile: {path}/tls.key }}\n");
        std::fs::write(&file, text).expect("written");
    };
    show(&dir, &servers.server("one"));
    write("no.crt");
    let (code, error) = run(&[]);
    assert_eq!(code, Some(2));
    assert!(error.contains("server.externalMetrics.tls") && error.contains("no.crt cannot be read"), "{error}");
    // the key of another certificate
    std::fs::write(dir.path().join("tls.key"), servers.server("two").key).expect("written");
    write("tls.crt");
    assert!(run(&[]).1.contains("do not fit"));
    show(&dir, &servers.server("one"));
    let (code, error) = run(&[]);
    assert_eq!(code, Some(2));
    assert!(error.contains("server.externalMetrics: ") && error.contains("not in a cluster"), "{error}");
}

#[tokio::test]
async fn check_says_what_the_cluster_makes_of_a_configuration() {
    let service = Service::start().await;
    let file = service.dir.path().join("check.yaml");
    let path = service.dir.path().display();
    let text = format!(
        "server:\n  externalMetrics:\n    tls: {{ certFile: {path}/tls.crt, keyFile: {path}/tls.key }}\ntargets:\n  - name: orders\n    namespace: shop\n    kind: flinkJob\n    source: {{ flink: {{ url: \"http://f:8081\", job: j }} }}\n    replicas: {{ kubernetes: {{ apiVersion: apps/v1, kind: Deployment, name: orders }} }}\n"
    );
    std::fs::write(&file, &text).expect("written");
    let check = async |inside: bool| {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_loadline"));
        command.args(["check", "--kubernetes"]).arg(&file).env_remove("KUBERNETES_SERVICE_HOST");
        if inside {
            command.env("KUBERNETES_SERVICE_HOST", "127.0.0.1").env("KUBERNETES_SERVICE_PORT", service.cluster.port.to_string());
            command.env("LOADLINE_SERVICE_ACCOUNT", service.dir.path().join("account"));
        }
        let output = command.output().await.expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, out, error) = check(true).await;
    assert_eq!(code, Some(1), "{out}{error}");
    assert!(error.contains("v1beta1.external.metrics.k8s.io: nobody serves it: create the APIService"), "{error}");
    assert!(out.contains("orders: 4 replicas wanted, 3 there, unknown ready"), "{out}");
    assert!(out.contains("the front proxy is known: common names [\"front-proxy-client\"]"), "{out}");
    assert!(out.contains("the HPA controller may read loadline-recommended in shop"), "{out}");

    let owner = |available: &str| {
        json!({ "spec": { "service": { "namespace": "keda", "name": "keda-operator-metrics-apiserver", "port": 443 } },
                "status": { "conditions": [{ "type": "Available", "status": available, "message": "no endpoints" }] } })
    };
    service.cluster.with(|known| known.api_service = Some(owner("True")));
    let (code, out, _) = check(true).await;
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("Service keda/keda-operator-metrics-apiserver serves it; an HPA reads there and nowhere else"), "{out}");
    service.cluster.with(|known| {
        known.api_service = Some(owner("False"));
        known.allowed.clear();
        known.authentication = None;
    });
    let (code, _, error) = check(true).await;
    assert_eq!(code, Some(1));
    for words in ["is not available: no endpoints", "the front proxy cannot be known", "the HPA controller may not read loadline-recommended in shop"] {
        assert!(error.contains(words), "no \"{words}\" in {error}");
    }
    std::fs::write(&file, text.replace("    namespace: shop\n", "")).expect("written");
    let (code, _, error) = check(true).await;
    assert!(code == Some(1) && error.contains("no HPA can read orders: expected a namespace in each of these targets"), "{error}");
    let (code, _, error) = check(false).await;
    assert!(code == Some(1) && error.contains("not in a cluster"), "{error}");
}
