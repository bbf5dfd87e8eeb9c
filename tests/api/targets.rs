//! Calls about targets.

use loadline::core::advice::{Advice, Outcome};
use loadline::engine::store::Interface;
use serde_json::{Value, json};

use crate::support::{Service, advice, bare, decided, expired, now, publish, with_advice};

#[tokio::test]
async fn an_unknown_target_is_not_found_by_any_call() {
    let service = Service::new();
    for call in ["", "/advice", "/request", "/history"] {
        service.get(&format!("/v1/targets/nobody{call}")).await.problem(404, "targetNotFound");
    }
    service.post("/v1/targets/nobody/advice", "{}").await.problem(404, "targetNotFound");
    service.get("/v1/targets/%FF/advice").await.problem(404, "targetNotFound");
}

#[tokio::test]
async fn the_list_shows_what_was_decided_and_how_the_source_fares() {
    let service = Service::new();
    assert_eq!(service.get("/v1/targets").await.json(), json!({ "targets": [], "next": null }));
    decided(&service, "orders");
    service.store.insert(bare("silent"));
    let list = service.get("/v1/targets").await.json();
    let [orders, silent] = list["targets"].as_array().expect("targets").as_slice() else { panic!("two targets: {list}") };
    for (member, value) in [
        ("name", json!("orders")),
        ("displayName", json!("orders for people")),
        ("namespace", json!("shop")),
        ("kind", json!("backlog")),
        ("current", json!(5)),
        ("recommended", json!(8)),
        ("outcome", json!("change")),
        ("reason", json!("SpareCapacity")),
    ] {
        assert_eq!(orders[member], value, "{member}");
    }
    assert_eq!(orders["source"]["state"], "up");
    assert_eq!(orders["source"]["ageSeconds"], 5.0);
    assert_eq!(orders["source"]["nextReadingSeconds"], 25.0);
    assert_eq!(orders["source"]["lastError"], Value::Null);
    assert_eq!(silent["source"]["state"], "starting");
    assert_eq!((&silent["recommended"], &silent["outcome"], &silent["reason"]), (&Value::Null, &json!("hold"), &json!("NoReading")));
}

