//! The command line, as the built binary: exit codes, what goes where, and a service that starts and stops.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

fn loadline(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loadline")).args(arguments).env_remove("LOADLINE_CONFIG").output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn file(name: &str, content: &str) -> tempfile::TempPath {
    let mut file = tempfile::Builder::new().suffix(name).tempfile().expect("a file");
    file.write_all(content.as_bytes()).expect("written");
    file.into_temp_path()
}

const REQUEST: &str = r#"{ "kind": "backlog", "name": "orders", "now": "2026-11-30T10:00:00Z", "replicas": { "spec": 5 }, "snapshot": { "backlog": 900 }, "policy": { "perReplicaBacklog": 100 } }"#;

#[test]
fn advise_judges_a_file_and_standard_input_alike() {
    let path = file(".json", REQUEST);
    let from_file = loadline(&["advise", path.to_str().expect("a path")]);
    assert_eq!(from_file.status.code(), Some(0), "{}", text(&from_file.stderr));
    let answer: Value = serde_json::from_slice(&from_file.stdout).expect("JSON");
    assert_eq!(answer.get("recommended"), Some(&Value::from(9)));

    let mut child =
        Command::new(env!("CARGO_BIN_EXE_loadline")).args(["advise", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the binary runs");
    child.stdin.take().expect("a pipe").write_all(REQUEST.as_bytes()).expect("written");
    let from_pipe = child.wait_with_output().expect("an end");
    assert_eq!(text(&from_pipe.stdout), text(&from_file.stdout));
}

#[test]
fn advise_prints_a_table_for_people() {
    let path = file(".json", REQUEST);
    let output = text(&loadline(&["advise", path.to_str().expect("a path"), "--table"]).stdout);
    assert!(output.starts_with("orders  backlog  change  5 -> 9"), "{output}");
    assert!(output.contains("LagPerReplica") && output.contains("backlogRecords"), "{output}");
}

#[test]
fn bad_input_ends_with_2_and_names_every_field() {
    let path = file(".json", r#"{ "kind": "backlog", "snapshot": { "backlog": "NaN", "colour": 1 }, "policy": { "max": -1 } }"#);
    let output = loadline(&["advise", path.to_str().expect("a path")]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    for field in ["snapshot.backlog", "snapshot.colour", "policy.max"] {
        assert!(error.contains(field), "{field} is not in {error}");
    }
    assert_eq!(loadline(&["advise", "/does/not/exist"]).status.code(), Some(1));
    assert_eq!(loadline(&["frobnicate"]).status.code(), Some(2));
    assert_eq!(loadline(&["--help"]).status.code(), Some(0));
}

#[test]
fn an_array_is_judged_one_by_one() {
    let path = file(".json", &format!("[{REQUEST}, {{ \"kind\": \"backlog\", \"policy\": {{ \"max\": \"many\" }} }}]"));
    let output = loadline(&["advise", path.to_str().expect("a path")]);
    let answers: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.code(), answers.as_array().map(Vec::len)), (Some(2), Some(2)));
    assert_eq!(answers.pointer("/0/recommended"), Some(&Value::from(9)));
}

#[test]
fn check_tells_all_problems_or_what_is_there() {
    let good = file(".yaml", "targets:\n  - { name: a, kind: flinkJob, source: { flink: { url: \"http://f:8081\", job: j } } }\n");
    let output = loadline(&["check", good.to_str().expect("a path")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("1 targets"));
    let bad = file(".yaml", "targets:\n  - { name: A, kind: flink, source: {} }\n");
    let output = loadline(&["check", bad.to_str().expect("a path")]);
    assert_eq!(output.status.code(), Some(2));
    for path in ["targets[0].name", "targets[0].kind", "targets[0].source"] {
        assert!(text(&output.stderr).contains(path), "{}", text(&output.stderr));
    }
}

#[test]
fn documents_are_json() {
    for command in ["openapi", "schema"] {
        let output = loadline(&[command]);
        assert!(serde_json::from_slice::<Value>(&output.stdout).is_ok_and(|document| document.is_object()), "{command}");
    }
}

#[test]
fn a_probe_of_nobody_fails_with_1_and_says_why() {
    let output = loadline(&["probe", "druid", "http://127.0.0.1:9"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("unreachable"), "{}", text(&output.stderr));
}

#[test]
fn the_help_is_the_one_that_is_checked_in() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/cli/help.txt");
    let mut help = String::new();
    for arguments in [&["--help"][..], &["serve", "--help"], &["advise", "--help"], &["check", "--help"], &["probe", "--help"]] {
        writeln!(help, "$ loadline {}\n{}", arguments.join(" "), text(&loadline(arguments).stdout)).expect("text");
    }
    if std::env::var_os("LOADLINE_BLESS").is_some() {
        std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/cli")).expect("a folder");
        std::fs::write(path, &help).expect("written");
    }
    assert!(std::fs::read_to_string(path).expect("tests/fixtures/cli/help.txt") == help, "tests/fixtures/cli/help.txt differs: LOADLINE_BLESS=1 rewrites it");
}

/// A service on a free port, stopped when dropped.
struct Service(Child, String);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(arguments: &[&str]) -> Service {
    let mut child = Command::new(env!("CARGO_BIN_EXE_loadline"))
        .args(arguments)
        .args(["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"])
        .env_remove("LOADLINE_CONFIG")
        .env("LOADLINE_LOG_FORMAT", "json")
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let address = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| serde_json::from_str::<Value>(&line).ok()?.get("address")?.as_str().map(str::to_owned))
        .expect("a line that says where it listens");
    // the rest of the log is read, so that the service never waits for us
    std::thread::spawn(move || lines.for_each(drop));
    Service(child, address)
}

fn get(service: &Service, path: &str) -> String {
    let mut stream = TcpStream::connect(&service.1).expect("a connection");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn the_service_serves_posted_requests_without_a_configuration_and_stops_when_told() {
    let mut service = serve(&["serve"]);
    assert!(get(&service, "/readyz").starts_with("HTTP/1.1 200"));
    assert!(get(&service, "/v1/targets").contains("\"targets\":[]"));
    let stopped = Command::new("kill").args(["-TERM", &service.0.id().to_string()]).status().expect("kill runs");
    assert!(stopped.success());
    let status = service.0.wait().expect("an end");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn the_demonstration_needs_nothing_else() {
    let service = serve(&["serve", "--demo"]);
    let mut seen = String::new();
    for _ in 0..100 {
        seen = get(&service, "/v1/targets");
        if seen.matches("\"state\":\"up\"").count() == 2 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(seen.matches("\"state\":\"up\"").count(), 2, "{seen}");
    assert!(get(&service, "/v1/status").contains("\"demo\":true"));
    assert!(get(&service, "/metrics").contains("loadline_recommended_replicas{"));
}

#[test]
fn a_configuration_that_is_not_valid_stops_the_start_with_2() {
    let bad = file(".yaml", "targets: [{ name: A }]\n");
    let output = loadline(&["serve", "--config", bad.to_str().expect("a path"), "--http", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("targets[0].kind"), "{}", text(&output.stderr));
}
