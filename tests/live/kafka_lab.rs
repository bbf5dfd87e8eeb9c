//! The real Kafka broker: starts and stops it through the scripts in `kafka/`, and reads it independently, through Kafka's
//! own Admin client.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use loadline::engine::clock;
use serde_json::Value;
use tokio::sync::MutexGuard;

use crate::lab::{ONE_AT_A_TIME, tail};

/// The first start downloads 37 MB.
const START_LIMIT: Duration = Duration::from_secs(300);
/// Ports that a broker takes, from its first one on: see `kafka/README.md`.
const PORTS: u16 = 5;

/// A running broker; it is stopped, with all that was started beside it, when this is dropped.
pub struct KafkaLab {
    dir: PathBuf,
    port: u16,
    _alone: MutexGuard<'static, ()>,
}

impl KafkaLab {
    /// Starts a broker.
    pub async fn start() -> Self {
        let alone = ONE_AT_A_TIME.lock().await;
        let began = clock::instant();
        // one place for all runs: a run that was killed leaves a broker there, which the next one stops
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("live-kafka");
        down(&dir, &[]);
        let _ = std::fs::remove_dir_all(&dir);
        let lab = Self { dir, port: free_ports(), _alone: alone };
        let up = tokio::process::Command::new("bash")
            .arg(script("up.sh"))
            .arg(&lab.dir)
            .env("PORT", lab.port.to_string())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(START_LIMIT, up).await.expect("up.sh ends in time").expect("bash starts");
        assert!(output.status.success(), "up.sh failed: {}\n{}", String::from_utf8_lossy(&output.stderr), lab.logs());
        eprintln!("live: Kafka at {} after {:.0} s", lab.broker(), began.elapsed().as_secs_f64());
        lab
    }

    /// The broker, for those who need neither TLS nor a login.
    pub fn broker(&self) -> String {
        self.listener(0)
    }

    /// Another of its listeners: 2 is TLS, 3 SASL, 4 both.
    pub fn listener(&self, offset: u16) -> String {
        format!("127.0.0.1:{}", self.port + offset)
    }

    /// A file of its configuration.
    pub fn file(&self, name: &str) -> String {
        self.dir.join("conf").join(name).display().to_string()
    }

    /// Runs commands of the lab, and gives what they print.
    pub async fn run(&self, commands: &[&str]) -> String {
        let output = tokio::process::Command::new("bash").arg(script("lab.sh")).arg(&self.dir).arg("do").args(commands).stdin(Stdio::null()).output();
        let output = tokio::time::timeout(Duration::from_secs(120), output).await.expect("lab.sh ends in time").expect("bash starts");
        assert!(output.status.success(), "{commands:?} failed: {}\n{}", String::from_utf8_lossy(&output.stderr), self.logs());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Starts a command of the lab in the background.
    pub fn launch(&self, name: &str, command: &str) {
        let words = command.split_whitespace();
        let status = Command::new("bash").arg(script("lab.sh")).arg(&self.dir).args(["--as", name]).args(words).stdin(Stdio::null()).status().unwrap();
        assert!(status.success(), "{name}: {status}");
    }

    /// Stops what was started under this name, as a pod is stopped.
    pub fn stop(&self, name: &str) {
        down(&self.dir, &[name]);
    }

    /// What Kafka's own Admin client says of all groups.
    pub async fn read(&self) -> Value {
        let text = self.run(&["read"]).await;
        serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The same, once it is as it should be.
    pub async fn once(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let limit = clock::instant() + Duration::from_secs(60);
        loop {
            let groups = self.read().await;
            if holds(&groups) {
                return groups;
            }
            assert!(clock::instant() < limit, "not within 60 s: {what}: {groups}\n{}", self.logs());
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// The end of each process' log, to be read when something fails.
    pub fn logs(&self) -> String {
        let files = std::fs::read_dir(self.dir.join("log")).into_iter().flatten().flatten();
        let ends: Vec<String> = files.map(|file| format!("--- {}\n{}\n", file.path().display(), tail(&file.path()))).collect();
        ends.concat()
    }
}

impl Drop for KafkaLab {
    fn drop(&mut self) {
        down(&self.dir, &[]);
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/kafka").join(name)
}

/// Stops all of it, or what is named, by process id. It must not panic: it runs while a test fails.
fn down(dir: &Path, names: &[&str]) {
    match Command::new("bash").arg(script("down.sh")).arg(dir).args(names).stdin(Stdio::null()).stdout(Stdio::null()).status() {
        Ok(status) if status.success() => {}
        other => eprintln!("live: down.sh {}: {other:?}", dir.display()),
    }
}

/// The first of as many free ports as a broker takes.
fn free_ports() -> u16 {
    let free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    (29_500..29_595).step_by(usize::from(PORTS)).find(|first| (*first..*first + PORTS).all(free)).expect("five free ports on loopback")
}
