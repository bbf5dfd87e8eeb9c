//! Questions as Kafka's messages, and its answers as ours. Pure: bytes and structs in, structs out.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf as _, Bytes};
use kafka_protocol::messages::{
    ConsumerGroupDescribeResponse, ConsumerProtocolAssignment, ConsumerProtocolSubscription, DescribeConfigsRequest, DescribeConfigsResponse,
    DescribeGroupsResponse, GroupId, ListGroupsResponse, ListOffsetsRequest, ListOffsetsResponse, MetadataRequest, MetadataResponse, OffsetFetchRequest,
    OffsetFetchResponse, ShareGroupDescribeResponse, TopicName,
    describe_configs_request::DescribeConfigsResource,
    list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
    metadata_request::MetadataRequestTopic,
    offset_fetch_request::OffsetFetchRequestGroup,
};
use kafka_protocol::protocol::{Decodable, Message, StrBytes};

use crate::core::kinds::kafka::GroupType;
use crate::core::units::Count;
use crate::sources::kafka::reader::{At, Committed, Described, Each, Keeping, Listed, Member, Partition, Refusal, ShareOffset, ShareOffsets, Topic};

/// The kind of a resource in `DescribeConfigs` that is a topic.
const TOPIC: i8 = 2;

/// An error number of the protocol, where it is one.
pub fn refusal(code: i16) -> Option<Refusal> {
    Some(match code {
        0 => return None,
        29..=31 => Refusal::NotAllowed,
        // unknown topic or partition; group id not found; unknown topic id
        3 | 69 | 100 => Refusal::NotFound,
        35 => Refusal::Unsupported,
        code => Refusal::Code(code),
    })
}

fn answered<T>(code: i16, value: impl FnOnce() -> T) -> Result<T, Refusal> {
    refusal(code).map_or_else(|| Ok(value()), Err)
}

