//! Readings of Kafka groups, from a cluster in the test's own process that answers as brokers do: what is asked of whom and
//! in which order, and what becomes of answers that are missing, refused or odd. That real brokers answer so is shown in
//! `tests/live`.

#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod fake;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use loadline::core::kinds::KafkaGroupSnapshot;
use loadline::core::kinds::kafka::{GroupType, KafkaPartition};
use loadline::core::units::{Amount, Count};
use loadline::engine::source::{Discovery, FailureKind, Snapshot, Source, SourceError};
use loadline::sources::Timing;
use loadline::sources::kafka::reader::{Committed, Described, Partition, Refusal, ShareOffset};
use loadline::sources::kafka::{GroupPattern, KafkaGroups, KafkaSource, Wishes};

use crate::fake::*;

#[tokio::test]
async fn commits_are_read_before_ends_so_that_a_lag_is_never_negative_however_fast_the_group_is() {
    let (fake, cluster) = fake(vec![("orders", group("orders", &[Some(100), Some(100)]))], vec![("orders", ends(&[100, 130]))]);
    fake.state().flow = 1000;
    let snapshot = read(&source(&cluster, "orders", Wishes::default(), TIMING)).await.expect("a reading");
    assert_eq!(fake.questions(), ["list", "describe", "committed", "topics", "ends", "starts", "keeping"]);
    for (partition, lag) in partitions(&snapshot, "orders").iter().zip([0, 30]) {
        let (committed, end) = (partition.committed.expect("a commit"), partition.log_end.expect("an end"));
        assert_eq!(end - committed, lag + 2000, "overstated by what came between the two questions, and by no more");
    }
}

#[tokio::test]
async fn log_starts_are_asked_for_only_where_nothing_is_committed_or_something_waits() {
    let (fake, cluster) = fake(vec![("orders", group("orders", &[Some(50), None, Some(70)]))], vec![("orders", ends(&[50, 60, 90]))]);
    let snapshot = read(&source(&cluster, "orders", Wishes::default(), TIMING)).await.expect("a reading");
    assert!(fake.state().asked.contains(&"starts orders-1,orders-2".to_owned()), "{:?}", fake.state().asked);
    let found = partitions(&snapshot, "orders");
    assert_eq!(
        found.iter().map(|partition| (partition.committed, partition.log_start)).collect::<Vec<_>>(),
        [(Some(50), None), (None, Some(0)), (Some(70), Some(0))]
    );
    assert_eq!(found[0].member.as_deref(), Some("consumer-1"));
    let topic = &snapshot.topics.as_ref().expect("topics")[0];
    assert_eq!((topic.subscribed, topic.retention_seconds.map(Amount::get), topic.id.as_deref()), (Some(true), Some(3600.0), Some("id-orders")));
}

#[tokio::test]
async fn a_group_that_keeps_up_takes_four_questions_a_round_once_its_type_is_known() {
    let (fake, cluster) = fake(vec![("orders", group("orders", &[Some(50)]))], vec![("orders", ends(&[50]))]);
    let source = source(&cluster, "orders", Wishes::default(), AT_ONCE);
    read(&source).await.expect("a reading");
    fake.questions();
    read(&source).await.expect("a reading");
    assert_eq!(fake.questions(), ["describe", "committed", "topics", "ends"]);
    assert_eq!(source.shared_calls(), 4);
}

#[tokio::test]
async fn two_hundred_groups_are_read_in_one_round_with_as_many_questions_as_one() {
    let names: Vec<String> = (0..200).map(|number| format!("g{number:03}")).collect();
    let groups = names.iter().enumerate().map(|(number, name)| (name.as_str(), group("orders", &[Some(number as Count)]))).collect();
    let (fake, cluster) = fake(groups, vec![("orders", ends(&[500]))]);
    let sources: Vec<KafkaSource> = names.iter().map(|name| source(&cluster, name, Wishes::default(), TIMING)).collect();
    let readings = futures_util::future::join_all(sources.iter().map(read)).await;
    for (number, reading) in readings.into_iter().enumerate() {
        let reading = reading.expect("a reading");
        assert_eq!(reading.group.as_deref(), Some(names[number].as_str()));
        assert_eq!(partitions(&reading, "orders")[0].committed, Some(number as Count));
    }
    assert_eq!(fake.questions(), ["list", "describe", "committed", "topics", "ends", "starts", "keeping"]);
}

