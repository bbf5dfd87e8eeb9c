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

/// What is done with the rows of a category.
enum Handling {
    Checked(Check),
    /// About something that is not done here.
    NotApplicable,
    /// Nobody handles it.
    Unknown,
}

fn handling(category: &str) -> Handling {
    Handling::Checked(match category {
        "rate_thresholds" => vertices::rate_thresholds,
        "vertex_target_parallelism" | "vertex_target_parallelism_with_scalability" => vertices::vertex_target_parallelism,
        "parallelism_alignment" => vertices::parallelism_alignment,
        "parallelism_alignment_from_target" => vertices::parallelism_alignment_from_target,
        "events" => vertices::events,
        "ineffective_scaling" => vertices::ineffective_scaling,
        "delayed_scale_down" => vertices::delayed_scale_down,
        "delayed_scale_down_window" => vertices::delayed_scale_down_window,
        "observed_scalability_coefficient" => vertices::observed_scalability_coefficient,
        "target_and_catch_up_rates" => rates::target_and_catch_up_rates,
        "edge_output_ratio" => rates::edge_output_ratio,
        "counter_rate" => rates::counter_rate,
        "true_processing_rate" => rates::true_processing_rate,
        "busy_time_average" => rates::busy_time_average,
        "tpr_input_rate" => rates::tpr_input_rate,
        "observed_tpr_sample" => rates::observed_tpr_sample,
        "load_sample" => rates::load_sample,
        "processing_backlog_flag" => rates::processing_backlog_flag,
        "finished_vertex" => rates::finished_vertex,
        "partition_discovery" => rates::partition_discovery,
        "metric_window" => rates::metric_window,
        "utilization_bound_decision" => jobs::utilization_bound_decision,
        "exclusion" => jobs::exclusion,
        "memory_pressure_block" => jobs::memory_pressure_block,
        "global_metrics" => jobs::global_metrics,
        "resource_quota" => jobs::resource_quota,
        "slot_estimate" => jobs::slot_estimate,
        "restart_time" => jobs::restart_time,
        "effective_job_status" => jobs::effective_job_status,
        "parallelism_overrides" => jobs::parallelism_overrides,
        "job_decision" => jobs::job_decision,
        "end_to_end_two_vertex" => jobs::end_to_end_two_vertex,
        "excluded_periods" => examples::excluded_periods,
        "excluded_periods_validation" => examples::excluded_periods_validation,
        "flip271_worked_example" => examples::flip271_worked_example,
        "ds2_policy" => examples::ds2_policy,
        "network_buffers" | "memory_scaling" | "memory_tuning" => return Handling::NotApplicable,
        _ => return Handling::Unknown,
    })
}

#[derive(Default)]
struct Tally {
    agree: usize,
    differ: usize,
    not_applicable: usize,
}

#[test]
#[expect(clippy::print_stdout, reason = "the table of what was checked is for people")]
fn the_preset_answers_every_row_as_flinks_own_autoscaler_does() {
    let vectors: Value = serde_json::from_str(include_str!("../../../vectors/flink-compatible.json")).expect("the rows are JSON");
    let rows = vectors["cases"].as_array().expect("rows");
    assert_eq!(rows.len(), 247, "no row is missing");
    let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
    let mut wrong = Vec::new();
    for row in rows {
        let (name, category) = (row["name"].as_str().expect("a name"), row["category"].as_str().expect("a category"));
        let tally = tallies.entry(category).or_default();
        let outcome = match handling(category) {
            Handling::Checked(check) => catch_unwind(AssertUnwindSafe(|| check(row))).unwrap_or_else(|_| Err("panicked".to_owned())),
            Handling::NotApplicable => {
                tally.not_applicable += 1;
                continue;
            }
            Handling::Unknown => Err("nobody handles this category".to_owned()),
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
