//! The built binary, watching a simulated cluster in this process: one look, a reload, a restart, a stop.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use loadline::demo::{self, DRUID_TARGET, FLINK_TARGET, Pace};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tonic::Code;

use crate::client::{Connection, Keda, object};

struct Binary {
    child: Child,
    grpc: SocketAddr,
}

impl Binary {
    async fn start(config: &Path, grpc: SocketAddr) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_loadline"))
            .args(["serve", "--http", "127.0.0.1:0", "--grpc", &grpc.to_string(), "--config"])
            .arg(config)
            .env("LOADLINE_LOG_FORMAT", "json")
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the binary runs");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let grpc = loop {
            let line = lines.next_line().await.expect("text").expect("a line that says where it listens");
            let line: serde_json::Value = serde_json::from_str(&line).expect("JSON");
            if let Some(grpc) = line.get("grpc").and_then(serde_json::Value::as_str) {
                break grpc.parse().expect("an address");
            }
        };
        // the rest of the log is read, so that the service never waits for us
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { child, grpc }
    }

    /// SIGTERM, and the time until the end.
    async fn stop(mut self) -> Duration {
        #[expect(clippy::disallowed_methods, reason = "a test measures real time")]
        let begun = std::time::Instant::now();
        let pid = self.child.id().expect("it runs").to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().await.expect("kill runs").success());
        let status = tokio::time::timeout(Duration::from_secs(10), self.child.wait()).await.expect("an end within 10 s").expect("an end");
        assert_eq!(status.code(), Some(0));
        begun.elapsed()
    }
}

/// Asks again until it is so.
async fn until<T: std::fmt::Debug>(what: &str, mut ask: impl AsyncFnMut() -> T, so: impl Fn(&T) -> bool) -> T {
    let mut seen = ask().await;
    for _ in 0..300 {
        if so(&seen) {
            return seen;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        seen = ask().await;
    }
    panic!("{what} does not come within 30 s: {seen:?}")
}

fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address")
}

#[tokio::test]
async fn the_binary_is_looked_at_reloaded_restarted_and_stopped_while_keda_stays() {
    let world = demo::start(Pace { day: Duration::from_secs(720) }, |_| None).await.expect("a simulated world");
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("loadline.yaml");
    std::fs::write(&config, &world.config_yaml).expect("written");
    let address = free();
    let binary = Binary::start(&config, address).await;
    assert_eq!(binary.grpc, address);

    // a look, as soon as something was read
    let connection = Connection::lazy(address);
    let mut keda = Keda::over(vec![connection.clone()], object(DRUID_TARGET));
    let look = until("a number", async || keda.look().await, |look| look.milli.is_ok()).await;
    let count = look.milli.expect("a number");
    assert!(count >= 1000 && count % 1000 == 0 && look.active == Ok(true) && look.calls == 3, "{look:?}");

    // a reload without the other target ends its stream, and its number is unknown and not zero
    let mut stream = connection.stream(&object(FLINK_TARGET)).await.expect("a stream");
    let _ = until("a state", async || connection.active(&object(FLINK_TARGET)).await, Result::is_ok).await;
    assert!(stream.message().await.expect("a message").expect("a state").result);
    let (without, _) = world.config_yaml.split_once(&format!("  - name: {FLINK_TARGET}")).expect("the second target");
    std::fs::write(&config, without).expect("written");
    let end = tokio::time::timeout(Duration::from_secs(30), stream.message()).await.expect("an end after the reload");
    assert_eq!(end.expect_err("no such target").code(), Code::Unavailable);
    assert_eq!(connection.metrics(&object(FLINK_TARGET), "x").await.expect_err("no such target").code(), Code::Unavailable);
    assert!(connection.spec(&object(FLINK_TARGET)).await.is_ok());
    assert!(keda.look().await.milli.is_ok());

    // a restart ends the stream cleanly and in no time; the same connection finds the next one
    let mut stream = connection.stream(&object(DRUID_TARGET)).await.expect("a stream");
    assert!(stream.message().await.expect("a message").expect("a state").result);
    let took = binary.stop().await;
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(stream.message().await.expect("a clean end"), None);
    assert_eq!(connection.active(&object(DRUID_TARGET)).await.expect_err("nobody is there").code(), Code::Unavailable);
    let binary = Binary::start(&config, address).await;
    let _ = until("a number after the restart", async || connection.metrics(&object(DRUID_TARGET), "x").await, Result::is_ok).await;

    // the source goes: the number holds until it is no longer valid, and is unknown then
    drop(world);
    let status = until("the end of validity", async || connection.metrics(&object(DRUID_TARGET), "x").await, Result::is_err).await.expect_err("expired");
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("no valid number since"), "{}", status.message());
    assert!(connection.spec(&object(DRUID_TARGET)).await.is_ok());
    binary.stop().await;
}

#[tokio::test]
async fn an_address_that_is_taken_stops_the_start_and_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_loadline"))
        .args(["serve", "--http", "127.0.0.1:0", "--grpc", &address])
        .env_remove("LOADLINE_CONFIG")
        .output()
        .await
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&format!("cannot listen on {address}")), "{output:?}");
}