#[tokio::test]
async fn a_target_that_is_gone_or_read_seldom_is_no_part_of_each_round() {
    let all = vec![("a", group("t", &[Some(1)])), ("b", group("t", &[Some(1)])), ("c", group("t", &[Some(1)]))];
    let (fake, cluster) = fake(all, vec![("t", ends(&[1]))]);
    let often = source(&cluster, "a", Wishes::default(), AT_ONCE);
    let _seldom = source(&cluster, "b", Wishes::default(), TIMING);
    let gone = source(&cluster, "c", Wishes::default(), AT_ONCE);
    read(&often).await.expect("a reading");
    assert!(fake.state().asked.contains(&"committed 3".to_owned()));
    drop(gone);
    fake.questions();
    read(&often).await.expect("a reading");
    assert!(fake.state().asked.contains(&"committed 1".to_owned()), "{:?}", fake.state().asked);
}

#[tokio::test]
async fn each_group_is_described_in_the_way_of_its_type() {
    let consumer = Group {
        kind: GroupType::Consumer,
        listed: Some(GroupType::Consumer),
        described: Described { epoch: Some(7), assignor: Some("uniform".to_owned()), ..group("t", &[Some(5)]).described },
        ..group("t", &[Some(5)])
    };
    let place = |start, lag| ShareOffset { start, lag };
    let share = Group {
        kind: GroupType::Share,
        listed: Some(GroupType::Share),
        shared: BTreeMap::from([(Partition::new("t", 0), place(2, Some(3)))]),
        committed: Committed::new(),
        ..group("t", &[None])
    };
    let streams = Group { kind: GroupType::Streams, listed: Some(GroupType::Streams), ..group("t", &[Some(5)]) };
    let all = vec![("classic", group("t", &[Some(5)])), ("consumer", consumer), ("share", share), ("streams", streams)];
    let (fake, cluster) = fake(all, vec![("t", ends(&[10]))]);
    let sources = ["classic", "consumer", "share", "streams"].map(|name| source(&cluster, name, Wishes::default(), TIMING));
    let mut found = Vec::new();
    for source in &sources {
        found.push(read(source).await.expect("a reading"));
    }
    assert_eq!(
        found.iter().map(|reading| reading.group_type).collect::<Vec<_>>(),
        [Some(GroupType::Classic), Some(GroupType::Consumer), Some(GroupType::Share), Some(GroupType::Streams)]
    );
    assert_eq!(found.iter().map(|reading| reading.members).collect::<Vec<_>>(), [Some(1), Some(1), Some(1), None], "what cannot be asked for is unknown");
    let shared = &partitions(&found[2], "t")[0];
    assert_eq!((shared.committed, shared.lag, shared.member.as_deref()), (Some(2), Some(3), None), "a partition of a share group belongs to nobody alone");
    assert_eq!(found[3].state.as_deref(), Some("Stable"), "as the list tells");
    assert_eq!(fake.questions().iter().filter(|word| *word == "describe").count(), 1);
    // a broker that does not tell the lag of share groups
    fake.state().groups.get_mut("share").expect("the group").shared = BTreeMap::from([(Partition::new("t", 0), place(2, None))]);
    let reading = read(&source(&cluster, "share", Wishes::default(), AT_ONCE)).await.expect("a reading");
    assert_eq!(partitions(&reading, "t")[0].lag, None, "unknown, not zero");
}

