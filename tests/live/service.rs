//! The built binary, started with a configuration of its own.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use loadline::engine::clock;
use reqwest::Client;
use serde_json::Value;
use tempfile::TempDir;

use crate::lab::tail;

/// The service; it is stopped when this is dropped.
pub struct Service {
    child: Child,
    base: String,
    client: Client,
    log: PathBuf,
    environment: Vec<(&'static str, String)>,
    dir: TempDir,
}

impl Service {
    /// Starts `loadline serve` with the configuration that is made for two free ports, and waits until it is ready.
    pub async fn start(configuration: impl FnOnce(u16, u16) -> String) -> Self {
        Self::start_in(&[], configuration).await
    }

    /// The same with more in its environment; its log is JSON.
    pub async fn start_in(environment: &[(&'static str, String)], configuration: impl FnOnce(u16, u16) -> String) -> Self {
        let dir = TempDir::new().unwrap();
        let (http, grpc) = free_ports();
        std::fs::write(dir.path().join("loadline.yaml"), configuration(http, grpc)).unwrap();
        let child = spawn(dir.path(), environment);
        let client = Client::builder().no_proxy().timeout(Duration::from_secs(5)).build().unwrap();
        let base = format!("http://127.0.0.1:{http}");
        let mut service = Self { child, base, client, log: log_in(dir.path()), environment: environment.to_vec(), dir };
        service.ready().await;
        service
    }

    /// Kills the service and starts it again: what it knew is gone.
    pub async fn restart(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.child = spawn(self.dir.path(), &self.environment);
        self.ready().await;
    }

    /// Tells it to stop, as a pod is told, and waits until it has.
    pub async fn terminate(&mut self) {
        let status = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(status.success(), "kill: {status}");
        let limit = clock::instant() + Duration::from_secs(15);
        while self.child.try_wait().unwrap().is_none() {
            assert!(clock::instant() < limit, "loadline does not end:\n{}", tail(&self.log));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Its configuration file.
    pub fn configuration(&self) -> PathBuf {
        self.dir.path().join("loadline.yaml")
    }

    async fn ready(&mut self) {
        let limit = clock::instant() + Duration::from_secs(20);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("loadline ended with {status}:\n{}", tail(&self.log));
            }
            if self.client.get(format!("{}/readyz", self.base)).send().await.is_ok_and(|answer| answer.status().is_success()) {
                return;
            }
            assert!(clock::instant() < limit, "loadline is not ready after 20 s:\n{}", tail(&self.log));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Where a path of it is asked for.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Its log so far, line by line.
    pub fn log_lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The status and the JSON body of an answer.
    pub async fn ask(&self, path: &str) -> (u16, Value) {
        let (status, text) = self.fetch(path).await;
        (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path} is not JSON ({error}): {text}")))
    }

    /// The JSON body of an answer that must be a success.
    pub async fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask(path).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// The text of an answer that must be a success.
    pub async fn text(&self, path: &str) -> String {
        let (status, text) = self.fetch(path).await;
        assert_eq!(status, 200, "{path}: {text}");
        text
    }

    async fn fetch(&self, path: &str) -> (u16, String) {
        let answer = self.client.get(format!("{}{path}", self.base)).send().await;
        let answer = answer.unwrap_or_else(|error| panic!("{path}: {error}\n{}", tail(&self.log)));
        (answer.status().as_u16(), answer.text().await.unwrap())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("live: the end of the service's log:\n{}", tail(&self.log));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn log_in(dir: &Path) -> PathBuf {
    dir.join("loadline.log")
}

fn spawn(dir: &Path, environment: &[(&'static str, String)]) -> Child {
    let output = std::fs::OpenOptions::new().create(true).append(true).open(log_in(dir)).unwrap();
    Command::new(env!("CARGO_BIN_EXE_loadline"))
        .arg("serve")
        .arg("--config")
        .arg(dir.join("loadline.yaml"))
        .env("LOADLINE_LOG_FORMAT", "json")
        .envs(environment.iter().cloned())
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output)
        .spawn()
        .expect("the built binary starts")
}

/// Two free ports; both are held until both are known, so that they differ.
fn free_ports() -> (u16, u16) {
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (one, two) = (bind(), bind());
    (one.local_addr().unwrap().port(), two.local_addr().unwrap().port())
}
