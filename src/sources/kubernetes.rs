//! Counts of a scale target from the Kubernetes API: `/scale`, and for workloads of its own the number of ready pods.
//!
//! Two plain GETs with the mounted service account; the role needs `get` on `deployments/scale` (or the like) and, for the
//! ready count, on the object. Source: Kubernetes API, `autoscaling/v1` Scale.

use std::path::Path;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use url::Url;

use super::http::{Client, ClientOptions};
use crate::core::request::Replicas;
use crate::core::units::Count;
use crate::engine::source::{BoxFuture, FailureKind, ReplicaSource, SourceError};

/// Where the service account is mounted.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// What names of Kubernetes are made of; anything else is encoded, so that no name leads to another path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

/// The count of a scale target.
pub struct KubernetesScale {
    api: Client,
    /// The path of the object.
    object: String,
    /// True for workloads whose status has `readyReplicas`.
    tells_ready: bool,
}

#[derive(Deserialize)]
struct Scale {
    spec: ScaleSpec,
    #[serde(default)]
    status: ScaleStatus,
}

#[derive(Deserialize)]
struct ScaleSpec {
    /// Left out by the API when it is zero.
    #[serde(default)]
    replicas: Count,
}

#[derive(Default, Deserialize)]
struct ScaleStatus {
    replicas: Option<Count>,
}

#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    status: ObjectStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectStatus {
    ready_replicas: Option<Count>,
}

impl KubernetesScale {
    /// The scale target of that kind and name. `resource` is its plural where it is not the kind in lower case with an s.
    #[must_use]
    pub fn new(api: Client, namespace: &str, api_version: &str, kind: &str, name: &str, resource: Option<&str>) -> Self {
        let plural = resource.map_or_else(|| format!("{}s", kind.to_lowercase()), str::to_owned);
        let segment = |text: &str| utf8_percent_encode(text, SEGMENT).to_string();
        let (namespace, plural, name) = (segment(namespace), segment(&plural), segment(name));
        let group = if api_version.contains('/') { format!("/apis/{api_version}") } else { format!("/api/{api_version}") };
        let tells_ready = api_version == "apps/v1" && matches!(kind, "Deployment" | "StatefulSet" | "ReplicaSet");
        Self { api, object: format!("{group}/namespaces/{namespace}/{plural}/{name}"), tells_ready }
    }

    async fn read_counts(&self) -> Result<Replicas, SourceError> {
        let session = self.api.session();
        let scale: Scale = session.get_json(&format!("{}/scale", self.object)).await?;
        let ready = if self.tells_ready {
            let object = session.get_json::<Object>(&self.object).await.ok();
            // an object without the field has no ready pod; one that cannot be read tells nothing
            object.map(|object| object.status.ready_replicas.unwrap_or(0))
        } else {
            None
        };
        Ok(Replicas { spec: Some(scale.spec.replicas), status: scale.status.replicas, ready, ..Replicas::default() })
    }
}

impl ReplicaSource for KubernetesScale {
    fn read(&self) -> BoxFuture<'_, Result<Replicas, SourceError>> {
        Box::pin(self.read_counts())
    }
}

/// A client of the API server of the cluster that this service runs in, and the namespace it runs in.
pub fn in_cluster(timeout: Duration) -> Result<(Client, String), SourceError> {
    let fault = |message: String| SourceError::new(FailureKind::Unsupported, message);
    let variable = |name: &str| std::env::var(name).map_err(|_| fault(format!("{name} is not set: expected to run inside a Kubernetes cluster")));
    let (host, port) = (variable("KUBERNETES_SERVICE_HOST")?, variable("KUBERNETES_SERVICE_PORT")?);
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let base = Url::parse(&format!("https://{host}:{port}")).map_err(|error| fault(format!("{host}:{port} is no address: {error}")))?;
    let account = Path::new(ACCOUNT);
    let namespace = std::fs::read_to_string(account.join("namespace")).map_err(|error| fault(format!("{ACCOUNT}/namespace cannot be read: {error}")))?;
    let options = ClientOptions { timeout, bearer_file: Some(account.join("token")), ca_file: Some(account.join("ca.crt")), ..ClientOptions::default() };
    Ok((Client::new(base, options)?, namespace.trim().to_owned()))
}