#[tokio::test]
async fn a_group_that_moves_to_the_new_protocol_is_found_in_the_same_reading() {
    let (fake, cluster) = fake(vec![("orders", group("t", &[Some(5)]))], vec![("t", ends(&[5]))]);
    let source = source(&cluster, "orders", Wishes::default(), AT_ONCE);
    assert_eq!(read(&source).await.expect("a reading").group_type, Some(GroupType::Classic));
    {
        let mut state = fake.state();
        let moved = state.groups.get_mut("orders").expect("the group");
        (moved.kind, moved.listed) = (GroupType::Consumer, Some(GroupType::Consumer));
    }
    let reading = read(&source).await.expect("a reading");
    assert_eq!((reading.group_type, reading.members), (Some(GroupType::Consumer), Some(1)), "and not Dead");
}

#[tokio::test]
async fn brokers_that_tell_no_types_are_asked_as_before() {
    let (_, cluster) = fake(vec![("orders", Group { listed: None, ..group("t", &[Some(5)]) })], vec![("t", ends(&[5]))]);
    assert_eq!(read(&source(&cluster, "orders", Wishes::default(), TIMING)).await.expect("a reading").members, Some(1));
}

#[tokio::test]
async fn what_is_missing_is_named_and_takes_nothing_from_the_other_groups() {
    let secret = Group { refusal: Some(Refusal::NotAllowed), ..group("t", &[Some(5)]) };
    let hidden = group("hidden", &[Some(5)]);
    let lost =
        Group { refusal: Some(Refusal::Unreached(SourceError::new(FailureKind::Unreachable, "connection refused (b3:9092)"))), ..group("t", &[Some(1)]) };
    let all = vec![("fine", group("t", &[Some(5)])), ("secret", secret), ("hidden", hidden), ("lost", lost)];
    let (fake, cluster) = fake(all, vec![("t", ends(&[5])), ("hidden", ends(&[5]))]);
    fake.state().topic_refusals.insert("hidden".to_owned(), Refusal::NotAllowed);
    for (name, kind, words) in [
        ("secret", FailureKind::Unauthorized, "the group \"secret\": expected permission DESCRIBE on the group"),
        ("hidden", FailureKind::Unauthorized, "the topic \"hidden\": expected permission DESCRIBE on the topic"),
        ("typo", FailureKind::NotFound, "no group \"typo\" on this cluster: expected one with members or commits"),
        ("lost", FailureKind::Unreachable, "b3:9092"),
    ] {
        let error = read(&source(&cluster, name, Wishes::default(), AT_ONCE)).await.expect_err(name);
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(words), "{error}");
    }
    assert!(read(&source(&cluster, "fine", Wishes::default(), AT_ONCE)).await.is_ok());
}

#[tokio::test]
async fn without_permission_for_configurations_only_the_retention_is_unknown() {
    let (fake, cluster) = fake(vec![("orders", group("t", &[Some(5)]))], vec![("t", ends(&[9]))]);
    fake.state().keeping_refused = true;
    let source = source(&cluster, "orders", Wishes::default(), AT_ONCE);
    let reading = read(&source).await.expect("a reading");
    assert_eq!(reading.topics.as_ref().expect("topics")[0].retention_seconds, None);
    read(&source).await.expect("a reading");
    assert_eq!(fake.questions().iter().filter(|word| *word == "keeping").count(), 1, "it is not asked for each time");
}

#[tokio::test]
async fn a_topic_that_is_gone_leaves_its_commits_and_a_partition_that_is_gone_leaves_nothing() {
    let mut orders = group("t", &[Some(5), Some(6)]);
    orders.committed.insert(Partition::new("old", 0), 17);
    orders.described.members.as_mut().expect("members")[0].subscribed = Some(vec!["t".to_owned(), "not-there-yet".to_owned()]);
    let (_, cluster) = fake(vec![("orders", orders)], vec![("t", ends(&[5]))]);
    let reading = read(&source(&cluster, "orders", Wishes::default(), TIMING)).await.expect("a reading");
    let topics: Vec<_> = reading.topics.iter().flatten().map(|topic| (topic.name.as_str(), topic.deleted, topic.listed().len())).collect();
    assert_eq!(topics, [("old", Some(true), 1), ("t", None, 1)]);
    assert_eq!(partitions(&reading, "old")[0].log_end, None);
}

