//! The counts of a scale target, from the Kubernetes API: the `scale` subresource, which every scalable kind has, and
//! `status.readyReplicas` of the kinds that are known to have it.
//!
//! The `scale` subresource is asked, and not the object alone, because only it means the same for every kind.

use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use crate::core::request::Replicas;
use crate::core::units::Count;
use crate::engine::source::{BoxFuture, FailureKind, ReplicaSource, SourceError};
use crate::sources::http::{Client, ClientOptions, Session};

/// Where a pod finds its service account; `LOADLINE_SERVICE_ACCOUNT` names another folder.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Kinds of `apps/v1` whose status has `readyReplicas`.
const KNOWN_KINDS: [&str; 3] = ["Deployment", "StatefulSet", "ReplicaSet"];

/// A scale target.
#[derive(Clone)]
pub struct KubernetesScale {
    api: Client,
    name: String,
    path: String,
    counts_ready: bool,
}

impl KubernetesScale {
    /// The target `name` of a kind, for example `apps/v1` `StatefulSet`. `resource` is the plural of the kind in paths,
    /// where it is not the lower-case kind with an s.
    #[must_use]
    pub fn new(api: Client, namespace: &str, api_version: &str, kind: &str, name: &str, resource: Option<String>) -> Self {
        let escaped = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string().replace("%2D", "-");
        let (root, version) = if api_version.contains('/') { ("/apis", api_version) } else { ("/api", api_version) };
        let plural = resource.unwrap_or_else(|| plural(kind));
        let path = format!("{root}/{version}/namespaces/{}/{}/{}", escaped(namespace), escaped(&plural), dotted(&escaped(name)));
        Self { api, name: format!("{kind} {namespace}/{name}"), path, counts_ready: api_version == "apps/v1" && KNOWN_KINDS.contains(&kind) }
    }

    async fn replicas(&self) -> Result<Replicas, SourceError> {
        let session = self.api.session();
        let scale: Scale = self.get(&session, &format!("{}/scale", self.path)).await?;
        // the API leaves a zero out of a scale: absent is none. A scale without `spec` is something else and refused
        let spec = Some(scale.spec.replicas.unwrap_or(0));
        let status = scale.status.map(|status| status.replicas.unwrap_or(0));
        let ready = if self.counts_ready { self.ready(&session).await } else { None };
        Ok(Replicas { spec, ready, status, ..Replicas::default() })
    }

    /// Unknown where the object cannot be read: the right to read the scale does not include it.
    async fn ready(&self, session: &Session) -> Option<Count> {
        let object: Object = self
            .get(session, &self.path)
            .await
            .inspect_err(|error| tracing::debug!(target = self.name, kind = error.kind.name(), error = error.message, "the ready count stays unknown"))
            .ok()?;
        Some(object.status?.ready_replicas.unwrap_or(0))
    }

    async fn get<T: DeserializeOwned>(&self, session: &Session, path: &str) -> Result<T, SourceError> {
        let answer = session.ask(path).await?;
        if answer.status == 404 {
            return Err(SourceError::new(FailureKind::NotFound, format!("{} does not exist or cannot be scaled", self.name)));
        }
        answer.success()?.json()
    }
}

impl ReplicaSource for KubernetesScale {
    fn read(&self) -> BoxFuture<'_, Result<Replicas, SourceError>> {
        Box::pin(self.replicas())
    }
}

/// The plural in paths, by the rule that Kubernetes' own tools guess it.
fn plural(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    match kind.strip_suffix('y') {
        _ if kind.ends_with('s') => format!("{kind}es"),
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind}s"),
    }
}

/// Names may have dots inside, but a name of dots alone would climb the path.
fn dotted(escaped: &str) -> String {
    if escaped.replace("%2E", "").is_empty() { String::new() } else { escaped.replace("%2E", ".") }
}

#[derive(Deserialize)]
struct Scale {
    spec: ScaleSpec,
    status: Option<ScaleStatus>,
}

#[derive(Deserialize)]
struct ScaleSpec {
    replicas: Option<Count>,
}

#[derive(Deserialize)]
struct ScaleStatus {
    replicas: Option<Count>,
}

#[derive(Deserialize)]
struct Object {
    status: Option<ObjectStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectStatus {
    ready_replicas: Option<Count>,
}

/// A client of the API server of the cluster that this process runs in, and the process' own namespace. The token is
/// read again for every reading: Kubernetes replaces it.
pub fn in_cluster() -> Result<(Client, String), SourceError> {
    in_cluster_within(ClientOptions::default().timeout)
}

/// The same with another time for each call.
pub fn in_cluster_within(timeout: Duration) -> Result<(Client, String), SourceError> {
    let outside = || SourceError::new(FailureKind::Unsupported, "not in a cluster: expected KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT");
    let host = std::env::var("KUBERNETES_SERVICE_HOST").map_err(|_| outside())?;
    let port = std::env::var("KUBERNETES_SERVICE_PORT").map_err(|_| outside())?;
    let account = std::env::var_os("LOADLINE_SERVICE_ACCOUNT").map_or_else(|| PathBuf::from(SERVICE_ACCOUNT), PathBuf::from);
    let namespace = std::fs::read_to_string(account.join("namespace"))
        .map_err(|error| SourceError::new(FailureKind::Unsupported, format!("the service account's namespace cannot be read: {}", error.kind())))?;
    let options = ClientOptions { bearer_file: Some(account.join("token")), ca_file: Some(account.join("ca.crt")), timeout, ..ClientOptions::default() };
    Ok((Client::new(api_server(&host, &port).ok_or_else(outside)?, options)?, namespace.trim().to_owned()))
}

fn api_server(host: &str, port: &str) -> Option<Url> {
    // an IPv6 address comes without brackets
    let host = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() };
    Url::parse(&format!("https://{host}:{port}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_server_is_found_by_name_and_by_either_kind_of_address() {
        for (host, url) in [("10.0.0.1", "https://10.0.0.1:6443/"), ("fd00::1", "https://[fd00::1]:6443/"), ("api.local", "https://api.local:6443/")] {
            assert_eq!(api_server(host, "6443").expect(host).as_str(), url);
        }
        assert!(api_server("10.0.0.1", "not a port").is_none());
    }

    #[test]
    fn the_plural_of_a_kind_is_guessed_as_kubernetes_does() {
        assert_eq!(["StatefulSet", "Proxy", "Ingress"].map(plural), ["statefulsets", "proxies", "ingresses"]);
    }

    #[test]
    fn a_name_cannot_leave_its_place_in_the_path() {
        let base = Url::parse("http://localhost").expect("URL");
        let path = |name: &str| {
            KubernetesScale::new(Client::new(base.clone(), ClientOptions::default()).expect("client"), "a", "apps/v1", "Deployment", name, None).path
        };
        assert_eq!(path("web.v-1"), "/apis/apps/v1/namespaces/a/deployments/web.v-1");
        assert_eq!(path("../x?y"), "/apis/apps/v1/namespaces/a/deployments/..%2Fx%3Fy");
        assert_eq!(path(".."), "/apis/apps/v1/namespaces/a/deployments/");
    }
}
