//! The configuration: what is valid, and that everything that is not is told at once, by path.

#![expect(clippy::indexing_slicing, clippy::expect_used, reason = "a test fails by panicking")]

use loadline::config::kafka::{KafkaGroupName, KafkaLogin, KafkaTls, Mechanism};
use loadline::config::{Configuration, ExternalMetricsConfig, FlinkJobName, LeaseConfig, ReplicasConfig, SourceConfig, parse};
use loadline::core::policy::{Apply, Drain};
use loadline::core::request::{Kind, Problem};
use loadline::core::units::Duration;

const VALID: &str = r#"
server:
  http: "127.0.0.1:8080"
  grpc: "127.0.0.1:9090"
  auth: { bearerTokenFile: /etc/loadline/token }
  tls: null
  grpcTls: null
  externalMetrics: null
defaults: { interval: 30s, timeout: 5s }
targets:
  - name: druid-middlemanagers
    namespace: druid
    kind: druidWorkers
    cluster: druid-main
    source: { druid: { url: "http://druid-router:8888", basicAuth: { username: loadline, passwordFile: /etc/loadline/druid } } }
    replicas: { kubernetes: { apiVersion: apps/v1, kind: StatefulSet, name: druid-mm } }
    policy: { min: 1, max: 8, drain: advise }
  - name: orders-job
    kind: flinkJob
    source: { flink: { url: "http://orders-rest:8081", job: orders } }
    policy: { targetUtilization: 0.75 }
    interval: 2m
    timeout: 60s
"#;

fn problems(text: &str) -> Vec<Problem> {
    parse(text).expect_err("a configuration with problems")
}

/// A target that is valid but for the lines given.
fn target(lines: &str) -> String {
    format!("targets:\n  - name: orders\n    kind: flinkJob\n    source: {{ flink: {{ url: \"http://flink:8081\", job: orders }} }}\n{lines}")
}

#[track_caller]
fn refused(text: &str, path: &str, words: &str) {
    let found = problems(text);
    assert!(found.iter().any(|problem| problem.path == path && problem.message.contains(words)), "no problem at {path} with \"{words}\" in {found:?}");
}

#[test]
fn a_whole_configuration_is_read_as_it_is_meant() {
    let configuration = parse(VALID).expect("a valid configuration");
    assert_eq!(configuration.server.http.port(), 8080);
    let [druid, flink] = configuration.targets.as_slice() else { unreachable!("two targets") };
    assert_eq!((druid.kind, druid.namespace.as_str(), druid.cluster.as_deref()), (Kind::DruidWorkers, "druid", Some("druid-main")));
    assert!(matches!(&druid.replicas, Some(ReplicasConfig::Kubernetes { name, .. }) if name == "druid-mm"));
    assert!(matches!(&flink.source, SourceConfig::Flink { job: FlinkJobName::Name(name), .. } if name == "orders"));
    assert_eq!((flink.interval.seconds(), flink.timeout.seconds()), (120.0, 60.0), "what a target says wins over the defaults");
    assert_eq!(flink.policy.stale_after.map(Duration::seconds), Some(360.0), "at least three intervals");
    assert_eq!(druid.policy.stale_after.map(Duration::seconds), Some(120.0));
}

#[test]
fn an_empty_file_is_a_service_for_posted_requests() {
    assert_eq!(parse("").expect("valid"), Configuration::default());
    assert_eq!(parse("{}").expect("valid"), Configuration::default());
}

#[test]
fn the_configuration_in_force_names_files_and_holds_no_secret() {
    let configuration = parse(VALID).expect("valid");
    let text = configuration.targets[0].effective().to_string();
    assert!(text.contains("/etc/loadline/druid") && text.contains("\"interval\":\"30s\""), "{text}");
    refused(
        &VALID.replace("http://druid-router:8888", "http://user:marked-secret@druid-router:8888"),
        "targets[0].source.druid.url",
        "carries a user or a password",
    );
    let said = format!("{:?}", problems(&VALID.replace("http://druid-router:8888", "http://user:marked-secret@druid-router:8888")));
    assert!(!said.contains("marked-secret"), "{said}");
}

