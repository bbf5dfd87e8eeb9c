//! The `OpenAPI` document: gathered from the handlers, with the bodies of `POST /v1/advice` spelt out by kind.
//!
//! The body is read by hand (see [`crate::core::request`]), so the types here exist for the document only.

use std::sync::LazyLock;

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::routing::get;
use utoipa::openapi::example::{Example, ExampleBuilder};
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{ContactBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, RefOr, SecurityRequirement, tag::TagBuilder};
use utoipa::{OpenApi as _, ToSchema};

use super::problem::Problem;
use super::{AppState, documented};
use crate::core::advice::Advice;
use crate::core::kinds::{BacklogSnapshot, DruidSupervisorSnapshot, DruidWorkersSnapshot, FlinkJobSnapshot, KafkaGroupSnapshot, PubsubSubscriptionSnapshot};
use crate::core::policy::PolicyInput;
use crate::core::request::{Failure, Replicas};
use crate::core::units::Timestamp;

/// The body of `POST /v1/advice` for one kind.
macro_rules! body_of {
    ($(#[doc = $doc:literal])+ $name:ident, $tag:ident = $kind:literal, $snapshot:ty) => {
        $(#[doc = $doc])+
        #[derive(ToSchema)]
        #[schema(rename_all = "camelCase")]
        #[expect(dead_code, reason = "only its schema is used")]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// The kind of workload.
            #[schema(schema_with = $tag)]
            kind: (),
            /// A label, echoed in the answer.
            name: Option<String>,
            /// The moment of the decision; the server's clock if absent. With it, the same body gives the same answer.
            now: Option<Timestamp>,
            /// The scale target's counts. Absent parts are unknown.
            replicas: Option<Replicas>,
            /// The newest reading; null when it failed.
            snapshot: Option<$snapshot>,
            /// Why there is no newest reading.
            failure: Option<Failure>,
            /// Earlier readings, oldest first.
            #[schema(max_items = 1000)]
            history: Option<Vec<$snapshot>>,
            /// What is wanted of the advice.
            policy: Option<PolicyInput>,
            /// What the previous answer returned under `memory`, or null.
            #[schema(value_type = Option<Object>)]
            memory: Option<()>,
        }

        fn $tag() -> Schema {
            ObjectBuilder::new().schema_type(Type::String).enum_values(Some([$kind])).description(Some("The kind of workload.")).into()
        }
    };
}

body_of! {
    /// Druid Middle Managers or Indexers: task slots against pending tasks.
    DruidWorkersRequest, druid_workers_kind = "druidWorkers", DruidWorkersSnapshot
}
body_of! {
    /// A Druid streaming supervisor: its reading tasks against what arrives.
    DruidSupervisorRequest, druid_supervisor_kind = "druidSupervisor", DruidSupervisorSnapshot
}
body_of! {
    /// A Flink streaming job: true processing rates through the job graph.
    FlinkJobRequest, flink_job_kind = "flinkJob", FlinkJobSnapshot
}
body_of! {
    /// A Kafka consumer group: its consumers against what arrives and waits.
    KafkaGroupRequest, kafka_group_kind = "kafkaGroup", KafkaGroupSnapshot
}
body_of! {
    /// A Pub/Sub subscription: its subscribers against what is published and waits.
    PubsubSubscriptionRequest, pubsub_subscription_kind = "pubsubSubscription", PubsubSubscriptionSnapshot
}
body_of! {
    /// Any queue with a backlog.
    BacklogRequest, backlog_kind = "backlog", BacklogSnapshot
}

/// One question. `kind` says which form the readings have.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(discriminator(property_name = "kind", mapping(
    ("druidWorkers" = "#/components/schemas/DruidWorkersRequest"),
    ("druidSupervisor" = "#/components/schemas/DruidSupervisorRequest"),
    ("flinkJob" = "#/components/schemas/FlinkJobRequest"),
    ("kafkaGroup" = "#/components/schemas/KafkaGroupRequest"),
    ("pubsubSubscription" = "#/components/schemas/PubsubSubscriptionRequest"),
    ("backlog" = "#/components/schemas/BacklogRequest")
)))]
#[expect(dead_code, reason = "only its schema is used")]
pub enum AdviceRequest {
    DruidWorkers(DruidWorkersRequest),
    DruidSupervisor(DruidSupervisorRequest),
    FlinkJob(FlinkJobRequest),
    KafkaGroup(KafkaGroupRequest),
    PubsubSubscription(PubsubSubscriptionRequest),
    Backlog(BacklogRequest),
}

/// One question, or an array of at most 1,000.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, clippy::large_enum_variant, reason = "only its schema is used")]
pub enum AdviceBody {
    One(AdviceRequest),
    Many(Vec<AdviceRequest>),
}

/// One decision; for an array an array of decisions and problem documents in the same order.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, clippy::large_enum_variant, reason = "only its schema is used")]
pub enum AdviceAnswer {
    One(Advice),
    Many(Vec<AdviceOrProblem>),
}

