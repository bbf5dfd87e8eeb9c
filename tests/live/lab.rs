//! The real Flink cluster: starts and stops it through the scripts in `flink/`, and asks it directly.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use loadline::engine::clock;
use reqwest::Client;
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard};

/// The first start downloads 330 MB.
const START_LIMIT: Duration = Duration::from_secs(420);

/// Two cores carry one cluster, of whatever kind: tests wait for each other.
pub static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// A running cluster; it is stopped when this is dropped.
pub struct Lab {
    dir: PathBuf,
    port: u16,
    client: Client,
    _alone: MutexGuard<'static, ()>,
}

impl Lab {
    /// Starts a cluster with these jobs of `flink/submit.sh`, and waits until all their tasks run.
    pub async fn start(jobs: &str) -> Self {
        Self::start_with(jobs, &[]).await
    }

    /// The same with more of the settings of `flink/up.sh`.
    pub async fn start_with(jobs: &str, settings: &[(&str, &str)]) -> Self {
        let alone = ONE_AT_A_TIME.lock().await;
        let began = clock::instant();
        // one place for all runs: a run that was killed leaves a cluster there, which the next one stops
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("live-lab");
        down(&dir);
        let _ = std::fs::remove_dir_all(&dir);
        let client = Client::builder().no_proxy().timeout(Duration::from_secs(10)).build().unwrap();
        let lab = Self { dir, port: free_port(), client, _alone: alone };
        let up = tokio::process::Command::new("bash")
            .arg(script("up.sh"))
            .arg(&lab.dir)
            .env("JOBS", jobs)
            .env("REST_PORT", lab.port.to_string())
            .env("PROM_PORT", "")
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(START_LIMIT, up).await.expect("up.sh ends in time").expect("bash starts");
        assert!(output.status.success(), "up.sh failed: {}\n{}", String::from_utf8_lossy(&output.stderr), lab.log());
        lab.runs(jobs.split_whitespace().count()).await;
        eprintln!("live: Flink with {jobs:?} at {} after {:.0} s", lab.url(), began.elapsed().as_secs_f64());
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

    /// Submits what `flink/submit.sh` is told: names of its jobs, or `--` and the arguments of one.
    pub async fn submit(&self, what: &str) {
        let submit = tokio::process::Command::new("bash")
            .arg(script("submit.sh"))
            .arg(&self.dir)
            .arg(self.port.to_string())
            .args(what.split_whitespace())
            .stdin(Stdio::null())
            .output();
        let output = submit.await.expect("bash starts");
        assert!(output.status.success(), "submit.sh {what}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Waits until all tasks of so many jobs run.
    pub async fn runs(&self, jobs: usize) {
        let limit = clock::instant() + Duration::from_secs(60);
        while self.running().await < jobs {
            assert!(clock::instant() < limit, "not {jobs} running jobs after a minute\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Records that wait at the sources of a job, as Flink reports them.
    pub async fn backlog(&self, job: &str) -> f64 {
        let id = self.job(job).await;
        let details = self.get(&format!("/jobs/{id}")).await;
        let mut sum = 0.0;
        for vertex in rows(&details["vertices"]).iter().filter(|vertex| vertex["name"].as_str().unwrap().starts_with("Source: ")) {
            let path = format!("/jobs/{id}/vertices/{}/subtasks/metrics", vertex["id"].as_str().unwrap());
            let names = self.get(&path).await;
            for name in rows(&names).iter().filter_map(|row| row["id"].as_str()).filter(|name| name.ends_with(".pendingRecords")) {
                sum += self.once_there(&format!("{path}?get={name}&agg=sum"), |metrics| metrics[0]["sum"].as_f64()).await;
            }
        }
        sum
    }

    /// The largest share of the time for which a subtask of the job is held back by one behind it, as Flink reports it.
    pub async fn back_pressure(&self, job: &str) -> f64 {
        let id = self.job(job).await;
        let details = self.get(&format!("/jobs/{id}")).await;
        let mut most: f64 = 0.0;
        for vertex in rows(&details["vertices"]) {
            let path = format!("/jobs/{id}/vertices/{}/subtasks/metrics?get=backPressuredTimeMsPerSecond&agg=avg", vertex["id"].as_str().unwrap());
            most = most.max(self.get(&path).await[0]["avg"].as_f64().unwrap_or(0.0) / 1000.0);
        }
        most
    }

    /// How often a job has been restarted or rescaled.
    pub async fn restarts(&self, job: &str) -> u64 {
        let path = format!("/jobs/{}/metrics?get=numRestarts", self.job(job).await);
        self.once_there(&path, |metrics| metrics[0]["value"].as_str()?.parse().ok()).await
    }

    /// The last failure of a job.
    pub async fn failure(&self, job: &str) -> Option<String> {
        let id = self.job(job).await;
        let exceptions = self.get(&format!("/jobs/{id}/exceptions")).await;
        rows(&exceptions["exceptionHistory"]["entries"]).first().map(|entry| entry["exceptionName"].to_string())
    }

    /// Kills a `TaskManager` that runs a subtask of the vertex, without a word to it.
    pub async fn kill_task_manager_of(&self, job: &str, vertex: &str) {
        let id = self.job(job).await;
        let details = self.get(&format!("/jobs/{id}")).await;
        let vertex = rows(&details["vertices"]).iter().find(|row| row["name"] == vertex).unwrap_or_else(|| panic!("no {vertex} in {details}"));
        let subtasks = self.get(&format!("/jobs/{id}/vertices/{}", vertex["id"].as_str().unwrap())).await;
        // up.sh names them tm-1, tm-2, ... and writes their process ids after the JobManager's
        let name = subtasks["subtasks"][0]["taskmanager-id"].as_str().unwrap_or_else(|| panic!("no TaskManager in {subtasks}"));
        let number: usize = name.strip_prefix("tm-").and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no number in {name}"));
        let pids = std::fs::read_to_string(self.dir.join(format!("run-{}/pids", self.port))).unwrap();
        let pid = pids.lines().nth(number).unwrap_or_else(|| panic!("no {name} in {pids}"));
        let status = Command::new("kill").args(["-9", pid]).status().unwrap();
        assert!(status.success(), "kill -9 {pid}: {status}");
    }

    /// A metric, which is not there for some seconds after a start.
    async fn once_there<T>(&self, path: &str, value: impl Fn(&Value) -> Option<T>) -> T {
        let limit = clock::instant() + Duration::from_secs(45);
        loop {
            let answer = self.get(path).await;
            if let Some(value) = value(&answer) {
                return value;
            }
            assert!(clock::instant() < limit, "{path} has had no value for 45 s: {answer}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// The id of the newest job of a name.
    pub async fn job(&self, name: &str) -> String {
        let jobs = self.get("/jobs/overview").await;
        let newest = rows(&jobs["jobs"]).iter().filter(|row| row["name"] == name).max_by_key(|row| row["start-time"].as_i64());
        newest.unwrap_or_else(|| panic!("no {name} in {jobs}"))["jid"].as_str().unwrap().to_owned()
    }

    /// Cancels a job.
    pub async fn cancel(&self, id: &str) {
        let url = format!("{}/jobs/{id}?mode=cancel", self.url());
        let answer = self.client.patch(&url).send().await.unwrap();
        assert!(answer.status().is_success(), "{url}: {}", answer.status());
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
