//! From the configuration as meant to targets that can run: the one place where sources are built.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use secrecy::SecretString;

use crate::actuators::druid::DruidActuator;
use crate::actuators::flink::FlinkActuator;
use crate::config::kafka::{KafkaGroupName, KafkaLogin, KafkaServer, Mechanism};
use crate::config::pubsub::PubsubConfig;
use crate::config::{Configuration, FlinkJobName, HttpSource, ReplicasConfig, SourceConfig, TargetConfig};
use crate::core::policy::{Apply, Drain, Isolation, Policy};
use crate::core::request::Problem;
use crate::engine::actuator::Actuator;
use crate::engine::source::{Discovery, Found, ReplicaSource, Source, SourceError};
use crate::engine::{EntrySpec, Plan, TargetSpec};
use crate::sources::Timing;
use crate::sources::druid::DruidSource;
use crate::sources::druid::supervisor::DruidSupervisorSource;
use crate::sources::fixed::StaticReplicas;
use crate::sources::flink::{FlinkCluster, FlinkJobs, FlinkSource, JobPattern, JobSelector};
use crate::sources::http::{BasicAuth, Client, ClientOptions};
use crate::sources::kafka::wire::client::KafkaClient;
use crate::sources::kafka::wire::security::{Account, Sasl, Security, Tls};
use crate::sources::kafka::{GroupPattern, KafkaCluster, KafkaGroups, KafkaSource, Wishes};
use crate::sources::kubernetes::{KubernetesScale, in_cluster};
use crate::sources::prometheus::{self, PrometheusReader};
use crate::sources::pubsub::{Credentials, PubsubSource, check_file};

/// Builds what a configuration asks for. It outlives a configuration, as targets that a reload adds share their cluster with
/// those that run on.
#[derive(Default)]
pub struct Wiring {
    clusters: Mutex<HashMap<String, Weak<FlinkCluster>>>,
    kafka: Mutex<HashMap<String, Weak<KafkaCluster>>>,
}

/// Where readings come from: of one thing, or of all that an entry stands for.
pub enum Sources {
    /// One.
    One(Arc<dyn Source>),
    /// Many.
    Many(Arc<dyn Discovery>),
}

impl Wiring {
    /// Everything that a configuration asks for, or all that stands in its way.
    pub fn plan(&self, configuration: &Configuration) -> Result<Plan, Vec<Problem>> {
        let mut plan = Plan::default();
        let mut problems = Vec::new();
        for (index, target) in configuration.targets.iter().enumerate() {
            if let Err(found) = self.add(target, &mut plan) {
                problems.extend(found.into_iter().map(|problem| problem.under(&format!("targets[{index}]"))));
            }
        }
        if problems.is_empty() { Ok(plan) } else { Err(problems) }
    }

    fn add(&self, target: &TargetConfig, plan: &mut Plan) -> Result<(), Vec<Problem>> {
        let policy = target.policy.resolve(target.kind).map_err(|found| found.into_iter().map(|problem| problem.under("policy")).collect::<Vec<_>>())?;
        // where a scale target is named its TaskManagers can be had, so the slots of today are no limit
        let timing = Timing { interval: seconds(target.interval), timeout: seconds(target.timeout) };
        let sources = self.sources(&target.source, wishes(&policy), timing, target.replicas.is_some()).map_err(|problem| vec![problem])?;
        let replicas = replicas(target).map_err(|problem| vec![problem])?;
        let actuator = actuator(&target.source, &policy, timing.timeout).map_err(|problem| vec![problem])?;
        let (source, discovery) = match sources {
            Sources::One(source) => (source, None),
            // the prototype of an entry is never read itself
            Sources::Many(discovery) => (discovery.source(&Found { id: String::new(), name: target.name.clone() }), Some(discovery)),
        };
        let spec = TargetSpec {
            name: target.name.clone(),
            display_name: target.name.clone(),
            namespace: target.namespace.clone(),
            kind: target.kind,
            cluster: target.cluster.clone(),
            given: target.policy.clone(),
            policy,
            interval: timing.interval,
            timeout: timing.timeout,
            configuration: target.effective(),
            source_key: source_key(&target.source),
            source,
            replicas,
            actuator,
        };
        match discovery {
            None => plan.targets.push(spec),
            Some(discovery) => plan.entries.push(EntrySpec { prototype: spec, discovery }),
        }
        Ok(())
    }

