//! Whom the service believes as time goes by: in this process, with certificates put into the requests as the TLS layer does it,
//! and a clock of the test.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use loadline::core::units::Timestamp;
use loadline::engine::source::BoxFuture;
use loadline::engine::store::Store;
use loadline::surfaces::external_metrics::{Cluster, ExternalMetrics, Peer, Review, Rule, Setup};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::authority::{Authority, Signed};
use super::cluster::authentication;

type Data = Result<BTreeMap<String, String>, String>;

struct Told(Arc<Mutex<Data>>);

impl Cluster for Told {
    fn authentication(&self) -> BoxFuture<'_, Data> {
        let data = self.0.lock().expect("no panic").clone();
        Box::pin(async { data })
    }

    fn allows<'a>(&'a self, _: &'a Review) -> BoxFuture<'a, Result<bool, String>> {
        Box::pin(async { Ok(true) })
    }
}

struct Api {
    told: Arc<Mutex<Data>>,
    now: Arc<Mutex<Timestamp>>,
    external: ExternalMetrics,
}

impl Api {
    async fn start(data: Data) -> Self {
        let (told, now) = (Arc::new(Mutex::new(data)), Arc::new(Mutex::new(loadline::engine::clock::now())));
        let clock = {
            let now = Arc::clone(&now);
            Arc::new(move || *now.lock().expect("no panic"))
        };
        let setup = Setup { store: Arc::new(Store::new()), clock, cluster: Arc::new(Told(Arc::clone(&told))), rule: Rule::Review };
        let external = ExternalMetrics::new(setup);
        let follower = external.clone();
        tokio::spawn(async move { follower.follow_trust(CancellationToken::new()).await });
        tokio::time::sleep(Duration::from_millis(1)).await;
        Self { told, now, external }
    }

    async fn tell(&self, data: Data) {
        *self.told.lock().expect("no panic") = data;
        tokio::time::sleep(Duration::from_secs(61)).await;
    }

    async fn status(&self, signed: &Signed) -> u16 {
        let mut request = Request::get("/apis").header("X-Remote-User", "ada").header("X-Forwarded-For-User", "eve").body(Body::empty()).expect("a request");
        request.extensions_mut().insert(Peer(Arc::new([signed.der()])));
        self.external.router().oneshot(request).await.expect("an answer").status().as_u16()
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_authority_holds_within_a_minute_and_what_was_known_stays_where_it_cannot_be_read() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let (theirs, ours) = (old.client("front-proxy-client"), new.client("front-proxy-client"));
    let api = Api::start(Ok(authentication(&old))).await;
    assert_eq!((api.status(&theirs).await, api.status(&ours).await), (200, 401));
    for broken in [Err("HTTP 500".to_owned()), Ok(BTreeMap::new()), Ok(BTreeMap::from([("requestheader-client-ca-file".to_owned(), "junk".to_owned())]))] {
        api.tell(broken).await;
        assert_eq!((api.status(&theirs).await, api.status(&ours).await), (200, 401));
    }
    // while one authority takes the place of the other both are there
    let mut both = authentication(&old);
    both.insert("requestheader-client-ca-file".to_owned(), format!("{}{}", old.pem(), new.pem()));
    api.tell(Ok(both)).await;
    assert_eq!((api.status(&theirs).await, api.status(&ours).await), (200, 200));
    api.tell(Ok(authentication(&new))).await;
    assert_eq!((api.status(&theirs).await, api.status(&ours).await), (401, 200));
}

#[tokio::test(start_paused = true)]
async fn names_and_headers_are_those_of_the_cluster() {
    let authority = Authority::new("front proxy");
    let with = |key: &str, text: &str| {
        let mut data = authentication(&authority);
        data.insert(key.to_owned(), text.to_owned());
        Ok(data)
    };
    let (proxy, other) = (authority.client("front-proxy-client"), authority.client("other"));
    let api = Api::start(with("requestheader-allowed-names", "[]")).await;
    assert_eq!((api.status(&proxy).await, api.status(&other).await), (200, 200), "an empty list: any name");
    api.tell(with("requestheader-allowed-names", r#"["a","other"]"#)).await;
    assert_eq!((api.status(&proxy).await, api.status(&other).await), (401, 200));
    api.tell(with("requestheader-username-headers", r#"["X-User"]"#)).await;
    assert_eq!(api.status(&proxy).await, 401, "X-Remote-User is no header that names a user there");
    for (key, text) in
        [("requestheader-allowed-names", "front-proxy-client"), ("requestheader-username-headers", r#"["no header"]"#), ("requestheader-username-headers", "")]
    {
        let api = Api::start(with(key, text)).await;
        assert_eq!(api.status(&proxy).await, 503, "{key}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_certificate_that_runs_out_is_refused_on_a_connection_that_stays_open() {
    let authority = Authority::new("front proxy");
    let api = Api::start(Ok(authentication(&authority))).await;
    let end = *api.now.lock().expect("no panic") + Duration::from_secs(3600);
    let proxy = authority.client_until("front-proxy-client", end);
    assert_eq!(api.status(&proxy).await, 200);
    *api.now.lock().expect("no panic") = end + Duration::from_secs(1);
    assert_eq!(api.status(&proxy).await, 401);
}
