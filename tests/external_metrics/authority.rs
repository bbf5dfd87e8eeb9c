//! Authorities of tests, and certificates that they sign.

use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// An authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, PEM.
#[derive(Clone)]
pub struct Signed {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority"))
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate of a server at 127.0.0.1.
    pub fn server(&self, name: &str) -> Signed {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).expect("names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// A certificate of a client.
    pub fn client(&self, common_name: &str) -> Signed {
        self.sign(client_of(common_name))
    }

    /// A certificate of a client that runs out so long after the test's moment.
    pub fn client_until(&self, common_name: &str, end: jiff::Timestamp) -> Signed {
        let mut params = client_of(common_name);
        params.not_after = (std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(end.as_second().try_into().expect("after 1970"))).into();
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Signed {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("signed");
        Signed { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

impl Signed {
    pub fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).expect("PEM")
    }

    pub fn identity(&self) -> reqwest::Identity {
        reqwest::Identity::from_pem(format!("{}{}", self.certificate, self.key).as_bytes()).expect("PEM")
    }
}

fn client_of(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}
