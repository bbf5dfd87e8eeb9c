//! The configuration as it is written in the file. What it means, and what is wrong with it, is worked out in
//! [`super`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kafka::KafkaFile;
use super::pubsub::PubsubFile;
use crate::core::policy::PolicyInput;
use crate::core::units::{Count, Duration};

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct File {
    /// The service itself.
    pub server: ServerFile,
    /// What holds for every target that says nothing else.
    pub defaults: DefaultsFile,
    /// What is looked after.
    pub targets: Vec<TargetFile>,
}

/// The service itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ServerFile {
    /// Address of the HTTP interface (default `0.0.0.0:8080`).
    pub http: Option<String>,
    /// Address of the gRPC interface (default `0.0.0.0:9090`).
    pub grpc: Option<String>,
    /// Who may call.
    pub auth: Option<AuthFile>,
    /// The largest posted body in bytes (default 32 MiB).
    pub max_body_bytes: Option<u64>,
    /// The lease that one instance holds while it performs.
    pub lease: Option<LeaseFile>,
    /// TLS of the HTTP interface: not available in this version.
    pub tls: Option<serde_json::Value>,
    /// TLS of the gRPC interface.
    pub grpc_tls: Option<GrpcTlsFile>,
    /// The external metrics API of Kubernetes, which a plain HPA reads.
    pub external_metrics: Option<ExternalMetricsFile>,
}

/// TLS of the gRPC interface. The files are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrpcTlsFile {
    /// A file with the certificate, PEM, those between it and its authority after it.
    pub cert_file: PathBuf,
    /// A file with its key, PEM.
    pub key_file: PathBuf,
    /// A file with authorities, PEM: only callers with a certificate of one of them are let in. Absent: anyone is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca_file: Option<PathBuf>,
}

/// The external metrics API of Kubernetes. It believes the API server's front proxy, which it looks up in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExternalMetricsFile {
    /// Its address (default `0.0.0.0:6443`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// The certificate that it shows to the API server.
    pub tls: ServingFile,
    /// Who may read; absent: the cluster's own rules are asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<AllowFile>,
}

/// A certificate and its key, PEM. Both are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServingFile {
    /// A file with the certificate, those between it and its authority after it.
    pub cert_file: PathBuf,
    /// A file with its key.
    pub key_file: PathBuf,
}

/// Who may read, whatever the cluster's rules say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AllowFile {
    /// Users, such as `system:serviceaccount:kube-system:horizontal-pod-autoscaler`.
    pub users: Vec<String>,
    /// Groups.
    pub groups: Vec<String>,
}

/// Who may call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthFile {
    /// A file with the bearer token that all but probes and metrics asks for.
    pub bearer_token_file: PathBuf,
}

/// The lease of Kubernetes that keeps all instances but one from performing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LeaseFile {
    /// False: this is the only instance, and no lease is needed (default true in a cluster).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Its name (default `loadline`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its namespace (default that of this service).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// How long it lasts without being renewed, whole seconds, `5s` to `5m` (default `15s`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
}

/// What holds for every target that says nothing else.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DefaultsFile {
    /// Time between decisions (default `30s`, at least `1s`).
    pub interval: Option<Duration>,
    /// Time of one call (default `5s`); a whole reading may take four times as long.
    pub timeout: Option<Duration>,
}

/// A target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TargetFile {
    /// Its name, unique: lower-case letters, digits, `.` and `-`, at most 63.
    pub name: String,
    /// The scale target's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The kind of workload: `druidWorkers`, `druidSupervisor`, `flinkJob`, `kafkaGroup`, `pubsubSubscription` or `backlog`.
    pub kind: String,
    /// The cluster that it belongs to: targets of one Druid cluster know of each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Where readings come from.
    pub source: SourceFile,
    /// Where counts come from; absent: from the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<ReplicasFile>,
    /// What is wanted of the advice.
    #[serde(default)]
    pub policy: PolicyInput,
    /// Time between decisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// Time of one call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// Where readings come from: exactly one of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SourceFile {
    /// A Druid Router or Overlord.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub druid: Option<DruidFile>,
    /// A Flink JobManager.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flink: Option<FlinkFile>,
    /// A Kafka cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kafka: Option<KafkaFile>,
    /// A Pub/Sub subscription, read from Cloud Monitoring.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pubsub: Option<PubsubFile>,
    /// A Prometheus server, for a snapshot of any kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusFile>,
}

