//! `POST /v1/advice`.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::Request;
use loadline::surfaces::http::Limits;
use serde_json::json;

use crate::support::{Answer, QUESTION, Service};

const ADVICE: &str = "/v1/advice";

#[tokio::test]
async fn a_question_is_answered_with_its_name_and_the_same_answer_twice() {
    let service = Service::new();
    let first = service.post(ADVICE, QUESTION).await;
    assert_eq!(first.status, 200, "{}", first.text);
    assert_eq!(first.header("content-type"), "application/json");
    assert_eq!(first.json()["name"], "orders");
    assert_eq!(first.json()["current"], 5);
    assert_eq!(first.json()["evaluatedAt"], "2026-11-30T10:00:00Z");
    assert_eq!(service.post(ADVICE, QUESTION).await.text, first.text);
}

#[tokio::test]
async fn the_content_type_is_not_looked_at() {
    let service = Service::new();
    for kind in ["application/json", "application/x-www-form-urlencoded", "text/plain"] {
        let request = Request::post(ADVICE).header("content-type", kind).body(Body::from(QUESTION)).expect("a request");
        assert_eq!(service.send(request).await.status(), 200, "{kind}");
    }
}

#[tokio::test]
async fn what_is_no_json_is_a_bad_request() {
    let service = Service::new();
    for body in ["", "{", "{\"kind\": backlog}", "\u{0}", "[1, 2"] {
        service.post(ADVICE, body).await.problem(400, "invalidJson");
    }
    service.post(ADVICE, vec![0xff, 0xfe]).await.problem(400, "invalidJson");
}

#[tokio::test]
async fn an_unknown_key_is_refused_with_its_path() {
    let service = Service::new();
    let answer = service.post(ADVICE, r#"{"kind":"backlog","polcy":{}}"#).await;
    answer.problem(422, "invalidRequest");
    assert_eq!(answer.paths(), ["polcy"]);
    let answer = service.post(ADVICE, r#"{"kind":"backlog","policy":{"scaleDown":{"cooldwn":"1m"}}}"#).await;
    answer.problem(422, "invalidRequest");
    assert_eq!(answer.paths(), ["policy.scaleDown.cooldwn"]);
}

#[tokio::test]
async fn several_problems_are_told_at_once() {
    let service = Service::new();
    let body = r#"{"kind":"backlog","replicas":{"spec":-1},"snapshot":{"backlog":"many"},"policy":{"min":9,"max":3,"targetUtilization":7}}"#;
    let answer = service.post(ADVICE, body).await;
    answer.problem(422, "invalidRequest");
    for path in ["replicas.spec", "snapshot.backlog", "policy.targetUtilization"] {
        assert!(answer.paths().iter().any(|found| found == path), "{path} in {:?}", answer.paths());
    }
}

#[tokio::test]
async fn a_kind_that_cannot_be_judged_has_a_code_of_its_own() {
    let answer = Service::new().post(ADVICE, r#"{"kind":"kinesisStream"}"#).await;
    answer.problem(422, "kindNotSupported");
    assert_eq!(answer.paths(), ["kind"]);
}

#[tokio::test]
async fn of_an_array_each_is_judged_alone() {
    let service = Service::new();
    let answer = service.post(ADVICE, format!("[{QUESTION}, {{\"kind\":\"backlog\",\"nmae\":1}}, {{\"kind\":\"kinesisStream\"}}, {QUESTION}]")).await;
    assert_eq!(answer.status, 200);
    let answers = answer.json();
    let answers = answers.as_array().expect("an array");
    assert_eq!(answers.len(), 4);
    assert_eq!(answers[0]["name"], "orders");
    assert_eq!(answers[1]["code"], "invalidRequest");
    assert_eq!(answers[1]["errors"][0]["path"], "nmae");
    assert_eq!(answers[2]["code"], "kindNotSupported");
    assert_eq!(answers[3], answers[0]);
    assert_eq!(service.post(ADVICE, "[]").await.json(), json!([]));
}

#[tokio::test]
async fn an_array_of_a_thousand_is_judged_and_one_more_is_refused() {
    let service = Service::new();
    let many = |count: usize| format!("[{}]", vec![QUESTION; count].join(","));
    let answer = service.post(ADVICE, many(1000)).await;
    assert_eq!(answer.json().as_array().map(Vec::len), Some(1000));
    service.post(ADVICE, many(1001)).await.problem(422, "invalidRequest");
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_too_large_whether_it_is_announced_or_not() {
    let service = Service::with(Limits { body_bytes: 1000, ..Limits::default() }, None);
    service.post(ADVICE, vec![b' '; 1001]).await.problem(413, "tooLarge");
    let pieces = stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 300]))).take(4);
    service.post(ADVICE, Body::from_stream(pieces)).await.problem(413, "tooLarge");
    assert_eq!(service.post(ADVICE, QUESTION).await.status, 200);
}

#[tokio::test]
async fn a_large_body_in_pieces_is_put_together() {
    let service = Service::new();
    let body = format!("[{}]", vec![QUESTION; 1000].join(",\n         \n"));
    let padded = format!("{body}{}", " ".repeat(3 * 1024 * 1024));
    let pieces: Vec<_> = padded.into_bytes().chunks(60_000).map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece))).collect();
    let answer = service.post(ADVICE, Body::from_stream(stream::iter(pieces))).await;
    assert_eq!(answer.json().as_array().map(Vec::len), Some(1000));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_is_given_up() {
    let service = Service::new();
    let never = stream::once(async { Ok::<_, std::io::Error>(Bytes::from_static(b"{")) }).chain(stream::pending());
    service.post(ADVICE, Body::from_stream(never)).await.problem(408, "requestTimeout");
}

#[tokio::test]
async fn a_flood_of_posts_is_refused_while_reads_and_probes_go_on() {
    let service = Service::with(Limits { posts_in_work: 1, ..Limits::default() }, None);
    let (release, gate) = tokio::sync::oneshot::channel::<()>();
    let slow = stream::once(async move {
        let _ = gate.await;
        Ok::<_, std::io::Error>(Bytes::from_static(QUESTION.as_bytes()))
    });
    let waiting = {
        let router = service.router.clone();
        let request = Request::post(ADVICE).body(Body::from_stream(slow)).expect("a request");
        tokio::spawn(async move { Answer::of(tower::ServiceExt::oneshot(router, request).await.expect("an answer")).await })
    };
    tokio::time::sleep(Duration::from_millis(50)).await;
    let refused = service.post(ADVICE, QUESTION).await;
    refused.problem(503, "overloaded");
    assert_eq!(refused.header("retry-after"), "1");
    for path in ["/livez", "/readyz", "/metrics", "/v1/targets"] {
        assert_eq!(service.get(path).await.status, 200, "{path}");
    }
    release.send(()).expect("the slow one waits");
    assert_eq!(waiting.await.expect("no panic").status, 200);
    assert_eq!(service.post(ADVICE, QUESTION).await.status, 200, "the place is free again");
}