#[tokio::test]
async fn an_end_that_nobody_answers_for_is_unknown_and_not_zero() {
    let (fake, cluster) = fake(vec![("orders", group("t", &[Some(5), Some(5)]))], vec![("t", ends(&[9, 9]))]);
    fake.state().partition_refusals.insert(Partition::new("t", 1), Refusal::Code(5));
    let reading = read(&source(&cluster, "orders", Wishes::default(), TIMING)).await.expect("a reading");
    assert_eq!(partitions(&reading, "t").iter().map(|partition| partition.log_end).collect::<Vec<_>>(), [Some(9), None]);
}

#[tokio::test]
async fn the_objective_is_asked_for_where_something_waits_and_stable_ends_for_committed_readers() {
    let logs = vec![
        Log { end: 50, ..Log::default() },
        Log { end: 90, stable: Some(80), young: Some(75), ..Log::default() },
        Log { end: 90, young: None, ..Log::default() },
    ];
    let (fake, cluster) =
        fake(vec![("orders", group("t", &[Some(50), Some(70), Some(70)])), ("plain", group("t", &[Some(50), Some(70), Some(70)]))], vec![("t", logs)]);
    let unwishful = source(&cluster, "plain", Wishes::default(), TIMING);
    let strict = Wishes { objective_seconds: Some(300.0), read_committed: true, topics: Vec::new() };
    let reading = read(&source(&cluster, "orders", strict, TIMING)).await.expect("a reading");
    assert!(fake.state().asked.contains(&"times t-1,t-2".to_owned()), "{:?}", fake.state().asked);
    let found = partitions(&reading, "t");
    let by_age: Vec<_> =
        found.iter().map(|partition| partition.offsets_by_age.iter().map(|row| (row.age_seconds.get(), row.offset)).collect::<Vec<_>>()).collect();
    assert_eq!(by_age, [vec![], vec![(300.0, Some(75))], vec![(300.0, None)]], "70 is read before 75, so the objective is missed; nothing is younger");
    assert_eq!(found.iter().map(|partition| partition.last_stable).collect::<Vec<_>>(), [Some(50), Some(80), Some(90)]);
    let plain = read(&unwishful).await.expect("a reading");
    assert!(partitions(&plain, "t").iter().all(|partition| partition.last_stable.is_none() && partition.offsets_by_age.is_empty()));
}

#[tokio::test]
async fn only_the_topics_that_are_wanted_are_read() {
    let mut orders = group("t", &[Some(5)]);
    orders.committed.insert(Partition::new("other", 0), 1);
    let (fake, cluster) = fake(vec![("orders", orders)], vec![("t", ends(&[5])), ("other", ends(&[99]))]);
    let wishes = Wishes { topics: vec!["t".to_owned()], ..Wishes::default() };
    let reading = read(&source(&cluster, "orders", wishes, TIMING)).await.expect("a reading");
    assert_eq!(reading.topics.iter().flatten().map(|topic| topic.name.as_str()).collect::<Vec<_>>(), ["t"]);
    assert!(fake.state().asked.contains(&"ends t-0".to_owned()));
}

#[tokio::test]
async fn subscriptions_are_told_apart_from_what_is_not_known() {
    let mut orders = group("t", &[Some(5)]);
    orders.committed.insert(Partition::new("left", 0), 1);
    let mut by_pattern = orders.clone();
    by_pattern.described.members.as_mut().expect("members")[0].subscribed = None;
    let mut empty = orders.clone();
    (empty.described.members, empty.described.state) = (Some(Vec::new()), "Empty".to_owned());
    let (_, cluster) = fake(vec![("named", orders), ("pattern", by_pattern), ("empty", empty)], vec![("t", ends(&[5])), ("left", ends(&[99]))]);
    for (name, expected) in [("named", [Some(false), Some(true)]), ("pattern", [None, Some(true)]), ("empty", [None, None])] {
        let reading = read(&source(&cluster, name, Wishes::default(), AT_ONCE)).await.expect("a reading");
        assert_eq!(reading.topics.iter().flatten().map(|topic| topic.subscribed).collect::<Vec<_>>(), expected, "{name}");
    }
}

