//! One target: from what is written to what is meant.

use serde_json::{Value, json};
use url::Url;

use super::file::{BasicAuthFile, DefaultsFile, FlinkFile, ReplicasFile, ServerOf, TargetFile};
use super::kafka::{self, KafkaGroupName};
use super::prometheus::{self, PrometheusSource};
use super::pubsub;
use super::{FlinkJobName, HttpSource, ReplicasConfig, SourceConfig, TargetConfig};
use crate::core::policy::PolicyInput;
use crate::core::request::{Kind, Problem};
use crate::core::units::Duration;

const LONGEST_NAME: usize = 63;
/// The longest name of an entry that stands for many: what its targets are called after it needs room.
const LONGEST_ENTRY: usize = 40;
/// The most patterns of a list.
const MOST_PATTERNS: usize = 100;
/// Sources that there are.
const SOURCES: &str = "druid, flink, kafka, pubsub, prometheus";

/// A target as it is meant, or all that is wrong with it; paths are relative to the target.
pub(super) fn meant(target: &TargetFile, defaults: &DefaultsFile) -> Result<TargetConfig, Vec<Problem>> {
    let mut problems = Vec::new();
    check_name(&target.name, &mut problems);
    let kind = kind(&target.kind, &mut problems);
    let interval = target.interval.or(defaults.interval).unwrap_or(Duration::from_secs(30));
    let timeout = target.timeout.or(defaults.timeout).unwrap_or(Duration::from_secs(5));
    if interval.seconds() < 1.0 {
        problems.push(Problem::new("interval", format!("{interval} is too short: expected at least 1s")));
    }
    if interval.seconds() > 86_400.0 {
        problems.push(Problem::new("interval", format!("{interval} is too long: expected at most 24h")));
    }
    if timeout.seconds() > 600.0 {
        problems.push(Problem::new("timeout", format!("{timeout} is too long: expected at most 10m")));
    }
    if timeout.seconds() <= 0.0 {
        problems.push(Problem::new("timeout", format!("{timeout} is too short: expected more than 0s")));
    }
    let source = source(target, kind, &mut problems);
    let replicas = target.replicas.as_ref().and_then(|given| replicas(given, &mut problems));
    let policy = kind.map(|kind| policy(&target.policy, kind, interval, &mut problems)).unwrap_or_default();
    match (kind, source) {
        (Some(kind), Some(source)) if problems.is_empty() => Ok(TargetConfig {
            name: target.name.clone(),
            namespace: target.namespace.clone().unwrap_or_default(),
            kind,
            cluster: target.cluster.clone(),
            source,
            replicas,
            policy,
            interval,
            timeout,
        }),
        _ => Err(problems),
    }
}

fn check_name(name: &str, problems: &mut Vec<Problem>) {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let shaped = name.bytes().all(|byte| inner(byte) || byte == b'.' || byte == b'-')
        && name.bytes().next().is_some_and(inner)
        && name.bytes().last().is_some_and(inner);
    if !shaped || name.len() > LONGEST_NAME {
        let expected = "expected lower-case letters, digits, \".\" and \"-\", beginning and ending with a letter or digit, at most 63 in all";
        problems.push(Problem::new("name", format!("\"{name}\" is no name: {expected}")));
    }
}

fn kind(name: &str, problems: &mut Vec<Problem>) -> Option<Kind> {
    let found = Kind::ALL.into_iter().find(|kind| kind.name() == name);
    if found.is_none() {
        problems.push(Problem::new("kind", format!("\"{name}\" is not available in this version: expected one of {}", Kind::ALL.map(Kind::name).join(", "))));
    }
    found
}

fn source(target: &TargetFile, kind: Option<Kind>, problems: &mut Vec<Problem>) -> Option<SourceConfig> {
    let source = &target.source;
    match (&source.druid, &source.flink, &source.kafka, &source.pubsub, &source.prometheus) {
        (None, None, None, None, None) => {
            problems.push(Problem::new("source", format!("names no source: expected one of {SOURCES}")));
            None
        }
        (Some(druid), None, None, None, None) => {
            let http = http(druid.server(), "source.druid", problems);
            if kind == Some(Kind::DruidSupervisor) {
                let supervisor = supervisor(druid.supervisor.as_deref(), problems)?;
                return http.map(|http| SourceConfig::DruidSupervisor { http, supervisor });
            }
            fits(kind, Kind::DruidWorkers, "druid", problems);
            if druid.supervisor.is_some() {
                problems.push(Problem::new("source.druid.supervisor", "is a field of druidSupervisor: expected none here"));
            }
            http.map(SourceConfig::Druid)
        }
        (None, Some(flink), None, None, None) => {
            fits(kind, Kind::FlinkJob, "flink", problems);
            let job = job(flink, &target.name, problems);
            http(flink.server(), "source.flink", problems).map(|http| SourceConfig::Flink { http, job })
        }
        (None, None, Some(kafka), None, None) => {
            fits(kind, Kind::KafkaGroup, "kafka", problems);
            let (server, group) = kafka.meant(problems);
            if matches!(group, KafkaGroupName::Pattern { .. }) {
                entry_name(&target.name, "groups", problems);
            }
            Some(SourceConfig::Kafka { server, group })
        }
        (None, None, None, Some(pubsub), None) => {
            fits(kind, Kind::PubsubSubscription, "pubsub", problems);
            pubsub.meant(problems).map(SourceConfig::Pubsub)
        }
        (None, None, None, None, Some(given)) => {
            // without the kind there is no snapshot that a field could be of
            let map = kind.map(|kind| prometheus::meant(given, kind, problems));
            let http = http(given.server(), "source.prometheus", problems)?;
            Some(SourceConfig::Prometheus(Box::new(PrometheusSource { http, map: map? })))
        }
        _ => {
            problems.push(Problem::new("source", format!("names two sources: expected one of {SOURCES}")));
            None
        }
    }
}

