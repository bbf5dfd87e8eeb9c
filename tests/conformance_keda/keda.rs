//! KEDA's own steps between a scaler and the HPA: what it takes for the value, what is an error, what takes its place.

use serde_json::Value;

/// A value that KEDA cannot get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

/// What an external scaler answered: the double where it is above zero, else the integer.
pub fn external(value: i64, value_float: f64) -> f64 {
    if value_float > 0.0 { value_float } else { value as f64 }
}

/// A value as a Quantity: three digits; what is not a number, infinite or negative is nothing.
pub fn quantity(value: f64) -> String {
    if value.is_finite() && value >= 0.0 { format!("{value:.3}") } else { "0".to_owned() }
}

/// The name that the HPA sees.
pub fn metric_name(trigger: u64, name: &str) -> String {
    format!("s{trigger}-{name}")
}

/// The name that an external scaler is asked for: what follows the first `-`.
pub fn asked_name(metric: &str) -> &str {
    metric.split_once('-').map_or(metric, |(_, name)| name)
}

/// The name of a metrics-api trigger.
pub fn metrics_api_name(location: &str) -> String {
    format!("metric-api-{}", location.replace(['/', '.', ':', '%', '(', ')'], "-"))
}

/// Active is strictly above.
pub fn active(value: f64, activation: f64) -> bool {
    value > activation
}

/// Which count takes the place of a metric that fails.
pub fn fallback_replicas(behavior: &str, fallback: u64, current: u64) -> u64 {
    match behavior {
        "static" => fallback,
        "currentReplicas" => current,
        "currentReplicasIfHigher" => current.max(fallback),
        "currentReplicasIfLower" => current.min(fallback),
        other => panic!("no behavior {other}"),
    }
}

/// The metric that makes the HPA arrive at a count; with `Value` by the pods that are ready.
pub fn fallback_metric(target: f64, replicas: u64, ready: Option<u64>) -> f64 {
    let metric = target * replicas as f64;
    ready.map_or(metric, |ready| metric / ready as f64)
}

/// More failures than the threshold, not as many.
pub fn fallback_active(failures: u64, threshold: u64) -> bool {
    failures > threshold
}

/// The metrics-api trigger: exactly 200, and a number or a text that is a Quantity at a dotted path.
pub fn metrics_api(status: u16, format: &str, body: &str, location: &str) -> Result<f64, Failed> {
    if status != 200 {
        return Err(Failed);
    }
    match format {
        "json" => {
            let document: Value = serde_json::from_str(body).map_err(|_| Failed)?;
            let found = location.split('.').try_fold(&document, |at, segment| match at {
                Value::Array(items) => items.get(segment.parse::<usize>().ok()?),
                other => other.get(segment),
            });
            match found {
                Some(Value::Number(number)) => number.as_f64().ok_or(Failed),
                Some(Value::String(text)) => parsed_quantity(text).ok_or(Failed),
                _ => Err(Failed),
            }
        }
        "prometheus" => body.lines().find_map(|line| matches(line, location)).ok_or(Failed),
        other => panic!("no format {other}"),
    }
}

fn parsed_quantity(text: &str) -> Option<f64> {
    let end = text.find(|character: char| !(character.is_ascii_digit() || "+-.".contains(character))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let factor = match suffix {
        "" => 1.0,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| number * factor)
}

/// The value of a series, where it has all labels of a selector.
fn matches(line: &str, selector: &str) -> Option<f64> {
    let (series, value) = line.trim().rsplit_once(' ')?;
    let (wanted_name, wanted) = parts(selector);
    let (name, labels) = parts(series);
    (name == wanted_name && wanted.iter().all(|label| labels.contains(label))).then(|| value.parse().ok()).flatten()
}

fn parts(series: &str) -> (&str, Vec<&str>) {
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    (name, labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty()).collect())
}

/// The prometheus trigger, on the answer to an instant query: one sample; none, or one that is not a number, is nothing or a
/// failure.
pub fn prometheus(body: &str, ignore_null_values: bool) -> Result<f64, Failed> {
    let answer: Value = serde_json::from_str(body).map_err(|_| Failed)?;
    let results = answer["data"]["result"].as_array().ok_or(Failed)?;
    let nothing = if ignore_null_values { Ok(0.0) } else { Err(Failed) };
    match results.as_slice() {
        [] => nothing,
        [one] => match one["value"][1].as_str().ok_or(Failed)?.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(value),
            Ok(_) => nothing,
            Err(_) => Err(Failed),
        },
        _ => Err(Failed),
    }
}

/// The metric of Cloud Monitoring that a mode of the Pub/Sub trigger reads.
pub fn pubsub_metric(mode: &str, resource: &str) -> String {
    if mode == "SubscriptionSize" {
        return "pubsub.googleapis.com/subscription/num_undelivered_messages".to_owned();
    }
    let mut snake = String::new();
    for character in mode.chars() {
        if character.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(character.to_ascii_lowercase());
    }
    format!("pubsub.googleapis.com/{resource}/{snake}")
}

/// The value of a query that gave no series.
pub fn no_series(value_if_null: Option<f64>) -> Result<f64, Failed> {
    value_if_null.ok_or(Failed)
}