#[tokio::test]
async fn what_takes_two_looks_is_unknown_at_the_first() {
    let consumer = Group { kind: GroupType::Consumer, listed: Some(GroupType::Consumer), ..group("t", &[Some(5), Some(5)]) };
    let (fake, cluster) = fake(vec![("orders", consumer)], vec![("t", ends(&[5, 9]))]);
    fake.state().groups.get_mut("orders").expect("the group").described.epoch = Some(3);
    let source = source(&cluster, "orders", Wishes::default(), AT_ONCE);
    let first = read(&source).await.expect("a reading");
    let unchanged = |reading: &KafkaGroupSnapshot| -> Vec<(Option<f64>, Option<f64>)> {
        let row = |partition: &KafkaPartition| (partition.commit_unchanged_seconds.map(Amount::get), partition.end_unchanged_seconds.map(Amount::get));
        partitions(reading, "t").iter().map(row).collect()
    };
    assert_eq!((unchanged(&first), first.rebalances_last10_minutes), (vec![(None, None); 2], None));
    tokio::time::sleep(Duration::from_millis(60)).await;
    {
        let mut state = fake.state();
        state.topics.get_mut("t").expect("the topic")[1].end = 20;
        let group = state.groups.get_mut("orders").expect("the group");
        group.committed.insert(Partition::new("t", 1), 7);
        group.described.epoch = Some(4);
    }
    let second = read(&source).await.expect("a reading");
    let [(Some(commit), Some(end)), (Some(moved), Some(grown))] = unchanged(&second)[..] else { panic!("{:?}", unchanged(&second)) };
    assert!(commit >= 0.06 && end >= 0.06 && moved == 0.0 && grown == 0.0, "{:?}", unchanged(&second));
    assert_eq!(second.rebalances_last10_minutes, Some(1));
    {
        let mut state = fake.state();
        let described = &mut state.groups.get_mut("orders").expect("the group").described;
        (described.members, described.state) = (Some(Vec::new()), "Empty".to_owned());
    }
    assert_eq!(read(&source).await.expect("a reading").members, Some(0));
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(read(&source).await.expect("a reading").empty_seconds.is_some_and(|seconds| seconds.get() >= 0.02));
}

#[tokio::test]
async fn members_that_do_not_have_what_they_are_to_have_are_a_rebalance_under_way() {
    let mut consumer = Group { kind: GroupType::Consumer, listed: Some(GroupType::Consumer), ..group("t", &[Some(5)]) };
    consumer.described.members.as_mut().expect("members")[0].settled = false;
    let (_, cluster) = fake(vec![("orders", consumer)], vec![("t", ends(&[5]))]);
    assert_eq!(read(&source(&cluster, "orders", Wishes::default(), TIMING)).await.expect("a reading").state.as_deref(), Some("Reconciling"));
}

#[tokio::test]
async fn a_cluster_that_does_not_answer_is_not_asked_by_each_of_its_targets_in_turn() {
    let (fake, cluster) = fake(vec![("a", group("t", &[Some(5)])), ("b", group("t", &[Some(5)]))], vec![("t", ends(&[5]))]);
    let sources = ["a", "b"].map(|name| source(&cluster, name, Wishes::default(), TIMING));
    fake.state().down = Some(SourceError::new(FailureKind::Unreachable, "connection refused (kafka:9092)"));
    for source in &sources {
        assert_eq!(read(source).await.expect_err("it is down").kind, FailureKind::Unreachable);
    }
    assert_eq!(fake.questions(), ["list"]);
}

