//! Who asks: the API server, which vouches for the caller that it has authenticated itself.
//!
//! The aggregator of an API server calls with a client certificate of its own and names the caller in headers
//! (<https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/>). Which authority signs that
//! certificate, which common names are meant, and which headers there are stands in the ConfigMap
//! `kube-system/extension-apiserver-authentication`. The headers of anyone else are text that a stranger wrote, and are
//! not looked at: without such a certificate nobody is known, and the answer is 401.
//!
//! The certificate is judged for each request and not once in the handshake, so that a new authority, or a certificate that
//! runs out, holds for connections that are open. The handshake only proves that the caller has the key of what it shows.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName};
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_cert::Certificate;
use x509_cert::der::oid::db::rfc4519::COMMON_NAME;
use x509_cert::der::{Decode, Tag, Tagged};

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The user.
    pub user: String,
    /// The user's id, where there is one.
    pub uid: Option<String>,
    /// The user's groups.
    pub groups: Vec<String>,
    /// What else is told of the user.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Whom to believe, and which headers name the caller.
#[derive(Debug)]
pub struct FrontProxy {
    verifier: Arc<dyn ClientCertVerifier>,
    /// Common names that are meant; empty: any.
    allowed_names: Vec<String>,
    user_headers: Vec<HeaderName>,
    uid_headers: Vec<HeaderName>,
    group_headers: Vec<HeaderName>,
    /// In lower case.
    extra_prefixes: Vec<String>,
}

impl FrontProxy {
    /// Reads the data of the ConfigMap, or says what is wrong with it.
    pub fn parse(data: &BTreeMap<String, String>) -> Result<Self, String> {
        let pem = data.get("requestheader-client-ca-file").ok_or("requestheader-client-ca-file is not there: the API server has no aggregation layer")?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|_| "requestheader-client-ca-file is no PEM")?;
            roots.add(certificate).map_err(|error| format!("requestheader-client-ca-file holds a certificate that cannot be used: {error}"))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(aws_lc_rs::default_provider()))
            .build()
            .map_err(|error| format!("requestheader-client-ca-file cannot be used: {error}"))?;
        let user_headers = headers(data, "requestheader-username-headers")?;
        if user_headers.is_empty() {
            return Err("requestheader-username-headers names no header".to_owned());
        }
        Ok(Self {
            verifier,
            allowed_names: texts(data, "requestheader-allowed-names")?,
            user_headers,
            uid_headers: headers(data, "requestheader-uid-headers")?,
            group_headers: headers(data, "requestheader-group-headers")?,
            extra_prefixes: texts(data, "requestheader-extra-headers-prefix")?.iter().map(|prefix| prefix.to_ascii_lowercase()).collect(),
        })
    }

    /// The common names that are meant; empty: any.
    #[must_use]
    pub fn allowed_names(&self) -> &[String] {
        &self.allowed_names
    }

    /// The caller that the API server names, or why it is not believed.
    pub fn identify(&self, certificates: &[CertificateDer<'_>], headers: &HeaderMap, now: UnixTime) -> Result<Identity, String> {
        let [certificate, intermediates @ ..] = certificates else {
            return Err("the connection shows no client certificate: expected the API server's front proxy".to_owned());
        };
        self.verifier
            .verify_client_cert(certificate, intermediates, now)
            .map_err(|error| format!("the client certificate is not of the front proxy's authority: {error}"))?;
        if !self.allowed_names.is_empty() {
            let name = common_name(certificate).unwrap_or_default();
            if !self.allowed_names.contains(&name) {
                return Err(format!("the client certificate's common name \"{name}\" is not among {:?}", self.allowed_names));
            }
        }
        let all = |names: &[HeaderName]| -> Vec<String> {
            let values = names.iter().flat_map(|name| headers.get_all(name)).filter_map(|value| value.to_str().ok());
            values.filter(|value| !value.is_empty()).map(str::to_owned).collect()
        };
        let first = |names: &[HeaderName]| all(names).into_iter().next();
        let user = first(&self.user_headers).ok_or_else(|| format!("the front proxy names no user: expected {:?}", self.user_headers))?;
        Ok(Identity { user, uid: first(&self.uid_headers), groups: all(&self.group_headers), extra: self.extra(headers) })
    }

    fn extra(&self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut extra = BTreeMap::<String, Vec<String>>::new();
        for prefix in &self.extra_prefixes {
            // names of headers are in lower case here
            for (name, value) in headers {
                if let (Some(key), Ok(value)) = (name.as_str().strip_prefix(prefix.as_str()), value.to_str()) {
                    let key = percent_encoding::percent_decode_str(key).decode_utf8_lossy().into_owned();
                    extra.entry(key).or_default().push(value.to_owned());
                }
            }
        }
        extra
    }
}

/// A list of texts, which the ConfigMap holds as JSON; absent is empty.
fn texts(data: &BTreeMap<String, String>, key: &str) -> Result<Vec<String>, String> {
    data.get(key)
        .filter(|text| !text.is_empty())
        .map_or_else(|| Ok(Vec::new()), |text| serde_json::from_str(text))
        .map_err(|_| format!("{key} is no list of texts"))
}

fn headers(data: &BTreeMap<String, String>, key: &str) -> Result<Vec<HeaderName>, String> {
    let named = |text: &String| HeaderName::try_from(text).map_err(|_| format!("{key}: \"{text}\" is no name of a header"));
    texts(data, key)?.iter().map(named).collect()
}

/// The common name of a certificate's subject: the last one where there are several, as the API server reads it.
fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let attributes = certificate.tbs_certificate().subject().iter();
    let name = attributes.filter(|attribute| attribute.oid == COMMON_NAME).last()?;
    // the kinds of text that authorities write names in; their bytes are read alike
    if !matches!(name.value.tag(), Tag::Utf8String | Tag::PrintableString | Tag::Ia5String) {
        return None;
    }
    std::str::from_utf8(name.value.value()).ok().map(str::to_owned)
}
