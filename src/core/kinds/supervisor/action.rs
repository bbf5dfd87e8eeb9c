//! The step that sets the count: there is no call that changes `taskCount` alone, so the whole spec is sent again.
//!
//! Where the question holds the spec, the call is ready. No source fills it in, because a spec may hold the credentials
//! of its stream and answers are shown to many; then the step says how.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use super::DruidSupervisorSnapshot;
use crate::core::advice::{ActionKind, Advice, ApiCall};
use crate::core::units::Count;

/// Says how the count is set, with the call where it can be made ready.
pub fn complete(reading: &DruidSupervisorSnapshot, advice: &mut Advice) {
    let (Some(from), Some(scale)) = (advice.current, advice.actions.iter_mut().find(|action| action.action == ActionKind::Scale)) else { return };
    let Some(to) = scale.to else { return };
    let path = "/druid/indexer/v1/supervisor";
    let body = reading.spec.clone().and_then(|spec| with_count(spec, to));
    scale.message = match &reading.supervisor {
        Some(id) if body.is_none() => format!(
            "set taskCount from {from} to {to}: get the spec from {path}/{}, set ioConfig.taskCount in it, and post it to {path}",
            utf8_percent_encode(id, NON_ALPHANUMERIC)
        ),
        _ => format!("set ioConfig.taskCount of the supervisor's spec from {from} to {to} and post it to {path}"),
    };
    if reading.autoscaler.as_ref().is_some_and(|own| own.enabled == Some(true)) {
        scale.message.push_str("; the autoscaler in the spec is on and would change it again: one of the two has to be off");
    }
    scale.request = body.map(|body| ApiCall { method: "POST", path: path.to_owned(), body: Some(body) });
}

/// The spec with another `taskCount`; `None` where it has no `ioConfig`.
fn with_count(mut spec: Map<String, Value>, count: Count) -> Option<Value> {
    let io = match spec.get_mut("spec") {
        Some(inner) => inner.get_mut("ioConfig"),
        None => spec.get_mut("ioConfig"),
    }?;
    io.as_object_mut()?.insert("taskCount".to_owned(), json!(count));
    Some(Value::Object(spec))
}
