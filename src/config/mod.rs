//! The configuration: the file as it is written becomes the configuration as it is meant, or a list of everything that is
//! wrong with it.
//!
//! Explicit beats default: what a target says of itself wins over `defaults`. Secrets are named by file and never stand in
//! the configuration. Nothing is opened here.

mod file;
mod target;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use url::Url;

pub use self::file::File;
use crate::core::policy::PolicyInput;
use crate::core::request::{Kind, Problem, parse_value};
use crate::core::units::{Count, Duration};

/// The most targets of one service.
const MOST_TARGETS: usize = 10_000;

/// The configuration as it is meant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    /// The service itself.
    pub server: Server,
    /// What is looked after.
    pub targets: Vec<TargetConfig>,
}

/// The service itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Address of the HTTP interface.
    pub http: SocketAddr,
    /// Address of the gRPC interface.
    pub grpc: SocketAddr,
    /// A file with the bearer token that callers need.
    pub bearer_token_file: Option<PathBuf>,
}

impl Default for Server {
    fn default() -> Self {
        Self { http: SocketAddr::from(([0, 0, 0, 0], 8080)), grpc: SocketAddr::from(([0, 0, 0, 0], 9090)), bearer_token_file: None }
    }
}

/// A target.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetConfig {
    /// Its name.
    pub name: String,
    /// The scale target's namespace; empty when none is given.
    pub namespace: String,
    /// The kind of workload.
    pub kind: Kind,
    /// The cluster that it belongs to.
    pub cluster: Option<String>,
    /// Where readings come from.
    pub source: SourceConfig,
    /// Where counts come from; `None`: from the source.
    pub replicas: Option<ReplicasConfig>,
    /// The policy as given, `staleAfter` filled in where three intervals are longer than its default.
    pub policy: PolicyInput,
    /// Time between decisions.
    pub interval: Duration,
    /// Time of one call.
    pub timeout: Duration,
}

/// Where readings come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceConfig {
    /// A Druid Router or Overlord.
    Druid(HttpSource),
    /// A job of a Flink cluster.
    Flink {
        /// The JobManager.
        http: HttpSource,
        /// The job.
        job: FlinkJobName,
    },
}

/// Which job of a Flink cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlinkJobName {
    /// By name.
    Name(String),
    /// By id.
    Id(String),
}

impl FlinkJobName {
    /// An id of 32 hex digits, else a name.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        if text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) { Self::Id(text.to_owned()) } else { Self::Name(text.to_owned()) }
    }
}

/// A source that is asked over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSource {
    /// Its address.
    pub url: Url,
    /// Hosts that redirects may lead to.
    pub allowed_hosts: Vec<String>,
    /// User, and the file of the password.
    pub basic_auth: Option<(String, PathBuf)>,
    /// A file with a bearer token.
    pub bearer_token_file: Option<PathBuf>,
    /// A file with further certificates.
    pub ca_file: Option<PathBuf>,
}

/// Where counts come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicasConfig {
    /// A fixed count.
    Static(Count),
    /// An object of Kubernetes.
    Kubernetes {
        /// For example `apps/v1`.
        api_version: String,
        /// For example `StatefulSet`.
        kind: String,
        /// Its name.
        name: String,
        /// Its namespace.
        namespace: Option<String>,
        /// Its plural.
        resource: Option<String>,
    },
}

/// Reads a configuration, or tells everything that is wrong with it, each problem with its path.
pub fn parse(text: &str) -> Result<Configuration, Vec<Problem>> {
    let tree: serde_json::Value = match serde_saphyr::from_str::<Option<serde_json::Value>>(text) {
        Ok(tree) => tree.unwrap_or_else(|| serde_json::json!({})),
        Err(error) => return Err(vec![Problem::new("", format!("the file is not YAML: {}", without_lines(&error.to_string())))]),
    };
    let file: File = parse_value(tree)?;
    let mut problems = Vec::new();
    let server = server(&file, &mut problems);
    if file.targets.len() > MOST_TARGETS {
        problems.push(Problem::new("targets", format!("{} targets are too many: expected at most {MOST_TARGETS}", file.targets.len())));
    }
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut targets = Vec::with_capacity(file.targets.len());
    for (index, target) in file.targets.iter().enumerate() {
        let path = format!("targets[{index}]");
        if let Some(first) = seen.insert(target.name.as_str(), index) {
            problems
                .push(Problem::new(format!("{path}.name"), format!("\"{}\" is the name of targets[{first}] as well: expected each name once", target.name)));
        }
        match target::meant(target, &file.defaults) {
            Ok(target) => targets.push(target),
            Err(found) => problems.extend(found.into_iter().map(|problem| problem.under(&path))),
        }
    }
    if problems.is_empty() { Ok(Configuration { server, targets }) } else { Err(problems) }
}

/// The parser quotes the lines around a fault, which may hold anything: the first line of its message is enough.
fn without_lines(message: &str) -> String {
    message.lines().next().unwrap_or_default().trim().to_owned()
}

fn server(file: &File, problems: &mut Vec<Problem>) -> Server {
    let default = Server::default();
    let given = &file.server;
    let mut address = |path: &str, text: &Option<String>, otherwise: SocketAddr| match text {
        None => otherwise,
        Some(text) => text.parse().unwrap_or_else(|_| {
            problems.push(Problem::new(path, format!("\"{text}\" is no address: expected an IP address and a port, such as \"0.0.0.0:8080\"")));
            otherwise
        }),
    };
    let server = Server {
        http: address("server.http", &given.http, default.http),
        grpc: address("server.grpc", &given.grpc, default.grpc),
        bearer_token_file: given.auth.as_ref().map(|auth| auth.bearer_token_file.clone()),
    };
    for (path, value) in [("server.tls", &given.tls), ("server.grpcTls", &given.grpc_tls), ("server.externalMetrics", &given.external_metrics)] {
        if value.is_some() {
            problems.push(Problem::new(path, "is not available in this version: expected null"));
        }
    }
    server
}
