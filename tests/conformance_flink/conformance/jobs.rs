//! Whole Flink jobs judged by Apache Flink's own autoscaler: the preset must decide the same.
//!
//! `tests/vectors/flink-jobs.json` says how its answers were produced and what has to match.
use loadline::core::request::parse;
use serde_json::Value;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../vectors/flink-jobs.json")).expect("the vectors are JSON")
}

/// Figures match within 0.001 + 1e-5 of the value; what is unknown or infinite there is null here.
fn same(expected: &Value, ours: Option<f64>) -> bool {
    match (expected.as_f64(), ours) {
        (Some(expected), Some(ours)) => (expected - ours).abs() <= 0.001 + 1e-5 * expected.abs(),
        (None, None) => true,
        _ => false,
    }
}

#[test]
fn the_preset_decides_every_job_as_flinks_own_autoscaler_does() {
    let vectors = vectors();
    let cases = vectors["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 150, "no job is skipped");
    let mut wrong = Vec::new();
    for case in cases {
        let name = case["name"].as_str().expect("a name");
        let body = serde_json::to_vec(&case["request"]).expect("a body");
        let request = match parse(&body, "2026-11-30T00:00:00Z".parse().expect("a time")) {
            Ok(request) => request,
            Err(error) => panic!("{name}: {error:?}"),
        };
        let advice = loadline::core::advise(&request);
        let expected = &case["expected"];
        let changes = advice.parts.iter().any(|part| part.recommended != part.current);
        if Some(changes) != expected["anyChange"].as_bool() {
            wrong.push(format!("{name}: change {changes}, gate {}", expected["gate"]));
        }
        let parts = expected["parts"].as_array().expect("parts");
        assert_eq!(parts.len(), advice.parts.len(), "{name}");
        for (expected, part) in parts.iter().zip(&advice.parts) {
            let figures = part.vertex.expect("figures");
            if expected["recommended"].as_u64() != part.recommended {
                wrong.push(format!(
                    "{name} {}: parallelism {:?}, not {} (wanted {:?}, {:?})",
                    part.name, part.recommended, expected["recommended"], part.wanted, part.limits
                ));
            }
            for (what, ours) in [
                ("targetPerSecond", figures.target_per_second),
                ("capacityPerSecond", figures.capacity_per_second),
                ("scaleUpThresholdPerSecond", figures.scale_up_threshold_per_second),
                ("scaleDownThresholdPerSecond", figures.scale_down_threshold_per_second),
            ] {
                if !same(&expected[what], ours) {
                    wrong.push(format!("{name} {}: {what} {ours:?}, not {}", part.name, expected[what]));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.iter().take(40).cloned().collect::<Vec<_>>().join("\n"));
}