fn job(flink: &FlinkFile, name: &str, problems: &mut Vec<Problem>) -> FlinkJobName {
    let mut problem = |path: String, message: String| problems.push(Problem::new(path, message));
    if flink.job.trim().is_empty() {
        problem("source.flink.job".to_owned(), "is empty: expected a job's name, its id of 32 hex digits, or a pattern with *".to_owned());
    }
    let patterns = [("include", &flink.include), ("exclude", &flink.exclude)];
    for (member, list) in patterns {
        let path = format!("source.flink.{member}");
        if list.len() > MOST_PATTERNS {
            problem(path.clone(), format!("{} patterns are too many: expected at most {MOST_PATTERNS}", list.len()));
        }
        if let Some(index) = list.iter().position(|pattern| pattern.trim().is_empty()) {
            problem(format!("{path}[{index}]"), "is empty: expected a name or a pattern with *".to_owned());
        }
    }
    match FlinkJobName::parse(&flink.job) {
        FlinkJobName::Pattern { job, .. } => {
            entry_name(name, "jobs", problems);
            FlinkJobName::Pattern { job, include: flink.include.clone(), exclude: flink.exclude.clone() }
        }
        one => {
            for (member, _) in patterns.iter().filter(|(_, list)| !list.is_empty()) {
                problem(format!("source.flink.{member}"), format!("stands beside one job, \"{}\": expected a job with * in its name", flink.job));
            }
            one
        }
    }
}

/// What the targets of an entry are called begins with its name.
fn entry_name(name: &str, many: &str, problems: &mut Vec<Problem>) {
    if name.len() > LONGEST_ENTRY {
        let message =
            format!("\"{name}\" is too long for an entry that stands for many {many}: expected at most {LONGEST_ENTRY} characters, as theirs are added");
        problems.push(Problem::new("name", message));
    }
}

/// The id of a supervisor. It becomes a segment of a path, and must not lead to another one.
fn supervisor(given: Option<&str>, problems: &mut Vec<Problem>) -> Option<String> {
    let Some(id) = given else {
        problems.push(Problem::new("source.druid.supervisor", "is missing: expected the id of a supervisor"));
        return None;
    };
    if id.trim().is_empty() || matches!(id, "." | "..") || id.chars().any(char::is_control) {
        problems.push(Problem::new("source.druid.supervisor", format!("\"{}\" is no id: expected the id of a supervisor", id.escape_default())));
        return None;
    }
    if id.contains('*') {
        problems.push(Problem::new("source.druid.supervisor", format!("\"{id}\": patterns are not available in this version: expected one supervisor's id")));
        return None;
    }
    Some(id.to_owned())
}

fn fits(kind: Option<Kind>, of_source: Kind, source: &str, problems: &mut Vec<Problem>) {
    if let Some(kind) = kind.filter(|kind| *kind != of_source) {
        problems.push(Problem::new(format!("source.{source}"), format!("gives readings of {of_source}: expected a source of {kind}")));
    }
}

fn http(given: ServerOf<'_>, path: &str, problems: &mut Vec<Problem>) -> Option<HttpSource> {
    let at = |name: &str| format!("{path}.{name}");
    if given.basic_auth.is_some() && given.bearer_token_file.is_some() {
        problems.push(Problem::new(at("bearerTokenFile"), "stands beside basicAuth: expected one of them"));
    }
    // what stands before an @ may be a password, however the rest is written
    let shown = if given.url.contains('@') { String::new() } else { format!("\"{}\" ", given.url) };
    let url = match Url::parse(given.url) {
        Ok(url) if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) => {
            problems.push(Problem::new(at("url"), format!("{shown}is no address: expected http:// or https:// and a host")));
            return None;
        }
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            // the value is not repeated: it holds a secret
            problems.push(Problem::new(at("url"), "carries a user or a password: expected an address without them, and basicAuth beside it"));
            return None;
        }
        Ok(url) => url,
        Err(error) => {
            problems.push(Problem::new(at("url"), format!("{shown}is no address: {error}")));
            return None;
        }
    };
    let basic_auth = given.basic_auth.map(|BasicAuthFile { username, password_file }| (username.clone(), password_file.clone()));
    Some(HttpSource {
        url,
        allowed_hosts: given.allowed_hosts.to_vec(),
        basic_auth,
        bearer_token_file: given.bearer_token_file.map(Into::into),
        ca_file: given.ca_file.map(Into::into),
    })
}

