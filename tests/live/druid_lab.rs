//! The real Druid cluster: starts and stops it through the scripts in `druid/`, and asks it directly.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use loadline::engine::clock;
use reqwest::Client;
use serde_json::{Value, json};
use tokio::sync::MutexGuard;

use crate::lab::{ONE_AT_A_TIME, tail};

/// The first start downloads 240 MB.
const START_LIMIT: Duration = Duration::from_secs(420);
/// Ports that a cluster takes, from its first one on: see `druid/README.md`.
const PORTS: u16 = 40;
/// The port of the keeper, within them.
const KEEPER: u16 = 9;

/// A running cluster; it is stopped, with all that was started beside it, when this is dropped.
pub struct DruidLab {
    dir: PathBuf,
    port: u16,
    client: Client,
    keeper: Option<Child>,
    _alone: Option<MutexGuard<'static, ()>>,
}

/// A task as the Overlord tells of it.
#[derive(Debug)]
pub struct Task {
    pub id: String,
    /// `RUNNING`, also while it waits; `SUCCESS`; `FAILED`.
    pub state: String,
    pub pending: bool,
}

/// A worker as the Overlord tells of it.
#[derive(Debug)]
pub struct Worker {
    pub host: String,
    /// False while it is drained.
    pub enabled: bool,
    pub tasks: Vec<String>,
}

impl DruidLab {
    /// Starts a cluster with these settings of `druid/up.sh`.
    pub async fn start(settings: &[(&str, &str)]) -> Self {
        Self::start_in("live-druid", Some(ONE_AT_A_TIME.lock().await), settings).await
    }

    /// Starts a second cluster beside one that runs.
    pub async fn start_beside(settings: &[(&str, &str)]) -> Self {
        Self::start_in("live-druid-beside", None, settings).await
    }

    async fn start_in(place: &str, alone: Option<MutexGuard<'static, ()>>, settings: &[(&str, &str)]) -> Self {
        let began = clock::instant();
        // one place for all runs: a run that was killed leaves a cluster there, which the next one stops
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(place);
        down(&dir);
        let _ = fs::remove_dir_all(&dir);
        let client = Client::builder().no_proxy().timeout(Duration::from_secs(10)).build().unwrap();
        let lab = Self { dir, port: free_ports(), client, keeper: None, _alone: alone };
        let up = tokio::process::Command::new("bash")
            .arg(script("up.sh"))
            .arg(&lab.dir)
            .env("PORT", lab.port.to_string())
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(START_LIMIT, up).await.expect("up.sh ends in time").expect("bash starts");
        assert!(output.status.success(), "up.sh failed: {}\n{}", String::from_utf8_lossy(&output.stderr), lab.logs());
        lab.run("account.sh", &[]);
        eprintln!("live: Druid with {settings:?} at {} after {:.0} s", lab.url(), began.elapsed().as_secs_f64());
        lab
    }

