//! The real Flink cluster: starts and stops it through the scripts in `flink/`, and asks it directly.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use loadline::engine::clock;
use reqwest::Client;
use serde_json::Value;

/// The first start downloads 330 MB.
const START_LIMIT: Duration = Duration::from_secs(420);

/// A running cluster; it is stopped when this is dropped.
pub struct Lab {
    dir: PathBuf,
    port: u16,
    client: Client,
}

impl Lab {
    /// Starts a cluster with these jobs of `flink/submit.sh`, and waits until all their tasks run.
    pub async fn start(jobs: &str) -> Self {
        let began = clock::instant();
        // one place for all runs: a run that was killed leaves a cluster there, which the next one stops
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("live-lab");
        down(&dir);
        let _ = std::fs::remove_dir_all(&dir);
        let lab = Self { dir, port: free_port(), client: Client::builder().no_proxy().timeout(Duration::from_secs(10)).build().unwrap() };
        let up = tokio::process::Command::new("bash")
            .arg(script("up.sh"))
            .arg(&lab.dir)
            .env("JOBS", jobs)
            .env("REST_PORT", lab.port.to_string())
            .env("PROM_PORT", "")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(START_LIMIT, up).await.expect("up.sh ends in time").expect("bash starts");
        assert!(output.status.success(), "up.sh failed: {}\n{}", String::from_utf8_lossy(&output.stderr), lab.log());
        let expected = jobs.split_whitespace().count();
        let limit = clock::instant() + Duration::from_secs(60);
        while lab.running().await < expected {
            assert!(clock::instant() < limit, "not {expected} running jobs after a minute: {}\n{}", String::from_utf8_lossy(&output.stdout), lab.log());
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        eprintln!("live: Flink with {jobs} at {} after {:.0} s", lab.url(), began.elapsed().as_secs_f64());
        lab
    }

    /// Where its REST API answers.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Stops the cluster now.
    pub fn down(&self) {
        down(&self.dir);
    }

    /// Records that wait at the source of a job, as Flink reports them.
    pub async fn backlog(&self, job: &str) -> f64 {
        let jobs = self.get("/jobs/overview").await;
        let id = rows(&jobs["jobs"]).iter().find(|row| row["name"] == job).unwrap_or_else(|| panic!("no {job} in {jobs}"))["jid"].as_str().unwrap();
        let details = self.get(&format!("/jobs/{id}")).await;
        let source = rows(&details["vertices"]).iter().find(|vertex| vertex["name"] == "Source: orders").unwrap()["id"].as_str().unwrap();
        let path = format!("/jobs/{id}/vertices/{source}/subtasks/metrics?get=Source__orders.pendingRecords&agg=sum");
        let metrics = self.get(&path).await;
        metrics[0]["sum"].as_f64().unwrap_or_else(|| panic!("{path} has no sum: {metrics}"))
    }

    /// Jobs of which all tasks run.
    async fn running(&self) -> usize {
        let jobs = self.get("/jobs/overview").await;
        rows(&jobs["jobs"]).iter().filter(|job| job["state"] == "RUNNING" && job["tasks"]["running"] == job["tasks"]["total"]).count()
    }

    async fn get(&self, path: &str) -> Value {
        let url = format!("{}{path}", self.url());
        let answer = self.client.get(&url).send().await.unwrap_or_else(|error| panic!("{url}: {error}\n{}", self.log()));
        serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    /// The end of each process' log, to be read when something fails.
    fn log(&self) -> String {
        let run = self.dir.join(format!("run-{}/log", self.port));
        let files = std::fs::read_dir(&run).into_iter().flatten().flatten();
        let ends: Vec<String> = files.map(|file| format!("--- {}\n{}\n", file.path().display(), tail(&file.path()))).collect();
        ends.concat()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        down(&self.dir);
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/flink").join(name)
}

/// Stops every cluster of a directory, by process id. It must not panic: it runs while a test fails.
fn down(dir: &Path) {
    match Command::new("bash").arg(script("down.sh")).arg(dir).stdin(Stdio::null()).status() {
        Ok(status) if status.success() => {}
        other => eprintln!("live: down.sh {}: {other:?}", dir.display()),
    }
}

/// The last lines of a file.
pub fn tail(path: &Path) -> String {
    let text = std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(25)..].join("\n")
}

fn rows(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A free port whose companion for Flink's RPC (see `up.sh`) is free as well.
fn free_port() -> u16 {
    for _ in 0..50 {
        let Ok(rest) = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)) else { continue };
        let port = rest.local_addr().unwrap().port();
        let rpc = port.checked_sub(8081).and_then(|offset| offset.checked_add(6123));
        if rpc.is_some_and(|rpc| TcpListener::bind((Ipv4Addr::LOCALHOST, rpc)).is_ok()) {
            return port;
        }
    }
    panic!("no free pair of ports on loopback");
}