#[test]
fn all_problems_are_told_at_once() {
    let text = r#"
server: { http: "here" }
targets:
  - name: Orders
    kind: flinkJob
    source: { flink: { url: "ftp://flink", job: "" } }
    policy: { min: 5, max: 2, scaleDown: { maxFactor: 3 } }
    interval: 500ms
  - name: b
    kind: cattle
    source: {}
"#;
    let paths: Vec<String> = problems(text).into_iter().map(|problem| problem.path).collect();
    for path in [
        "server.http",
        "targets[0].name",
        "targets[0].source.flink.url",
        "targets[0].source.flink.job",
        "targets[0].policy.max",
        "targets[0].policy.scaleDown.maxFactor",
        "targets[0].interval",
        "targets[1].kind",
        "targets[1].source",
    ] {
        assert!(paths.iter().any(|found| found == path), "{path} is not among {paths:?}");
    }
}

#[test]
fn misfits_of_shape_are_told_at_once_as_well() {
    let text = "targets:\n  - name: a\n    kind: flinkJob\n    sauce: {}\n    source: { flink: { url: \"http://f\", job: j } }\n    policy: { min: one, pausd: true }\n";
    let paths: Vec<String> = problems(text).into_iter().map(|problem| problem.path).collect();
    for path in ["targets[0].sauce", "targets[0].policy.min", "targets[0].policy.pausd"] {
        assert!(paths.iter().any(|found| found == path), "{path} is not among {paths:?}");
    }
}

#[test]
fn what_is_no_yaml_is_refused_with_its_place_and_without_its_text() {
    let found = problems("targets:\n  - name: [marked-secret\n");
    assert_eq!(found.len(), 1);
    assert!(found[0].message.contains("not YAML") && !found[0].message.contains("marked-secret"), "{found:?}");
}

#[test]
fn single_faults_are_named_by_path_value_and_expectation() {
    refused(&target("    policy: { max: -3 }"), "targets[0].policy.max", "-3");
    refused(&target("    policy: { staleAfter: 30s }"), "targets[0].policy.staleAfter", "three intervals");
    refused(&target("    policy: { drain: advise }"), "targets[0].policy.drain", "druidWorkers");
    refused(&target("    timeout: 0s"), "targets[0].timeout", "more than 0s");
    refused(&target("    replicas: {}"), "targets[0].replicas", "exactly one");
    refused(&target("    replicas: { static: 2, kubernetes: { apiVersion: apps/v1, kind: Deployment, name: a } }"), "targets[0].replicas", "exactly one");
    refused(&target("    interval: soon"), "targets[0].interval", "\"soon\"");
    refused(
        &target("  - name: orders\n    kind: flinkJob\n    source: { flink: { url: \"http://f\", job: j } }"),
        "targets[1].name",
        "expected each name once",
    );
    refused(&target("").replace("kind: flinkJob", "kind: druidWorkers"), "targets[0].source.flink", "flinkJob");
    refused(&target("").replace("name: orders", &format!("name: {}", "a".repeat(64))), "targets[0].name", "at most 63");
    refused("server: { tls: { certFile: a } }", "server.tls", "expected null");
}

#[test]
fn names_are_lower_case_and_short() {
    for name in ["a", "a-b.c", "0", "orders-job.v2"] {
        assert!(parse(&target("").replace("name: orders", &format!("name: \"{name}\""))).is_ok(), "{name}");
    }
    for name in ["", "A", "-a", "a-", "a_b", "a b", ".a"] {
        refused(&target("").replace("name: orders", &format!("name: \"{name}\"")), "targets[0].name", "no name");
    }
}

#[test]
fn the_schema_is_the_one_that_is_checked_in() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schema/config.schema.json");
    let schema = format!("{}\n", loadline::cli::config_schema());
    if std::env::var_os("LOADLINE_BLESS").is_some() {
        std::fs::write(path, &schema).expect("the schema can be written");
    }
    assert!(std::fs::read_to_string(path).expect("schema/config.schema.json") == schema, "schema/config.schema.json differs: LOADLINE_BLESS=1 rewrites it");
}

#[test]
fn a_misfit_in_one_target_does_not_hide_what_is_wrong_with_another() {
    let text = "targets:\n  - { name: one, kind: flinkJob, colour: red, source: { flink: { url: \"http://f\", job: j } } }\n  - { name: two, kind: flinkJob, source: { flink: { url: \"http://f\", job: \"\" } } }\n";
    let paths: Vec<String> = parse(text).expect_err("not valid").into_iter().map(|problem| problem.path).collect();
    assert_eq!(paths, ["targets[0].colour", "targets[1].source.flink.job"]);
}

