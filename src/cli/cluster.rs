//! The cluster that this process runs in: what surfaces ask of it, and what `loadline check --kubernetes` tells of it.
//!
//! Surfaces know no client of the API server; this is the one that they are given.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::config::ExternalMetricsConfig;
use crate::core::request::Problem;
use crate::engine::Clock;
use crate::engine::source::{BoxFuture, SourceError};
use crate::engine::store::Store;
use crate::sources::http::Client;
use crate::sources::kubernetes::in_cluster_within;
use crate::surfaces::external_metrics::{self, Cluster, ExternalMetrics, GROUP, Identity, METRIC, Review, Rule, VERSION};
use crate::surfaces::tls::{Callers, Setting, Tls};

/// One question to the API server takes no longer: the one who asked here waits for it.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Where the API server says whom servers behind it may believe.
const AUTHENTICATION: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// The API server of the cluster.
pub struct InCluster {
    api: Client,
}

impl InCluster {
    /// Asked with this client.
    pub fn new(api: Client) -> Self {
        Self { api }
    }

    /// Who serves the external metrics API in this cluster.
    pub async fn owner(&self) -> Result<Owner, SourceError> {
        let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{VERSION}.{GROUP}");
        let answer = self.api.session().ask(&path).await?;
        if answer.status == 404 {
            return Ok(Owner::Nobody);
        }
        answer.success()?.json::<ApiService>().map(ApiService::owner)
    }
}

impl Cluster for InCluster {
    fn authentication(&self) -> BoxFuture<'_, Result<BTreeMap<String, String>, String>> {
        Box::pin(async {
            let map: ConfigMap = self.api.session().get_json(AUTHENTICATION).await.map_err(|error| error.to_string())?;
            Ok(map.data)
        })
    }

    fn allows<'a>(&'a self, review: &'a Review) -> BoxFuture<'a, Result<bool, String>> {
        Box::pin(async {
            let ask = async {
                let answer = self.api.session().submit(Method::POST, REVIEWS, Some(&question(review))).await?;
                answer.success()?.json::<Reviewed>()
            };
            // a rule that says no beats one that says yes
            ask.await.map(|reviewed| reviewed.status.allowed && !reviewed.status.denied).map_err(|error| error.to_string())
        })
    }
}

/// The external metrics API that a configuration asks for, and its TLS.
pub fn external_metrics(config: &ExternalMetricsConfig, store: Arc<Store>, clock: Clock) -> Result<(ExternalMetrics, Tls), Problem> {
    let problem = |path: &str, message: String| Problem::new(format!("server.externalMetrics{path}"), message);
    let setting = Setting {
        what: "the external metrics API",
        cert_file: config.cert_file.clone(),
        key_file: config.key_file.clone(),
        callers: Callers::Shown,
        protocol: b"http/1.1",
    };
    let tls = Tls::read(setting).map_err(|message| problem(".tls", message))?;
    let (api, _) = in_cluster_within(TIMEOUT).map_err(|error| problem("", error.to_string()))?;
    let rule = config.allow.clone().map_or(Rule::Review, |(users, groups)| Rule::List { users, groups });
    let setup = external_metrics::Setup { store, clock, cluster: Arc::new(InCluster::new(api)), rule };
    Ok((ExternalMetrics::new(setup), tls))
}

/// The question of a review: a list, because the path has no name after the metric.
fn question(review: &Review) -> Value {
    let Identity { user, uid, groups, extra } = &review.identity;
    let attributes = json!({ "namespace": review.namespace, "verb": "list", "group": GROUP, "version": VERSION, "resource": METRIC });
    let mut spec = json!({ "user": user, "groups": groups, "extra": extra, "resourceAttributes": attributes });
    if let (Some(uid), Some(spec)) = (uid, spec.as_object_mut()) {
        spec.insert("uid".to_owned(), json!(uid));
    }
    json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec })
}

/// Who serves the external metrics API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// There is no `APIService`.
    Nobody,
    /// A Service.
    Service {
        /// Its namespace and name.
        name: String,
        /// Whether the API server reaches it; with the API server's words.
        available: Result<(), String>,
    },
}

#[derive(Deserialize)]
struct ConfigMap {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Reviewed {
    status: ReviewStatus,
}

#[derive(Deserialize)]
struct ReviewStatus {
    allowed: bool,
    #[serde(default)]
    denied: bool,
}

#[derive(Deserialize)]
struct ApiService {
    spec: ApiServiceSpec,
    #[serde(default)]
    status: ApiServiceStatus,
}

#[derive(Deserialize)]
struct ApiServiceSpec {
    service: Option<ServiceReference>,
}

#[derive(Deserialize)]
struct ServiceReference {
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
struct ApiServiceStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(default)]
    message: String,
}

impl ApiService {
    fn owner(self) -> Owner {
        let name = self.spec.service.map_or_else(|| "the API server itself".to_owned(), |service| format!("{}/{}", service.namespace, service.name));
        let condition = self.status.conditions.into_iter().find(|condition| condition.kind == "Available");
        let available = match condition {
            Some(condition) if condition.status == "True" => Ok(()),
            Some(condition) => Err(condition.message),
            None => Err("the API server has not looked yet".to_owned()),
        };
        Owner::Service { name, available }
    }
}
