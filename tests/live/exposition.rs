//! A strict reader of Prometheus' text format: it fails on what a scraper would refuse, and on what nobody should send.

use std::collections::{BTreeMap, BTreeSet};

/// A page of metrics.
pub struct Exposition {
    samples: BTreeMap<(String, Labels), f64>,
}

/// Label names and values, sorted.
type Labels = BTreeMap<String, String>;

impl Exposition {
    /// Reads a page. Fails on a missing line feed at the end, a malformed line, a sample twice, a value that is not
    /// finite, a second TYPE of a name, and a TYPE after the samples of its name.
    #[track_caller]
    pub fn parse(page: &str) -> Self {
        assert!(page.ends_with('\n'), "the page does not end with a line feed: {page:?}");
        let mut samples = BTreeMap::new();
        let (mut typed, mut begun) = (BTreeSet::new(), BTreeSet::new());
        for line in page.lines().filter(|line| !line.is_empty()) {
            if let Some(comment) = line.strip_prefix("# ") {
                let mut words = comment.splitn(3, ' ');
                if words.next() == Some("TYPE") {
                    let name = words.next().unwrap_or_else(|| panic!("a TYPE without a name: {line}")).to_owned();
                    let known = ["counter", "gauge", "histogram", "summary", "untyped"];
                    assert!(words.next().is_some_and(|kind| known.contains(&kind)), "an unknown type: {line}");
                    assert!(!begun.contains(&name), "a TYPE after samples: {line}");
                    assert!(typed.insert(name), "a second TYPE: {line}");
                }
                continue;
            }
            let (name, labels, value) = sample(line);
            assert!(value.is_finite() || labels.contains_key("quantile"), "a value that is not finite: {line}");
            begun.insert(name.clone());
            assert!(samples.insert((name, labels), value).is_none(), "a sample twice: {line}");
        }
        Self { samples }
    }

    /// The value of a series of a target.
    pub fn value(&self, name: &str, target: &str) -> Option<f64> {
        let of_target = |labels: &Labels| labels.get("target").is_some_and(|value| value == target);
        self.samples.iter().find(|((each, labels), _)| each == name && of_target(labels)).map(|(_, value)| *value)
    }
}

impl Exposition {
    /// The value of the series of a target that has these labels too.
    pub fn labelled(&self, name: &str, target: &str, more: &[(&str, &str)]) -> Option<f64> {
        let has = |labels: &Labels, label: &str, value: &str| labels.get(label).is_some_and(|found| found == value);
        let fits = |labels: &Labels| has(labels, "target", target) && more.iter().all(|(label, value)| has(labels, label, value));
        self.samples.iter().find(|((each, labels), _)| each == name && fits(labels)).map(|(_, value)| *value)
    }
}

/// `name{label="value",...} number`.
#[track_caller]
fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("no value: {line}"));
    let (name, rest) = line.split_at(end);
    assert!(is_name(name, ":"), "not a metric name: {line}");
    let (labels, rest) = if let Some(inside) = rest.strip_prefix('{') { labels_of(inside, line) } else { (Labels::new(), rest) };
    let value = rest.trim_start().split(' ').next().unwrap_or_default();
    (name.to_owned(), labels, value.parse().unwrap_or_else(|_| panic!("not a number: {line}")))
}

#[track_caller]
fn labels_of<'a>(mut rest: &'a str, line: &str) -> (Labels, &'a str) {
    let mut labels = Labels::new();
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            return (labels, after);
        }
        let (name, quoted) = rest.split_once("=\"").unwrap_or_else(|| panic!("no label value: {line}"));
        assert!(is_name(name, ""), "not a label name: {line}");
        let (mut value, mut chars) = (String::new(), quoted.char_indices());
        let end = loop {
            match chars.next() {
                Some((at, '"')) => break at,
                Some((_, '\\')) => match chars.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, escaped @ ('"' | '\\'))) => value.push(escaped),
                    _ => panic!("an unknown escape: {line}"),
                },
                Some((_, other)) => value.push(other),
                None => panic!("an open label value: {line}"),
            }
        };
        assert!(labels.insert(name.to_owned(), value).is_none(), "a label twice: {line}");
        rest = &quoted[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

fn is_name(text: &str, more: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || more.contains(c);
    !text.is_empty() && !text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(fits)
}

#[test]
fn a_page_is_read_with_its_labels_and_escapes() {
    let page = Exposition::parse("# HELP a x\n# TYPE a gauge\na{target=\"one\",why=\"x\\\"y\\\\\"} 3\na{target=\"two\",} 4.5\nb 1e3\n");
    assert_eq!((page.value("a", "one"), page.value("a", "two"), page.value("a", "three"), page.value("b", "one")), (Some(3.0), Some(4.5), None, None));
}

#[test]
#[should_panic(expected = "a sample twice")]
fn a_sample_twice_is_refused() {
    Exposition::parse("a{x=\"1\"} 3\na{x=\"1\"} 4\n");
}

#[test]
#[should_panic(expected = "not finite")]
fn a_value_that_is_not_a_number_is_refused() {
    Exposition::parse("a NaN\n");
}
