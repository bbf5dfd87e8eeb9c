//! The configuration: the file as it is written becomes the configuration as it is meant, or a list of everything that is
//! wrong with it.
//!
//! Explicit beats default: what a target says of itself wins over `defaults`. Secrets are named by file and never stand in
//! the configuration. Nothing is opened here.

mod file;
pub mod kafka;
pub mod prometheus;
pub mod pubsub;
mod target;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::Value;
use url::Url;

use self::file::{LeaseFile, TargetFile};
use self::kafka::{KafkaGroupName, KafkaServer};
use self::prometheus::PrometheusSource;
use self::pubsub::PubsubConfig;

pub use self::file::{File, GrpcTlsFile};
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
    /// The largest posted body, in bytes.
    pub max_body_bytes: usize,
    /// The lease that one instance holds while it performs.
    pub lease: LeaseConfig,
    /// TLS of the gRPC interface; without it callers speak in the clear.
    pub grpc_tls: Option<GrpcTlsFile>,
    /// The external metrics API, where it is wanted.
    pub external_metrics: Option<ExternalMetricsConfig>,
}

/// The external metrics API of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalMetricsConfig {
    /// Its address.
    pub listen: SocketAddr,
    /// A file with its certificate, PEM.
    pub cert_file: PathBuf,
    /// A file with the certificate's key, PEM.
    pub key_file: PathBuf,
    /// Users and groups that may read; `None`: the cluster is asked.
    pub allow: Option<(Vec<String>, Vec<String>)>,
}

/// The lease that one instance holds while it performs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseConfig {
    /// Whether it is asked for: `None` where there is a cluster.
    pub enabled: Option<bool>,
    /// Its name.
    pub name: String,
    /// Its namespace; `None`: that of this service.
    pub namespace: Option<String>,
    /// How long it lasts without being renewed, in whole seconds.
    pub seconds: u64,
}

impl Default for LeaseConfig {
    fn default() -> Self {
        Self { enabled: None, name: "loadline".to_owned(), namespace: None, seconds: 15 }
    }
}

impl Default for Server {
    fn default() -> Self {
        Self {
            http: SocketAddr::from(([0, 0, 0, 0], 8080)),
            grpc: SocketAddr::from(([0, 0, 0, 0], 9090)),
            bearer_token_file: None,
            max_body_bytes: 32 * 1024 * 1024,
            lease: LeaseConfig::default(),
            grpc_tls: None,
            external_metrics: None,
        }
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
    /// A supervisor of a Druid cluster.
    DruidSupervisor {
        /// The Router or Overlord.
        http: HttpSource,
        /// The supervisor's id.
        supervisor: String,
    },
    /// A job of a Flink cluster.
    Flink {
        /// The JobManager.
        http: HttpSource,
        /// The job.
        job: FlinkJobName,
    },
    /// A consumer group of a Kafka cluster.
    Kafka {
        /// The cluster.
        server: KafkaServer,
        /// The group.
        group: KafkaGroupName,
    },
    /// A Pub/Sub subscription.
    Pubsub(PubsubConfig),
    /// A Prometheus server, and a map from fields to queries.
    Prometheus(Box<PrometheusSource>),
}

/// Which job of a Flink cluster, or which jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlinkJobName {
    /// By name.
    Name(String),
    /// By id.
    Id(String),
    /// All jobs that fit, each a target of its own.
    Pattern {
        /// With `*` for anything.
        job: String,
        /// Where there are any, one of them has to fit too.
        include: Vec<String>,
        /// None of them may fit.
        exclude: Vec<String>,
    },
}

