//! Every kind of group on a real Kafka, and Loadline's reading of each against that of Kafka's own Admin client: the same
//! commits, the same ends, the same lags, in few calls.
//!
//! Equality needs offsets at rest, and a lag at rest needs a consumer that leaves something: each of the groups has a
//! partition that its consumer holds and never reads, from a commit that was made before.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use loadline::engine::clock;
use loadline::engine::source::Source as _;
use loadline::sources::Timing;
use loadline::sources::kafka::reader::KafkaReader;
use loadline::sources::kafka::wire::client::KafkaClient;
use loadline::sources::kafka::wire::security::Security;
use loadline::sources::kafka::{KafkaCluster, KafkaSource, Wishes};
use serde_json::{Value, json};

use crate::kafka_lab::KafkaLab;
use crate::service::Service;

const MANY: usize = 200;

fn configuration(http: u16, grpc: u16, broker: &str) -> String {
    let entry = |name: &str, group: &str, policy: &str| {
        format!(
            "  - name: {name}\n    kind: kafkaGroup\n    source: {{ kafka: {{ brokers: [\"{broker}\"], group: \"{group}\" }} }}\n    policy: {{ {policy} }}\n"
        )
    };
    format!(
        "server: {{ http: \"127.0.0.1:{http}\", grpc: \"127.0.0.1:{grpc}\" }}\ndefaults: {{ interval: 3s, timeout: 5s }}\ntargets:\n{}{}{}",
        entry("all", "g-.*", "maxLagSeconds: 60, stuckAfter: 10s"),
        entry("many", "many-.*", "offsetReset: earliest"),
        entry("strict", "g-open", "isolation: readCommitted"),
    )
}

/// A partition as both readings tell of it.
#[derive(Debug, PartialEq)]
struct Place {
    committed: Option<u64>,
    end: Option<u64>,
    lag: Option<u64>,
}

/// What Kafka's client says of a group: partitions with a place of the group, by `topic-partition`.
fn theirs(group: &Value) -> BTreeMap<String, Place> {
    let place = |row: &Value| {
        let (committed, end) = (row["committed"].as_u64(), row["end"].as_u64());
        // of a share group what was done beyond the start does not wait
        let lag = if group["type"] == "Share" { row["shareLag"].as_u64() } else { committed.zip(end).map(|(committed, end)| end - committed) };
        Place { committed, end, lag }
    };
    group["offsets"].as_object().unwrap().iter().map(|(name, row)| (name.clone(), place(row))).collect()
}

/// What Loadline has read of a group.
fn ours(snapshot: &Value) -> BTreeMap<String, Place> {
    let mut places = BTreeMap::new();
    for topic in snapshot["topics"].as_array().unwrap() {
        for partition in topic["partitions"].as_array().unwrap() {
            let (committed, end) = (partition["committed"].as_u64(), partition["logEnd"].as_u64());
            if committed.is_some() && topic["deleted"] != true {
                let lag = if snapshot["type"] == "share" { partition["lag"].as_u64() } else { committed.zip(end).map(|(committed, end)| end - committed) };
                places.insert(format!("{}-{}", topic["name"].as_str().unwrap(), partition["partition"]), Place { committed, end, lag });
            }
        }
    }
    places
}

/// The target of a group.
fn target(group: &str) -> String {
    format!("/v1/targets/{}.{group}", if group.starts_with("many-") { "many" } else { "all" })
}

/// The newest reading of a target.
async fn snapshot(service: &Service, target: &str) -> Value {
    let (status, request) = service.ask(&format!("{target}/request")).await;
    if status == 200 { request["snapshot"].clone() } else { Value::Null }
}

