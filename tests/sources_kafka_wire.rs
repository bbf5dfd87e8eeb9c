//! Kafka over the wire, against servers that are no brokers, or odd ones.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::future::Future;
use std::net::Ipv4Addr;
use std::time::Duration;

use loadline::engine::clock;
use loadline::engine::source::{FailureKind, SourceError};
use loadline::sources::kafka::reader::KafkaReader;
use loadline::sources::kafka::wire::client::KafkaClient;
use loadline::sources::kafka::wire::security::{Account, Sasl, Security, Tls};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

type Address = (String, u16);

/// A server that does one thing with each connection.
async fn server<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> Address
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    ("127.0.0.1".to_owned(), port)
}

/// A question: which call, and its number.
async fn question(stream: &mut TcpStream) -> Option<(i16, i32)> {
    let length = stream.read_i32().await.ok()?;
    let mut frame = vec![0; usize::try_from(length).ok()?];
    stream.read_exact(&mut frame).await.ok()?;
    Some((i16::from_be_bytes([frame[0], frame[1]]), i32::from_be_bytes([frame[4], frame[5], frame[6], frame[7]])))
}

async fn answer(stream: &mut TcpStream, number: i32, body: &[u8]) {
    let mut frame = i32::try_from(body.len() + 4).expect("a short body").to_be_bytes().to_vec();
    frame.extend(number.to_be_bytes());
    frame.extend(body);
    // whoever asked may have gone
    let _ = stream.write_all(&frame).await;
}

/// The versions of all calls that are asked for here, in the oldest form, which is what an old broker answers at once.
fn versions(calls: &[(i16, i16, i16)]) -> Vec<u8> {
    let mut body = vec![0, 0];
    body.extend(i32::try_from(calls.len()).expect("few").to_be_bytes());
    for (key, min, max) in calls {
        for number in [key, min, max] {
            body.extend(number.to_be_bytes());
        }
    }
    body
}

/// Greets as a broker before 2.4 does, which does not know the version of our question; then serves the next question.
async fn greet(stream: &mut TcpStream, calls: &[(i16, i16, i16)]) -> Option<(i16, i32)> {
    let (_, number) = question(stream).await?;
    answer(stream, number, &[0, 35, 0, 0, 0, 0]).await;
    let (_, number) = question(stream).await?;
    answer(stream, number, &versions(calls)).await;
    question(stream).await
}

async fn failed(brokers: Vec<Address>, security: Security) -> SourceError {
    KafkaClient::new(brokers, security).list().await.expect_err("no list of groups")
}