/// Text as the messages carry it.
pub fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// Ids of groups as the messages carry them.
pub fn group_ids(groups: &[String]) -> Vec<GroupId> {
    groups.iter().map(|group| GroupId(text(group))).collect()
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

/// The groups of one broker.
pub fn listed(answer: &ListGroupsResponse) -> Vec<Listed> {
    let group_type = |name: &str| {
        Some(match name.to_ascii_lowercase().as_str() {
            "classic" => GroupType::Classic,
            "consumer" => GroupType::Consumer,
            "share" => GroupType::Share,
            "streams" => GroupType::Streams,
            _ => return None,
        })
    };
    let row = |group: &kafka_protocol::messages::list_groups_response::ListedGroup| Listed {
        group: group.group_id.to_string(),
        group_type: group_type(&group.group_type),
        state: some(&group.group_state),
        protocol: group.protocol_type.to_string(),
    };
    answer.groups.iter().map(row).collect()
}

/// Classic groups. Subscriptions and assignments are read only where the group has settled: before that the broker has
/// none to tell.
pub fn described_classic(answer: DescribeGroupsResponse) -> Each<String, Described> {
    let described = |group: &kafka_protocol::messages::describe_groups_response::DescribedGroup| {
        let reads = group.group_state.as_str() == "Stable" && group.protocol_type.as_str() == "consumer";
        let member = |member: &kafka_protocol::messages::describe_groups_response::DescribedGroupMember| Member {
            id: member.member_id.to_string(),
            is_static: member.group_instance_id.is_some(),
            subscribed: reads.then(|| subscription(member.member_metadata.clone())).flatten(),
            assigned: reads.then(|| assignment(member.member_assignment.clone())).flatten(),
            settled: true,
        };
        Described {
            state: group.group_state.to_string(),
            assignor: some(&group.protocol_data),
            epoch: None,
            members: Some(group.members.iter().map(member).collect()),
        }
    };
    answer.groups.iter().map(|group| (group.group_id.to_string(), answered(group.error_code, || described(group)))).collect()
}

/// What a consumer told the others when it joined: a version, and a message in that version.
fn subscription(mut bytes: Bytes) -> Option<Vec<String>> {
    let version = embedded_version(&mut bytes, ConsumerProtocolSubscription::VERSIONS.max)?;
    let found = ConsumerProtocolSubscription::decode(&mut bytes, version).ok()?;
    Some(found.topics.iter().map(ToString::to_string).collect())
}

/// What a consumer was given.
fn assignment(mut bytes: Bytes) -> Option<Vec<Partition>> {
    if bytes.is_empty() {
        return Some(Vec::new());
    }
    let version = embedded_version(&mut bytes, ConsumerProtocolAssignment::VERSIONS.max)?;
    let found = ConsumerProtocolAssignment::decode(&mut bytes, version).ok()?;
    let of_topic = |topic: &kafka_protocol::messages::consumer_protocol_assignment::TopicPartition| {
        let name = topic.topic.to_string();
        topic.partitions.iter().map(move |number| Partition::new(name.clone(), *number)).collect::<Vec<_>>()
    };
    Some(found.assigned_partitions.iter().flat_map(of_topic).collect())
}

fn embedded_version(bytes: &mut Bytes, newest: i16) -> Option<i16> {
    // a newer version only adds at the end
    (bytes.len() >= 2).then(|| bytes.get_i16().min(newest)).filter(|version| *version >= 0)
}

/// Groups of the consumer protocol (KIP-848).
pub fn described_consumer(answer: ConsumerGroupDescribeResponse) -> Each<String, Described> {
    use kafka_protocol::messages::consumer_group_describe_response as wire;
    let partitions = |assignment: &wire::Assignment| -> Vec<Partition> {
        let of_topic = |topic: &wire::TopicPartitions| {
            let name = topic.topic_name.to_string();
            topic.partitions.iter().map(move |number| Partition::new(name.clone(), *number)).collect::<Vec<_>>()
        };
        let mut all: Vec<Partition> = assignment.topic_partitions.iter().flat_map(of_topic).collect();
        all.sort();
        all
    };
    let member = |member: &wire::Member| {
        let assigned = partitions(&member.assignment);
        let by_pattern = member.subscribed_topic_regex.as_ref().is_some_and(|pattern| !pattern.is_empty());
        Member {
            id: member.member_id.to_string(),
            is_static: member.instance_id.is_some(),
            subscribed: (!by_pattern).then(|| member.subscribed_topic_names.iter().map(|name| name.to_string()).collect()),
            settled: assigned == partitions(&member.target_assignment),
            assigned: Some(assigned),
        }
    };
    let described = |group: &wire::DescribedGroup| Described {
        state: group.group_state.to_string(),
        assignor: some(&group.assignor_name),
        epoch: Some(group.group_epoch),
        members: Some(group.members.iter().map(member).collect()),
    };
    answer.groups.iter().map(|group| (group.group_id.to_string(), answered(group.error_code, || described(group)))).collect()
}

/// Share groups (KIP-932). Several members may have the same partition.
pub fn described_share(answer: ShareGroupDescribeResponse) -> Each<String, Described> {
    use kafka_protocol::messages::share_group_describe_response as wire;
    let member = |member: &wire::Member| {
        let of_topic = |topic: &wire::TopicPartitions| {
            let name = topic.topic_name.to_string();
            topic.partitions.iter().map(move |number| Partition::new(name.clone(), *number)).collect::<Vec<_>>()
        };
        Member {
            id: member.member_id.to_string(),
            is_static: false,
            subscribed: Some(member.subscribed_topic_names.iter().map(|name| name.to_string()).collect()),
            assigned: Some(member.assignment.topic_partitions.iter().flat_map(of_topic).collect()),
            settled: true,
        }
    };
    let described = |group: &wire::DescribedGroup| Described {
        state: group.group_state.to_string(),
        assignor: some(&group.assignor_name),
        epoch: Some(group.group_epoch),
        members: Some(group.members.iter().map(member).collect()),
    };
    answer.groups.iter().map(|group| (group.group_id.to_string(), answered(group.error_code, || described(group)))).collect()
}

/// All that one group has committed, for brokers that take one group a call (before 3.0).
pub fn offset_fetch_of_one(group: &str) -> OffsetFetchRequest {
    OffsetFetchRequest::default().with_group_id(GroupId(text(group))).with_topics(None)
}

/// All that some groups have committed.
pub fn offset_fetch(groups: &[String]) -> OffsetFetchRequest {
    let group = |group: &String| OffsetFetchRequestGroup::default().with_group_id(GroupId(text(group))).with_member_epoch(-1).with_topics(None);
    OffsetFetchRequest::default().with_groups(groups.iter().map(group).collect()).with_topics(Some(Vec::new()))
}

/// Commits of several groups. A partition that is refused by itself is left out, as one without a commit is: its topic is
/// asked about as well, and says why.
pub fn committed(answer: &OffsetFetchResponse) -> Each<String, Committed> {
    let of_group = |group: &kafka_protocol::messages::offset_fetch_response::OffsetFetchResponseGroup| {
        let rows = group.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |row| (&topic.name, row)));
        commits(rows.map(|(topic, row)| (topic.to_string(), row.partition_index, row.committed_offset, row.error_code)))
    };
    answer.groups.iter().map(|group| (group.group_id.to_string(), answered(group.error_code, || of_group(group)))).collect()
}