/// Sources that are asked over HTTP have these members in common, and each its own. A macro, because serde cannot flatten
/// one struct into another that refuses unknown keys.
macro_rules! asked_over_http {
    ($(#[$about:meta])* $name:ident { $($(#[$member_about:meta])* $member:ident: $kind:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $name {
            /// Its address: `http://` or `https://`, host, and port where it is not the usual one.
            pub url: String,
            $($(#[$member_about])* pub $member: $kind,)*
            /// Hosts (`name` or `name:port`) that redirects may lead to, besides its own.
            #[serde(default)]
            pub allowed_hosts: Vec<String>,
            /// User and password.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub basic_auth: Option<BasicAuthFile>,
            /// A file with a bearer token.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub bearer_token_file: Option<PathBuf>,
            /// A file with further certificates of authorities, PEM.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub ca_file: Option<PathBuf>,
        }

        impl $name {
            /// What all of them have in common.
            #[must_use]
            pub fn server(&self) -> ServerOf<'_> {
                let Self { url, allowed_hosts, basic_auth, bearer_token_file, ca_file, .. } = self;
                ServerOf { url, allowed_hosts, basic_auth: basic_auth.as_ref(), bearer_token_file: bearer_token_file.as_deref(), ca_file: ca_file.as_deref() }
            }
        }
    };
}

/// The server that a source asks over HTTP, and how.
#[derive(Clone, Copy, Debug)]
pub struct ServerOf<'a> {
    /// Its address.
    pub url: &'a str,
    /// Hosts that redirects may lead to.
    pub allowed_hosts: &'a [String],
    /// User and password.
    pub basic_auth: Option<&'a BasicAuthFile>,
    /// A file with a bearer token.
    pub bearer_token_file: Option<&'a Path>,
    /// A file with further certificates.
    pub ca_file: Option<&'a Path>,
}

asked_over_http! {
    /// A Druid Router or Overlord.
    DruidFile {
        /// The supervisor, for `druidSupervisor`: its id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        supervisor: Option<String>,
    }
}

asked_over_http! {
    /// A Flink JobManager and the job, or jobs.
    FlinkFile {
        /// The job: its name, or its id of 32 hex digits. With `*` for anything it stands for all jobs of such names,
        /// each a target of its own.
        job: String,
        /// Where `job` has a `*`: only jobs whose name fits one of these; `*` stands for anything.
        #[serde(default)]
        include: Vec<String>,
        /// Where `job` has a `*`: no job whose name fits one of these; `*` stands for anything.
        #[serde(default)]
        exclude: Vec<String>,
    }
}

asked_over_http! {
    /// A Prometheus server, or another one with its query API, and what to ask it.
    PrometheusFile {
        /// Fields of the snapshot, each with a PromQL expression. `topics[].partitions[].logEnd` is a field of each
        /// element of a list; brackets may name the label that makes out the element.
        queries: BTreeMap<String, String>,
        /// What no metric tells, as it would stand in the snapshot.
        #[serde(default)]
        constants: serde_json::Map<String, serde_json::Value>,
    }
}

/// User and password; the password is only ever read from a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BasicAuthFile {
    /// The user.
    pub username: String,
    /// A file with the password.
    pub password_file: PathBuf,
}

/// Where counts come from: exactly one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ReplicasFile {
    /// A fixed count.
    #[serde(rename = "static", skip_serializing_if = "Option::is_none")]
    pub fixed: Option<Count>,
    /// The `/scale` subresource of an object of Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<KubernetesFile>,
}

/// An object of Kubernetes with a scale.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubernetesFile {
    /// For example `apps/v1`.
    pub api_version: String,
    /// For example `StatefulSet`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace; absent: the target's, else that of this service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its plural in paths, where it is not the kind in lower case with an s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
}
