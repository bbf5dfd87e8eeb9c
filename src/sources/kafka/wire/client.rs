//! A Kafka cluster over the wire: which broker is asked what.
//!
//! What belongs to a group is asked of its coordinator, what belongs to a partition of its leader, all else of any broker;
//! everything for one broker goes in one call. Coordinators and leaders are remembered until a broker says that it is no
//! longer one. Each broker has one connection, and one call on its way at a time: a reading is a handful of calls.
//!
//! ```text
//! one reading of G groups on B brokers:  describe and commits: one call for each coordinator and type, at most 500 groups in each
//!                                        topics: 1;  ends, starts, ...: one call for each leader
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use kafka_protocol::messages::{
    ApiKey, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribeConfigsResponse, DescribeGroupsRequest, DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse, FindCoordinatorRequest, FindCoordinatorResponse, GroupId, ListGroupsRequest, ListGroupsResponse, ListOffsetsResponse,
    MetadataResponse, OffsetFetchResponse, ShareGroupDescribeRequest, ShareGroupDescribeResponse,
    describe_share_group_offsets_request::DescribeShareGroupOffsetsRequestGroup,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Message};
use tokio::sync::Mutex as AsyncMutex;

use super::connection::{Address, Connection};
use super::messages;
use super::security::Security;
use crate::core::kinds::kafka::GroupType;
use crate::core::units::Count;
use crate::engine::source::{FailureKind, SourceError};
use crate::sources::kafka::reader::{Answer, At, Committed, Described, Each, KafkaReader, Keeping, Listed, Partition, Refusal, ShareOffsets, Topic};

/// Groups in one call.
const GROUPS_A_CALL: usize = 500;

/// Partitions in one call.
const PARTITIONS_A_CALL: usize = 10_000;

/// What connecting, greeting and the login may take before the next broker is tried.
const OPEN_TIME: Duration = Duration::from_secs(3);

/// How often what belongs to another broker is asked anew, and the pause before.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(100);

/// A cluster.
pub struct KafkaClient {
    seeds: Vec<Address>,
    security: Security,
    calls: Arc<AtomicU64>,
    brokers: Mutex<BTreeMap<i32, Address>>,
    coordinators: Mutex<HashMap<String, i32>>,
    leaders: Mutex<BTreeMap<Partition, i32>>,
    links: Mutex<HashMap<Address, Link>>,
}

/// The connection to a broker, where there is one. Whoever asks takes it out, and puts it back after a whole answer.
type Link = Arc<AsyncMutex<Option<Connection>>>;

impl KafkaClient {
    /// The cluster that these brokers belong to. Opens nothing.
    #[must_use]
    pub fn new(seeds: Vec<Address>, security: Security) -> Self {
        Self {
            seeds,
            security,
            calls: Arc::default(),
            brokers: Mutex::default(),
            coordinators: Mutex::default(),
            leaders: Mutex::default(),
            links: Mutex::default(),
        }
    }

