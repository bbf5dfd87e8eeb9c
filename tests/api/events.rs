//! `GET /v1/events`.

use std::time::Duration;

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use loadline::surfaces::http::Limits;

use crate::support::{Answer, Service, advice, bare, publish};

fn follow() -> Request<Body> {
    Request::get("/v1/events").body(Body::empty()).expect("a request")
}

async fn next(body: &mut Body) -> Option<String> {
    let frame = tokio::time::timeout(Duration::from_secs(5), body.frame()).await.expect("in time")?;
    Some(String::from_utf8(frame.expect("a frame").into_data().expect("data").to_vec()).expect("text"))
}

#[tokio::test]
async fn a_follower_hears_of_each_new_decision() {
    let service = Service::new();
    let target = bare("orders");
    service.store.insert(target.clone());
    let response = service.send(follow()).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body();
    let first = next(&mut body).await.expect("a first line");
    assert!(first.contains("retry: 3000"), "{first}");
    publish(&service, &target, advice("orders"));
    let line = next(&mut body).await.expect("a line");
    assert_eq!(line, "event: advice\ndata: {\"name\":\"orders\",\"outcome\":\"change\",\"recommended\":8}\n\n");
}

#[tokio::test]
async fn a_follower_that_is_too_slow_is_told_how_many_lines_it_lost() {
    let service = Service::new();
    let target = bare("orders");
    service.store.insert(target.clone());
    let mut body = service.send(follow()).await.into_body();
    for _ in 0..300 {
        publish(&service, &target, advice("orders"));
    }
    next(&mut body).await;
    assert_eq!(next(&mut body).await.as_deref(), Some("event: lagged\ndata: 44\n\n"));
}

#[tokio::test]
async fn streams_are_bounded_and_a_closed_one_makes_room() {
    let service = Service::with(Limits { event_streams: 1, ..Limits::default() }, None);
    let open = service.send(follow()).await;
    Answer::of(service.send(follow()).await).await.problem(503, "overloaded");
    drop(open);
    assert_eq!(service.send(follow()).await.status(), 200);
}

#[tokio::test]
async fn a_shutdown_ends_the_streams() {
    let service = Service::new();
    let mut body = service.send(follow()).await.into_body();
    next(&mut body).await;
    service.shutdown.cancel();
    assert_eq!(next(&mut body).await, None);
}