impl FlinkJobName {
    /// An id of 32 hex digits; with a `*` a pattern; else a name.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        if text.contains('*') {
            return Self::Pattern { job: text.to_owned(), include: Vec::new(), exclude: Vec::new() };
        }
        if text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) { Self::Id(text.to_owned()) } else { Self::Name(text.to_owned()) }
    }

    /// The job or the pattern as it is written.
    #[must_use]
    pub fn written(&self) -> &str {
        match self {
            Self::Name(text) | Self::Id(text) | Self::Pattern { job: text, .. } => text,
        }
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
    // "n", "no" and "off" are names here, not truth values as in YAML 1.1
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    let mut tree = match serde_saphyr::from_str_with_options::<Option<Value>>(text, options) {
        Ok(tree) => tree.unwrap_or_else(|| serde_json::json!({})),
        Err(error) => return Err(vec![Problem::new("", format!("the file is not YAML: {}", without_lines(&error.to_string())))]),
    };
    let mut problems = Vec::new();
    // each target is read alone, so that a misfit in one does not hide what is wrong with the others
    let written = match tree.get_mut("targets").map(Value::take) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(written)) => written,
        Some(_) => {
            problems.push(Problem::new("targets", "is not a list: expected a list of targets"));
            Vec::new()
        }
    };
    if let Some(members) = tree.as_object_mut() {
        members.remove("targets");
    }
    let file: File = match parse_value(tree) {
        Ok(file) => file,
        Err(found) => {
            problems.extend(found.into_iter().map(without_text));
            File::default()
        }
    };
    let server = server(&file, &mut problems);
    if written.len() > MOST_TARGETS {
        problems.push(Problem::new("targets", format!("{} targets are too many: expected at most {MOST_TARGETS}", written.len())));
    }
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut targets = Vec::with_capacity(written.len());
    for (index, written) in written.into_iter().enumerate() {
        let path = format!("targets[{index}]");
        if let Some(name) = written.get("name").and_then(Value::as_str)
            && let Some(first) = seen.insert(name.to_owned(), index)
        {
            problems.push(Problem::new(format!("{path}.name"), format!("\"{name}\" is the name of targets[{first}] as well: expected each name once")));
        }
        let target = match parse_value::<TargetFile>(written) {
            Ok(target) => target::meant(&target, &file.defaults),
            Err(found) => Err(found.into_iter().map(without_text).collect()),
        };
        match target {
            Ok(target) => targets.push(target),
            Err(found) => problems.extend(found.into_iter().map(|problem| problem.under(&path))),
        }
    }
    if problems.is_empty() { Ok(Configuration { server, targets }) } else { Err(problems) }
}

fn lease(given: &LeaseFile, problems: &mut Vec<Problem>) -> LeaseConfig {
    let default = LeaseConfig::default();
    let named = |text: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let edges = text.bytes().next().is_some_and(inner) && text.bytes().last().is_some_and(inner);
        edges && text.len() <= 253 && text.bytes().all(|byte| inner(byte) || byte == b'-' || byte == b'.')
    };
    for (field, text) in [("name", &given.name), ("namespace", &given.namespace)] {
        if let Some(text) = text.as_ref().filter(|text| !named(text)) {
            let expected = "expected lower-case letters, digits, \".\" and \"-\", beginning and ending with a letter or digit";
            problems.push(Problem::new(format!("server.lease.{field}"), format!("\"{text}\" is no name in Kubernetes: {expected}")));
        }
    }
    let mut seconds = default.seconds;
    if let Some(duration) = given.duration {
        let whole = (5_u32..=300).find(|whole| (duration.seconds() - f64::from(*whole)).abs() < 1e-9);
        seconds = whole.map_or(seconds, u64::from);
        if whole.is_none() {
            problems.push(Problem::new("server.lease.duration", format!("{duration} is out of range: expected whole seconds, 5s to 5m")));
        }
    }
    LeaseConfig { enabled: given.enabled, name: given.name.clone().unwrap_or(default.name), namespace: given.namespace.clone(), seconds }
}

/// Text in the place of something else is not repeated: it may be a secret that was written where an object belongs.
fn without_text(problem: Problem) -> Problem {
    match (problem.message.starts_with("string \""), problem.message.rfind("\", expected ")) {
        (true, Some(end)) => Problem { message: format!("text{}", problem.message.get(end + 1..).unwrap_or_default()), path: problem.path },
        _ => problem,
    }
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
        max_body_bytes: given.max_body_bytes.map_or(default.max_body_bytes, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        grpc_tls: given.grpc_tls.clone(),
        external_metrics: given.external_metrics.as_ref().map(|given| ExternalMetricsConfig {
            listen: address("server.externalMetrics.listen", &given.listen, SocketAddr::from(([0, 0, 0, 0], 6443))),
            cert_file: given.tls.cert_file.clone(),
            key_file: given.tls.key_file.clone(),
            allow: given.allow.clone().map(|allow| (allow.users, allow.groups)),
        }),
        lease: given.lease.as_ref().map(|given| lease(given, problems)).unwrap_or_default(),
    };
    // an empty list would let nobody read, which is more likely a slip
    if given.external_metrics.as_ref().and_then(|given| given.allow.as_ref()).is_some_and(|allow| allow.users.is_empty() && allow.groups.is_empty()) {
        problems
            .push(Problem::new("server.externalMetrics.allow", "names nobody: expected users or groups, or nothing, so that the cluster's rules are asked"));
    }
    if let Some(bytes) = given.max_body_bytes.filter(|bytes| !(1024..=1024 * 1024 * 1024).contains(bytes)) {
        problems.push(Problem::new("server.maxBodyBytes", format!("{bytes} is out of range: expected between 1024 and 1073741824")));
    }
    if given.tls.is_some() {
        problems.push(Problem::new("server.tls", "is not available in this version: expected null"));
    }
    server
}
