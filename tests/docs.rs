//! What the documentation shows is true: its requests are judged, its configurations load, its links lead somewhere.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use loadline::core::request::parse;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn pages() -> Vec<(PathBuf, String)> {
    let mut paths = vec![root().join("README.md"), root().join("ARCHITECTURE.md"), root().join("DESIGN.md"), root().join("CHANGELOG.md")];
    paths.extend(
        fs::read_dir(root().join("docs"))
            .expect("docs")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|kind| kind == "md")),
    );
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(&path).expect("a page"))).collect()
}

/// Blocks of a language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).map(str::to_owned).collect()
}

#[test]
fn every_request_in_the_documentation_is_judged() {
    let mut judged = 0;
    for (path, text) in pages() {
        for block in blocks(&text, "json") {
            let request = parse(block.as_bytes(), "2026-11-30T10:00:00Z".parse().expect("a time"))
                .unwrap_or_else(|error| panic!("{}: {error:?} in\n{block}", path.display()));
            let advice = loadline::core::advise(&request);
            assert!(advice.recommended.is_some() && !advice.reasons.is_empty(), "{}", path.display());
            judged += 1;
        }
    }
    assert!(judged >= 7, "only {judged} requests were found");
}

#[test]
fn what_the_pages_say_of_their_examples_comes_out() {
    let sentences = [
        ("README.md", 0, "is disabled and has 12 usable free slots that are needed: enabling it again comes before buying"),
        ("README.md", 1, "12000 wait and 330/s arrive; catching up in 5m (1m start, 10s pause) needs 8.4 replicas at 80 % of 60/s"),
        (
            "README.md",
            2,
            "Enrich has to process 4000/s and another 333/s to catch up in 30m, after 5m of restart; it can do 4000/s at parallelism 2, and 70 % busy needs 3.4",
        ),
        ("docs/getting-started.md", 0, "12000 wait and 330/s arrive; catching up in 5m (1m start, 10s pause) needs 8.4 replicas at 80 % of 60/s"),
        ("docs/kafka-group.md", 0, "120000 wait and 1120/s arrive; catching up in 5m (1m start, 10s pause) needs 8.6 replicas at 80 % of 250/s"),
        ("docs/druid-supervisor.md", 0, "1200000 records wait and 5200/s arrive; catching up in 5m (1m start, 10s pause) needs 11.2 tasks at 80 % of 1200/s"),
        (
            "docs/druid-workers.md",
            0,
            "pending tasks ask for 6 slots; with 1 usable free slot, 0 slots on draining workers and 0 starting slots, that takes 2 more workers of 4 slots",
        ),
        ("docs/druid-workers.md", 1, "runs 1 task and would be the one to go: it is drained first (empty in: 20m)"),
        ("docs/backlog.md", 0, "12000 wait and 330/s arrive; catching up in 5m (1m start, 10s pause) needs 8.4 replicas at 80 % of 60/s"),
        ("docs/backlog.md", 1, "2 is wanted, and 3 was wanted within the last 5m"),
        ("docs/backlog.md", 3, "the window is not full (2 s of 1m): nothing is lowered before it is"),
        ("docs/flink-job.md", 0, "window has to process 900/s and can do 909/s at parallelism 4; at 70 % busy that needs 6.5"),
        ("docs/flink-job.md", 1, "garbage collection takes 40 % of the time (limit 30 %)"),
        ("docs/api.md", 0, "a backlog of 4000, at 500 a replica, needs 8 replicas"),
        ("docs/api.md", 1, "after 3 failures the configured fallback of 8 gives 8"),
    ];
    for (page, index, sentence) in sentences {
        let text = fs::read_to_string(root().join(page)).expect(page);
        assert!(text.contains(sentence), "{page} does not say \"{sentence}\"");
        let block = blocks(&text, "json").into_iter().nth(index).expect(page);
        let request = parse(block.as_bytes(), "2026-11-30T10:00:00Z".parse().expect("a time")).expect(page);
        let said = serde_json::to_string(&loadline::core::advise(&request).reasons).expect("json");
        assert!(said.contains(sentence), "{page}: \"{sentence}\" is not in {said}");
    }
}

#[test]
fn every_configuration_in_the_documentation_loads() {
    let example = fs::read_to_string(root().join("deploy/examples/config/loadline.yaml")).expect("the example");
    let mut texts = vec![(root().join("deploy/examples/config/loadline.yaml"), example)];
    for (path, text) in pages() {
        texts.extend(blocks(&text, "yaml").into_iter().map(|block| (path.clone(), block)));
    }
    assert!(texts.len() >= 3);
    for (path, text) in texts {
        let configuration = loadline::config::parse(&text).unwrap_or_else(|problems| panic!("{}: {problems:?}", path.display()));
        assert!(!configuration.targets.is_empty(), "{}", path.display());
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    for (path, text) in pages() {
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).filter(|link| !link.contains("://")) {
            let target = path.parent().expect("a folder").join(link.split('#').next().unwrap_or_default());
            assert!(target.exists(), "{}: {link} leads nowhere", path.display());
        }
    }
}

/// Texts between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Names of all properties in a schema.
fn properties(schema: &serde_json::Value, into: &mut std::collections::BTreeSet<String>) {
    match schema {
        serde_json::Value::Object(members) => {
            if let Some(serde_json::Value::Object(properties)) = members.get("properties") {
                into.extend(properties.keys().cloned());
            }
            members.values().for_each(|member| properties(member, into));
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| properties(item, into)),
        _ => {}
    }
}

#[test]
fn every_option_of_flinks_autoscaler_is_mapped_to_fields_that_there_are() {
    let page = fs::read_to_string(root().join("docs/flink-autoscaler-migration.md")).expect("the page");
    let options = fs::read_to_string(root().join("tests/fixtures/flink/autoscaler-options.txt")).expect("the options");
    let schema = fs::read_to_string(root().join("schema/config.schema.json")).expect("the schema");
    let mut fields = std::collections::BTreeSet::new();
    properties(&serde_json::from_str(&schema).expect("a schema"), &mut fields);
    let tables = page.split_once("## Options").and_then(|(_, rest)| rest.split_once("\n## ")).expect("the options").0;
    let rows: Vec<(&str, &str)> = tables.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | ")).collect();
    for option in options.lines() {
        let mapped = rows.iter().filter(|(names, _)| quoted(&format!("`{names}")).contains(&option)).count();
        assert_eq!(mapped, 1, "{option} is mapped {mapped} times");
    }
    // what is named on our side is a field, or a value of one
    let values = ["samePeak", "legacyEvenlySpread", "legacyMaximizeUtilisation", "off", "perform", "memory"];
    for (names, ours) in rows {
        for name in quoted(ours).iter().flat_map(|name| name.split('.')).filter(|name| !values.contains(name)) {
            assert!(fields.contains(name), "{names}: {name} is no field");
        }
    }
}
