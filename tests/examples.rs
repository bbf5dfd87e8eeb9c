//! The examples in `deploy/examples` for KEDA and an HPA keep their promises: exact numbers, one place that stabilizes, the same
//! bounds on both sides, and an unknown number that holds.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use loadline::config::{self, Configuration, TargetConfig};
use loadline::core::policy::{Damping, Policy};
use loadline::surfaces::metrics;
use serde_json::Value;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/examples").join(name)
}

fn text(example: &str, file: &str) -> String {
    std::fs::read_to_string(folder(example).join(file)).unwrap_or_else(|error| panic!("{example}/{file}: {error}"))
}

fn yaml(example: &str, file: &str) -> Value {
    serde_saphyr::from_str(&text(example, file)).unwrap_or_else(|error| panic!("{example}/{file}: {error}"))
}

/// An example: its object of Kubernetes, and Loadline's configuration beside it.
struct Example {
    name: &'static str,
    object: Value,
    configuration: Configuration,
    target: TargetConfig,
    policy: Policy,
}

impl Example {
    fn read(name: &'static str, file: &str) -> Self {
        let configuration = config::parse(&text(name, "loadline.yaml")).unwrap_or_else(|problems| panic!("{name}: {problems:?}"));
        let target = configuration.targets.first().expect("a target").clone();
        assert_eq!(configuration.targets.len(), 1, "{name}");
        let policy = target.policy.resolve(target.kind).expect("a policy");
        Self { name, object: yaml(name, file), configuration, target, policy }
    }

    fn at(&self, pointer: &str) -> &Value {
        self.object.pointer(pointer).unwrap_or_else(|| panic!("{}: no {pointer}", self.name))
    }

    fn number(&self, pointer: &str) -> u64 {
        self.at(pointer).as_u64().unwrap_or_else(|| panic!("{}: {pointer} is no count", self.name))
    }

    /// What holds for every HPA that follows Loadline.
    fn keeps_what_every_hpa_has_to(&self, behavior: &str, min: u64, max: u64) {
        let Self { name, target, policy, .. } = self;
        assert_eq!(self.at("/metadata/namespace"), &target.namespace, "{name}");
        assert_eq!((policy.min, policy.max), (min, max), "{name}: the same bounds on both sides");
        let consumer = policy.consumer.as_ref().unwrap_or_else(|| panic!("{name}: the policy names no consumer"));
        assert_eq!((consumer.min, consumer.max), (Some(min), Some(max)), "{name}: the answer knows the bounds");
        for side in ["scaleUp", "scaleDown"] {
            // a sibling of the policies, and text: a Quantity
            assert_eq!(self.at(&format!("{behavior}/{side}/tolerance")), "0", "{name}: every number is reached");
        }
        assert!(consumer.tolerance_up == 0.0 && consumer.tolerance_down == 0.0, "{name}: the answer knows the tolerance");
        assert_eq!(self.number(&format!("{behavior}/scaleUp/stabilizationWindowSeconds")), 0, "{name}");
        let window = self.number(&format!("{behavior}/scaleDown/stabilizationWindowSeconds"));
        assert_eq!(window > 0, policy.damping == Damping::Consumer, "{name}: one place stabilizes, and only one");
        assert!(window == 0 || window >= 60, "{name}: {window} s");
        let steps = self.at(&format!("{behavior}/scaleUp/policies")).as_array().expect("policies");
        assert!(steps.iter().any(|step| step["type"] == "Pods" && step["value"].as_u64().is_some_and(|most| most >= max)), "{name}: up at once");
    }
}

const BEHAVIOR: &str = "/spec/advanced/horizontalPodAutoscalerConfig/behavior";

/// A `ScaledObject` and the metadata of its one trigger.
fn scaled_object(name: &'static str, kind: &str) -> Example {
    let example = Example::read(name, "scaledobject.yaml");
    assert_eq!((example.at("/apiVersion"), example.at("/kind")), (&"keda.sh/v1alpha1".into(), &"ScaledObject".into()));
    let known = ["scaleTargetRef", "pollingInterval", "cooldownPeriod", "minReplicaCount", "maxReplicaCount", "fallback", "advanced", "triggers"];
    for key in example.at("/spec").as_object().expect("an object").keys() {
        assert!(known.contains(&key.as_str()), "{name}: KEDA knows no {key}");
    }
    let (min, max) = (example.number("/spec/minReplicaCount"), example.number("/spec/maxReplicaCount"));
    example.keeps_what_every_hpa_has_to(BEHAVIOR, min, max);
    assert_eq!(example.at("/spec/triggers").as_array().map(Vec::len), Some(1), "{name}");
    assert_eq!(example.at("/spec/triggers/0/type"), kind);
    assert_eq!(example.at("/spec/triggers/0/metricType"), "AverageValue", "{name}: with Value the HPA multiplies");
    let metadata = example.at("/spec/triggers/0/metadata").as_object().expect("an object");
    assert!(metadata.values().all(Value::is_string), "{name}: KEDA takes text only: {metadata:?}");
    // unknown holds: never fewer than now, and a start for what has none
    assert_eq!(example.at("/spec/fallback/behavior"), "currentReplicasIfHigher", "{name}");
    assert!(example.number("/spec/fallback/failureThreshold") >= 1, "{name}");
    let fallback = example.number("/spec/fallback/replicas");
    assert!((min.max(1)..=max).contains(&fallback), "{name}: a fallback of {fallback}");
    example
}

