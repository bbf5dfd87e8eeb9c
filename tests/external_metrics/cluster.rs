//! An API server behind TLS that says whom to believe and who may read, and the folder of a pod's service account.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::authority::{Authority, Signed};

/// What it knows.
#[derive(Default)]
pub struct Known {
    /// The data of the ConfigMap; without any it may not be read.
    pub authentication: Option<BTreeMap<String, String>>,
    /// Users who may read.
    pub allowed: Vec<String>,
    /// The `spec` of each review.
    pub reviews: Vec<Value>,
    /// Reviews fail.
    pub broken: bool,
    /// The `APIService`.
    pub api_service: Option<Value>,
}

pub struct Cluster {
    pub known: Arc<Mutex<Known>>,
    pub port: u16,
}

/// What the API server tells of its front proxy, whose certificates this authority signs.
pub fn authentication(authority: &Authority) -> BTreeMap<String, String> {
    [
        ("client-ca-file", "not looked at".to_owned()),
        ("requestheader-client-ca-file", authority.pem()),
        ("requestheader-allowed-names", r#"["front-proxy-client"]"#.to_owned()),
        ("requestheader-username-headers", r#"["X-Remote-User"]"#.to_owned()),
        ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#.to_owned()),
        ("requestheader-group-headers", r#"["X-Remote-Group"]"#.to_owned()),
        ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#.to_owned()),
    ]
    .map(|(key, text)| (key.to_owned(), text))
    .into()
}

impl Cluster {
    pub async fn start(authority: &Authority, known: Known) -> Self {
        let known = Arc::new(Mutex::new(known));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&known));
        let acceptor = acceptor(&authority.server("kubernetes"));
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (acceptor, service) = (acceptor.clone(), TowerToHyperService::new(router.clone()));
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let _ = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
                    }
                });
            }
        });
        Self { known, port }
    }

    /// What a pod finds of its service account.
    pub fn account(dir: &Path, authority: &Authority) {
        std::fs::create_dir_all(dir).expect("a folder");
        for (name, text) in [("namespace", "streams"), ("token", "lab"), ("ca.crt", &authority.pem())] {
            std::fs::write(dir.join(name), text).expect("written");
        }
    }

    pub fn with<T>(&self, change: impl FnOnce(&mut Known) -> T) -> T {
        change(&mut self.known.lock().expect("no panic"))
    }
}

fn acceptor(signed: &Signed) -> TlsAcceptor {
    let key = PrivateKeyDer::from_pem_slice(signed.key.as_bytes()).expect("PEM");
    let certificates = CertificateDer::pem_slice_iter(signed.certificate.as_bytes()).collect::<Result<_, _>>().expect("PEM");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    TlsAcceptor::from(Arc::new(config.with_no_client_auth().with_single_cert(certificates, key).expect("they fit")))
}

async fn answer(State(known): State<Arc<Mutex<Known>>>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let refuse = |status: StatusCode| (status, Json(json!({ "kind": "Status", "code": status.as_u16() }))).into_response();
    if headers.get("authorization").is_none_or(|token| token != "Bearer lab") {
        return refuse(StatusCode::UNAUTHORIZED);
    }
    let mut known = known.lock().expect("no panic");
    match (method, uri.path()) {
        (Method::GET, "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication") => match &known.authentication {
            Some(data) => Json(json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": {}, "data": data })).into_response(),
            None => refuse(StatusCode::FORBIDDEN),
        },
        (Method::POST, "/apis/authorization.k8s.io/v1/subjectaccessreviews") => {
            let mut review: Value = serde_json::from_slice(&body).expect("JSON");
            known.reviews.push(review["spec"].clone());
            if known.broken {
                return refuse(StatusCode::INTERNAL_SERVER_ERROR);
            }
            let allowed = known.allowed.iter().any(|user| review["spec"]["user"] == *user);
            review["status"] = json!({ "allowed": allowed });
            (StatusCode::CREATED, Json(review)).into_response()
        }
        (Method::GET, "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.external.metrics.k8s.io") => {
            known.api_service.clone().map_or_else(|| refuse(StatusCode::NOT_FOUND), |service| Json(service).into_response())
        }
        (Method::GET, "/apis/apps/v1/namespaces/shop/deployments/orders/scale") => {
            Json(json!({ "kind": "Scale", "spec": { "replicas": 4 }, "status": { "replicas": 3 } })).into_response()
        }
        _ => refuse(StatusCode::NOT_FOUND),
    }
}
