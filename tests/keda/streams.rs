//! `StreamIsActive`, as `external-push` opens it.

use std::time::Duration;

use tonic::Code;

use crate::client::{Active, object};
use crate::support::{Replica, hasty};

async fn said(stream: &mut tonic::Streaming<Active>) -> Option<Result<bool, Code>> {
    let message = tokio::time::timeout(Duration::from_secs(5), stream.message()).await.expect("something within 5 s");
    message.map(|active| active.map(|active| active.result)).map_err(|status| status.code()).transpose()
}

async fn silent(stream: &mut tonic::Streaming<Active>) {
    let message = tokio::time::timeout(Duration::from_millis(300), stream.message()).await;
    assert!(message.is_err(), "{message:?}");
}

#[tokio::test]
async fn a_stream_says_the_state_at_once_and_then_each_change() {
    let replica = Replica::start(hasty()).await;
    let target = replica.decided("orders", 0);
    let mut stream = replica.connect().await.stream(&object("orders")).await.expect("a stream");
    assert_eq!(said(&mut stream).await, Some(Ok(false)));
    silent(&mut stream).await;
    replica.decide(&target, 3);
    assert_eq!(said(&mut stream).await, Some(Ok(true)));
    replica.decide(&target, 4);
    silent(&mut stream).await;
    replica.decide(&target, 0);
    assert_eq!(said(&mut stream).await, Some(Ok(false)));
}

#[tokio::test]
async fn a_stream_says_nothing_while_nothing_is_known() {
    let replica = Replica::start(hasty()).await;
    let target = replica.bare("orders");
    let mut stream = replica.connect().await.stream(&object("orders")).await.expect("a stream");
    silent(&mut stream).await;
    replica.decide(&target, 3);
    assert_eq!(said(&mut stream).await, Some(Ok(true)));
    // what has expired is not false, and what comes back unchanged is no change
    replica.later(500);
    silent(&mut stream).await;
    replica.later(-500);
    silent(&mut stream).await;
}

#[tokio::test]
async fn a_stream_ends_with_an_error_when_its_target_is_removed() {
    let replica = Replica::start(hasty()).await;
    replica.decided("orders", 3);
    let connection = replica.connect().await;
    let mut stream = connection.stream(&object("orders")).await.expect("a stream");
    assert_eq!(said(&mut stream).await, Some(Ok(true)));
    replica.store.remove("orders");
    assert_eq!(said(&mut stream).await, Some(Err(Code::Unavailable)));
    assert_eq!(connection.stream(&object("orders")).await.expect_err("no such target").code(), Code::Unavailable);
}

#[tokio::test]
async fn a_stream_goes_on_when_a_reload_puts_another_target_in_the_place() {
    let replica = Replica::start(hasty()).await;
    replica.decided("orders", 3);
    let mut stream = replica.connect().await.stream(&object("orders")).await.expect("a stream");
    assert_eq!(said(&mut stream).await, Some(Ok(true)));
    replica.decided("orders", 0);
    assert_eq!(said(&mut stream).await, Some(Ok(false)));
}

#[tokio::test]
async fn a_shutdown_ends_streams_at_once_so_that_keda_connects_anew() {
    let replica = Replica::start(hasty()).await;
    replica.decided("orders", 3);
    let connection = replica.connect().await;
    let mut stream = connection.stream(&object("orders")).await.expect("a stream");
    let mut health = connection.watch_health().await.expect("a stream");
    assert_eq!(said(&mut stream).await, Some(Ok(true)));
    assert_eq!(health.message().await.expect("a message").expect("a state").status, 1);
    // one connection that has asked nothing yet
    let idle = tokio::net::TcpStream::connect(replica.address).await.expect("connected");
    let took = replica.stop().await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(said(&mut stream).await, None, "a clean end: KEDA waits no longer than it has to");
    assert_eq!(health.message().await.expect("a message").expect("a state").status, 2, "those who watch are told");
    assert_eq!(health.message().await.expect("an end"), None);
    drop(idle);
}

#[tokio::test]
async fn streams_beyond_the_bound_are_refused_and_calls_are_not() {
    let replica = Replica::start(loadline::surfaces::keda::Limits { streams: 50, ..hasty() }).await;
    replica.decided("orders", 3);
    let connection = replica.connect().await;
    let mut open = Vec::new();
    for _ in 0..50 {
        let mut stream = connection.stream(&object("orders")).await.expect("a stream");
        assert_eq!(said(&mut stream).await, Some(Ok(true)));
        open.push(stream);
    }
    assert_eq!(connection.stream(&object("orders")).await.expect_err("too many").code(), Code::ResourceExhausted);
    assert!(connection.active(&object("orders")).await.expect("an answer"));
    // one that its caller has left makes room
    open.pop();
    let mut tries = 0;
    while connection.stream(&object("orders")).await.is_err() {
        tries += 1;
        assert!(tries < 100, "the place of a stream that is gone stays taken");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