fn trigger<'a>(example: &'a Example, key: &str) -> &'a str {
    example.at(&format!("/spec/triggers/0/metadata/{key}")).as_str().expect("text")
}

#[test]
fn the_external_scaler_is_asked_for_a_target_that_is_there_where_it_listens() {
    for (name, kind) in [("keda-external", "external"), ("keda-external-push", "external-push")] {
        let example = scaled_object(name, kind);
        assert_eq!(trigger(&example, "target"), example.target.name, "{name}");
        let (host, port) = trigger(&example, "scalerAddress").rsplit_once(':').expect("host:port");
        assert!(!host.contains("//"), "{name}: no scheme");
        assert_eq!(port, example.configuration.server.grpc.port().to_string(), "{name}");
    }
}

#[test]
fn what_goes_to_zero_waits_in_one_place_and_may_go_there_on_both_sides() {
    let example = scaled_object("keda-external-push", "external-push");
    assert_eq!((example.policy.min, example.number("/spec/minReplicaCount")), (0, 0));
    let look = example.number("/spec/pollingInterval");
    assert!(example.number("/spec/cooldownPeriod") <= look, "KEDA waits no longer than from one look to the next");
    assert!(example.policy.idle_before_zero.seconds() >= 300.0, "Loadline does");
}

#[test]
fn the_advice_is_read_where_it_is_and_as_the_number_that_it_is() {
    let example = scaled_object("keda-metrics-api", "metrics-api");
    let url = url::Url::parse(trigger(&example, "url")).expect("a URL");
    assert_eq!(url.path(), format!("/v1/targets/{}/advice", example.target.name));
    assert_eq!((url.query(), url.port()), (Some("strict=true"), Some(example.configuration.server.http.port())));
    assert_eq!((trigger(&example, "valueLocation"), trigger(&example, "targetValue")), ("recommended", "1"));
}

#[test]
fn a_gauge_that_is_absent_is_no_zero_for_the_prometheus_trigger() {
    let example = scaled_object("keda-prometheus", "prometheus");
    assert_eq!((trigger(&example, "threshold"), trigger(&example, "ignoreNullValues")), ("1", "false"));
    let TargetConfig { name, namespace, .. } = &example.target;
    assert_eq!(trigger(&example, "query"), format!("max(loadline_recommended_replicas{{target=\"{name}\",target_namespace=\"{namespace}\"}})"));
    assert!(metrics::names().contains(&"loadline_recommended_replicas".to_owned()));
}

#[test]
fn the_rule_of_the_adapter_gives_one_item_under_the_name_that_the_hpa_asks_for() {
    let example = Example::read("prometheus-adapter", "hpa.yaml");
    assert_eq!((example.at("/apiVersion"), example.at("/kind")), (&"autoscaling/v2".into(), &"HorizontalPodAutoscaler".into()));
    example.keeps_what_every_hpa_has_to("/spec/behavior", example.number("/spec/minReplicas"), example.number("/spec/maxReplicas"));
    let metric = example.at("/spec/metrics/0/external");
    assert_eq!(metric["target"], serde_json::json!({ "type": "AverageValue", "averageValue": "1" }));
    assert_eq!(metric["metric"]["selector"]["matchLabels"], serde_json::json!({ "target": example.target.name }));

    let rule = &yaml("prometheus-adapter", "values.yaml")["rules"]["external"][0];
    let series = "loadline_recommended_replicas";
    assert!(metrics::names().contains(&series.to_owned()));
    assert!(rule["seriesQuery"].as_str().expect("text").starts_with(series));
    assert_eq!(rule["resources"]["overrides"]["target_namespace"]["resource"], "namespace");
    let pattern = regex::Regex::new(rule["name"]["matches"].as_str().expect("text")).expect("a pattern");
    assert_eq!(pattern.replace(series, rule["name"]["as"].as_str().expect("text")), metric["metric"]["name"].as_str().expect("text"));
    let query = rule["metricsQuery"].as_str().expect("text").replace("<<.Series>>", series).replace("<<.LabelMatchers>>", "target=\"a\"");
    assert_eq!(query, "max(loadline_recommended_replicas{target=\"a\"}) by (target)");
}

#[test]
fn every_example_says_what_it_is_for_and_what_to_change() {
    for entry in std::fs::read_dir(folder("")).expect("examples") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        if !name.starts_with("keda-") && name != "prometheus-adapter" {
            continue;
        }
        for file in std::fs::read_dir(&path).expect("files") {
            let path = file.expect("an entry").path();
            let text = std::fs::read_to_string(&path).expect("text");
            assert!(text.starts_with("# "), "{}", path.display());
            assert!(text.contains("\n# Change: ") || path.ends_with("values.yaml"), "{}", path.display());
        }
    }
}
