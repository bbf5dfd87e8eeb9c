//! The workers of a real Druid, at every recorded moment: read through the source as from a server, and judged.

#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use loadline::core::advice::{ActionKind, Advice};
use loadline::core::kinds::DruidWorkersSnapshot;
use loadline::core::request::parse;
use loadline::engine::source::{FailureKind, Snapshot, Source};
use loadline::sources::druid::DruidSource;
use loadline::sources::http::{Client, ClientOptions};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use url::Url;

const API: &str = "/druid/indexer/v1/";

/// What one server answered to one user at one moment, by path.
type Answers = BTreeMap<String, (u16, Vec<u8>)>;

struct Moment {
    name: String,
    at: String,
    answers: Answers,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/druid")
}

/// The moments of a folder at which the workers and the pending tasks were asked for: one for each server and user.
fn moments(version: &str, folder: &str) -> Vec<Moment> {
    let root = fixtures().join(version).join(folder);
    let index: Value = serde_json::from_slice(&std::fs::read(root.join("_index.json")).expect("an index")).expect("JSON");
    let mut found: BTreeMap<(String, String), Moment> = BTreeMap::new();
    let mut who = String::new();
    for answer in index["answers"].as_array().expect("answers") {
        let body = match answer["file"].as_str() {
            Some(file) => {
                let mark = ["POST.", "indexer.", "status.", "worker.", "proxy."].iter().filter_map(|mark| file.find(mark)).min();
                mark.and_then(|at| file.get(..at)).unwrap_or_default().clone_into(&mut who);
                std::fs::read(root.join(file)).expect(file)
            }
            None => Vec::new(),
        };
        if answer["method"] != "GET" {
            continue;
        }
        let key = (answer["base"].as_str().expect("a server").to_owned(), who.clone());
        let at = answer["at"].as_str().expect("a time").to_owned();
        let moment = found.entry(key).or_insert_with(|| Moment { name: format!("{version}/{folder}/{who}"), at: at.clone(), answers: Answers::new() });
        moment.at = at;
        // one that did not answer at all
        let Some(status) = answer["status"].as_u64() else { continue };
        let status = u16::try_from(status).expect("a status");
        moment.answers.entry(answer["path"].as_str().expect("a path").to_owned()).or_insert((status, body));
    }
    found.into_values().filter(|moment| ["workers", "pendingTasks"].iter().all(|path| moment.answers.contains_key(&format!("{API}{path}")))).collect()
}