#[track_caller]
fn is(error: &SourceError, kind: FailureKind, words: &[&str]) {
    assert_eq!(error.kind, kind, "{error}");
    for word in words {
        assert!(error.message.contains(word), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_is_no_broker_is_told_from_one() {
    let web = server(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
        tokio::time::sleep(Duration::from_secs(5)).await;
    });
    is(&failed(vec![web.await], Security::default()).await, FailureKind::TooLarge, &["is it a Kafka broker"]);
    let closing = server(|stream| async move { drop(stream) });
    is(&failed(vec![closing.await], Security::default()).await, FailureKind::Unreachable, &["does this port want TLS"]);
    let odd = server(|mut stream| async move {
        while let Some((_, number)) = question(&mut stream).await {
            answer(&mut stream, number, &[1, 2, 3]).await;
        }
    });
    is(&failed(vec![odd.await], Security::default()).await, FailureKind::Unexpected, &["in another form than documented"]);
    let another = server(|mut stream| async move {
        while let Some((_, number)) = question(&mut stream).await {
            answer(&mut stream, number + 1, &versions(&[])).await;
        }
    });
    is(&failed(vec![another.await], Security::default()).await, FailureKind::Unexpected, &["in another form than documented"]);
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up() {
    let silent = server(|stream| async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        drop(stream);
    });
    let began = clock::instant();
    is(&failed(vec![silent.await], Security::default()).await, FailureKind::Timeout, &["no connection within 3 s", "127.0.0.1"]);
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn the_next_broker_is_asked_where_one_is_down() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let down = ("127.0.0.1".to_owned(), listener.local_addr().expect("an address").port());
    drop(listener);
    // metadata in no version that both sides know: the answer shows that this one was asked
    let old = server(|mut stream| async move {
        greet(&mut stream, &[(3, 0, 1)]).await;
    });
    is(&failed(vec![down.clone(), old.await], Security::default()).await, FailureKind::Unsupported, &["does not know the call Metadata"]);
    is(&failed(vec![down], Security::default()).await, FailureKind::Unreachable, &["connection refused"]);
}

#[tokio::test]
async fn a_broker_that_hangs_up_on_the_first_question_may_want_a_login() {
    let wants = server(|mut stream| async move {
        greet(&mut stream, &[(3, 0, 12)]).await;
    });
    is(&failed(vec![wants.await], Security::default()).await, FailureKind::Unreachable, &["does the broker want a login (sasl)?"]);
}

#[tokio::test]
async fn logins_that_fail_say_why_without_the_secret() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "open-sesame\n").expect("written");
    let account = || Account { username: "loadline".to_owned(), password_file: file.path().to_owned() };
    let security = |sasl: Sasl| Security { sasl: Some(sasl), tls: None };
    let offers = server(|mut stream| async move {
        let Some((17, number)) = greet(&mut stream, &[(17, 0, 1), (36, 0, 1)]).await else { return };
        let mut body = vec![0, 33, 0, 0, 0, 1, 0, 6];
        body.extend(b"GSSAPI");
        answer(&mut stream, number, &body).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
    });
    let error = failed(vec![offers.await], security(Sasl::Plain(account()))).await;
    is(&error, FailureKind::Unauthorized, &["no login by PLAIN", "GSSAPI"]);
    // a broker that takes any user and proves nothing
    let liar = server(|mut stream| async move {
        let Some((17, number)) = greet(&mut stream, &[(17, 0, 1), (36, 0, 0)]).await else { return };
        answer(&mut stream, number, &[0, 0, 0, 0, 0, 0]).await;
        while let Some((36, number)) = question(&mut stream).await {
            let words = b"r=forged,s=AAAA,i=4096";
            let mut body = vec![0, 0, 0xff, 0xff, 0, 0, 0, u8::try_from(words.len()).expect("short")];
            body.extend(words);
            answer(&mut stream, number, &body).await;
        }
    });
    let error = failed(vec![liar.await], security(Sasl::ScramSha256(account()))).await;
    is(&error, FailureKind::Unauthorized, &["the login by SCRAM-SHA-256", "not in answer to ours"]);
    assert!(!error.message.contains("open-sesame"), "{error}");
    let missing = Account { password_file: "/nonexistent/password".into(), ..account() };
    let plain = server(|mut stream| async move {
        if let Some((17, number)) = greet(&mut stream, &[(17, 0, 1), (36, 0, 0)]).await {
            answer(&mut stream, number, &[0, 0, 0, 0, 0, 0]).await;
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    });
    is(&failed(vec![plain.await], security(Sasl::Plain(missing))).await, FailureKind::Unauthorized, &["the password file cannot be read"]);
}

#[tokio::test]
async fn tls_to_a_port_without_it_fails_as_tls() {
    let plain = server(|mut stream| async move {
        let mut some = [0; 16];
        let _ = stream.read(&mut some).await;
        let _ = stream.write_all(b"this is no TLS at all, whatever it may be").await;
    });
    let security = Security { tls: Some(Tls::default()), sasl: None };
    is(&failed(vec![plain.await], security).await, FailureKind::Tls, &["does this port speak TLS"]);
    let file = tempfile::NamedTempFile::new().expect("a file");
    let empty = Tls { ca_file: Some(file.path().to_owned()), client: None };
    is(&empty.check().expect_err("an empty file"), FailureKind::Tls, &["holds no certificate"]);
    let absent = Tls { ca_file: Some("/nonexistent/ca.pem".into()), client: None };
    is(&absent.check().expect_err("no file"), FailureKind::Tls, &["the CA file cannot be read"]);
}