#[tokio::test]
async fn a_slow_cluster_is_given_up_in_time_and_the_others_do_not_wait_for_it_again() {
    let (fake, cluster) = fake(vec![("a", group("t", &[Some(5)])), ("b", group("t", &[Some(5)]))], vec![("t", ends(&[5]))]);
    let timing = Timing { interval: Duration::from_secs(60), timeout: Duration::from_millis(20) };
    let sources = ["a", "b"].map(|name| source(&cluster, name, Wishes::default(), timing));
    fake.state().slow = Duration::from_secs(30);
    let began = tokio::time::Instant::now();
    for source in &sources {
        assert_eq!(read(source).await.expect_err("it is slow").kind, FailureKind::Timeout);
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_pattern_stands_for_groups_that_consume_and_finds_new_ones() {
    let connect = Group { protocol: "connect", ..group("t", &[Some(1)]) };
    let only_commits = Group { protocol: "", ..group("t", &[Some(1)]) };
    let mut dead = group("t", &[]);
    dead.described.state = "Dead".to_owned();
    let share = Group { kind: GroupType::Share, listed: Some(GroupType::Share), protocol: "share", ..group("t", &[None]) };
    let all = vec![
        ("orders-a", group("t", &[Some(1)])),
        ("orders-b", only_commits),
        ("orders-c", connect),
        ("orders-d", dead),
        ("orders-e-test", group("t", &[Some(1)])),
        ("orders-f", share),
        ("bills", group("t", &[Some(1)])),
    ];
    let (fake, cluster) = fake(all, vec![("t", ends(&[5]))]);
    let pattern = GroupPattern::new("orders-.*", &[], &[".*-test".to_owned()]).expect("a pattern");
    let groups = KafkaGroups::new(Arc::clone(&cluster), pattern, Wishes::default(), AT_ONCE);
    let names = |found: &[loadline::engine::source::Found]| found.iter().map(|found| found.name.clone()).collect::<Vec<_>>();
    let found = groups.find().await.expect("a list");
    assert_eq!(names(&found), ["orders-a", "orders-b", "orders-f"]);
    assert!(found.iter().all(|found| found.id.len() == 20 && found.id.bytes().all(|byte| byte.is_ascii_hexdigit())), "{found:?}");
    assert!(groups.stands_for("orders-z") && !groups.stands_for("orders-z-test"));
    fake.state().groups.insert("orders-z".to_owned(), group("t", &[Some(2)]));
    let found = groups.find().await.expect("a list");
    let source = groups.source(found.last().expect("a group"));
    let reading = source.read().await.expect("a reading");
    assert!(matches!(reading.snapshot, Snapshot::KafkaGroup(snapshot) if snapshot.group.as_deref() == Some("orders-z")));
    assert_eq!(source.phase(), Some("kafka:9092"), "targets of one cluster are read at the same time");
}

/// Whatever the code comes to, these are the calls that it knows: none joins a group, fetches, produces or commits.
#[test]
fn only_calls_that_read_are_ever_written() {
    let reads = [
        "ApiVersions",
        "SaslHandshake",
        "SaslAuthenticate",
        "Metadata",
        "FindCoordinator",
        "ListGroups",
        "DescribeGroups",
        "ConsumerGroupDescribe",
        "ShareGroupDescribe",
        "OffsetFetch",
        "DescribeShareGroupOffsets",
        "ListOffsets",
        "DescribeConfigs",
    ];
    let mut used = BTreeSet::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sources/kafka/wire");
    for entry in std::fs::read_dir(folder).expect("the folder") {
        let text = std::fs::read_to_string(entry.expect("a file").path()).expect("text");
        let word = |piece: &str| piece.split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or_default().to_owned();
        used.extend(text.split("ApiKey::").skip(1).map(word));
    }
    assert_eq!(used, reads.iter().map(|name| (*name).to_owned()).collect());
}
