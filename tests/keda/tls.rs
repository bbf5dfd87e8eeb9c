//! The interface behind TLS, as `enableTLS` and a `TriggerAuthentication` of KEDA ask for it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use loadline::surfaces::tls::{Callers, Setting, Tls};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::Endpoint;

use crate::authority::{Authority, Signed};
use crate::client::{Connection, object};
use crate::support::{Replica, hasty};

/// The files of a service.
struct Files(tempfile::TempDir);

impl Files {
    fn new(shown: &Signed, callers: Option<&Authority>) -> Self {
        let files = Self(tempfile::tempdir().expect("a directory"));
        files.write(shown);
        if let Some(authority) = callers {
            std::fs::write(files.path("ca.crt"), authority.pem()).expect("written");
        }
        files
    }

    fn write(&self, shown: &Signed) {
        std::fs::write(self.path("tls.crt"), &shown.certificate).expect("written");
        std::fs::write(self.path("tls.key"), &shown.key).expect("written");
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        Path::new(self.0.path()).join(name)
    }

    fn read(&self) -> Result<Tls, String> {
        let authorities = self.path("ca.crt");
        let callers = if authorities.exists() { Callers::Of(authorities) } else { Callers::Anyone };
        Tls::read(Setting { what: "the test", cert_file: self.path("tls.crt"), key_file: self.path("tls.key"), callers, protocol: b"h2" })
    }
}

/// Connects as one who believes an authority and shows a certificate, or none.
async fn connect(replica: &Replica, believes: &Authority, shows: Option<&Signed>) -> Result<Connection, String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(believes.pem().as_bytes()).expect("PEM")).expect("an authority");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions").with_root_certificates(roots);
    let mut config = match shows {
        Some(own) => {
            let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).expect("PEM");
            config.with_client_auth_cert(vec![own.der()], key).expect("they fit")
        }
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let (connector, address) = (TlsConnector::from(Arc::new(config)), replica.address);
    let connect = tower::service_fn(move |_| {
        let connector = connector.clone();
        async move {
            let stream = TcpStream::connect(address).await?;
            connector.connect(ServerName::try_from("127.0.0.1").expect("a name"), stream).await.map(TokioIo::new)
        }
    });
    let endpoint = Endpoint::from_static("http://127.0.0.1");
    let channel = tokio::time::timeout(Duration::from_secs(10), endpoint.connect_with_connector(connect))
        .await
        .expect("in time")
        .map_err(|error| format!("{error:?}"))?;
    Ok(Connection::over(channel))
}

#[tokio::test]
async fn the_number_is_read_over_tls_and_not_beside_it() {
    let authority = Authority::new("cluster");
    let files = Files::new(&authority.server("loadline"), None);
    let replica = Replica::behind(hasty(), Some(files.read().expect("TLS"))).await;
    replica.decided("orders", 5);
    assert!(connect(&replica, &authority, None).await.expect("a connection").active(&object("orders")).await.expect("an answer"));
    assert!(connect(&replica, &Authority::new("another"), None).await.is_err(), "the caller does not believe this authority");
    let plain = Connection::lazy(replica.address).active(&object("orders")).await;
    assert!(plain.is_err(), "without TLS nothing is told");
}

#[tokio::test]
async fn with_an_authority_for_callers_only_its_certificates_are_let_in() {
    let (cluster, callers) = (Authority::new("cluster"), Authority::new("callers"));
    let files = Files::new(&cluster.server("loadline"), Some(&callers));
    let replica = Replica::behind(hasty(), Some(files.read().expect("TLS"))).await;
    replica.decided("orders", 5);
    let keda = callers.client("keda-operator");
    assert!(connect(&replica, &cluster, Some(&keda)).await.expect("a connection").active(&object("orders")).await.expect("an answer"));
    for (who, shown) in [("no one", None), ("another", Some(Authority::new("another").client("keda-operator"))), ("a server", Some(cluster.server("x")))] {
        // the client may only learn of it with its first call
        let refused = match connect(&replica, &cluster, shown.as_ref()).await {
            Ok(connection) => connection.active(&object("orders")).await.is_err(),
            Err(_) => true,
        };
        assert!(refused, "{who}");
    }
}

#[tokio::test]
async fn a_certificate_that_is_replaced_is_shown_to_those_who_come_after_and_a_broken_one_is_not() {
    let (first, second) = (Authority::new("first"), Authority::new("second"));
    let files = Files::new(&first.server("loadline"), None);
    let replica = Replica::behind(hasty(), Some(files.read().expect("TLS"))).await;
    replica.decided("orders", 5);
    let before = connect(&replica, &first, None).await.expect("a connection");
    // the key of another
    std::fs::write(files.path("tls.crt"), second.server("loadline").certificate).expect("written");
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(connect(&replica, &first, None).await.is_ok(), "the last good one stays");
    files.write(&second.server("loadline"));
    let mut tries = 0;
    while connect(&replica, &second, None).await.is_err() {
        tries += 1;
        assert!(tries < 100, "the new certificate is not shown");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(before.active(&object("orders")).await.expect("a connection that is open goes on"));
}

#[tokio::test]
async fn what_is_wrong_with_which_file_is_said() {
    let authority = Authority::new("cluster");
    let problem = |files: &Files| files.read().err().expect("a problem");
    let files = Files::new(&authority.server("loadline"), Some(&authority));
    assert!(files.read().is_ok());
    std::fs::write(files.path("ca.crt"), "nothing").expect("written");
    assert!(problem(&files).contains("ca.crt holds no certificate: expected PEM"));
    std::fs::write(files.path("tls.key"), "nothing").expect("written");
    assert!(problem(&files).contains("tls.key holds no key: expected PEM"));
    std::fs::write(files.path("tls.key"), authority.server("another").key).expect("written");
    assert!(problem(&files).contains("do not fit"));
    std::fs::remove_file(files.path("tls.crt")).expect("removed");
    assert!(problem(&files).contains("tls.crt cannot be read"));
}