    /// Asks one broker, in the newest version that both sides know from `oldest` to `newest`.
    async fn raw<Q: Encodable + HeaderVersion>(
        &self,
        address: &Address,
        key: ApiKey,
        (oldest, newest): (i16, i16),
        build: impl Fn(i16) -> Q,
        header: impl Fn(i16) -> i16,
    ) -> Result<(i16, Bytes), SourceError> {
        let link = Arc::clone(lock(&self.links).entry(address.clone()).or_default());
        let mut link = link.lock().await;
        let mut kept = link.take().filter(Connection::is_usable);
        loop {
            let was_kept = kept.is_some();
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => self.open(address).await?,
            };
            let Some(version) = connection.version(key, oldest, newest) else {
                *link = Some(connection);
                let message = format!("{}:{} does not know the call {key:?} from version {oldest} to {newest}", address.0, address.1);
                return Err(SourceError::new(FailureKind::Unsupported, message));
            };
            match connection.exchange(key, version, &build(version), header(version)).await {
                Ok(answer) => {
                    *link = Some(connection);
                    return Ok((version, answer));
                }
                // a connection that rested may have been closed by the broker meanwhile
                Err(error) if was_kept && error.kind == FailureKind::Unreachable => {}
                Err(error) => return Err(self.explained(error, key)),
            }
        }
    }

    /// A broker that wants a login hangs up on whoever asks without one.
    fn explained(&self, error: SourceError, key: ApiKey) -> SourceError {
        if error.kind == FailureKind::Unreachable && self.security.sasl.is_none() {
            return SourceError { message: format!("{} to {key:?}: does the broker want a login (sasl)?", error.message), ..error };
        }
        error
    }

    async fn open(&self, address: &Address) -> Result<Connection, SourceError> {
        let opened = tokio::time::timeout(OPEN_TIME, Connection::open(address, &self.security, Arc::clone(&self.calls))).await;
        opened.unwrap_or_else(|_| {
            Err(SourceError::new(FailureKind::Timeout, format!("no connection within {} s ({}:{})", OPEN_TIME.as_secs(), address.0, address.1)))
        })
    }

    async fn ask<Q, A>(&self, address: &Address, key: ApiKey, oldest: i16, build: impl Fn(i16) -> Q) -> Result<(i16, A), SourceError>
    where
        Q: Encodable + HeaderVersion + Message,
        A: Decodable + HeaderVersion,
    {
        let (version, mut bytes) = self.raw(address, key, (oldest.max(Q::VERSIONS.min), Q::VERSIONS.max), build, A::header_version).await?;
        let answer = A::decode(&mut bytes, version)
            .map_err(|_| SourceError::new(FailureKind::Unexpected, format!("{}:{} answers {key:?} in another form than documented", address.0, address.1)))?;
        Ok((version, answer))
    }

    /// Asks any broker: those that are known, then those that were named.
    async fn ask_any<Q, A>(&self, key: ApiKey, oldest: i16, build: impl Fn(i16) -> Q) -> Result<(i16, A), SourceError>
    where
        Q: Encodable + HeaderVersion + Message,
        A: Decodable + HeaderVersion,
    {
        let mut addresses: Vec<Address> = lock(&self.brokers).values().cloned().collect();
        addresses.extend(self.seeds.iter().filter(|seed| !addresses.contains(seed)).cloned().collect::<Vec<_>>());
        let mut failed = SourceError::new(FailureKind::Unreachable, "no broker is named");
        for address in addresses {
            match self.ask(&address, key, oldest, &build).await {
                Err(error) if matches!(error.kind, FailureKind::Unreachable | FailureKind::Timeout) => failed = error,
                other => return other,
            }
        }
        Err(failed)
    }

    /// Refreshes the brokers, and the leaders of some topics.
    async fn refresh(&self, names: &BTreeSet<String>) -> Result<Each<String, Topic>, SourceError> {
        // before version 4 a question for a topic makes it
        let (_, answer): (_, MetadataResponse) = self.ask_any(ApiKey::Metadata, 4, |_| messages::metadata(names)).await?;
        let address = |broker: &kafka_protocol::messages::metadata_response::MetadataResponseBroker| {
            Some((broker.node_id.0, (broker.host.to_string(), u16::try_from(broker.port).ok()?)))
        };
        *lock(&self.brokers) = answer.brokers.iter().filter_map(address).collect();
        let (topics, leaders) = messages::topics(&answer);
        let mut known = lock(&self.leaders);
        known.retain(|partition, _| !names.contains(&partition.topic));
        known.extend(leaders);
        Ok(topics)
    }

    /// Finds the coordinators of groups that have none yet. Those that have none now are answered for.
    async fn find_coordinators(&self, groups: &[String]) -> Result<BTreeMap<String, Refusal>, SourceError> {
        let missing: Vec<String> = {
            let known = lock(&self.coordinators);
            groups.iter().filter(|group| !known.contains_key(*group)).cloned().collect()
        };
        let mut refused = BTreeMap::new();
        for some in missing.chunks(GROUPS_A_CALL) {
            // many keys in one call since version 4
            let many: Result<(i16, FindCoordinatorResponse), SourceError> = self
                .ask_any(ApiKey::FindCoordinator, 4, |_| {
                    FindCoordinatorRequest::default().with_coordinator_keys(some.iter().map(|group| messages::text(group)).collect())
                })
                .await;
            match many {
                Ok((_, answer)) => {
                    for found in &answer.coordinators {
                        self.note_coordinator(found.key.to_string(), found.error_code, found.node_id.0, (&found.host, found.port), &mut refused);
                    }
                }
                Err(error) if error.kind == FailureKind::Unsupported => {
                    for group in some {
                        let (_, answer): (_, FindCoordinatorResponse) =
                            self.ask_any(ApiKey::FindCoordinator, 0, |_| FindCoordinatorRequest::default().with_key(messages::text(group))).await?;
                        self.note_coordinator(group.clone(), answer.error_code, answer.node_id.0, (&answer.host, answer.port), &mut refused);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(refused)
    }

    fn note_coordinator(&self, group: String, error: i16, node: i32, (host, port): (&str, i32), refused: &mut BTreeMap<String, Refusal>) {
        match (messages::refusal(error), u16::try_from(port)) {
            (None, Ok(port)) => {
                lock(&self.brokers).entry(node).or_insert_with(|| (host.to_owned(), port));
                lock(&self.coordinators).insert(group, node);
            }
            (refusal, _) => {
                refused.insert(group, refusal.unwrap_or(Refusal::Code(15)));
            }
        }
    }

    /// Asks the coordinators of groups, all at the same time. What a coordinator no longer has is asked of the next one.
    async fn of_groups<T, F>(&self, groups: &[String], ask: impl Fn(Address, Vec<String>) -> F) -> Result<Each<String, T>, SourceError>
    where
        F: Future<Output = Result<Each<String, T>, SourceError>>,
    {
        let mut answers: Each<String, T> = Each::new();
        let mut waiting: Vec<String> = groups.to_vec();
        for attempt in 1..=TRIES {
            let refused = self.find_coordinators(&waiting).await?;
            let mut batches: BTreeMap<Address, Vec<String>> = BTreeMap::new();
            for group in waiting.drain(..) {
                match (self.coordinator(&group), refused.get(&group)) {
                    (Some(address), _) => batches.entry(address).or_default().push(group),
                    (None, refusal) => {
                        answers.insert(group, Err(refusal.cloned().unwrap_or(Refusal::Code(15))));
                    }
                }
            }
            let calls = batches.into_iter().flat_map(|(address, groups)| {
                let chunks: Vec<Vec<String>> = groups.chunks(GROUPS_A_CALL).map(<[String]>::to_vec).collect();
                chunks.into_iter().map(move |groups| (address.clone(), groups))
            });
            let asked = join_all(calls.map(|(address, groups)| {
                let answer = ask(address, groups.clone());
                async move { (groups, answer.await) }
            }));
            for (groups, answer) in asked.await {
                let mut answer = match answer {
                    Ok(answer) => answer,
                    Err(error) => groups.iter().map(|group| (group.clone(), Err(Refusal::Unreached(error.clone())))).collect(),
                };
                for group in groups {
                    let answer = answer.remove(&group).unwrap_or(Err(Refusal::Code(-1)));
                    answers.insert(group, answer);
                }
            }
            waiting = answers.iter().filter(|(_, answer)| answer.as_ref().err().is_some_and(is_elsewhere)).map(|(group, _)| group.clone()).collect();
            if waiting.is_empty() || attempt == TRIES {
                break;
            }
            lock(&self.coordinators).retain(|group, _| !waiting.contains(group));
            tokio::time::sleep(PAUSE * attempt).await;
        }
        Ok(answers)
    }

    fn coordinator(&self, group: &str) -> Option<Address> {
        let node = lock(&self.coordinators).get(group).copied()?;
        lock(&self.brokers).get(&node).cloned()
    }

    /// A call for groups of one type, where the broker has it.
    async fn describe_type<Q, A>(
        &self,
        groups: &[String],
        key: ApiKey,
        build: impl Fn(Vec<GroupId>) -> Q,
        read: impl Fn(A) -> Each<String, Described>,
    ) -> Result<Each<String, Described>, SourceError>
    where
        Q: Encodable + HeaderVersion + Message,
        A: Decodable + HeaderVersion,
    {
        let (build, read) = (&build, &read);
        self.of_groups(groups, |address, groups| async move {
            let asked: Result<(i16, A), SourceError> = self.ask(&address, key, 0, |_| build(messages::group_ids(&groups))).await;
            unsupported(asked.map(|(_, answer)| read(answer)), &groups)
        })
        .await
    }

    async fn list_all(&self) -> Result<Vec<Listed>, SourceError> {
        self.refresh(&BTreeSet::new()).await?;
        let addresses: Vec<Address> = lock(&self.brokers).values().cloned().collect();
        let asked = join_all(addresses.iter().map(|address| async move {
            let (_, answer): (_, ListGroupsResponse) = self.ask(address, ApiKey::ListGroups, 0, |_| ListGroupsRequest::default()).await?;
            match messages::refusal(answer.error_code) {
                None => Ok(messages::listed(&answer)),
                Some(refusal) => Err(SourceError::new(FailureKind::Unexpected, format!("no list of groups from {}:{}: {refusal}", address.0, address.1))),
            }
        }));
        let mut all = Vec::new();
        for groups in asked.await {
            all.extend(groups?);
        }
        Ok(all)
    }

    async fn describe_all(&self, groups: &[(String, GroupType)]) -> Result<Each<String, Described>, SourceError> {
        let of = |wanted: GroupType| -> Vec<String> { groups.iter().filter(|(_, kind)| *kind == wanted).map(|(group, _)| group.clone()).collect() };
        let mut all = Each::new();
        let classic = of(GroupType::Classic);
        if !classic.is_empty() {
            let build = |groups| DescribeGroupsRequest::default().with_groups(groups);
            all.extend(self.describe_type(&classic, ApiKey::DescribeGroups, build, messages::described_classic).await?);
        }
        let consumer = of(GroupType::Consumer);
        if !consumer.is_empty() {
            let build = |groups| ConsumerGroupDescribeRequest::default().with_group_ids(groups);
            let read: fn(ConsumerGroupDescribeResponse) -> _ = messages::described_consumer;
            all.extend(self.describe_type(&consumer, ApiKey::ConsumerGroupDescribe, build, read).await?);
        }
        let share = of(GroupType::Share);
        if !share.is_empty() {
            let build = |groups| ShareGroupDescribeRequest::default().with_group_ids(groups);
            let read: fn(ShareGroupDescribeResponse) -> _ = messages::described_share;
            all.extend(self.describe_type(&share, ApiKey::ShareGroupDescribe, build, read).await?);
        }
        // the messages of Kafka Streams' own protocol are not generated yet
        all.extend(of(GroupType::Streams).into_iter().map(|group| (group, Err(Refusal::Unsupported))));
        Ok(all)
    }

    async fn committed_of(&self, groups: &[String]) -> Result<Each<String, Committed>, SourceError> {
        self.of_groups(groups, |address, groups| async move {
            let many: Result<(i16, OffsetFetchResponse), SourceError> = self.ask(&address, ApiKey::OffsetFetch, 8, |_| messages::offset_fetch(&groups)).await;
            match many {
                Ok((_, answer)) => Ok(messages::committed(&answer)),
                Err(error) if error.kind == FailureKind::Unsupported => {
                    let mut all = Each::new();
                    for group in &groups {
                        let (oldest, newest) = (2, 7);
                        let (version, mut bytes) = self
                            .raw(&address, ApiKey::OffsetFetch, (oldest, newest), |_| messages::offset_fetch_of_one(group), OffsetFetchResponse::header_version)
                            .await?;
                        let answer = OffsetFetchResponse::decode(&mut bytes, version).ok();
                        all.insert(group.clone(), answer.map_or(Err(Refusal::Code(-1)), |answer| messages::committed_of_one(&answer)));
                    }
                    Ok(all)
                }
                Err(error) => Err(error),
            }
        })
        .await
    }

    async fn share_offsets_of(&self, groups: &[String]) -> Result<Each<String, ShareOffsets>, SourceError> {
        self.of_groups(groups, |address, groups| async move {
            let build = |_| {
                let group = |group: &String| DescribeShareGroupOffsetsRequestGroup::default().with_group_id(GroupId(messages::text(group))).with_topics(None);
                InVersion0(DescribeShareGroupOffsetsRequest::default().with_groups(groups.iter().map(group).collect()))
            };
            let header = DescribeShareGroupOffsetsResponse::header_version;
            let asked = self.raw(&address, ApiKey::DescribeShareGroupOffsets, (0, 1), build, |_| header(0)).await;
            let read = asked.and_then(|(version, bytes)| {
                messages::share_offsets(bytes, version)
                    .ok_or_else(|| SourceError::new(FailureKind::Unexpected, "the offsets of share groups come in another form than documented"))
            });
            unsupported(read, &groups)
        })
        .await
    }

    async fn offsets_of(&self, partitions: &BTreeSet<Partition>, at: At) -> Result<Each<Partition, Option<Count>>, SourceError> {
        let mut answers: Each<Partition, Option<Count>> = Each::new();
        let mut waiting: BTreeSet<Partition> = partitions.clone();
        for attempt in 1..=TRIES {
            let mut batches: BTreeMap<Address, Vec<&Partition>> = BTreeMap::new();
            {
                let (leaders, brokers) = (lock(&self.leaders), lock(&self.brokers));
                for partition in &waiting {
                    match leaders.get(partition).and_then(|leader| brokers.get(leader)) {
                        Some(address) => batches.entry(address.clone()).or_default().push(partition),
                        None => {
                            answers.insert(partition.clone(), Err(Refusal::Code(5)));
                        }
                    }
                }
            }
            let calls = batches.into_iter().flat_map(|(address, partitions)| {
                let chunks: Vec<Vec<&Partition>> = partitions.chunks(PARTITIONS_A_CALL).map(<[&Partition]>::to_vec).collect();
                chunks.into_iter().map(move |partitions| (address.clone(), partitions))
            });
            let asked = join_all(calls.map(|(address, partitions)| async move {
                // isolation since version 2
                let answer: Result<(i16, ListOffsetsResponse), SourceError> =
                    self.ask(&address, ApiKey::ListOffsets, 2, |_| messages::list_offsets(partitions.iter().copied(), at)).await;
                (partitions, answer)
            }));
            for (partitions, answer) in asked.await {
                let mut found = match &answer {
                    Ok((_, answer)) => messages::offsets(answer),
                    Err(error) => partitions.iter().map(|partition| ((*partition).clone(), Err(Refusal::Unreached(error.clone())))).collect(),
                };
                for partition in partitions {
                    let found = found.remove(partition).unwrap_or(Err(Refusal::Code(-1)));
                    answers.insert(partition.clone(), found);
                }
            }
            waiting = answers.iter().filter(|(_, answer)| answer.as_ref().err().is_some_and(is_elsewhere)).map(|(partition, _)| partition.clone()).collect();
            if waiting.is_empty() || attempt == TRIES {
                break;
            }
            tokio::time::sleep(PAUSE * attempt).await;
            self.refresh(&waiting.iter().map(|partition| partition.topic.clone()).collect()).await?;
        }
        Ok(answers)
    }

    async fn keeping_of(&self, topics: &BTreeSet<String>) -> Result<Each<String, Keeping>, SourceError> {
        let (_, answer): (_, DescribeConfigsResponse) = self.ask_any(ApiKey::DescribeConfigs, 0, |_| messages::describe_configs(topics)).await?;
        Ok(messages::keeping(&answer))
    }
}

impl KafkaReader for KafkaClient {
    fn list(&self) -> Answer<'_, Vec<Listed>> {
        Box::pin(self.list_all())
    }

    fn describe<'a>(&'a self, groups: &'a [(String, GroupType)]) -> Answer<'a, Each<String, Described>> {
        Box::pin(self.describe_all(groups))
    }

    fn committed<'a>(&'a self, groups: &'a [String]) -> Answer<'a, Each<String, Committed>> {
        Box::pin(self.committed_of(groups))
    }

    fn share_offsets<'a>(&'a self, groups: &'a [String]) -> Answer<'a, Each<String, ShareOffsets>> {
        Box::pin(self.share_offsets_of(groups))
    }

    fn topics<'a>(&'a self, names: &'a BTreeSet<String>) -> Answer<'a, Each<String, Topic>> {
        Box::pin(self.refresh(names))
    }

    fn offsets<'a>(&'a self, partitions: &'a BTreeSet<Partition>, at: At) -> Answer<'a, Each<Partition, Option<Count>>> {
        Box::pin(self.offsets_of(partitions, at))
    }

    fn keeping<'a>(&'a self, topics: &'a BTreeSet<String>) -> Answer<'a, Each<String, Keeping>> {
        Box::pin(self.keeping_of(topics))
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

/// A request whose body is the same in version 1 as in version 0.
struct InVersion0<Q>(Q);

impl<Q: Encodable> Encodable for InVersion0<Q> {
    fn encode<B: kafka_protocol::protocol::buf::ByteBufMut>(&self, buffer: &mut B, _version: i16) -> Result<(), anyhow::Error> {
        self.0.encode(buffer, 0)
    }

    fn compute_size(&self, _version: i16) -> Result<usize, anyhow::Error> {
        self.0.compute_size(0)
    }
}

impl<Q: HeaderVersion> HeaderVersion for InVersion0<Q> {
    fn header_version(_version: i16) -> i16 {
        Q::header_version(0)
    }
}

/// Errors that say that another broker is to be asked, or the same one a moment later: not reached, the coordinator is
/// loading, not available, another one; the leader is unknown, another one.
fn is_elsewhere(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::Unreached(error) => matches!(error.kind, FailureKind::Unreachable | FailureKind::Timeout),
        Refusal::Code(code) => matches!(code, 5 | 6 | 14 | 15 | 16 | 74 | 75 | 78),
        _ => false,
    }
}

/// A broker that lacks a call has no answer for each of the groups, which is no failure of the whole.
fn unsupported<T>(answer: Result<Each<String, T>, SourceError>, groups: &[String]) -> Result<Each<String, T>, SourceError> {
    match answer {
        Err(error) if error.kind == FailureKind::Unsupported => Ok(groups.iter().map(|group| (group.clone(), Err(Refusal::Unsupported))).collect()),
        other => other,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