/// Commits of one group, in the form before 3.0.
pub fn committed_of_one(answer: &OffsetFetchResponse) -> Result<Committed, Refusal> {
    answered(answer.error_code, || {
        let rows = answer.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |row| (&topic.name, row)));
        commits(rows.map(|(topic, row)| (topic.to_string(), row.partition_index, row.committed_offset, row.error_code)))
    })
}

/// Of topic, partition, offset and error code: what is committed. An offset of -1 is none.
fn commits(rows: impl Iterator<Item = (String, i32, i64, i16)>) -> Committed {
    let sound = rows.filter(|(.., error)| *error == 0);
    sound.filter_map(|(topic, number, offset, _)| Some((Partition::new(topic, number), Count::try_from(offset).ok()?))).collect()
}

/// Asks for topics; none for an empty list.
pub fn metadata<'a>(names: impl IntoIterator<Item = &'a String>) -> MetadataRequest {
    let topic = |name: &String| MetadataRequestTopic::default().with_name(Some(TopicName(text(name))));
    MetadataRequest::default().with_topics(Some(names.into_iter().map(topic).collect())).with_allow_auto_topic_creation(false)
}

/// Topics, and the leader of each partition.
pub fn topics(answer: &MetadataResponse) -> (Each<String, Topic>, BTreeMap<Partition, i32>) {
    let mut found = Each::new();
    let mut leaders = BTreeMap::new();
    for topic in &answer.topics {
        let Some(name) = topic.name.as_ref().map(|name| name.to_string()) else { continue };
        let mut partitions: Vec<i32> = topic.partitions.iter().map(|partition| partition.partition_index).collect();
        partitions.sort_unstable();
        leaders.extend(topic.partitions.iter().map(|partition| (Partition::new(name.clone(), partition.partition_index), partition.leader_id.0)));
        let id = Some(topic.topic_id).filter(|id| !id.is_nil()).map(|id| id.simple().to_string());
        found.insert(name, answered(topic.error_code, || Topic { id, partitions }));
    }
    (found, leaders)
}

/// Asks one leader for offsets of its partitions.
pub fn list_offsets<'a>(partitions: impl IntoIterator<Item = &'a Partition>, at: At) -> ListOffsetsRequest {
    let (timestamp, isolation) = match at {
        At::Start => (-2, 0),
        At::End => (-1, 0),
        At::LastStable => (-1, 1),
        At::Time(milliseconds) => (milliseconds.max(0), 0),
    };
    let mut topics: BTreeMap<&str, Vec<ListOffsetsPartition>> = BTreeMap::new();
    for partition in partitions {
        let row = ListOffsetsPartition::default().with_partition_index(partition.number).with_current_leader_epoch(-1).with_timestamp(timestamp);
        topics.entry(&partition.topic).or_default().push(row);
    }
    let topic =
        |(name, partitions): (&str, Vec<ListOffsetsPartition>)| ListOffsetsTopic::default().with_name(TopicName(text(name))).with_partitions(partitions);
    ListOffsetsRequest::default().with_replica_id((-1).into()).with_isolation_level(isolation).with_topics(topics.into_iter().map(topic).collect())
}

/// Offsets: -1 says that there is no record that fits.
pub fn offsets(answer: &ListOffsetsResponse) -> Each<Partition, Option<Count>> {
    let mut found = Each::new();
    for topic in &answer.topics {
        for partition in &topic.partitions {
            let value = answered(partition.error_code, || Count::try_from(partition.offset).ok());
            found.insert(Partition::new(topic.name.to_string(), partition.partition_index), value);
        }
    }
    found
}

/// Asks how topics keep their records.
pub fn describe_configs(topics: &BTreeSet<String>) -> DescribeConfigsRequest {
    let keys = || Some(vec![StrBytes::from_static_str("retention.ms"), StrBytes::from_static_str("cleanup.policy")]);
    let resource = |name: &String| DescribeConfigsResource::default().with_resource_type(TOPIC).with_resource_name(text(name)).with_configuration_keys(keys());
    DescribeConfigsRequest::default().with_resources(topics.iter().map(resource).collect())
}