async fn read(moment: &Moment) -> Result<DruidWorkersSnapshot, FailureKind> {
    async fn answer(State(answers): State<Answers>, uri: Uri) -> Response {
        let path = uri.path_and_query().map_or_else(String::new, ToString::to_string);
        let known = answers.get(&path).cloned();
        // where the worker configuration was not asked for, nothing had been set: 200 without a body
        let (status, body) = known.unwrap_or_else(|| if path == format!("{API}worker") { (200, Vec::new()) } else { (404, Vec::new()) });
        (StatusCode::from_u16(status).expect("a status"), [(header::CONTENT_TYPE, "application/json")], body).into_response()
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let server = tokio::spawn(axum::serve(listener, Router::new().fallback(answer).with_state(moment.answers.clone())).into_future());
    let client = Client::new(Url::parse(&format!("http://{address}")).expect("URL"), ClientOptions::default()).expect("client");
    let reading = DruidSource::new(client).read().await;
    server.abort();
    match reading.map_err(|error| error.kind)?.snapshot {
        Snapshot::DruidWorkers(snapshot) => Ok(snapshot),
        other => panic!("a reading of {:?}", other.kind()),
    }
}

/// Judges a reading at the time at which it was recorded.
fn judge(moment: &Moment, snapshot: &DruidWorkersSnapshot, replicas: Value) -> Advice {
    let mut reading = serde_json::to_value(snapshot).expect("JSON");
    for field in ["observedAt", "receivedAt"] {
        reading[field] = json!(moment.at);
    }
    // ages are those of then, not of now
    reading["pending"].as_object_mut().expect("pending").remove("oldestSeconds");
    let body = json!({ "kind": "druidWorkers", "now": moment.at, "replicas": replicas, "snapshot": reading, "policy": { "min": 0, "max": 20, "scaleDown": { "stabilization": "0s" } } });
    let request = parse(&serde_json::to_vec(&body).expect("a body"), "2026-11-30T10:00:00Z".parse().expect("a time"));
    loadline::core::advise(&request.unwrap_or_else(|error| panic!("{}: {error:?}", moment.name)))
}

fn folders() -> Vec<(String, String)> {
    let names = |path: PathBuf| -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(path)
            .expect("a folder")
            .map(|entry| entry.expect("an entry"))
            .filter(|entry| entry.path().is_dir())
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    names(fixtures()).into_iter().flat_map(|version| names(fixtures().join(&version)).into_iter().map(move |folder| (version.clone(), folder))).collect()
}

#[tokio::test]
async fn every_recorded_moment_is_read_or_refused_and_no_worker_with_work_is_given_up() {
    let (mut read_well, mut refused) = (0, BTreeMap::new());
    for (version, folder) in folders() {
        for moment in moments(&version, &folder) {
            let status = moment.answers[&format!("{API}workers")].0;
            let snapshot = match read(&moment).await {
                Ok(snapshot) => snapshot,
                Err(kind) => {
                    refused.insert(moment.name, kind);
                    continue;
                }
            };
            assert_eq!(status, 200, "{}: a refusal was read as a list", moment.name);
            read_well += 1;
            let workers = snapshot.workers.clone().expect("workers");
            let advice = judge(&moment, &snapshot, json!({ "spec": 3, "ready": workers.len() }));
            let recommended = advice.recommended.expect("a number");
            for worker in &workers {
                let goes = worker.ordinal().expect("an ordinal") >= recommended;
                assert!(!goes || (worker.busy() == 0 && !worker.enabled), "{}: {} goes at {recommended}", moment.name, worker.host);
            }
        }
    }
    assert!(read_well >= 40, "only {read_well} moments were read");
    let of = |name: &str| refused.get(name).copied();
    assert_eq!(of("33.0.0/no-worker-list/"), Some(FailureKind::Unsupported), "{refused:?}");
    for name in ["37.0.0/security/nobody.", "37.0.0/security/wrong-password.", "37.0.0/security/blind."] {
        assert_eq!(of(name), Some(FailureKind::Unauthorized), "{refused:?}");
    }
    assert!(of("33.0.0/no-leader/other.").is_some() && of("33.0.0/no-overlord/router.").is_some(), "{refused:?}");
}

async fn advice_at(folder: &str, who: &str, replicas: Value) -> (DruidWorkersSnapshot, Advice) {
    let moment = moments("33.0.0", folder).into_iter().find(|moment| moment.name.ends_with(&format!("/{who}"))).expect(folder);
    let snapshot = read(&moment).await.unwrap_or_else(|kind| panic!("{folder}: {kind:?}"));
    let advice = judge(&moment, &snapshot, replicas);
    (snapshot, advice)
}

fn codes(advice: &Advice) -> Vec<&'static str> {
    advice.reasons.iter().map(|reason| reason.code().name()).collect()
}

#[tokio::test]
async fn nine_tasks_on_six_slots_ask_for_two_more_workers_once_they_have_waited() {
    let all = json!({ "spec": 3, "ready": 3 });
    let (snapshot, new) = advice_at("mm-pending-new", "", all.clone()).await;
    assert_eq!((snapshot.pending.expect("pending").count, new.recommended), (3, Some(3)), "a second old");
    let (_, later) = advice_at("mm-pending", "", all).await;
    assert_eq!((later.recommended, codes(&later)[0]), (Some(5), "PendingTasks"), "three tasks, two slots a worker");
}

#[tokio::test]
async fn a_worker_that_was_disabled_drains_and_is_enabled_before_anything_is_bought() {
    let (snapshot, advice) = advice_at("mm-disabled", "overlord.", json!({ "spec": 3, "ready": 3 })).await;
    let enabled: Vec<_> = snapshot.workers.expect("workers").iter().map(|worker| (worker.ordinal(), worker.enabled, worker.used)).collect();
    assert_eq!(enabled, [(Some(0), true, 2), (Some(1), true, 2), (Some(2), false, 2)]);
    // it has no free slot, so five tasks need three more workers
    assert_eq!(advice.recommended, Some(6), "{:?}", codes(&advice));
    assert!(advice.actions.iter().all(|action| action.action != ActionKind::DisableWorker));
}

#[tokio::test]
async fn a_killed_worker_that_is_no_longer_listed_makes_the_list_incomplete_or_the_pod_missing() {
    let (_, ready) = advice_at("mm-killed-gone", "", json!({ "spec": 3, "ready": 3 })).await;
    assert!(codes(&ready).contains(&"WorkerListIncomplete"), "{:?}", codes(&ready));
    let (_, gone) = advice_at("mm-killed-gone", "", json!({ "spec": 3, "ready": 2 })).await;
    assert!(codes(&gone).contains(&"StartingWorkers") && gone.recommended > Some(3), "{:?}", codes(&gone));
}

#[tokio::test]
async fn what_waits_for_a_lock_asks_for_nothing() {
    let (snapshot, advice) = advice_at("waiting", "", json!({ "spec": 2, "ready": 2 })).await;
    assert_eq!((snapshot.waiting_count, advice.recommended), (Some(2), Some(2)), "{:?}", codes(&advice));
    assert!(!codes(&advice).contains(&"PendingTasks"));
}