/// What stands in one place of an array of answers.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, clippy::large_enum_variant, reason = "only its schema is used")]
pub enum AdviceOrProblem {
    Advice(Advice),
    Problem(Problem),
}

/// Bodies that can be posted as they stand, by kind.
pub const EXAMPLES: [(&str, &str, &str); 6] = [
    ("backlog", "A queue that falls behind", include_str!("examples/backlog.json")),
    ("druidSupervisor", "A Druid supervisor that falls behind", include_str!("examples/druid_supervisor.json")),
    ("druidWorkers", "Druid workers whose slots are full", include_str!("examples/druid_workers.json")),
    ("flinkJob", "A Flink job with a busy operator", include_str!("examples/flink_job.json")),
    ("kafkaGroup", "A Kafka consumer group that falls behind", include_str!("examples/kafka_group.json")),
    ("pubsubSubscription", "A Pub/Sub subscription that falls behind", include_str!("examples/pubsub_subscription.json")),
];

/// The examples as the document carries them.
fn examples() -> impl Iterator<Item = (&'static str, Example)> {
    EXAMPLES.into_iter().map(|(name, summary, body)| {
        let value = serde_json::from_str(body).unwrap_or_default();
        (name, ExampleBuilder::new().summary(summary).value(Some(value)).build())
    })
}

#[derive(utoipa::OpenApi)]
#[openapi(components(schemas(
    AdviceRequest,
    DruidWorkersRequest,
    DruidSupervisorRequest,
    FlinkJobRequest,
    KafkaGroupRequest,
    PubsubSubscriptionRequest,
    BacklogRequest,
    Problem
)))]
struct Components;

const DESCRIPTION: &str = "How many replicas, which parallelism, and why: scaling advice for Druid workers, Druid supervisors, Flink jobs, Kafka consumer groups, Pub/Sub subscriptions and any queue.

Post a reading to `/v1/advice`, or let the service ask the sources of its configured targets and read their latest advice.

Unknown is null or absent, never 0. Numbers carry their unit in the name; durations are text (`\"5m\"`); times are RFC 3339 UTC. Unknown keys are refused with their path. \
Errors are problem documents (RFC 9457) with a stable `code`. Reason and limit codes are stable; their sentences are not.";

/// The document as it is gathered.
fn openapi() -> OpenApi {
    let (open, guarded) = documented();
    let info = InfoBuilder::new()
        .title("Loadline")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(DESCRIPTION))
        .license(Some(LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0")).build()))
        .contact(Some(ContactBuilder::new().name(Some("Loadline")).url(Some(env!("CARGO_PKG_REPOSITORY"))).build()))
        .build();
    let tag = |name: &str, description: &str| TagBuilder::new().name(name).description(Some(description)).build();
    let mut document = OpenApiBuilder::new()
        .info(info)
        .tags(Some([
            tag("advice", "One decision, nothing stored."),
            tag("targets", "Configured targets: what was decided, and what it rests on."),
            tag("service", "The service itself."),
        ]))
        .build();
    document.merge(Components::openapi());
    document.merge(open.into_openapi());
    // only where a token is configured, hence the empty alternative
    document.merge(guarded.into_openapi());
    let question = document.paths.paths.get_mut("/v1/advice").and_then(|path| path.post.as_mut()).and_then(|post| post.request_body.as_mut());
    if let Some(RefOr::T(question)) = question
        && let Some(RefOr::T(content)) = question.content.get_mut("application/json")
    {
        content.examples.extend(examples().map(|(name, example)| (name.to_owned(), RefOr::T(example))));
    }
    if let Some(components) = document.components.as_mut() {
        components.add_security_scheme("bearer", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    }
    document.security = Some(vec![SecurityRequirement::default(), SecurityRequirement::new("bearer", Vec::<String>::new())]);
    document
}

/// The document as it is served and checked in.
#[must_use]
pub fn openapi_json() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let text = openapi().to_pretty_json().unwrap_or_default();
        // the generator names the schema of a count after its Rust type, which means nothing to readers in other languages
        text.replace("#/components/schemas/u64\"", "#/components/schemas/Count\"").replace("\"u64\": {", "\"Count\": {")
    });
    &TEXT
}

/// `GET /openapi.json`.
pub fn router() -> Router<AppState> {
    let headers = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json")), (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))];
    Router::new().route("/openapi.json", get(async move || (headers, openapi_json())))
}

#[cfg(test)]
#[expect(clippy::panic, reason = "a test that cannot go on fails")]
mod tests {
    use super::*;
    use crate::core::request::parse;

    #[test]
    fn every_example_is_a_valid_question() {
        for (kind, _, body) in EXAMPLES {
            let request = parse(body.as_bytes(), Timestamp::UNIX_EPOCH).unwrap_or_else(|refusal| panic!("{kind}: {refusal:?}"));
            assert_eq!(request.readings.kind().name(), kind);
        }
    }
}
