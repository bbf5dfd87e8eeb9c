//! What each call answers, and the order in which KEDA makes them.

use tonic::Code;

use crate::client::{Keda, Look, Question, object};
use crate::support::{Replica, hasty};

#[tokio::test]
async fn a_look_of_keda_lands_on_the_recommendation_in_three_calls() {
    let replica = Replica::start(hasty()).await;
    for count in [1, 9, 10, 11, 100, 3500] {
        replica.decided("orders", count);
        let mut keda = Keda::over(vec![replica.connect().await], object("orders"));
        assert_eq!(keda.look().await, Look { size: 1.0, milli: Ok(count * 1000), active: Ok(true), calls: 3 });
    }
}

#[tokio::test]
async fn older_and_newer_versions_read_the_same_number() {
    let replica = Replica::start(hasty()).await;
    replica.decided("orders", 12);
    let connection = replica.connect().await;
    let spec = connection.spec(&object("orders")).await.expect("a specification").specs.remove(0);
    assert_eq!((spec.size, spec.size_float), (1, 1.0));
    let values = connection.metrics(&object("orders"), &spec.name).await.expect("values").values;
    assert_eq!(values.iter().map(|value| (value.value, value.value_float)).collect::<Vec<_>>(), [(12, 12.0)], "the HPA adds them up: exactly one");
    replica.decided("orders", 0);
    let values = connection.metrics(&object("orders"), &spec.name).await.expect("values").values;
    assert_eq!((values[0].value, values[0].value_float), (0, 0.0));
    assert!(!connection.active(&object("orders")).await.expect("an answer"));
}

#[tokio::test]
async fn one_replica_without_any_demand_is_active_so_that_keda_keeps_it() {
    let replica = Replica::start(hasty()).await;
    let target = replica.decided("orders", 1);
    let mut advice = (*target.state().advice.clone().expect("an advice")).clone();
    advice.active = Some(false);
    let request = target.state().request.clone().expect("a request");
    replica.store.publish(&target, request, std::sync::Arc::new(advice), loadline::engine::store::SourceState::default());
    assert!(replica.connect().await.active(&object("orders")).await.expect("an answer"));
}

#[tokio::test]
async fn an_advice_that_is_no_longer_valid_is_an_error_that_says_why_and_never_a_zero() {
    let replica = Replica::start(hasty()).await;
    replica.decided("orders", 7);
    let connection = replica.connect().await;
    let mut keda = Keda::over(vec![connection.clone()], object("orders"));
    replica.later(120);
    assert_eq!(keda.look().await.milli, Ok(7000), "valid to the last second");
    replica.later(1);
    // the pair is asked once more, and ends with the first call both times
    assert_eq!(keda.look().await, Look { size: 1.0, milli: Err(Code::Unavailable), active: Err(Code::Unavailable), calls: 3 });
    for status in [connection.metrics(&object("orders"), "x").await.expect_err("expired"), connection.active(&object("orders")).await.expect_err("expired")] {
        assert_eq!(status.code(), Code::Unavailable);
        assert!(status.message().contains("\"orders\" has had no valid number since 2026-11-30T10:02:00Z"), "{}", status.message());
    }
    assert!(connection.spec(&object("orders")).await.is_ok());
}

#[tokio::test]
async fn a_target_without_any_reading_is_an_error_that_says_so() {
    let replica = Replica::start(hasty()).await;
    replica.bare("orders");
    let status = replica.connect().await.metrics(&object("orders"), "x").await.expect_err("nothing is known");
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(status.message(), "nothing has been decided for \"orders\" yet: its source has not answered yet");
}

#[tokio::test]
async fn an_unknown_target_has_a_specification_and_no_number() {
    let replica = Replica::start(hasty()).await;
    replica.decided("orders", 7);
    let mut keda = Keda::over(vec![replica.connect().await], object("odrers"));
    assert_eq!(keda.look().await, Look { size: 1.0, milli: Err(Code::Unavailable), active: Err(Code::Unavailable), calls: 3 });
    let status = replica.connect().await.active(&object("odrers")).await.expect_err("no such target");
    assert!(status.message().contains("no target is called \"odrers\""), "{}", status.message());
}

#[tokio::test]
async fn without_a_target_in_the_metadata_the_name_of_the_scaled_object_counts() {
    let replica = Replica::start(hasty()).await;
    replica.decided("orders-consumer", 4);
    let connection = replica.connect().await;
    let mut bare = object("");
    assert_eq!(connection.metrics(&bare, "x").await.expect("a value").values[0].value, 4, "an empty name is none");
    bare.metadata.clear();
    assert_eq!(connection.metrics(&bare, "x").await.expect("a value").values[0].value, 4);
    let nobody = connection.ask(Question::default()).await.expect_err("no object at all");
    assert_eq!(nobody.code(), Code::Unavailable);
}

#[tokio::test]
async fn reading_the_number_is_noted_and_asking_for_the_specification_is_not() {
    use loadline::engine::store::Interface;
    let replica = Replica::start(hasty()).await;
    let target = replica.decided("orders", 4);
    let connection = replica.connect().await;
    connection.spec(&object("orders")).await.expect("a specification");
    assert_eq!(target.last_read(Interface::Grpc), None);
    connection.metrics(&object("orders"), "x").await.expect("a value");
    assert_eq!(target.last_read(Interface::Grpc), Some(crate::support::start().as_second() as f64));
    replica.later(500);
    connection.active(&object("orders")).await.expect_err("expired, and still somebody asks");
    assert_eq!(target.last_read(Interface::Grpc), Some(crate::support::start().as_second() as f64 + 500.0));
}

#[tokio::test]
async fn the_stream_of_specifications_is_not_there_as_they_never_change() {
    let replica = Replica::start(hasty()).await;
    let status = replica.connect().await.spec_stream(&object("orders")).await.expect_err("KEDA goes on without it");
    assert_eq!(status.code(), Code::Unimplemented);
}

#[tokio::test]
async fn two_replicas_asked_in_turn_say_the_same_and_one_that_knows_nothing_is_no_zero() {
    let (one, other) = (Replica::start(hasty()).await, Replica::start(hasty()).await);
    one.decided("orders", 6);
    other.decided("orders", 6);
    let mut keda = Keda::over(vec![one.connect().await, other.connect().await], object("orders"));
    for _ in 0..8 {
        assert_eq!(keda.look().await, Look { size: 1.0, milli: Ok(6000), active: Ok(true), calls: 3 });
    }
    // one of them has just started
    other.bare("orders");
    let mut looks = Vec::new();
    for _ in 0..8 {
        looks.push(keda.look().await.milli);
    }
    assert!(looks.iter().all(|milli| matches!(milli, Ok(6000) | Err(Code::Unavailable))), "{looks:?}");
}

#[tokio::test]
async fn health_is_told_of_the_server_and_of_the_service() {
    let replica = Replica::start(hasty()).await;
    let connection = replica.connect().await;
    assert_eq!(connection.health("").await.expect("an answer"), 1);
    assert_eq!(connection.health("externalscaler.ExternalScaler").await.expect("an answer"), 1);
    assert_eq!(connection.health("another").await.expect_err("none such").code(), Code::NotFound);
}
