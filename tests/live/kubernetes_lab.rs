//! The real Kubernetes control plane: starts and stops it through the scripts in `kubernetes/`, and speaks to its API server as
//! an administrator.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use loadline::engine::clock;
use reqwest::{Certificate, Client, Identity, Method};
use serde_json::{Value, json};
use tokio::sync::MutexGuard;

use crate::lab::{ONE_AT_A_TIME, tail};

/// The first start builds the three programs.
const START_LIMIT: Duration = Duration::from_secs(3600);
/// Ports that it takes, from its first one on: see `kubernetes/README.md`.
const PORTS: u16 = 5;

/// A running control plane; it is stopped when this is dropped.
pub struct KubernetesLab {
    dir: PathBuf,
    port: u16,
    client: Client,
    _alone: MutexGuard<'static, ()>,
}

impl KubernetesLab {
    /// Starts one.
    pub async fn start() -> Self {
        let alone = ONE_AT_A_TIME.lock().await;
        let began = clock::instant();
        // one place for all runs: a run that was killed leaves processes there, which the next one stops
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("live-kubernetes");
        down(&dir);
        let _ = std::fs::remove_dir_all(&dir);
        let port = free_ports();
        let up =
            tokio::process::Command::new("bash").arg(script("up.sh")).arg(&dir).env("PORT", port.to_string()).stdin(Stdio::null()).kill_on_drop(true).output();
        let output = tokio::time::timeout(START_LIMIT, up).await.expect("up.sh ends in time").expect("bash starts");
        assert!(output.status.success(), "up.sh failed: {}\n{}", String::from_utf8_lossy(&output.stderr), logs(&dir));
        let file = |name: &str| std::fs::read(dir.join("conf").join(name)).unwrap();
        let admin = [file("admin.crt"), file("admin.key")].concat();
        let builder = Client::builder().no_proxy().timeout(Duration::from_secs(10)).tls_certs_only([Certificate::from_pem(&file("ca.crt")).unwrap()]);
        let client = builder.identity(Identity::from_pem(&admin).unwrap()).build().unwrap();
        let version = String::from_utf8_lossy(&output.stdout);
        eprintln!("live: Kubernetes {} after {:.0} s", version.trim(), began.elapsed().as_secs_f64());
        Self { dir, port, client, _alone: alone }
    }

    /// The port for a server behind the API server.
    pub fn free_port(&self) -> u16 {
        self.port + 4
    }

    /// A file of its configuration.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join("conf").join(name)
    }

    /// The status and the body of an answer.
    pub async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let mut request = self.client.request(method.clone(), format!("https://127.0.0.1:{}{path}", self.port + 2));
        if let Some(body) = body {
            let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
            request = request.header("content-type", kind).body(body.to_string());
        }
        let answer = request.send().await.unwrap_or_else(|error| panic!("{path}: {error}\n{}", logs(&self.dir)));
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// The cluster's discovery, in the form that clients ask for.
    pub async fn discovery(&self) -> Value {
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let request = self.client.get(format!("https://127.0.0.1:{}/apis", self.port + 2)).header("accept", accept);
        serde_json::from_slice(&request.send().await.unwrap().bytes().await.unwrap()).unwrap()
    }

    /// The log of a process.
    pub fn log(&self, name: &str) -> PathBuf {
        self.dir.join("log").join(format!("{name}.log"))
    }

    /// The body of an answer that must be a success.
    pub async fn get(&self, path: &str) -> Value {
        self.send(Method::GET, path, None).await
    }

    /// Creates something.
    pub async fn create(&self, path: &str, object: &Value) -> Value {
        self.send(Method::POST, path, Some(object)).await
    }

    /// Changes something by a merge patch.
    pub async fn patch(&self, path: &str, change: &Value) -> Value {
        self.send(Method::PATCH, path, Some(change)).await
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Value {
        let (status, answer) = self.ask(method, path, body).await;
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer
    }

    /// Creates all objects of an example in `deploy/examples`, each changed as the test needs it. Namespaces that they are in are
    /// made where they are not there.
    pub async fn apply(&self, example: &str, change: impl Fn(&mut Value)) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/examples").join(example);
        let text = std::fs::read_to_string(&path).unwrap();
        for document in text.split("\n---\n") {
            let mut object: Value = serde_saphyr::from_str(document).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            change(&mut object);
            if let Some(namespace) = object["metadata"]["namespace"].as_str() {
                self.namespace(namespace).await;
            }
            self.create(&collection(&object), &object).await;
        }
    }

    /// A namespace, made where it is not there.
    pub async fn namespace(&self, name: &str) {
        let (status, answer) = self.ask(Method::POST, "/api/v1/namespaces", Some(&json!({ "metadata": { "name": name } }))).await;
        assert!(matches!(status, 201 | 409), "{status} {answer}");
    }

    /// What a pod of a service account finds in its environment.
    pub async fn pod(&self, namespace: &str, account: &str) -> Vec<(&'static str, String)> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let token = self.create(&path, &json!({ "spec": { "expirationSeconds": 7200 } })).await;
        let folder = self.dir.join("account");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("token"), token["status"]["token"].as_str().unwrap()).unwrap();
        std::fs::write(folder.join("namespace"), namespace).unwrap();
        std::fs::copy(self.file("ca.crt"), folder.join("ca.crt")).unwrap();
        vec![
            ("KUBERNETES_SERVICE_HOST", "127.0.0.1".to_owned()),
            ("KUBERNETES_SERVICE_PORT", (self.port + 2).to_string()),
            ("LOADLINE_SERVICE_ACCOUNT", folder.display().to_string()),
        ]
    }

    /// The end of each process' log, to be read when something fails.
    pub fn logs(&self) -> String {
        logs(&self.dir)
    }
}

impl Drop for KubernetesLab {
    fn drop(&mut self) {
        down(&self.dir);
    }
}

/// Where an object is created.
fn collection(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let root = if version.contains('/') { "/apis" } else { "/api" };
    let plural = match object["kind"].as_str().unwrap() {
        "HorizontalPodAutoscaler" => "horizontalpodautoscalers".to_owned(),
        kind => format!("{}s", kind.to_lowercase()),
    };
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{root}/{version}/namespaces/{namespace}/{plural}"),
        None => format!("{root}/{version}/{plural}"),
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/kubernetes").join(name)
}

/// Stops what runs in a directory, by process id. It must not panic: it runs while a test fails.
fn down(dir: &Path) {
    match Command::new("bash").arg(script("down.sh")).arg(dir).stdin(Stdio::null()).status() {
        Ok(status) if status.success() => {}
        other => eprintln!("live: down.sh {}: {other:?}", dir.display()),
    }
}

fn logs(dir: &Path) -> String {
    let files = std::fs::read_dir(dir.join("log")).into_iter().flatten().flatten();
    let ends: Vec<String> = files.map(|file| format!("--- {}\n{}\n", file.path().display(), tail(&file.path()))).collect();
    ends.concat()
}

/// The first of so many free ports in a row, below those that the system gives to outgoing connections: the API server
/// opens a hundred of them to etcd before the last of its neighbours listens.
fn free_ports() -> u16 {
    let free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let begin = 20_000 + u16::try_from(std::process::id() % 2_000).unwrap() * PORTS;
    let found = (0..200).map(|step| begin + step * PORTS).find(|first| (0..PORTS).all(|offset| free(first + offset)));
    found.unwrap_or_else(|| panic!("no {PORTS} free ports in a row on loopback, from {begin} on"))
}
