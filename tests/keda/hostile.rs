//! Callers that mean no good, or know no better.

use std::time::Duration;

use loadline::surfaces::keda::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;

use crate::client::object;
use crate::support::{Replica, hasty};

#[tokio::test]
async fn a_large_trigger_is_read_and_an_endless_one_is_refused() {
    let replica = Replica::start(hasty()).await;
    replica.decided("orders", 3);
    let connection = replica.connect().await;
    let mut large = object("orders");
    large.metadata.insert("note".to_owned(), "x".repeat(200 * 1024));
    assert!(connection.active(&large).await.expect("an answer"));
    large.metadata.insert("note".to_owned(), "x".repeat(8 * 1024 * 1024));
    let status = connection.active(&large).await.expect_err("too large");
    assert_eq!(status.code(), Code::OutOfRange, "{status}");
    assert!(connection.active(&object("orders")).await.expect("the connection goes on"));
}

#[tokio::test]
async fn a_name_that_is_endless_or_strange_comes_back_short_and_harmless() {
    let replica = Replica::start(hasty()).await;
    let connection = replica.connect().await;
    for name in ["x".repeat(100_000), "a\r\nb: c".to_owned(), "\u{202e}\u{0}%zz".to_owned(), "../../etc/passwd".to_owned()] {
        let status = connection.active(&object(&name)).await.expect_err("no such target");
        assert_eq!(status.code(), Code::Unavailable);
        assert!(status.message().len() < 2000, "{} bytes", status.message().len());
        assert!(connection.spec(&object(&name)).await.is_ok());
    }
}

#[tokio::test]
async fn connections_that_begin_with_nothing_or_with_something_else_are_closed() {
    let replica = Replica::start(Limits { opening_timeout: Duration::from_millis(300), ..hasty() }).await;
    for beginning in [
        &b""[..],
        b"PRI * HTTP/2.0\r\n",
        b"GET / HTTP/1.1\r\nhost: test\r\n\r\n",
        &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ] {
        let mut stream = TcpStream::connect(replica.address).await.expect("connected");
        stream.write_all(beginning).await.expect("sent");
        let mut rest = Vec::new();
        // closed, or reset where something was left unread
        let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest)).await.expect("closed in time");
        assert!(rest.is_empty(), "{rest:?}");
    }
}

#[tokio::test]
async fn a_connection_that_gives_no_sign_of_life_is_closed() {
    let replica = Replica::start(Limits { keep_alive: Duration::from_millis(200), ..hasty() }).await;
    let mut stream = TcpStream::connect(replica.address).await.expect("connected");
    // the preface and empty settings, then silence
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.expect("sent");
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest)).await.expect("closed in time");
    // a client that answers stays
    replica.decided("orders", 3);
    let connection = replica.connect().await;
    assert!(connection.active(&object("orders")).await.expect("an answer"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(connection.active(&object("orders")).await.expect("an answer"));
}

#[tokio::test]
async fn connections_beyond_the_bound_wait_for_their_turn() {
    let replica = Replica::start(Limits { connections: 1, ..hasty() }).await;
    replica.decided("orders", 3);
    let first = replica.connect().await;
    assert!(first.active(&object("orders")).await.expect("an answer"));
    let address = replica.address;
    let second = tokio::spawn(async move { crate::client::Connection::lazy(address).active(&object("orders")).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!second.is_finished(), "the first one holds the only place");
    drop(first);
    assert!(second.await.expect("no panic").expect("its turn"));
}

#[tokio::test]
async fn many_questions_at_once_are_all_answered() {
    let replica = Replica::start(Limits { calls_in_work: 4, ..hasty() }).await;
    replica.decided("orders", 3);
    let connection = replica.connect().await;
    let questions = (0..500).map(|_| {
        let connection = connection.clone();
        tokio::spawn(async move { connection.metrics(&object("orders"), "x").await })
    });
    for answer in questions.collect::<Vec<_>>() {
        assert_eq!(answer.await.expect("no panic").expect("an answer").values[0].value, 3);
    }
}

#[tokio::test]
async fn a_call_that_nobody_knows_is_told_so() {
    let replica = Replica::start(hasty()).await;
    let connection = replica.connect().await;
    let status =
        connection.streaming::<crate::client::ScaledObject, crate::client::Active>("/externalscaler.ExternalScaler/DropTables", object("orders")).await;
    assert_eq!(status.expect_err("no such call").code(), Code::Unimplemented);
}