#[tokio::test]
async fn pages_follow_each_other_without_a_gap() {
    let service = Service::new();
    for name in ["a", "b", "c", "d", "e"] {
        service.store.insert(bare(name));
    }
    let mut seen = Vec::new();
    let mut path = "/v1/targets?limit=2".to_owned();
    for _ in 0..3 {
        let page = service.get(&path).await.json();
        seen.extend(page["targets"].as_array().expect("targets").iter().map(|target| target["name"].as_str().expect("a name").to_owned()));
        match page["next"].as_str() {
            Some(next) => path = format!("/v1/targets?limit=2&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);
    assert_eq!(service.get("/v1/targets?limit=5").await.json()["next"], Value::Null, "the last page says so");
}

#[tokio::test]
async fn a_query_that_is_not_understood_is_refused_with_its_field() {
    let service = Service::new();
    decided(&service, "orders");
    for (path, field) in [
        ("/v1/targets?limit=0", "limit"),
        ("/v1/targets?limit=1001", "limit"),
        ("/v1/targets?limit=ten", "limit"),
        ("/v1/targets/orders/advice?strict=perhaps", "strict"),
    ] {
        let answer = service.get(path).await;
        answer.problem(422, "invalidRequest");
        assert_eq!(answer.paths(), [field], "{path}");
    }
    service.get("/v1/targets?limits=3").await.problem(422, "invalidRequest");
}

#[tokio::test]
async fn valid_advice_is_told_with_its_number_and_the_read_is_noted() {
    let service = Service::new();
    let target = decided(&service, "orders");
    for path in ["/v1/targets/orders/advice", "/v1/targets/orders/advice?strict=true"] {
        let advice = service.get(path).await;
        assert_eq!(advice.status, 200);
        assert_eq!((&advice.json()["recommended"], &advice.json()["outcome"]), (&json!(8), &json!("change")));
    }
    assert!(target.last_read(Interface::MetricsApi).is_some());
    assert!(target.last_read(Interface::Grpc).is_none());
    assert!(service.get("/v1/targets/orders").await.json()["lastReadTimestampSeconds"]["metrics_api"].is_number());
}

#[tokio::test]
async fn a_person_with_a_browser_is_no_consumer() {
    let service = Service::new();
    let target = decided(&service, "orders");
    let request = http::Request::get("/v1/targets/orders/advice").header("sec-fetch-mode", "cors").body(axum::body::Body::empty()).expect("a request");
    assert_eq!(service.send(request).await.status(), 200);
    assert!(target.last_read(Interface::MetricsApi).is_none());
}

#[tokio::test]
async fn expired_advice_has_no_number_and_is_an_error_only_when_asked_strictly() {
    let service = Service::new();
    let target = with_advice(&service, "orders", expired("orders"));
    let told = service.get("/v1/targets/orders/advice").await;
    assert_eq!(told.status, 200);
    let told = told.json();
    assert_eq!((&told["recommended"], &told["active"], &told["outcome"]), (&Value::Null, &Value::Null, &json!("hold")));
    assert_eq!(told["current"], 5, "what remains known stays");
    assert_eq!(service.get("/v1/targets").await.json()["targets"][0]["recommended"], Value::Null);
    service.get("/v1/targets/orders/advice?strict=true").await.problem(503, "adviceExpired");

    // a number that is null although the reading is new, as after `holdAtMost`
    publish(&service, &target, Advice { recommended: None, outcome: Outcome::Hold, ..advice("orders") });
    service.get("/v1/targets/orders/advice?strict=true").await.problem(503, "adviceExpired");
}

#[tokio::test]
async fn the_last_moment_of_validity_still_counts() {
    let service = Service::new();
    with_advice(&service, "orders", Advice { valid_until: Some(now()), ..advice("orders") });
    assert_eq!(service.get("/v1/targets/orders/advice?strict=true").await.json()["recommended"], 8);
}

#[tokio::test]
async fn a_target_that_was_never_read_holds_and_says_so_in_the_shape_of_any_advice() {
    let service = Service::new();
    service.store.insert(bare("silent"));
    let told = service.get("/v1/targets/silent/advice").await.json();
    assert_eq!((&told["recommended"], &told["active"], &told["outcome"]), (&Value::Null, &Value::Null, &json!("hold")));
    assert_eq!(told["reasons"][0]["code"], "NoReading");
    assert_eq!(told["bounds"], json!({ "min": 2, "max": 24, "partitions": null }));
    let shape = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(shape(&told), shape(&serde_json::to_value(advice("other")).expect("JSON")));
    service.get("/v1/targets/silent/advice?strict=true").await.problem(503, "adviceExpired");
    service.get("/v1/targets/silent/request").await.problem(503, "adviceExpired");
    service.post("/v1/targets/silent/advice", "{}").await.problem(503, "adviceExpired");
    assert_eq!(service.get("/v1/targets/silent/history").await.json()["decisions"], json!([]));
}

#[tokio::test]
async fn a_dry_run_judges_under_the_merged_policy_and_stores_nothing() {
    let service = Service::new();
    let target = decided(&service, "orders");
    let before = target.state();
    let answer = service.post("/v1/targets/orders/advice", r#"{"policy":{"max":12,"min":null}}"#).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    // max is replaced, min goes back to its default
    assert_eq!(answer.json()["bounds"]["max"], 12);
    assert_eq!(answer.json()["bounds"]["min"], 1);
    assert_eq!(answer.json()["evaluatedAt"], "2026-11-30T10:00:00Z");
    let same = service.post("/v1/targets/orders/advice", "{}").await.json();
    assert_eq!(same["bounds"]["max"], 24, "nothing was kept of the run before");
    assert!(std::sync::Arc::ptr_eq(&before, &target.state()), "nothing is stored");
}

#[tokio::test]
async fn a_dry_run_refuses_a_bad_policy_with_paths_under_policy() {
    let service = Service::new();
    decided(&service, "orders");
    for (body, path) in [
        (r#"{"policy":{"mni":3}}"#, "policy.mni"),
        (r#"{"policy":{"min":30}}"#, "policy.max"),
        (r#"{"policy":{"targetUtilization":3}}"#, "policy.targetUtilization"),
        (r#"{"policy":{"catchUpWithin":"soon"}}"#, "policy.catchUpWithin"),
        (r#"{"polcy":{}}"#, "polcy"),
        (r#"{"policy":3}"#, "policy"),
    ] {
        let answer = service.post("/v1/targets/orders/advice", body).await;
        answer.problem(422, "invalidRequest");
        assert_eq!(answer.paths(), [path], "{body}");
    }
    service.post("/v1/targets/orders/advice", "{").await.problem(400, "invalidJson");
}

#[tokio::test]
async fn the_request_behind_an_advice_can_be_posted_again() {
    let service = Service::new();
    decided(&service, "orders");
    let request = service.get("/v1/targets/orders/request").await;
    assert_eq!(request.json()["kind"], "backlog");
    assert_eq!(request.json()["policy"], json!({ "min": 2, "max": 24 }));
    let again = service.post("/v1/advice", request.text).await;
    assert_eq!(again.status, 200, "{}", again.text);
    assert_eq!(again.json()["current"], 5);
}

#[tokio::test]
async fn history_keeps_past_decisions_oldest_first() {
    let service = Service::new();
    let target = decided(&service, "orders");
    publish(&service, &target, Advice { recommended: Some(9), ..advice("orders") });
    let history = service.get("/v1/targets/orders/history").await.json();
    assert_eq!(history["name"], "orders");
    let counts: Vec<_> = history["decisions"].as_array().expect("decisions").iter().map(|past| past["recommended"].clone()).collect();
    assert_eq!(counts, [json!(8), json!(9)]);
    assert_eq!(history["decisions"][0]["limits"], json!(["PartitionLimit"]));
}

#[tokio::test]
async fn a_target_is_shown_with_its_configuration() {
    let service = Service::new();
    decided(&service, "orders");
    let target = service.get("/v1/targets/orders").await.json();
    assert_eq!(target["configuration"]["policy"]["max"], 24);
    assert_eq!(target["source"]["observedAt"], "2026-11-30T09:59:55Z");
}