/// How topics keep their records.
pub fn keeping(answer: &DescribeConfigsResponse) -> Each<String, Keeping> {
    let of_topic = |topic: &kafka_protocol::messages::describe_configs_response::DescribeConfigsResult| {
        let value = |name: &str| topic.configs.iter().find(|config| config.name.as_str() == name).and_then(|config| config.value.as_ref());
        let milliseconds = value("retention.ms").and_then(|text| text.parse::<u64>().ok());
        Keeping {
            // -1 is no limit
            retention_seconds: milliseconds.map(|milliseconds| crate::core::units::as_f64(milliseconds) / 1000.0),
            cleanup_policy: value("cleanup.policy").map(ToString::to_string),
        }
    };
    answer.results.iter().map(|topic| (topic.resource_name.to_string(), answered(topic.error_code, || of_topic(topic)))).collect()
}

/// Where share groups are, in the version of the call that tells the lag as well (KIP-1226), which the generated messages
/// do not have yet.
///
/// ```text
/// throttle int32; groups [ id, topics [ name, id uuid, partitions [ index int32, start int64, epoch int32, lag int64 (version 1), error int16, message ] ],
///                          error int16, message ]
/// ```
pub fn share_offsets(mut answer: Bytes, version: i16) -> Option<Each<String, ShareOffsets>> {
    let mut reader = Reader(&mut answer);
    reader.skip(4)?;
    let mut found = Each::new();
    for _ in 0..reader.length()? {
        let group = reader.text()?.unwrap_or_default();
        let mut offsets = ShareOffsets::new();
        for _ in 0..reader.length()? {
            let topic = reader.text()?.unwrap_or_default();
            reader.skip(16)?;
            for _ in 0..reader.length()? {
                let number = reader.int32()?;
                let start = reader.int64()?;
                reader.skip(4)?;
                let lag = if version >= 1 { reader.int64()? } else { -1 };
                let error = reader.int16()?;
                reader.text()?;
                reader.tags()?;
                // -1 where the group has not begun
                if let (0, Ok(start)) = (error, Count::try_from(start)) {
                    offsets.insert(Partition::new(topic.clone(), number), ShareOffset { start, lag: Count::try_from(lag).ok() });
                }
            }
            reader.tags()?;
        }
        let error = reader.int16()?;
        reader.text()?;
        reader.tags()?;
        found.insert(group, answered(error, || offsets));
    }
    Some(found)
}

/// Reads the compact form of the protocol. `None`: it ends too early.
struct Reader<'a>(&'a mut Bytes);

impl Reader<'_> {
    fn skip(&mut self, count: usize) -> Option<()> {
        (self.0.len() >= count).then(|| self.0.advance(count))
    }

    fn int16(&mut self) -> Option<i16> {
        (self.0.len() >= 2).then(|| self.0.get_i16())
    }

    fn int32(&mut self) -> Option<i32> {
        (self.0.len() >= 4).then(|| self.0.get_i32())
    }

    fn int64(&mut self) -> Option<i64> {
        (self.0.len() >= 8).then(|| self.0.get_i64())
    }

    fn varint(&mut self) -> Option<usize> {
        let mut value = 0_usize;
        for shift in (0..35).step_by(7) {
            if self.0.is_empty() {
                return None;
            }
            let byte = self.0.get_u8();
            value |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// The length of a list; no list is longer than what is left.
    fn length(&mut self) -> Option<usize> {
        let length = self.varint()?.saturating_sub(1);
        (length <= self.0.len()).then_some(length)
    }

    #[expect(clippy::option_option, reason = "the outer one is an end that came too early, the inner one a null")]
    fn text(&mut self) -> Option<Option<String>> {
        let length = self.varint()?;
        let Some(length) = length.checked_sub(1) else { return Some(None) };
        if self.0.len() < length {
            return None;
        }
        Some(String::from_utf8(self.0.split_to(length).to_vec()).ok())
    }

    fn tags(&mut self) -> Option<()> {
        for _ in 0..self.length_of_tags()? {
            self.varint()?;
            let size = self.varint()?;
            self.skip(size)?;
        }
        Some(())
    }

    fn length_of_tags(&mut self) -> Option<usize> {
        let count = self.varint()?;
        (count <= self.0.len()).then_some(count)
    }
}
