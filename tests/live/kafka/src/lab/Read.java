package lab;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;

/** An independent reading: what Kafka's own Admin client says of each group. */
final class Read {
    /** {"GROUP": {"type", "state", "members", "offsets": {"TOPIC-PARTITION": {"committed", "start", "end", "stable", "shareLag"}}}} */
    static String all(Admin admin) throws Exception {
        Map<String, Map<String, Object>> groups = new TreeMap<>();
        List<String> plain = new ArrayList<>(), share = new ArrayList<>();
        for (var listing : admin.listGroups().all().get()) {
            var type = listing.type().orElse(GroupType.UNKNOWN);
            var group = new TreeMap<String, Object>(Map.of("type", type.toString(), "offsets", new TreeMap<String, Object>()));
            groups.put(listing.groupId(), group);
            if (type == GroupType.SHARE) share.add(listing.groupId());
            else plain.add(listing.groupId());
        }
        for (var entry : admin.describeConsumerGroups(plain).describedGroups().entrySet()) {
            var description = entry.getValue().get();
            groups.get(entry.getKey()).putAll(Map.of("state", description.groupState().toString(), "members", description.members().size()));
        }
        for (var entry : admin.describeShareGroups(share).describedGroups().entrySet()) {
            var description = entry.getValue().get();
            groups.get(entry.getKey()).putAll(Map.of("state", description.groupState().toString(), "members", description.members().size()));
        }
        Map<TopicPartition, OffsetSpec> ends = new HashMap<>(), starts = new HashMap<>();
        Map<String, Map<TopicPartition, Map<String, Object>>> found = new TreeMap<>();
        Map<String, ListConsumerGroupOffsetsSpec> specs = new HashMap<>();
        for (String group : plain) specs.put(group, new ListConsumerGroupOffsetsSpec());
        for (var entry : admin.listConsumerGroupOffsets(specs).all().get().entrySet()) {
            for (var offset : entry.getValue().entrySet()) {
                if (offset.getValue() == null) continue;
                found.computeIfAbsent(entry.getKey(), k -> new HashMap<>()).put(offset.getKey(), new TreeMap<>(Map.of("committed", offset.getValue().offset())));
            }
        }
        Map<String, ListShareGroupOffsetsSpec> shares = new HashMap<>();
        for (String group : share) shares.put(group, new ListShareGroupOffsetsSpec());
        if (!share.isEmpty()) {
            for (var entry : admin.listShareGroupOffsets(shares).all().get().entrySet()) {
                for (var offset : entry.getValue().entrySet()) {
                    if (offset.getValue() == null) continue;
                    var row = new TreeMap<String, Object>(Map.of("committed", offset.getValue().startOffset()));
                    offset.getValue().lag().ifPresent(lag -> row.put("shareLag", lag));
                    found.computeIfAbsent(entry.getKey(), k -> new HashMap<>()).put(offset.getKey(), row);
                }
            }
        }
        for (var partitions : found.values()) {
            for (var partition : partitions.keySet()) {
                ends.put(partition, OffsetSpec.latest());
                starts.put(partition, OffsetSpec.earliest());
            }
        }
        var end = offsets(admin, ends, IsolationLevel.READ_UNCOMMITTED);
        var start = offsets(admin, starts, IsolationLevel.READ_UNCOMMITTED);
        var stable = offsets(admin, ends, IsolationLevel.READ_COMMITTED);
        for (var group : found.entrySet()) {
            for (var partition : group.getValue().entrySet()) {
                var row = partition.getValue();
                if (end.get(partition.getKey()) != null) row.put("end", end.get(partition.getKey()));
                if (stable.get(partition.getKey()) != null) row.put("stable", stable.get(partition.getKey()));
                if (start.get(partition.getKey()) != null) row.put("start", start.get(partition.getKey()));
                @SuppressWarnings("unchecked")
                var rows = (Map<String, Object>) groups.get(group.getKey()).get("offsets");
                rows.put(partition.getKey().toString(), row);
            }
        }
        return new ObjectMapper().writeValueAsString(groups);
    }

    /** Those that there are: a topic that was deleted has none. */
    static Map<TopicPartition, Long> offsets(Admin admin, Map<TopicPartition, OffsetSpec> specs, IsolationLevel isolation) throws Exception {
        Map<TopicPartition, Long> offsets = new HashMap<>();
        var topics = admin.listTopics().names().get();
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>(specs);
        asked.keySet().removeIf(partition -> !topics.contains(partition.topic()));
        var result = admin.listOffsets(asked, new ListOffsetsOptions(isolation));
        for (var partition : asked.keySet()) {
            try {
                offsets.put(partition, result.partitionResult(partition).get().offset());
            } catch (ExecutionException e) {
                // no such partition
            }
        }
        return offsets;
    }
}