    /// Where the Overlord answers.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port + 6)
    }

    /// The environment that makes Loadline take the keeper for its Kubernetes.
    pub fn cluster(&self) -> Vec<(&'static str, String)> {
        vec![
            ("KUBERNETES_SERVICE_HOST", "127.0.0.1".to_owned()),
            ("KUBERNETES_SERVICE_PORT", (self.port + KEEPER).to_string()),
            ("LOADLINE_SERVICE_ACCOUNT", self.dir.join("account").display().to_string()),
        ]
    }

    /// Starts the keeper, which follows the advice at this URL: the `StatefulSet`, and who sets its count.
    pub fn keep(&mut self, replicas: u64, most: u64, advice: &str) {
        let file = |name: &str| self.dir.join(name).display().to_string();
        let log = fs::File::create(self.keeper_log()).unwrap();
        let child = Command::new("python3")
            .arg(script("keeper.py"))
            .arg(&self.dir)
            .args(["--replicas", &replicas.to_string(), "--max", &most.to_string(), "--port", &(self.port + KEEPER).to_string()])
            .args(["--grace", "60", "--cert", &file("tls/tls.crt"), "--key", &file("tls/tls.key"), "--advice", advice])
            // the mark by which down.sh finds it, should this process be killed
            .arg(format!("-Dlab.node={}", file("keeper")))
            .stdin(Stdio::null())
            .stderr(log.try_clone().unwrap())
            .stdout(log)
            .spawn()
            .expect("python3 starts");
        fs::write(self.dir.join("pids/keeper"), child.id().to_string()).unwrap();
        self.keeper = Some(child);
    }

    /// What the keeper has done so far, line by line.
    pub fn kept(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.keeper_log()).unwrap_or_default();
        // the last line may be half written
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("the keeper says {line}: {error}"))).collect()
    }

    fn keeper_log(&self) -> PathBuf {
        self.dir.join("log/keeper.log")
    }

    /// Submits a task that only takes time.
    pub async fn noop(&self, id: &str, seconds: u64) {
        let body = json!({ "type": "noop", "id": id, "dataSource": "none", "runTime": seconds * 1000 });
        self.post("/druid/indexer/v1/task", &body).await;
    }

    /// All tasks, also those that have ended.
    pub async fn tasks(&self) -> Vec<Task> {
        let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let list = self.get("/druid/indexer/v1/tasks").await;
        let of = |row: &Value| Task {
            id: text(row, "id"),
            state: text(row, "statusCode"),
            pending: row["runnerStatusCode"] == "PENDING" && row["statusCode"] == "RUNNING",
        };
        list.as_array().unwrap_or_else(|| panic!("no tasks: {list}")).iter().map(of).collect()
    }

    /// The registered workers.
    pub async fn workers(&self) -> Vec<Worker> {
        let list = self.get("/druid/indexer/v1/workers").await;
        let of = |row: &Value| Worker {
            host: row["worker"]["host"].as_str().unwrap().to_owned(),
            enabled: row["worker"]["version"] != "",
            tasks: row["runningTasks"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect(),
        };
        list.as_array().unwrap_or_else(|| panic!("no workers: {list}")).iter().map(of).collect()
    }

    /// True when the Overlord answers and has found workers: after its start the list is empty for a while.
    pub async fn lists_workers(&self) -> bool {
        self.try_get("/druid/indexer/v1/workers").await.is_ok_and(|list| list.as_array().is_some_and(|rows| !rows.is_empty()))
    }

    /// The answer of the Overlord.
    pub async fn get(&self, path: &str) -> Value {
        self.try_get(path).await.unwrap_or_else(|error| panic!("{path}: {error}\n{}", self.logs()))
    }

    /// The answer of the Overlord, or why there is none.
    async fn try_get(&self, path: &str) -> Result<Value, String> {
        let answer = self.client.get(format!("{}{path}", self.url())).send().await.map_err(|error| error.to_string())?;
        let status = answer.status();
        let text = answer.text().await.map_err(|error| error.to_string())?;
        if status.is_success() { serde_json::from_str(&text).map_err(|error| error.to_string()) } else { Err(format!("{status}: {text}")) }
    }

    /// Tells the Overlord something that it has to take.
    async fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.client.post(format!("{}{path}", self.url())).json(body).send().await.unwrap_or_else(|error| panic!("{path}: {error}"));
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status.is_success(), "{path}: {status}: {text}");
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    /// Runs a script of the lab to its end.
    pub fn run(&self, name: &str, arguments: &[&str]) {
        self.run_with(name, arguments, &[]);
    }

    /// The same with settings in its environment.
    pub fn run_with(&self, name: &str, arguments: &[&str], settings: &[(&str, &str)]) {
        let mut command = Command::new("bash");
        command.arg(script(name)).arg(&self.dir).args(arguments).envs(settings.iter().copied()).stdin(Stdio::null());
        // a server that the script starts must not hold a pipe of ours open
        let out = fs::OpenOptions::new().create(true).append(true).open(self.dir.join("log/scripts.log")).unwrap();
        let status = command.stdout(out.try_clone().unwrap()).stderr(out).status().expect("bash starts");
        assert!(status.success(), "{name} {arguments:?} failed: {}", tail(&self.dir.join("log/scripts.log")));
    }

    /// Starts a script of the lab and leaves it running; `down.sh` ends what it starts.
    pub fn leave(&self, name: &str, arguments: &[&str]) {
        let out = fs::OpenOptions::new().create(true).append(true).open(self.dir.join("log/scripts.log")).unwrap();
        let mut command = Command::new("bash");
        command.arg(script(name)).arg(&self.dir).args(arguments).stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
        drop(command.spawn().expect("bash starts"));
    }

    /// Kills a process of the cluster, without a word to it.
    pub fn kill(&self, node: &str) {
        let pid = fs::read_to_string(self.dir.join("pids").join(node)).unwrap_or_else(|error| panic!("{node}: {error}"));
        let status = Command::new("kill").args(["-9", pid.trim()]).status().unwrap();
        assert!(status.success(), "kill -9 {pid}: {status}");
    }

    /// The end of each process' log, to be read when something fails.
    fn logs(&self) -> String {
        let files = fs::read_dir(self.dir.join("log")).into_iter().flatten().flatten();
        let ends: Vec<String> = files.map(|file| format!("--- {}\n{}\n", file.path().display(), tail(&file.path()))).collect();
        ends.concat()
    }
}

impl Drop for DruidLab {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("live: the end of the keeper's log:\n{}", tail(&self.keeper_log()));
        }
        if let Some(keeper) = &mut self.keeper {
            let _ = keeper.kill();
            let _ = keeper.wait();
        }
        down(&self.dir);
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/druid").join(name)
}

/// Stops the cluster of a directory, by process id. It must not panic: it runs while a test fails.
fn down(dir: &Path) {
    match Command::new("bash").arg(script("down.sh")).arg(dir).stdin(Stdio::null()).stdout(Stdio::null()).status() {
        Ok(status) if status.success() => {}
        other => eprintln!("live: down.sh {}: {other:?}", dir.display()),
    }
}

/// The first of a row of free ports, below those that the system gives to outgoing connections.
fn free_ports() -> u16 {
    let free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let mut rows = (0..200).map(|row| 21_000 + row * PORTS);
    rows.find(|first| (1..PORTS).all(|offset| free(first + offset))).expect("a row of free ports on loopback")
}