/// Waits until a reading is as it should be.
async fn once(service: &Service, target: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let limit = clock::instant() + Duration::from_secs(40);
    loop {
        let found = snapshot(service, target).await;
        if holds(&found) {
            return found;
        }
        assert!(clock::instant() < limit, "not within 40 s: {target} {what}: {found}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// A partition of a topic in a reading.
fn partition<'a>(snapshot: &'a Value, topic: &str, number: usize) -> &'a Value {
    let topics = snapshot["topics"].as_array().map_or(&[][..], Vec::as_slice);
    topics.iter().find(|found| found["name"] == topic).map_or(&Value::Null, |found| &found["partitions"][number])
}

fn settled(groups: &Value, group: &str, members: u64, places: &[(&str, u64)]) -> bool {
    let found = &groups[group];
    found["state"] == "Stable" && found["members"] == members && places.iter().all(|(name, committed)| found["offsets"][name]["committed"] == *committed)
}

#[tokio::test]
async fn readings_of_all_kinds_of_groups_are_those_of_kafkas_own_client_in_few_calls() {
    let lab = KafkaLab::start().await;
    set_up(&lab).await;
    let service = Service::start(|http, grpc| configuration(http, grpc, &lab.broker())).await;

    for name in ["g-classic", "g-modern", "g-share", "g-latest", "g-silent", "g-open", "g-slow", "g-grown", "g-doomed"] {
        once(&service, &target(name), "is read", |found| !found.is_null()).await;
    }
    once(&service, "/v1/targets/many.many-199", "is read", |found| !found.is_null()).await;
    the_readings_agree(&lab, &service).await;
    the_kinds_are_told(&service).await;
    it_takes_few_calls(&service).await;
    in_figures(&lab).await;

    eprintln!("live: partitions are added, a topic goes, and a transaction stays open");
    lab.launch("open", "transactions open 1 6 90");
    lab.run(&["partitions grown 4", "produce grown 8", "delete-topic doomed"]).await;
    let grown = once(&service, &target("g-grown"), "has four partitions", |found| partition(found, "grown", 3)["logEnd"].is_u64()).await;
    assert_eq!((&partition(&grown, "grown", 3)["committed"], &partition(&grown, "grown", 3)["logStart"]), (&Value::Null, &json!(0)), "{grown}");
    once(&service, &target("g-doomed"), "has no doomed topic left that counts", |found| {
        let topics = found["topics"].as_array().map_or(&[][..], Vec::as_slice);
        topics.iter().all(|topic| topic["name"] != "doomed" || topic["deleted"] == true)
    })
    .await;
    let strict = once(&service, "/v1/targets/strict", "sees the open transaction", |found| {
        let first = partition(found, "open", 0);
        first["lastStable"].as_u64().zip(first["logEnd"].as_u64()).is_some_and(|(stable, end)| stable < end)
    })
    .await;
    let theirs = lab.read().await;
    for number in 0..2 {
        let (place, row) = (partition(&strict, "open", number), &theirs["g-open"]["offsets"][format!("open-{number}")]);
        assert_eq!((&place["lastStable"], &place["logEnd"], &place["committed"]), (&row["stable"], &row["end"], &row["committed"]), "{strict}\n{theirs}");
    }
    the_readings_agree(&lab, &service).await;

    eprintln!("live: the logins, and what an account without permission is told");
    logins(&lab);
}

/// The groups, at rest.
async fn set_up(lab: &KafkaLab) {
    lab.run(&[
        "topic classic 3",
        "topic modern 4",
        "topic shared 2",
        "topic quiet 2",
        "topic open 2",
        "topic short 1 retention.ms=1000 segment.ms=1000",
        "topic grown 2",
        "topic doomed 1",
        "topic many 4",
        "produce classic 90",
        "produce modern 120",
        "produce quiet 10",
        "produce short 50",
        "produce grown 20",
        "produce doomed 10",
        "produce many 400",
        "commit g-classic classic 0 7",
        "commit g-modern modern 2 11",
        "commit g-slow short 0 5",
        "commit g-grown grown 0 4",
        "commit g-grown grown 1 10",
        "commit g-doomed doomed 0 3",
        "commit g-doomed grown 0 10",
        "groups many- 200 many",
        "group-config g-share share.auto.offset.reset=earliest",
        "transactions open 3 4",
        "acls reader *",
    ])
    .await;
    lab.launch("classic", "consume g-classic classic classic 1 pause=0");
    lab.launch("modern", "consume g-modern modern consumer 1 pause=2");
    lab.launch("share", "consume g-share shared share 1");
    lab.launch("latest", "consume g-latest quiet classic 1 auto.offset.reset=latest");
    lab.launch("silent", "consume g-silent quiet consumer 1 commit=no");
    lab.launch("committed", "consume g-open open classic 1 isolation.level=read_committed");
    let read = |groups: &Value| {
        settled(groups, "g-classic", 1, &[("classic-0", 7), ("classic-1", 30), ("classic-2", 30)])
            && settled(groups, "g-modern", 1, &[("modern-0", 30), ("modern-1", 30), ("modern-2", 11), ("modern-3", 30)])
            && settled(groups, "g-latest", 1, &[])
            && settled(groups, "g-silent", 1, &[])
            && groups["g-open"]["offsets"]["open-0"]["committed"].as_u64() >= Some(8)
            && groups["g-share"]["members"] == 1
            // retention has passed the slow group
            && groups["g-slow"]["offsets"]["short-0"]["start"].as_u64() == Some(50)
    };
    lab.once("the groups have read what they are to read", read).await;
    lab.run(&["topic-config short retention.ms=3600000", "produce short 7", "produce shared 40"]).await;
    // the share group has read forty, leaves, and thirty more wait
    lab.once("the share group has read", |groups| {
        let offsets = groups["g-share"]["offsets"].as_object().unwrap();
        offsets.len() == 2 && offsets.values().all(|row| row["shareLag"] == 0 && row["end"] == 20)
    })
    .await;
    lab.stop("share");
    lab.run(&["produce shared 30"]).await;
}

/// Every group that Kafka's client finds, partition by partition.
async fn the_readings_agree(lab: &KafkaLab, service: &Service) {
    let limit = clock::instant() + Duration::from_secs(40);
    loop {
        // whatever rests is read by both in any order; what has just moved is read again
        tokio::time::sleep(Duration::from_secs(4)).await;
        let groups = lab.read().await;
        let mut apart = Vec::new();
        let (mut compared, mut partitions, mut waiting) = (0, 0, 0);
        for (name, group) in groups.as_object().unwrap() {
            let (theirs, found) = (theirs(group), snapshot(service, &target(name)).await);
            let ours = ours(&found);
            if ours != theirs || found["members"] != group["members"] {
                apart.push(format!("{name}: Kafka {theirs:?} of {}, Loadline {ours:?} of {}", group["members"], found["members"]));
            }
            compared += 1;
            partitions += theirs.len();
            waiting += theirs.values().filter_map(|place| place.lag).sum::<u64>();
        }
        if apart.is_empty() {
            assert!(compared >= MANY + 9, "only {compared} groups were compared");
            eprintln!("live: {compared} groups, {partitions} partitions, {waiting} records wait: Loadline and Kafka's client agree on each");
            return;
        }
        assert!(clock::instant() < limit, "{}\n{}", apart.join("\n"), lab.logs());
    }
}

/// What a reading tells beside offsets.
async fn the_kinds_are_told(service: &Service) {
    let of = async |name: &str| snapshot(service, &target(name)).await;
    let (classic, modern, share) = (of("g-classic").await, of("g-modern").await, of("g-share").await);
    assert_eq!((&classic["type"], &modern["type"], &share["type"]), (&json!("classic"), &json!("consumer"), &json!("share")));
    assert_eq!((&classic["assignor"], &modern["assignor"], &share["state"]), (&json!("range"), &json!("uniform"), &json!("Empty")));
    // it holds the partition, has a commit there, and does not move: what a stuck consumer looks like
    let stuck = partition(&modern, "modern", 2);
    assert!(stuck["member"].is_string() && stuck["committed"] == 11 && stuck["logEnd"] == 30, "{stuck}");
    assert!(stuck["commitUnchangedSeconds"].as_f64().is_some(), "{stuck}");
    // nothing of what waits is younger than the objective allows, or all of it: the broker tells by time
    assert_eq!(stuck["offsetsByAge"][0]["ageSeconds"], 60.0, "{stuck}");
    let slow = of("g-slow").await;
    let lost = partition(&slow, "short", 0);
    assert_eq!((&lost["committed"], &lost["logStart"], &lost["logEnd"]), (&json!(5), &json!(50), &json!(57)), "retention has passed it: {slow}");
    for name in ["g-latest", "g-silent"] {
        let found = of(name).await;
        let first = partition(&found, "quiet", 0);
        assert_eq!((&found["members"], &first["committed"], &first["logStart"], &first["logEnd"]), (&json!(1), &Value::Null, &json!(0), &json!(5)), "{found}");
    }
    let strict = snapshot(service, "/v1/targets/strict").await;
    let first = partition(&strict, "open", 0);
    assert_eq!(first["lastStable"], first["logEnd"], "no transaction is open: {strict}");
    // a marker ends each transaction, and takes an offset that no consumer sees
    let left = first["logEnd"].as_u64().unwrap() - first["committed"].as_u64().unwrap();
    assert!(left <= 1, "all is read: {strict}");
    assert_eq!(classic["topics"][0]["retentionSeconds"], 604_800.0, "{classic}");
}

async fn it_takes_few_calls(service: &Service) {
    let view = service.get(&target("many-000")).await;
    let shared = view["source"]["sharedCallsPerReading"].as_u64().unwrap();
    // three types of groups, commits, share offsets, topics, ends, stable ends, starts, one objective; a search may fall into it
    assert!((10..=13).contains(&shared), "{view}");
    let status = service.get("/v1/status").await;
    assert_eq!(status["entries"].as_array().unwrap().iter().find(|entry| entry["name"] == "many").unwrap()["targets"], MANY, "{status}");
    let metrics = service.text("/metrics").await;
    let took = metrics.lines().find(|line| line.starts_with("loadline_source_shared_calls_per_reading") && line.contains("many.many-000"));
    assert!(took.is_some(), "the calls are a gauge");
    eprintln!("live: a reading of {} groups takes {shared} calls", MANY + 9);
}

/// Calls and time of one reading, of one group and of two hundred, from a client of its own.
async fn in_figures(lab: &KafkaLab) {
    let (host, port) = lab.listener(0).rsplit_once(':').map(|(host, port)| (host.to_owned(), port.parse().unwrap())).unwrap();
    let client = Arc::new(KafkaClient::new(vec![(host, port)], Security::default()));
    let began = clock::instant();
    let list = client.list().await.unwrap();
    let listing = format!("a list of {} groups {} calls, connecting among them, {:.0?}", list.len(), client.calls(), began.elapsed());
    let timing = Timing { interval: Duration::ZERO, timeout: Duration::from_secs(5) };
    for count in [1, MANY] {
        let cluster = Arc::new(KafkaCluster::new("lab".to_owned(), Arc::clone(&client) as Arc<dyn KafkaReader>));
        let source = |number: usize| KafkaSource::new(Arc::clone(&cluster), format!("many-{number:03}"), Wishes::default(), timing);
        let sources: Vec<KafkaSource> = (0..count).map(source).collect();
        // types, coordinators and the retention are known after the first
        sources[0].read().await.unwrap();
        let began = clock::instant();
        sources[0].read().await.unwrap();
        let (took, calls) = (began.elapsed(), sources[0].shared_calls());
        // members, commits, topics, ends, starts
        assert_eq!(calls, 5, "of {count} groups");
        eprintln!("live: a steady reading of {count} groups: {calls} calls, {took:.0?}; {listing}");
    }
}

/// Asks once with these settings of the source; gives what `probe` says.
fn probe(lab: &KafkaLab, listener: u16, settings: &str) -> (bool, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let source = format!("brokers: [\"{}\"], group: g-modern, {settings}", lab.listener(listener));
    std::fs::write(file.path(), format!("targets: [ {{ name: g, kind: kafkaGroup, source: {{ kafka: {{ {source} }} }} }} ]")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_loadline")).args(["probe", "target", "--config"]).arg(file.path()).stdin(Stdio::null()).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn logins(lab: &KafkaLab) {
    let ca = format!("tls: {{ caFile: {} }}", lab.file("ca.pem"));
    let own = format!("tls: {{ caFile: {}, certFile: {}, keyFile: {} }}", lab.file("ca.pem"), lab.file("client.pem"), lab.file("client.key"));
    let account =
        |mechanism: &str, user: &str, password: &str| format!("sasl: {{ mechanism: {mechanism}, username: {user}, passwordFile: {} }}", lab.file(password));
    let token = format!("sasl: {{ mechanism: OAUTHBEARER, tokenFile: {} }}", lab.file("reader.token"));
    let works = [
        (2, ca.clone()),
        (3, account("PLAIN", "reader", "reader.password")),
        (3, account("SCRAM-SHA-256", "reader", "reader.password")),
        (3, account("SCRAM-SHA-512", "reader", "reader.password")),
        (3, token.clone()),
        (4, format!("{ca}, {}", account("SCRAM-SHA-512", "reader", "reader.password"))),
        (4, format!("{ca}, {token}")),
    ];
    for (listener, settings) in works {
        let (fine, said) = probe(lab, listener, &settings);
        assert!(fine && said.starts_with("one reading in "), "{settings}: {said}");
    }
    let not_allowed = "unauthorized: the account may not read the group \"g-modern\": expected permission DESCRIBE on the group";
    let fails = [
        // the certificate is an account of its own, without permissions
        (2, own, not_allowed),
        (3, account("PLAIN", "stranger", "stranger.password"), not_allowed),
        (3, account("PLAIN", "reader", "wrong.password"), "refuses the login by PLAIN"),
        (3, account("SCRAM-SHA-512", "reader", "wrong.password"), "refuses the login by SCRAM-SHA-512"),
        (3, format!("sasl: {{ mechanism: OAUTHBEARER, tokenFile: {} }}", lab.file("wrong.password")), "refuses the login by OAUTHBEARER"),
        (3, String::new(), "does the broker want a login (sasl)?"),
        (2, String::new(), "does this port want TLS?"),
        (2, "tls: {}".to_owned(), "tls: the broker's certificate is not accepted"),
        (0, ca, "tls: the TLS handshake failed"),
    ];
    for (listener, settings, words) in fails {
        let (fine, said) = probe(lab, listener, &settings);
        assert!(!fine && said.contains(words) && !said.contains("-secret"), "{settings}: {said}");
    }
}
