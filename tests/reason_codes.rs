//! The page of reason codes says what the code says. `LOADLINE_BLESS=1` rewrites it.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::fmt::Write;
use std::{env, fs};

use loadline::core::reasons::{LimitCode, ReasonCode};

fn page() -> String {
    let mut page = String::from(
        "# Reason and limit codes\n\nEvery answer carries `reasons` (the first one decided, the others contributed) and `limits` (what cut or raised the\nwish, in order). `code` is stable; the sentence beside it, with the numbers, is not. This page is generated from the\nenums in `src/core/reasons` and compared with them in a test.\n",
    );
    let mut group = "";
    for code in ReasonCode::ALL {
        if code.group() != group {
            group = code.group();
            let effect = match group {
                "Demand" => "What the demand asks for.",
                "Not known or not safe" => {
                    "Something is unknown or contradicts itself, or it is not the time: the present count is held. Raises may still happen where the known part justifies them."
                }
                "More replicas will not help" => "More replicas would not mend it: nothing is raised for this reason, and the text says what would help.",
                _ => "Work that would be lost, or capacity that is on its way: nothing is removed before it is safe.",
            };
            write!(page, "\n## {group}\n\n{effect}\n\n| code | meaning |\n|---|---|\n").expect("text");
        }
        writeln!(page, "| `{}` | {} |", code.name(), code.meaning().trim()).expect("text");
    }
    page.push_str("\n## Limits\n\nEach has `from` and `to`. A limit that passes with time makes \"no difference\" a `hold`.\n\n| code | meaning | passes with time |\n|---|---|---|\n");
    for code in LimitCode::ALL {
        writeln!(page, "| `{}` | {} | {} |", code.name(), code.meaning().trim(), if code.passes_with_time() { "yes" } else { "no" }).expect("text");
    }
    page
}

#[test]
fn the_page_of_reason_codes_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reason-codes.md");
    if env::var_os("LOADLINE_BLESS").is_some() {
        fs::write(path, page()).expect("the page can be written");
    }
    let written = fs::read_to_string(path).expect("docs/reason-codes.md");
    assert!(written == page(), "docs/reason-codes.md differs from the code: run the tests once with LOADLINE_BLESS=1");
}

#[test]
fn every_code_of_the_contract_is_there() {
    let contract = "WithinTarget InsideBand DemandAboveCapacity BacklogCatchUp LagObjective PendingTasks LagPerReplica SpareCapacity Idle ScaleFromZero ActiveTraffic Saturated ScheduledFloor \
        NoReading StaleReading IncompleteReading InconsistentReading ImplausibleReading SuddenZero CounterReset ClockSkew WindowNotFull ReadingOlderThanLastChange CapacityUnknown DemandUnknown \
        NotRunning TasksNotRunning Suspended Paused Rebalancing RebalanceStorm Restarting RolloutInProgress WorkerListIncomplete CapacityNotArriving ProducerSilent Stabilizing BacklogProcessing \
        ChangeNotWorthwhile ChangedByOthers Fallback NoDataConfigured HoldExpired StuckPartition HotPartition NoMembers MembersMissing NotSubscribed NothingCommitted RetentionLoss TransactionMarkers \
        HangingTransaction IneffectiveScaling MemoryPressure SubtaskSkew BusyWithoutInput DownstreamLimit ObjectiveUnreachable AssignmentFault PoisonMessage LeasedBacklog RedeliveryLoad SelectStrategy \
        PerInstanceGroup BusyWorker PublishingTasks InFlightWork Draining WorkerReenabled StartingWorkers RolloverReserve";
    for name in contract.split_whitespace() {
        assert!(ReasonCode::ALL.iter().any(|code| code.name() == name), "{name}");
    }
    let limits = "MinReplicas MaxReplicas PartitionLimit MinAbovePartitions KeyGroupLimit WorkerSlots SchedulableSlots Quota MemoryFloor ScaleUpLimit ScaleDownLimit ScaleDownStabilized Cooldown \
        EvenDistribution BusyRatioLimit ExcludedVertex ExcludedPeriod ConsumerTolerance Hysteresis";
    for name in limits.split_whitespace() {
        assert!(LimitCode::ALL.iter().any(|code| code.name() == name), "{name}");
    }
}