/// A Kafka group with these members of its source.
fn kafka(members: &str) -> String {
    format!("targets: [ {{ name: orders, kind: kafkaGroup, source: {{ kafka: {{ {members} }} }} }} ]")
}

#[test]
fn a_kafka_group_is_read_as_it_is_meant_and_a_pattern_stands_for_many() {
    let text = kafka(
        "brokers: [\"kafka-0:9093\", kafka-1], group: com.example.orders, tls: { caFile: /ca.pem, certFile: /c.pem, keyFile: /k.pem }, \
         sasl: { mechanism: SCRAM-SHA-512, username: loadline, passwordFile: /password }",
    );
    let configuration = parse(&text).expect("a valid configuration");
    let SourceConfig::Kafka { server, group } = &configuration.targets[0].source else { unreachable!("a Kafka source") };
    assert_eq!(server.brokers, [("kafka-0".to_owned(), 9093), ("kafka-1".to_owned(), 9092)]);
    assert_eq!(server.tls, Some(KafkaTls { ca_file: Some("/ca.pem".into()), client: Some(("/c.pem".into(), "/k.pem".into())) }));
    assert_eq!(server.sasl, Some(KafkaLogin::Password(Mechanism::ScramSha512, "loadline".to_owned(), "/password".into())));
    assert_eq!(*group, KafkaGroupName::Id("com.example.orders".to_owned()), "dots make no pattern");
    let shown = configuration.targets[0].effective();
    assert_eq!(shown["source"]["kafka"]["sasl"]["passwordFile"], "/password");
    let configuration = parse(&kafka("brokers: [k], group: \"orders-.*\", exclude: [\".*-test\"], sasl: { mechanism: OAUTHBEARER, tokenFile: /token }"));
    let configuration = configuration.expect("a valid configuration");
    let SourceConfig::Kafka { server, group } = &configuration.targets[0].source else { unreachable!("a Kafka source") };
    assert_eq!(server.sasl, Some(KafkaLogin::Token("/token".into())));
    let expected = KafkaGroupName::Pattern { group: "orders-.*".to_owned(), include: vec![], exclude: vec![".*-test".to_owned()] };
    assert_eq!(*group, expected);
}