    /// Builds a source; `grows` when the scale target behind it can be given more.
    pub fn sources(&self, config: &SourceConfig, wishes: Wishes, timing: Timing, grows: bool) -> Result<Sources, Problem> {
        let (http, job) = match config {
            SourceConfig::Druid(http) => return Ok(Sources::One(Arc::new(DruidSource::new(client(http, timing.timeout, "source.druid")?)))),
            SourceConfig::DruidSupervisor { http, supervisor } => {
                return Ok(Sources::One(Arc::new(DruidSupervisorSource::new(client(http, timing.timeout, "source.druid")?, supervisor.clone()))));
            }
            SourceConfig::Kafka { server, group } => return self.kafka(server, group, wishes, timing),
            SourceConfig::Pubsub(config) => return pubsub(config, timing).map(|source| Sources::One(Arc::new(source))),
            SourceConfig::Prometheus(source) => {
                let at_a_time = prometheus::AT_A_TIME;
                let options = ClientOptions { timeout: timing.timeout, at_a_time, ..options(&source.http, "source.prometheus")? };
                let client = Client::new(source.http.url.clone(), options).map_err(|error| Problem::new("source.prometheus.url", error.to_string()))?;
                return Ok(Sources::One(Arc::new(PrometheusReader::new(client, source.map.clone(), timing.timeout))));
            }
            SourceConfig::Flink { http, job } => (http, job),
        };
        let cluster = self.cluster(http)?;
        let one = |job: JobSelector| Sources::One(Arc::new(FlinkSource::new(Arc::clone(&cluster), job).timed(timing).growing(grows)));
        Ok(match job {
            FlinkJobName::Name(name) => one(JobSelector::Name(name.clone())),
            FlinkJobName::Id(id) => one(JobSelector::Id(id.clone())),
            FlinkJobName::Pattern { job, include, exclude } => {
                let pattern = JobPattern { job: job.clone(), include: include.clone(), exclude: exclude.clone() };
                Sources::Many(Arc::new(FlinkJobs::new(cluster, pattern, timing, grows)))
            }
        })
    }

    /// A group of a Kafka cluster, or all that fit.
    fn kafka(&self, server: &KafkaServer, group: &KafkaGroupName, wishes: Wishes, timing: Timing) -> Result<Sources, Problem> {
        let cluster = {
            let mut clusters = self.kafka.lock().unwrap_or_else(PoisonError::into_inner);
            clusters.retain(|_, cluster| cluster.strong_count() > 0);
            // names of files, no secrets
            let key = format!("{server:?}");
            if let Some(cluster) = clusters.get(&key).and_then(Weak::upgrade) {
                cluster
            } else {
                let client = KafkaClient::new(server.brokers.clone(), security(server)?);
                let cluster = Arc::new(KafkaCluster::new(server.name(), Arc::new(client)));
                clusters.insert(key, Arc::downgrade(&cluster));
                cluster
            }
        };
        Ok(match group {
            KafkaGroupName::Id(group) => Sources::One(Arc::new(KafkaSource::new(cluster, group.clone(), wishes, timing))),
            KafkaGroupName::Pattern { group, include, exclude } => {
                let pattern = GroupPattern::new(group, include, exclude).map_err(|why| Problem::new("source.kafka.group", why))?;
                Sources::Many(Arc::new(KafkaGroups::new(cluster, pattern, wishes, timing)))
            }
        })
    }

    /// The cluster behind an address, shared by all of its targets that ask in the same way.
    fn cluster(&self, http: &HttpSource) -> Result<Arc<FlinkCluster>, Problem> {
        let options = options(http, "source.flink")?;
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        clusters.retain(|_, cluster| cluster.strong_count() > 0);
        // names of files, no secrets
        let key = format!("{http:?}");
        if let Some(cluster) = clusters.get(&key).and_then(Weak::upgrade) {
            return Ok(cluster);
        }
        let cluster = FlinkCluster::new(http.url.clone(), options).map_err(|error| Problem::new("source.flink.url", error.to_string()))?;
        let cluster = Arc::new(cluster);
        clusters.insert(key, Arc::downgrade(&cluster));
        Ok(cluster)
    }
}

/// What a target needs of a Kafka cluster beyond lags.
pub fn wishes(policy: &Policy) -> Wishes {
    Wishes {
        objective_seconds: policy.max_lag_seconds,
        read_committed: policy.kafka.isolation == Isolation::ReadCommitted,
        topics: policy.kafka.topics.clone(),
    }
}

