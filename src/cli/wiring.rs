//! From the configuration as meant to targets that can run: the one place where sources are built.

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

use crate::actuators::druid::DruidActuator;
use crate::actuators::flink::FlinkActuator;
use crate::config::{Configuration, FlinkJobName, HttpSource, ReplicasConfig, SourceConfig, TargetConfig};
use crate::core::policy::{Apply, Drain, Policy};
use crate::core::request::Problem;
use crate::engine::TargetSpec;
use crate::engine::actuator::Actuator;
use crate::engine::source::{ReplicaSource, Source, SourceError};
use crate::sources::druid::DruidSource;
use crate::sources::druid::supervisor::DruidSupervisorSource;
use crate::sources::fixed::StaticReplicas;
use crate::sources::flink::{FlinkSource, JobSelector};
use crate::sources::http::{BasicAuth, Client, ClientOptions};
use crate::sources::kubernetes::{KubernetesScale, in_cluster};

/// Everything that a configuration asks for, or all that stands in its way.
pub fn targets(configuration: &Configuration) -> Result<Vec<TargetSpec>, Vec<Problem>> {
    let mut specs = Vec::with_capacity(configuration.targets.len());
    let mut problems = Vec::new();
    for (index, target) in configuration.targets.iter().enumerate() {
        match spec(target) {
            Ok(spec) => specs.push(spec),
            Err(found) => problems.extend(found.into_iter().map(|problem| problem.under(&format!("targets[{index}]")))),
        }
    }
    if problems.is_empty() { Ok(specs) } else { Err(problems) }
}

fn spec(target: &TargetConfig) -> Result<TargetSpec, Vec<Problem>> {
    let policy = target.policy.resolve(target.kind).map_err(|found| found.into_iter().map(|problem| problem.under("policy")).collect::<Vec<_>>())?;
    // where a scale target is named its TaskManagers can be had, so the slots of today are no limit
    let source = source(&target.source, seconds(target.timeout), target.replicas.is_some()).map_err(|problem| vec![problem])?;
    let replicas = replicas(target).map_err(|problem| vec![problem])?;
    let actuator = actuator(&target.source, &policy, seconds(target.timeout)).map_err(|problem| vec![problem])?;
    Ok(TargetSpec {
        name: target.name.clone(),
        display_name: target.name.clone(),
        namespace: target.namespace.clone(),
        kind: target.kind,
        cluster: target.cluster.clone(),
        given: target.policy.clone(),
        policy,
        interval: seconds(target.interval),
        timeout: seconds(target.timeout),
        configuration: target.effective(),
        source_key: source_key(&target.source),
        source,
        replicas,
        actuator,
    })
}

fn seconds(duration: crate::core::units::Duration) -> Duration {
    Duration::try_from_secs_f64(duration.seconds()).unwrap_or(Duration::MAX)
}

/// What is read, whoever reads it: a change of credentials is no change of the thing.
fn source_key(source: &SourceConfig) -> String {
    match source {
        SourceConfig::Druid(http) => format!("druid {}", http.url),
        SourceConfig::DruidSupervisor { http, supervisor } => format!("druid {} {supervisor:?}", http.url),
        SourceConfig::Flink { http, job } => format!("flink {} {job:?}", http.url),
    }
}

/// Builds a source; `grows` when the scale target behind it can be given more.
pub fn source(config: &SourceConfig, timeout: Duration, grows: bool) -> Result<Arc<dyn Source>, Problem> {
    Ok(match config {
        SourceConfig::Druid(http) => Arc::new(DruidSource::new(client(http, timeout, "source.druid")?)),
        SourceConfig::DruidSupervisor { http, supervisor } => Arc::new(DruidSupervisorSource::new(client(http, timeout, "source.druid")?, supervisor.clone())),
        SourceConfig::Flink { http, job } => {
            let job = match job {
                FlinkJobName::Name(name) => JobSelector::Name(name.clone()),
                FlinkJobName::Id(id) => JobSelector::Id(id.clone()),
            };
            Arc::new(FlinkSource::new(client(http, timeout, "source.flink")?, job).growing(grows))
        }
    })
}

/// Builds what carries the advice out, where the policy asks for it.
fn actuator(source: &SourceConfig, policy: &Policy, timeout: Duration) -> Result<Option<Arc<dyn Actuator>>, Problem> {
    Ok(match source {
        SourceConfig::Flink { http, .. } if policy.flink.apply == Apply::Perform => Some(Arc::new(FlinkActuator::new(client(http, timeout, "source.flink")?))),
        SourceConfig::Druid(http) if policy.druid.drain == Drain::Perform => Some(Arc::new(DruidActuator::new(client(http, timeout, "source.druid")?))),
        _ => None,
    })
}

fn client(http: &HttpSource, timeout: Duration, path: &str) -> Result<Client, Problem> {
    let basic_auth = match &http.basic_auth {
        None => None,
        Some((username, file)) => {
            // read again for each reading; here only to tell at once that it cannot be
            read_secret(file).map_err(|message| Problem::new(format!("{path}.basicAuth.passwordFile"), message))?;
            Some(BasicAuth { username: username.clone(), password_file: file.clone() })
        }
    };
    let options = ClientOptions {
        timeout,
        allowed_hosts: http.allowed_hosts.clone(),
        basic_auth,
        bearer_file: http.bearer_token_file.clone(),
        ca_file: http.ca_file.clone(),
        ..ClientOptions::default()
    };
    Client::new(http.url.clone(), options).map_err(|error| Problem::new(format!("{path}.url"), error.to_string()))
}

/// Reads a secret from a file; the line feed at its end is not part of it.
pub fn read_secret(path: &std::path::Path) -> Result<SecretString, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() {
        return Err(format!("{} is empty: expected a secret", path.display()));
    }
    Ok(SecretString::from(secret.to_owned()))
}

fn replicas(target: &TargetConfig) -> Result<Option<Arc<dyn ReplicaSource>>, Problem> {
    Ok(match &target.replicas {
        None => None,
        Some(ReplicasConfig::Static(count)) => Some(Arc::new(StaticReplicas(*count))),
        Some(ReplicasConfig::Kubernetes { api_version, kind, name, namespace, resource }) => {
            let (api, own) = in_cluster().map_err(|error: SourceError| Problem::new("replicas.kubernetes", error.to_string()))?;
            let namespace = namespace.clone().or_else(|| Some(target.namespace.clone()).filter(|namespace| !namespace.is_empty())).unwrap_or(own);
            Some(Arc::new(KubernetesScale::new(api, &namespace, api_version, kind, name, resource.clone())))
        }
    })
}
