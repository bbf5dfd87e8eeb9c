//! The gauges of what was decided: one table, in which each row says what a family is made of.
//!
//! All carry `target`, `target_namespace` and `kind`. After `validUntil` the numbers that rest on the reading are gone,
//! while what remains true stays: validity, outcome, reasons, bounds, the count in the specification, the source.
//! `outcome` is a state set (1 for the present one, 0 for the others), so that a dashboard can draw it and an alert can
//! compare it without series that come and go; reasons and limits are too many for that and exist only while present.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::exposition::{Exposition, Family, label};
use crate::core::advice::{ActionKind, Advice, InputState, Outcome};
use crate::core::units::{Count, Timestamp, as_f64};
use crate::engine::store::{EntryState, Interface, SourceHealth, SourceState, State, Store, Target, is_valid};

/// The most parts of one target that have series of their own.
const MOST_PARTS: usize = 100;
/// The longest name of a part in a label.
const LONGEST_NAME: usize = 80;

/// A target at the moment of the scrape.
struct View {
    target: Arc<Target>,
    state: Arc<State>,
    valid: bool,
    labels: String,
}

/// One row of the table.
struct Row {
    name: &'static str,
    help: &'static str,
    write: fn(&View, &mut Family<'_>),
}

const ROWS: &[Row] = &[
    Row {
        name: "recommended_replicas",
        help: "The count to have; absent when there is no valid number.",
        write: |view, family| view.one(family, view.known(|advice| advice.recommended)),
    },
    Row {
        name: "advice_valid",
        help: "1 while there is a valid number, else 0; always there.",
        write: |view, family| {
            let valid = view.valid && view.advice().is_some_and(|advice| advice.recommended.is_some());
            view.put(family, &[], Some(f64::from(u8::from(valid))));
        },
    },
    Row {
        name: "outcome",
        help: "What came out: 1 for the present outcome, 0 for the others.",
        write: |view, family| {
            let present = view.outcome();
            for outcome in Outcome::ALL {
                view.put(family, &[("outcome", outcome.name())], Some(f64::from(u8::from(outcome == present))));
            }
        },
    },
    Row {
        name: "current_replicas",
        help: "The wanted count of the scale target.",
        write: |view, family| view.one(family, view.advice().and_then(|advice| advice.current)),
    },
    Row {
        name: "wanted_replicas",
        help: "The wish before all limits, rounded up.",
        write: |view, family| view.one(family, view.known(|advice| advice.wanted)),
    },
    Row {
        name: "min_replicas",
        help: "The smallest recommendation, scheduled floors included.",
        write: |view, family| view.one(family, view.advice().map(|advice| advice.bounds.min)),
    },
    Row { name: "max_replicas", help: "The largest recommendation.", write: |view, family| view.one(family, view.advice().map(|advice| advice.bounds.max)) },
    Row {
        name: "active",
        help: "1 when there is demand, 0 when there is none; absent when unknown.",
        write: |view, family| view.one(family, view.known(|advice| advice.active.map(Count::from))),
    },
    Row { name: "backlog_records", help: "What waits.", write: |view, family| view.put(family, &[], view.input("backlogRecords")) },
    Row { name: "lag_seconds", help: "Age of what waits longest.", write: |view, family| view.put(family, &[], view.input("lagSeconds")) },
    Row { name: "arrival_rate_per_second", help: "What arrives.", write: |view, family| view.put(family, &[], view.input("arrivalPerSecond")) },
    Row {
        name: "capacity_per_replica_per_second",
        help: "What one replica can do.",
        write: |view, family| view.put(family, &[], view.input("capacityPerReplicaPerSecond")),
    },
    Row {
        name: "utilization_ratio",
        help: "Arrival by capacity at the present count, at most 1.",
        write: |view, family| {
            view.put(family, &[], view.valid_advice().and_then(|advice| advice.forecast.utilization_now));
        },
    },
    Row {
        name: "advice_timestamp_seconds",
        help: "When the latest decision was made.",
        write: |view, family| view.put(family, &[], view.advice().map(|advice| unix(advice.evaluated_at))),
    },
    Row {
        name: "reading_timestamp_seconds",
        help: "When the last good reading was measured.",
        write: |view, family| {
            view.put(family, &[], view.state.source.observed_at.or_else(|| view.advice()?.observed_at).map(unix));
        },
    },
    Row {
        name: "reason",
        help: "1 for each reason of the latest decision.",
        write: |view, family| {
            let codes: BTreeSet<&str> = view.advice().into_iter().flat_map(|advice| &advice.reasons).map(|reason| reason.code().name()).collect();
            for code in codes {
                view.put(family, &[("reason", code)], Some(1.0));
            }
        },
    },
    Row {
        name: "limit",
        help: "1 for each limit that cut or raised the wish.",
        write: |view, family| {
            let codes: BTreeSet<&str> = view.advice().into_iter().flat_map(|advice| &advice.limits).map(|limit| limit.code.name()).collect();
            for code in codes {
                view.put(family, &[("limit", code)], Some(1.0));
            }
        },
    },
    Row {
        name: "part_recommended_parallelism",
        help: "The count to have of a vertex or pool.",
        write: |view, family| view.parts(family, |recommended, _| recommended),
    },
    Row { name: "part_current_parallelism", help: "The count of a vertex or pool.", write: |view, family| view.parts(family, |_, current| current) },
    Row {
        name: "part_overflow",
        help: "Vertices or pools without series of their own: more than 100 of a target.",
        write: |view, family| {
            let over = view.valid_advice().map(|advice| advice.parts.len().saturating_sub(MOST_PARTS)).filter(|over| *over > 0);
            view.one(family, over.and_then(|over| Count::try_from(over).ok()));
        },
    },
    Row {
        name: "pending_actions",
        help: "Steps that the latest decision asks for.",
        write: |view, family| {
            for kind in ActionKind::ALL {
                let count = view.actions(kind);
                view.put(family, &[("action", kind.name())], (count > 0).then(|| as_f64(count)));
            }
        },
    },
    Row {
        name: "draining_workers",
        help: "Workers that are waited for until they are empty.",
        write: |view, family| {
            view.one(family, view.valid_advice().map(|_| view.actions(ActionKind::WaitForDrain)));
        },
    },
    Row {
        name: "consumer_expected_replicas",
        help: "The count that the declared consumer will hold.",
        write: |view, family| {
            view.one(family, view.known(|advice| advice.consumer.map(|consumer| consumer.will_hold)));
        },
    },
    Row {
        name: "consumer_last_read_timestamp_seconds",
        help: "When an interface last read the advice.",
        write: |view, family| {
            for interface in Interface::ALL {
                view.put(family, &[("interface", interface.name())], view.target.last_read(interface));
            }
        },
    },
    Row {
        name: "source_up",
        help: "1 when the last try gave a reading, 0 when it failed; absent before the first.",
        write: |view, family| {
            let up = match view.state.source.health {
                SourceHealth::Up => Some(1),
                SourceHealth::Down => Some(0),
                SourceHealth::Starting => None,
            };
            view.one(family, up);
        },
    },
    Row {
        name: "performing",
        help: "1 while Loadline acts itself, 0 while something keeps it from that; absent where only advice is asked for.",
        write: |view, family| {
            view.one(family, view.target.acting(|acting| acting.performs.then(|| Count::from(acting.notice.is_none()))));
        },
    },
    Row {
        name: "source_calls_per_reading",
        help: "HTTP calls that the last good reading took.",
        write: |view, family| view.calls(family, |source| source.calls_per_reading),
    },
    Row {
        name: "source_shared_calls_per_reading",
        help: "HTTP calls that the last good reading shares with other targets.",
        write: |view, family| view.calls(family, |source| source.shared_calls_per_reading),
    },
];

/// One row of the table of entries that stand for many targets.
struct EntryRow {
    name: &'static str,
    help: &'static str,
    value: fn(&EntryState) -> Option<u64>,
}

const ENTRY_ROWS: &[EntryRow] = &[
    EntryRow { name: "entry_targets", help: "Targets of an entry that stands for many.", value: |entry| u64::try_from(entry.targets).ok() },
    EntryRow {
        name: "entry_left_out",
        help: "What an entry found and has no target for, as it is too many.",
        value: |entry| u64::try_from(entry.left_out).ok(),
    },
    EntryRow {
        name: "entry_up",
        help: "1 when the last search of an entry succeeded, 0 when it failed; absent before the first.",
        value: |entry| match entry.health {
            SourceHealth::Up => Some(1),
            SourceHealth::Down => Some(0),
            SourceHealth::Starting => None,
        },
    },
];

/// What was counted of a target: kept with it, so that the series go when it goes.
const COUNTERS: &[Row] = &[Row {
    name: "actions_performed_total",
    help: "Actions that Loadline has performed itself, by result.",
    write: |view, family| {
        for ((action, result), count) in view.target.acting(|acting| acting.counts.clone()) {
            view.put(family, &[("action", action.name()), ("result", result)], Some(as_f64(count)));
        }
    },
}];

/// The families of these tables, with their prefix.
#[must_use]
pub fn names() -> Vec<String> {
    let entries = ENTRY_ROWS.iter().map(|row| row.name);
    ROWS.iter().chain(COUNTERS).map(|row| row.name).chain(entries).map(|name| format!("loadline_{name}")).collect()
}

/// Writes the families of all targets.
pub fn render(store: &Store, now: Timestamp, text: &mut Exposition) {
    let views: Vec<View> = store.targets().values().map(|target| View::of(target, now)).collect();
    for row in ROWS {
        let mut family = text.family(row.name, row.help);
        for view in &views {
            (row.write)(view, &mut family);
        }
    }
    for row in COUNTERS {
        let mut family = text.counter_family(row.name, row.help);
        for view in &views {
            (row.write)(view, &mut family);
        }
    }
    let entries = store.entries();
    for row in ENTRY_ROWS {
        let mut family = text.family(row.name, row.help);
        for (name, entry) in entries.iter() {
            let mut labels = String::new();
            label(&mut labels, "entry", name);
            family.labelled(&labels, (row.value)(entry).map(as_f64));
        }
    }
}

impl View {
    fn of(target: &Arc<Target>, now: Timestamp) -> Self {
        let state = target.state();
        let mut labels = String::new();
        for (name, value) in [("target", target.name.as_str()), ("target_namespace", &target.namespace), ("kind", target.kind.name())] {
            if !labels.is_empty() {
                labels.push(',');
            }
            label(&mut labels, name, value);
        }
        Self { target: Arc::clone(target), valid: state.advice.as_ref().is_some_and(|advice| is_valid(advice, now)), state, labels }
    }