fn replicas(given: &ReplicasFile, problems: &mut Vec<Problem>) -> Option<ReplicasConfig> {
    match (given.fixed, &given.kubernetes) {
        (Some(count), None) => Some(ReplicasConfig::Static(count)),
        (None, Some(object)) => {
            for (name, value) in [("apiVersion", &object.api_version), ("kind", &object.kind), ("name", &object.name)] {
                if value.trim().is_empty() {
                    problems.push(Problem::new(format!("replicas.kubernetes.{name}"), "is empty: expected for example apps/v1, StatefulSet and a name"));
                }
            }
            Some(ReplicasConfig::Kubernetes {
                api_version: object.api_version.clone(),
                kind: object.kind.clone(),
                name: object.name.clone(),
                namespace: object.namespace.clone(),
                resource: object.resource.clone(),
            })
        }
        _ => {
            problems.push(Problem::new("replicas", "expected exactly one of static, kubernetes"));
            None
        }
    }
}

/// The policy, with a `staleAfter` that fits the interval.
fn policy(given: &PolicyInput, kind: Kind, interval: Duration, problems: &mut Vec<Problem>) -> PolicyInput {
    let mut policy = given.clone();
    let intervals = interval.seconds() * 3.0;
    match given.stale_after {
        Some(stale) if stale.seconds() < intervals => {
            problems.push(Problem::new("policy.staleAfter", format!("{stale} is shorter than three intervals of {interval}: expected at least that")));
        }
        Some(_) => {}
        None => {
            let default = given.resolve(kind).map(|policy| policy.stale_after).unwrap_or_default();
            // a whole number of seconds prints short
            policy.stale_after = Some(default.longer(Duration::parse(&format!("{}s", intervals.ceil())).unwrap_or(default)));
        }
    }
    if kind == Kind::DruidSupervisor {
        window(&mut policy, interval, problems);
    }
    if let Err(found) = policy.resolve(kind) {
        problems.extend(found.into_iter().map(|problem| problem.under("policy")));
    }
    policy
}

/// A window that holds the readings that it needs: filled in where the default does not.
fn window(policy: &mut PolicyInput, interval: Duration, problems: &mut Vec<Problem>) {
    let Ok(resolved) = policy.resolve(Kind::DruidSupervisor) else { return };
    let readings = resolved.supervisor.min_readings;
    let least = interval.seconds() * crate::core::units::as_f64(readings);
    match policy.window {
        Some(window) if window.seconds() < least => {
            problems.push(Problem::new("policy.window", format!("{window} is shorter than {readings} intervals of {interval}: expected at least that")));
        }
        None if resolved.supervisor.window.seconds() < least => policy.window = Duration::parse(&format!("{}s", least.ceil())).ok(),
        _ => {}
    }
}

impl TargetConfig {
    /// What is in force, as JSON without secrets: for `GET /v1/targets/{name}`, and to see after a reload what has changed.
    #[must_use]
    pub fn effective(&self) -> Value {
        let http = |http: &HttpSource| {
            json!({
                "url": http.url.as_str(), "allowedHosts": http.allowed_hosts, "caFile": http.ca_file, "bearerTokenFile": http.bearer_token_file,
                "basicAuth": http.basic_auth.as_ref().map(|(username, file)| json!({ "username": username, "passwordFile": file })),
            })
        };
        let source = match &self.source {
            SourceConfig::Druid(source) => json!({ "druid": http(source) }),
            SourceConfig::DruidSupervisor { http: source, supervisor } => {
                let mut druid = http(source);
                if let Some(object) = druid.as_object_mut() {
                    object.insert("supervisor".to_owned(), json!(supervisor));
                }
                json!({ "druid": druid })
            }
            SourceConfig::Flink { http: source, job } => {
                let mut flink = http(source);
                if let Some(object) = flink.as_object_mut() {
                    object.insert("job".to_owned(), json!(job.written()));
                    if let FlinkJobName::Pattern { include, exclude, .. } = job {
                        object.insert("include".to_owned(), json!(include));
                        object.insert("exclude".to_owned(), json!(exclude));
                    }
                }
                json!({ "flink": flink })
            }
            SourceConfig::Kafka { server, group } => kafka::effective(server, group),
            SourceConfig::Pubsub(config) => pubsub::effective(config),
            SourceConfig::Prometheus(source) => prometheus::effective(http(&source.http), &source.map),
        };
        let replicas = match &self.replicas {
            None => Value::Null,
            Some(ReplicasConfig::Static(count)) => json!({ "static": count }),
            Some(ReplicasConfig::Kubernetes { api_version, kind, name, namespace, resource }) => {
                json!({ "kubernetes": { "apiVersion": api_version, "kind": kind, "name": name, "namespace": namespace, "resource": resource } })
            }
        };
        json!({
            "name": self.name, "namespace": self.namespace, "kind": self.kind.name(), "cluster": self.cluster, "source": source, "replicas": replicas,
            "policy": self.policy, "interval": self.interval, "timeout": self.timeout,
        })
    }
}