/// TLS and login of a Kafka cluster. What is in the files is read for each connection; here only to tell at once that it
/// cannot be.
fn security(server: &KafkaServer) -> Result<Security, Problem> {
    let secret = |path: &std::path::Path, member: &str| read_secret(path).map_err(|message| Problem::new(format!("source.kafka.sasl.{member}"), message));
    let sasl = match &server.sasl {
        None => None,
        Some(KafkaLogin::Token(file)) => {
            secret(file, "tokenFile")?;
            Some(Sasl::OAuthBearer(file.clone()))
        }
        Some(KafkaLogin::Password(mechanism, username, file)) => {
            secret(file, "passwordFile")?;
            let account = Account { username: username.clone(), password_file: file.clone() };
            Some(match mechanism {
                Mechanism::ScramSha256 => Sasl::ScramSha256(account),
                Mechanism::ScramSha512 => Sasl::ScramSha512(account),
                Mechanism::Plain | Mechanism::OAuthBearer => Sasl::Plain(account),
            })
        }
    };
    let tls = server.tls.as_ref().map(|tls| Tls { ca_file: tls.ca_file.clone(), client: tls.client.clone() });
    if let Some(tls) = &tls {
        tls.check().map_err(|error| Problem::new("source.kafka.tls", error.to_string()))?;
    }
    Ok(Security { tls, sasl })
}

/// A duration of the configuration as the runtime has it.
pub fn seconds(duration: crate::core::units::Duration) -> Duration {
    Duration::try_from_secs_f64(duration.seconds()).unwrap_or(Duration::MAX)
}

/// What is read, whoever reads it: a change of credentials is no change of the thing, nor is one of which jobs are meant.
fn source_key(source: &SourceConfig) -> String {
    match source {
        SourceConfig::Druid(http) => format!("druid {}", http.url),
        SourceConfig::DruidSupervisor { http, supervisor } => format!("druid {} {supervisor:?}", http.url),
        SourceConfig::Flink { http, job: FlinkJobName::Pattern { .. } } => format!("flink {} jobs", http.url),
        SourceConfig::Flink { http, job } => format!("flink {} {job:?}", http.url),
        SourceConfig::Kafka { server, group: KafkaGroupName::Pattern { .. } } => format!("kafka {} groups", server.name()),
        SourceConfig::Kafka { server, group } => format!("kafka {} {group:?}", server.name()),
        SourceConfig::Pubsub(config) => format!("pubsub {} {} {}", config.url, config.project, config.subscription),
        // other queries may be about another thing
        SourceConfig::Prometheus(source) => format!("prometheus {} {:?} {:?}", source.http.url, source.map.fields, source.map.constants),
    }
}

fn pubsub(config: &PubsubConfig, timing: Timing) -> Result<PubsubSource, Problem> {
    if let Some(path) = &config.credentials_file {
        // read again when a token is asked for; here only to tell at once that it cannot be
        check_file(path).map_err(|message| Problem::new("source.pubsub.credentialsFile", message))?;
    }
    let options = ClientOptions { timeout: timing.timeout, ca_file: config.ca_file.clone(), ..ClientOptions::default() };
    let client = Client::new(config.url.clone(), options).map_err(|error| Problem::new("source.pubsub.baseUrl", error.to_string()))?;
    let credentials = Credentials::new(config.credentials_file.clone(), timing.timeout);
    Ok(PubsubSource::new(client, credentials, config.project.clone(), config.subscription.clone()))
}

fn client(http: &HttpSource, timeout: Duration, path: &str) -> Result<Client, Problem> {
    let options = ClientOptions { timeout, ..options(http, path)? };
    Client::new(http.url.clone(), options).map_err(|error| Problem::new(format!("{path}.url"), error.to_string()))
}

/// Builds what carries the advice out, where the policy asks for it.
fn actuator(source: &SourceConfig, policy: &Policy, timeout: Duration) -> Result<Option<Arc<dyn Actuator>>, Problem> {
    Ok(match source {
        SourceConfig::Flink { http, .. } if policy.flink.apply == Apply::Perform => Some(Arc::new(FlinkActuator::new(client(http, timeout, "source.flink")?))),
        SourceConfig::Druid(http) if policy.druid.drain == Drain::Perform => Some(Arc::new(DruidActuator::new(client(http, timeout, "source.druid")?))),
        _ => None,
    })
}

fn options(http: &HttpSource, path: &str) -> Result<ClientOptions, Problem> {
    let basic_auth = match &http.basic_auth {
        None => None,
        Some((username, file)) => {
            // read again for each reading; here only to tell at once that it cannot be
            read_secret(file).map_err(|message| Problem::new(format!("{path}.basicAuth.passwordFile"), message))?;
            Some(BasicAuth { username: username.clone(), password_file: file.clone() })
        }
    };
    Ok(ClientOptions {
        allowed_hosts: http.allowed_hosts.clone(),
        basic_auth,
        bearer_file: http.bearer_token_file.clone(),
        ca_file: http.ca_file.clone(),
        ..ClientOptions::default()
    })
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

/// Where the counts of a target come from, where that is not its source.
pub fn replicas(target: &TargetConfig) -> Result<Option<Arc<dyn ReplicaSource>>, Problem> {
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
