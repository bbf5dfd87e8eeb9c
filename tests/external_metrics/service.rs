//! The built binary with the external metrics API, as a pod of the cluster, and a client that calls as an aggregator does.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use loadline::demo::{self, Demo, Pace};
use loadline::engine::clock;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use tempfile::TempDir;

use super::authority::{Authority, Signed};
use super::cluster::{Cluster, Known, authentication};

/// As whom the HPA controller asks.
pub const HPA: &str = "system:serviceaccount:kube-system:horizontal-pod-autoscaler";
/// Where the values are.
pub const VALUES: &str = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/loadline-recommended";

/// A service, the cluster that it runs in, and what it reads.
pub struct Service {
    child: Child,
    pub dir: TempDir,
    pub cluster: Cluster,
    /// Signs what servers show.
    pub servers: Authority,
    /// Signs the front proxy's certificates.
    pub front_proxy: Authority,
    pub demo: Option<Demo>,
    http: u16,
    tls: u16,
}

impl Service {
    pub async fn start() -> Self {
        Self::start_with("", |_| ()).await
    }

    /// With more lines under `externalMetrics`, in a cluster that knows something else.
    pub async fn start_with(more: &str, change: impl FnOnce(&mut Known)) -> Self {
        let (servers, front_proxy) = (Authority::new("servers"), Authority::new("front proxy"));
        let mut known = Known { authentication: Some(authentication(&front_proxy)), allowed: vec![HPA.to_owned()], ..Known::default() };
        change(&mut known);
        let cluster = Cluster::start(&servers, known).await;
        let demo = demo::start(Pace { day: Duration::from_secs(86_400) }, |_| None).await.expect("a demonstration");
        let dir = TempDir::new().expect("a folder");
        Cluster::account(&dir.path().join("account"), &servers);
        show(&dir, &servers.server("first"));
        let file = dir.path().join("loadline.yaml");
        std::fs::write(&file, configuration(&dir, &demo, more)).expect("written");
        let mut child = Command::new(env!("CARGO_BIN_EXE_loadline"))
            .args(["serve", "--config"])
            .arg(&file)
            .envs([("LOADLINE_LOG_FORMAT", "json"), ("KUBERNETES_SERVICE_HOST", "127.0.0.1")])
            .env("KUBERNETES_SERVICE_PORT", cluster.port.to_string())
            .env("LOADLINE_SERVICE_ACCOUNT", dir.path().join("account"))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let (http, tls) = ports(&mut child);
        let service = Self { child, dir, cluster, servers, front_proxy, demo: Some(demo), http, tls };
        // a decision of the one target that the tests ask for
        service.until(Duration::from_secs(20), async || service.advice("orders").await["recommended"].is_u64()).await;
        service
    }

    /// Waits for something.
    pub async fn until(&self, limit: Duration, there: impl AsyncFn() -> bool) {
        let end = clock::instant() + limit;
        while !there().await {
            assert!(clock::instant() < end, "not after {limit:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// What the HTTP interface says of a target.
    pub async fn advice(&self, target: &str) -> Value {
        let client = Client::builder().no_proxy().build().expect("a client");
        let answer = client.get(format!("http://127.0.0.1:{}/v1/targets/{target}/advice", self.http)).send().await.expect("an answer");
        serde_json::from_str(&answer.text().await.expect("text")).expect("JSON")
    }

    /// The gauges.
    pub async fn metrics(&self) -> String {
        let answer = reqwest::get(format!("http://127.0.0.1:{}/metrics", self.http)).await.expect("an answer");
        answer.text().await.expect("text")
    }

    /// A client that shows this certificate, or none.
    pub fn client(&self, shown: Option<&Signed>) -> Caller {
        let trusted = reqwest::Certificate::from_pem(self.servers.pem().as_bytes()).expect("PEM");
        let builder = Client::builder().no_proxy().tls_certs_only([trusted]);
        let client = match shown {
            Some(signed) => builder.identity(signed.identity()),
            None => builder,
        };
        Caller { client: client.build().expect("a client"), base: format!("https://127.0.0.1:{}", self.tls) }
    }

    /// The API server's aggregator.
    pub fn aggregator(&self) -> Caller {
        self.client(Some(&self.front_proxy.client("front-proxy-client")))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whoever calls.
pub struct Caller {
    client: Client,
    base: String,
}

/// An answer that was read whole.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub content_type: String,
    pub body: Value,
}

impl Caller {
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    /// Asks for someone, as the aggregator forwards a request.
    pub async fn ask_as(&self, user: &str, path: &str) -> Answer {
        answer(self.request(Method::GET, path).header("X-Remote-User", user)).await
    }

    /// The value list for the HPA controller under a selector, which may be escaped in any way.
    pub async fn values(&self, selector: &str) -> Answer {
        answer(self.request(Method::GET, VALUES).query(&[("labelSelector", selector)]).header("X-Remote-User", HPA)).await
    }
}

pub async fn answer(request: RequestBuilder) -> Answer {
    let answer = request.send().await.expect("an answer");
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    let text = answer.text().await.expect("text");
    let content_type = headers.get("content-type").map(|value| value.to_str().expect("text").to_owned()).unwrap_or_default();
    Answer { status, content_type, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
}

/// Puts a certificate where the service reads it.
pub fn show(dir: &TempDir, signed: &Signed) {
    std::fs::write(dir.path().join("tls.crt"), &signed.certificate).expect("written");
    std::fs::write(dir.path().join("tls.key"), &signed.key).expect("written");
}

fn configuration(dir: &TempDir, demo: &Demo, more: &str) -> String {
    let path = dir.path().display();
    let target = |name: &str, namespace: &str| {
        format!(
            "  - name: {name}\n    namespace: {namespace}\n    kind: druidWorkers\n    source: {{ druid: {{ url: \"http://{}\" }} }}\n    policy: {{ staleAfter: 4s }}\n",
            demo.druid
        )
    };
    format!(
        "server:\n  http: \"127.0.0.1:0\"\n  grpc: \"127.0.0.1:0\"\n  externalMetrics:\n    listen: \"127.0.0.1:0\"\n    tls: {{ certFile: {path}/tls.crt, keyFile: {path}/tls.key }}\n{more}defaults: {{ interval: 1s, timeout: 1s }}\ntargets:\n{}{}{}",
        target("orders", "shop"),
        target("payments", "shop"),
        target("bills", "office"),
    )
}

/// The ports that the log names: the external metrics API's comes first.
fn ports(child: &mut Child) -> (u16, u16) {
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let (mut http, mut tls, mut told) = (None, None, String::new());
    while http.is_none() || tls.is_none() {
        let line = lines.next().unwrap_or_else(|| panic!("the service ended: {told}")).expect("text");
        let entry: Value = serde_json::from_str(&line).unwrap_or_default();
        let port = || entry["address"].as_str()?.rsplit(':').next()?.parse::<u16>().ok();
        match entry["message"].as_str() {
            Some("listening") => http = port(),
            Some("listening for the external metrics API") => tls = port(),
            _ => {}
        }
        told.push_str(&line);
    }
    // whoever writes to a pipe that nobody reads stands still
    std::thread::spawn(move || lines.for_each(drop));
    (http.expect("a port"), tls.expect("a port"))
}
