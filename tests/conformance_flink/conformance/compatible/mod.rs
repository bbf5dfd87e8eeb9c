//! Every row in which the preset has to answer as Apache Flink's own autoscaler does (or, where the row says so, as DS2).
//!
//! `tests/vectors/flink-compatible.json` says where its answers come from. A row is asked as a whole job wherever it can be
//! phrased as one, else of the public function of that step; a row about memory tuning or network buffers is counted as
//! not applicable, since neither is done here. A category that nobody handles fails.

mod examples;
mod jobs;
mod rates;
mod support;
mod vertices;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;

type Check = fn(&Value) -> Result<(), String>;

/// How the rows of a category are checked; `None` where they are not applicable.
fn check_of(category: &str) -> Option<Option<Check>> {
    Some(match category {
        "rate_thresholds" => Some(vertices::rate_thresholds),
        "vertex_target_parallelism" | "vertex_target_parallelism_with_scalability" => Some(vertices::vertex_target_parallelism),
        "parallelism_alignment" => Some(vertices::parallelism_alignment),
        "parallelism_alignment_from_target" => Some(vertices::parallelism_alignment_from_target),
        "events" => Some(vertices::events),
        "ineffective_scaling" => Some(vertices::ineffective_scaling),
        "delayed_scale_down" => Some(vertices::delayed_scale_down),
        "delayed_scale_down_window" => Some(vertices::delayed_scale_down_window),
        "observed_scalability_coefficient" => Some(vertices::observed_scalability_coefficient),
        "target_and_catch_up_rates" => Some(rates::target_and_catch_up_rates),
        "edge_output_ratio" => Some(rates::edge_output_ratio),
        "counter_rate" => Some(rates::counter_rate),
        "true_processing_rate" => Some(rates::true_processing_rate),
        "busy_time_average" => Some(rates::busy_time_average),
        "tpr_input_rate" => Some(rates::tpr_input_rate),
        "observed_tpr_sample" => Some(rates::observed_tpr_sample),
        "load_sample" => Some(rates::load_sample),
        "processing_backlog_flag" => Some(rates::processing_backlog_flag),
        "finished_vertex" => Some(rates::finished_vertex),
        "partition_discovery" => Some(rates::partition_discovery),
        "metric_window" => Some(rates::metric_window),
        "utilization_bound_decision" => Some(jobs::utilization_bound_decision),
        "exclusion" => Some(jobs::exclusion),
        "memory_pressure_block" => Some(jobs::memory_pressure_block),
        "global_metrics" => Some(jobs::global_metrics),
        "resource_quota" => Some(jobs::resource_quota),
        "slot_estimate" => Some(jobs::slot_estimate),
        "restart_time" => Some(jobs::restart_time),
        "effective_job_status" => Some(jobs::effective_job_status),
        "parallelism_overrides" => Some(jobs::parallelism_overrides),
        "job_decision" => Some(jobs::job_decision),
        "end_to_end_two_vertex" => Some(jobs::end_to_end_two_vertex),
        "excluded_periods" => Some(examples::excluded_periods),
        "excluded_periods_validation" => Some(examples::excluded_periods_validation),
        "flip271_worked_example" => Some(examples::flip271_worked_example),
        "ds2_policy" => Some(examples::ds2_policy),
        "network_buffers" | "memory_scaling" | "memory_tuning" => None,
        _ => return None,
    })
}

#[derive(Default)]
struct Tally {
    agree: usize,
    differ: usize,
    not_applicable: usize,
}

#[test]
fn the_preset_answers_every_row_as_flinks_own_autoscaler_does() {
    let vectors: Value = serde_json::from_str(include_str!("../../../vectors/flink-compatible.json")).expect("the rows are JSON");
    let rows = vectors["cases"].as_array().expect("rows");
    assert_eq!(rows.len(), 247, "no row is missing");
    let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
    let mut wrong = Vec::new();
    for row in rows {
        let (name, category) = (row["name"].as_str().expect("a name"), row["category"].as_str().expect("a category"));
        let tally = tallies.entry(category).or_default();
        let outcome = match check_of(category) {
            Some(Some(check)) => catch_unwind(AssertUnwindSafe(|| check(row))).unwrap_or_else(|_| Err("panicked".to_owned())),
            Some(None) => {
                tally.not_applicable += 1;
                continue;
            }
            None => Err("nobody handles this category".to_owned()),
        };
        match outcome {
            Ok(()) => tally.agree += 1,
            Err(difference) => {
                tally.differ += 1;
                wrong.push(format!("{category} {name}: {difference}"));
            }
        }
    }
    println!("{:<45} {:>6} {:>7} {:>15}", "category", "agree", "differ", "not applicable");
    for (category, tally) in &tallies {
        println!("{category:<45} {:>6} {:>7} {:>15}", tally.agree, tally.differ, tally.not_applicable);
    }
    let sum = |of: fn(&Tally) -> usize| tallies.values().map(of).sum::<usize>();
    let (agree, differ, not_applicable) = (sum(|tally| tally.agree), sum(|tally| tally.differ), sum(|tally| tally.not_applicable));
    println!("{:<45} {agree:>6} {differ:>7} {not_applicable:>15}", "all");
    assert!(wrong.is_empty(), "{} rows differ:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!((agree, not_applicable), (235, 12), "every row is either checked or not applicable");
}