#[test]
fn what_is_wrong_with_a_kafka_source_is_told_by_path() {
    for (members, path, words) in [
        ("brokers: [], group: g", "brokers", "is empty"),
        ("brokers: [\"k:0\"], group: g", "brokers[0]", "\"k:0\" is no broker: expected host:port"),
        ("brokers: [\"SASL_SSL://k:9092\"], group: g", "brokers[0]", "is no broker"),
        ("brokers: [k], group: \" \"", "group", "is empty"),
        ("brokers: [k], group: \"orders-(\"", "group", "\"orders-(\" is no pattern: unclosed group"),
        ("brokers: [k], group: orders, include: [\"a.*\"]", "include", "stands beside one group"),
        ("brokers: [k], group: \"o.*\", exclude: [\"[\"]", "exclude[0]", "is no pattern"),
        ("brokers: [k], group: g, tls: { certFile: /c }", "tls.keyFile", "is missing"),
        ("brokers: [k], group: g, tls: { keyFile: /k }", "tls.certFile", "is missing"),
        ("brokers: [k], group: g, sasl: { mechanism: PLAIN, passwordFile: /p }", "sasl.username", "is missing"),
        ("brokers: [k], group: g, sasl: { mechanism: SCRAM-SHA-256, username: u }", "sasl.passwordFile", "is missing"),
        ("brokers: [k], group: g, sasl: { mechanism: OAUTHBEARER }", "sasl.tokenFile", "is missing"),
        ("brokers: [k], group: g, sasl: { mechanism: OAUTHBEARER, tokenFile: /t, username: u }", "sasl.username", "is not used with OAUTHBEARER"),
        ("brokers: [k], group: g, sasl: { mechanism: GSSAPI }", "sasl.mechanism", "GSSAPI"),
    ] {
        let found = problems(&kafka(members));
        let path = format!("targets[0].source.kafka.{path}");
        assert!(found.iter().any(|problem| problem.path == path && problem.message.contains(words)), "no problem at {path} with \"{words}\" in {found:?}");
    }
    refused(
        "targets: [ { name: a, kind: flinkJob, source: { kafka: { brokers: [k], group: g } } } ]",
        "targets[0].source.kafka",
        "gives readings of kafkaGroup",
    );
    let said = format!("{:?}", problems(&kafka("brokers: [\"admin:hunter2@kafka:9092\"], group: g")));
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn a_password_that_was_written_in_the_wrong_place_is_not_repeated() {
    for source in ["url: \"http://f\", job: j, basicAuth: \"admin:hunter2\"", "url: \"admin:hunter2@\", job: j", "url: \"http://admin:hunter2@f\", job: j"] {
        let text = format!("targets: [ {{ name: a, kind: flinkJob, source: {{ flink: {{ {source} }} }} }} ]");
        let problems = parse(&text).expect_err(source);
        assert!(!format!("{problems:?}").contains("hunter2"), "{problems:?}");
    }
}

#[test]
fn a_job_may_be_called_no() {
    let text = "targets: [ { name: a, kind: flinkJob, source: { flink: { url: \"http://f\", job: no } } } ]";
    assert_eq!(parse(text).expect("valid").targets.len(), 1);
}

#[test]
fn targets_can_be_performed_for() {
    let text = VALID.replace("drain: advise", "drain: perform").replace("targetUtilization: 0.75", "apply: perform");
    let configuration = parse(&text).expect("valid");
    assert_eq!(configuration.targets[0].policy.drain, Some(Drain::Perform));
    assert_eq!(configuration.targets[1].policy.apply, Some(Apply::Perform));
    refused(&VALID.replace("drain: advise", "apply: perform"), "targets[0].policy.apply", "flinkJob");
}

#[test]
fn the_lease_has_defaults_and_is_checked() {
    assert_eq!(parse("server: { lease: null }").expect("valid").server.lease, LeaseConfig::default());
    let given = parse("server: { lease: { name: my-lease, namespace: streams, duration: 30s, enabled: true } }").expect("valid").server.lease;
    assert_eq!(given, LeaseConfig { enabled: Some(true), name: "my-lease".to_owned(), namespace: Some("streams".to_owned()), seconds: 30 });
    refused("server: { lease: { name: \"../x\" } }", "server.lease.name", "is no name in Kubernetes");
    refused("server: { lease: { namespace: \"\" } }", "server.lease.namespace", "is no name in Kubernetes");
    for duration in ["4s", "1500ms", "6m", "10.5s"] {
        refused(&format!("server: {{ lease: {{ duration: {duration} }} }}"), "server.lease.duration", "whole seconds, 5s to 5m");
    }
    refused("server: { lease: { holder: me } }", "server.lease.holder", "");
}

#[test]
fn an_entry_may_stand_for_many_jobs_of_a_cluster() {
    let text = VALID.replace("job: orders }", "job: \"*\", include: [\"orders-*\"], exclude: [\"test-*\"] }");
    let configuration = parse(&text).expect("valid");
    let target = &configuration.targets[1];
    let SourceConfig::Flink { job: FlinkJobName::Pattern { job, include, exclude }, .. } = &target.source else { unreachable!("a pattern") };
    assert_eq!((job.as_str(), include.as_slice(), exclude.as_slice()), ("*", &["orders-*".to_owned()][..], &["test-*".to_owned()][..]));
    let effective = target.effective();
    assert_eq!((&effective["source"]["flink"]["job"], &effective["source"]["flink"]["exclude"][0]), (&"*".into(), &"test-*".into()));
    assert!(parse(&VALID.replace("job: orders }", "job: \"orders-*\" }")).is_ok(), "a pattern in place of a name");

    let one = |lines: &str| format!("targets:\n  - name: orders\n    kind: flinkJob\n    source: {{ flink: {{ url: \"http://flink:8081\", {lines} }} }}\n");
    refused(&one("job: orders, include: [\"a\"]"), "targets[0].source.flink.include", "stands beside one job");
    refused(&one("job: \"*\", exclude: [\"\"]"), "targets[0].source.flink.exclude[0]", "is empty");
    refused(&one("job: \"*\"").replace("orders", &"a".repeat(41)), "targets[0].name", "at most 40 characters");
}

/// A supervisor that is valid but for the lines given.
fn supervisor(source: &str, lines: &str) -> String {
    format!(
        "targets:\n  - name: orders\n    kind: druidSupervisor\n    cluster: main\n    source: {{ druid: {{ url: \"http://druid:8888\"{source} }} }}\n{lines}"
    )
}

#[test]
fn a_supervisor_is_named_by_an_id_that_is_one_segment_of_a_path() {
    let configuration = parse(&supervisor(", supervisor: orders/eu", "")).expect("valid");
    let target = configuration.targets.first().expect("a target");
    assert_eq!((target.kind, target.cluster.as_deref()), (Kind::DruidSupervisor, Some("main")));
    assert!(matches!(&target.source, SourceConfig::DruidSupervisor { supervisor, .. } if supervisor == "orders/eu"));
    assert_eq!(target.effective()["source"]["druid"]["supervisor"], "orders/eu");
    refused(&supervisor("", ""), "targets[0].source.druid.supervisor", "is missing");
    for id in ["\"..\"", "\".\"", "\" \"", "\"a\\nb\"", "\"orders-*\""] {
        let problems = problems(&supervisor(&format!(", supervisor: {id}"), ""));
        assert!(problems.iter().any(|problem| problem.path == "targets[0].source.druid.supervisor"), "{id}: {problems:?}");
    }
    let workers = supervisor(", supervisor: orders", "").replace("druidSupervisor", "druidWorkers");
    refused(&workers, "targets[0].source.druid.supervisor", "is a field of druidSupervisor");
}

#[test]
fn the_window_of_a_supervisor_holds_the_readings_that_it_needs() {
    let of = |lines: &str| {
        parse(&supervisor(", supervisor: orders", lines))
            .map(|configuration| configuration.targets.first().and_then(|target| target.policy.window).map(Duration::seconds))
    };
    assert_eq!(of(""), Ok(None), "ten minutes hold three readings of 30 s");
    assert_eq!(of("    interval: 5m\n"), Ok(Some(900.0)));
    refused(&supervisor(", supervisor: orders", "    interval: 5m\n    policy: { window: 10m }\n"), "targets[0].policy.window", "3 intervals");
    refused(&supervisor(", supervisor: orders", "    policy: { min: 1, taskCountMin: 1 }\n"), "targets[0].policy.taskCountMin", "another name");
}

#[test]
fn the_external_metrics_api_is_read_with_its_certificate_and_refused_without() {
    let external = |lines: &str| format!("server:\n  externalMetrics: {lines}\n");
    let files = "tls: { certFile: /tls.crt, keyFile: /tls.key }";
    let parsed = |lines: &str| parse(&external(lines)).expect(lines).server.external_metrics;
    let plain = ExternalMetricsConfig { listen: ([0, 0, 0, 0], 6443).into(), cert_file: "/tls.crt".into(), key_file: "/tls.key".into(), allow: None };
    assert_eq!(parsed("null"), None);
    assert_eq!(parsed(&format!("{{ {files} }}")), Some(plain.clone()));
    let allow = Some((vec!["ada".to_owned()], Vec::new()));
    let listen = ([127, 0, 0, 1], 7443).into();
    assert_eq!(
        parsed(&format!("{{ listen: \"127.0.0.1:7443\", {files}, allow: {{ users: [ada] }} }}")),
        Some(ExternalMetricsConfig { listen, allow, ..plain })
    );

    refused(&external("{}"), "server.externalMetrics.tls", "missing");
    refused(&external("{ tls: { certFile: /tls.crt } }"), "server.externalMetrics.tls.keyFile", "missing");
    refused(&external(&format!("{{ {files}, listen: \"6443\" }}")), "server.externalMetrics.listen", "\"6443\" is no address");
    refused(&external(&format!("{{ {files}, allow: {{}} }}")), "server.externalMetrics.allow", "names nobody");
    // the authority of callers is the cluster's
    refused(&external("{ tls: { certFile: /a, keyFile: /b, clientCaFile: /c } }"), "server.externalMetrics.tls.clientCaFile", "unknown");
}

/// A target of this kind with these members of `source.prometheus`, as JSON.
fn prometheus(kind: &str, members: &serde_json::Value) -> String {
    let mut source = members.clone();
    source["url"] = serde_json::json!("http://prometheus:9090");
    serde_json::json!({ "targets": [{ "name": "orders", "kind": kind, "source": { "prometheus": source } }] }).to_string()
}

#[test]
fn a_map_of_queries_is_taken_for_every_kind_and_shown_with_the_age_that_it_asks_for() {
    use serde_json::json;
    let graph = json!([{ "id": "a" }, { "id": "b", "inputs": [{ "from": "a", "shipStrategy": "HASH" }] }]);
    for (kind, members) in [
        ("backlog", json!({ "queries": { "backlog": "sum(x)" } })),
        ("druidWorkers", json!({ "queries": { "workers[].capacity": "c", "workers[].used": "u", "pending.count": "p" } })),
        ("druidSupervisor", json!({ "queries": { "partitionLag[]": "lag" }, "constants": { "stream": "kafka", "taskCount": 4 } })),
        ("flinkJob", json!({ "queries": { "vertices[].parallelism": "p", "vertices[].busyRatio.max": "b" }, "constants": { "vertices": graph } })),
        ("kafkaGroup", json!({ "queries": { "topics[].partitions[].lag": "lag", "state[state]": "info" }, "constants": { "type": "consumer" } })),
        ("pubsubSubscription", json!({ "queries": { "undelivered": "n" } })),
    ] {
        let configuration = parse(&prometheus(kind, &members)).unwrap_or_else(|problems| unreachable!("{kind}: {problems:?}"));
        let shown = configuration.targets.first().expect("a target").effective();
        let queries = shown["source"]["prometheus"]["queries"].as_object().expect("queries");
        assert_eq!(queries.len(), members["queries"].as_object().expect("queries").len() + 1, "{kind}: {shown}");
        assert!(queries["observedAt"].as_str().expect("text").contains("timestamp("), "{kind}: {shown}");
    }
}

#[test]
fn everything_that_is_wrong_with_a_map_of_queries_is_told_by_its_path() {
    use serde_json::json;
    let long = "x".repeat(10_001);
    let many: serde_json::Map<String, serde_json::Value> = (0..101).map(|index| (format!("f{index}"), json!("x"))).collect();
    for (kind, members, path, words) in [
        ("backlog", json!({ "queries": {} }), "queries", "is empty: expected a query for at least one field"),
        ("backlog", json!({ "queries": { "observedAt": "min(timestamp(x))" } }), "queries", "is empty"),
        ("backlog", json!({ "queries": { "backlog": " " } }), "queries.backlog", "is empty: expected a PromQL expression"),
        ("backlog", json!({ "queries": { "backlog": long } }), "queries.backlog", "10001 bytes are too many: expected at most 10000"),
        ("backlog", json!({ "queries": many }), "queries", "101 queries are too many: expected at most 100"),
        ("backlog", json!({ "queries": { "backlog": "sum(x" } }), "queries.backlog", "is no PromQL expression: a ( is never closed"),
        ("backlog", json!({ "queries": { "backlogs": "x" } }), "queries.backlogs", "\"backlogs\" is no field: expected one of arrivalPerSecond"),
        ("kafkaGroup", json!({ "queries": { "backlog": "x" } }), "queries.backlog", "is no field: expected one of arrivalPerSecond"),
        ("backlog", json!({ "queries": { "backlog": "x" }, "constants": { "backlog": 3 } }), "queries.backlog", "stands among the constants as well"),
        ("backlog", json!({ "queries": { "backlog": "x" }, "constants": { "observedAt": "2026-01-01T00:00:00Z" } }), "constants.observedAt", "is no constant"),
        ("backlog", json!({ "queries": { "backlog": "x" }, "constants": { "partitions": "many" } }), "constants.partitions", "expected a whole number"),
        ("backlog", json!({ "queries": { "backlog": "x" }, "constants": { "shards": 3 } }), "constants.shards", "unknown field"),
        ("kafkaGroup", json!({ "queries": { "totalLag": "x" }, "constants": { "type": "clasic" } }), "constants.type", "clasic"),
        (
            "kafkaGroup",
            json!({ "queries": { "topics[].partitions[].lag": "x", "topics[a].partitions[b].lag": "y" } }),
            "queries.topics[a].partitions[b].lag",
            "leads to the same field as \"topics[].partitions[].lag\"",
        ),
        ("druidWorkers", json!({ "queries": { "workers[].capacity": "x" } }), "queries", "used is missing: expected a query or a constant for it"),
        (
            "flinkJob",
            json!({ "queries": { "vertices[].parallelism": "p" }, "constants": { "vertices": [{ "id": "b", "inputs": [{ "from": "a" }] }] } }),
            "constants.vertices[0].inputs[0].from",
            "\"a\" is no vertex of this job",
        ),
    ] {
        refused(&prometheus(kind, &members), &format!("targets[0].source.prometheus.{path}"), words);
    }
    let text = "targets: [ { name: a, kind: backlog, source: { prometheus: { url: \"ftp://x\", queries: { backlog: x } } } } ]";
    refused(text, "targets[0].source.prometheus.url", "is no address");
}
