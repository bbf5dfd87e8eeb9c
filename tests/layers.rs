//! The layers hold: the core knows no clock, no runtime, no log and no environment, and nothing below imports anything
//! above.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

fn sources(room: &str) -> Vec<(PathBuf, String)> {
    fn walk(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a file");
                found.push((path, text));
            }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(room), &mut found);
    assert!(!found.is_empty(), "no file in src/{room}");
    found
}

/// Lines of code that mention any of the words: comments are free to.
fn mentions(room: &str, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in sources(room) {
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for word in words.iter().filter(|word| code.contains(**word)) {
                found.push(format!("{}:{} mentions {word}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
    found
}

#[test]
fn the_core_is_pure() {
    let forbidden = [
        "tokio",
        "futures",
        "async ",
        ".await",
        "tracing",
        "metrics::",
        "axum",
        "hyper",
        "reqwest",
        "tonic",
        "rand::",
        "fastrand",
        "std::time",
        "std::env",
        "std::fs",
        "std::net",
        "std::thread",
        "Timestamp::now",
        "Zoned::now",
        "Instant",
        "SystemTime",
        "println!",
        "eprintln!",
    ];
    assert_eq!(mentions("core", &forbidden), Vec::<String>::new());
}

#[test]
fn nothing_imports_what_lies_above_it() {
    for (room, above) in [
        ("core", &["crate::config", "crate::engine", "crate::actuators", "crate::sources", "crate::surfaces", "crate::demo", "crate::cli"][..]),
        ("config", &["crate::engine", "crate::actuators", "crate::sources", "crate::surfaces", "crate::demo", "crate::cli"]),
        ("engine", &["crate::actuators", "crate::sources", "crate::surfaces", "crate::demo", "crate::cli"]),
        ("sources", &["crate::actuators", "crate::surfaces", "crate::demo", "crate::cli"]),
        ("actuators", &["crate::surfaces", "crate::demo", "crate::cli"]),
        ("surfaces", &["crate::actuators", "crate::sources", "crate::demo", "crate::cli"]),
    ] {
        assert_eq!(mentions(room, above), Vec::<String>::new(), "src/{room}");
    }
}