    /// The latest advice, valid or not.
    fn advice(&self) -> Option<&Advice> {
        self.state.advice.as_deref()
    }

    fn valid_advice(&self) -> Option<&Advice> {
        self.advice().filter(|_| self.valid)
    }

    /// A count of the latest advice, while it is valid.
    fn known(&self, of: impl FnOnce(&Advice) -> Option<Count>) -> Option<Count> {
        self.valid_advice().and_then(of)
    }

    /// As every surface tells it: without a valid advice it is a hold.
    fn outcome(&self) -> Outcome {
        self.valid_advice().map_or(Outcome::Hold, |advice| advice.outcome)
    }

    /// An input of the latest advice, while it is valid and the input was new enough.
    fn input(&self, name: &str) -> Option<f64> {
        let input = self.valid_advice()?.inputs.iter().find(|input| input.name == name)?;
        input.value.filter(|_| matches!(input.state, InputState::Fresh | InputState::Assumed))
    }

    fn actions(&self, kind: ActionKind) -> Count {
        let actions = self.valid_advice().map_or(&[][..], |advice| advice.actions.as_slice());
        Count::try_from(actions.iter().filter(|action| action.action == kind).count()).unwrap_or(Count::MAX)
    }

    fn parts(&self, family: &mut Family<'_>, which: impl Fn(Option<Count>, Option<Count>) -> Option<Count>) {
        let Some(advice) = self.valid_advice() else { return };
        let mut seen = BTreeSet::new();
        for part in advice.parts.iter().take(MOST_PARTS).filter(|part| seen.insert(part.id.as_str())) {
            let name: String = part.name.chars().take(LONGEST_NAME).collect();
            self.put(family, &[("part", &part.id), ("part_name", &name)], which(part.recommended, part.current).map(as_f64));
        }
    }

    /// Calls of the last good reading, once there was one.
    fn calls(&self, family: &mut Family<'_>, which: impl Fn(&SourceState) -> u32) {
        let source = &self.state.source;
        self.one(family, source.observed_at.map(|_| Count::from(which(source))));
    }

    fn one(&self, family: &mut Family<'_>, value: Option<Count>) {
        family.labelled(&self.labels, value.map(as_f64));
    }

    fn put(&self, family: &mut Family<'_>, more: &[(&str, &str)], value: Option<f64>) {
        if more.is_empty() || value.is_none() {
            return family.labelled(&self.labels, value);
        }
        let mut labels = self.labels.clone();
        for (name, value) in more {
            labels.push(',');
            label(&mut labels, name, value);
        }
        family.labelled(&labels, value);
    }
}

fn unix(at: Timestamp) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of this era fit a double")]
    let millis = at.as_millisecond() as f64;
    millis / 1000.0
}
