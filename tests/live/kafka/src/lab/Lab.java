package lab;

import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/**
 * The lab's programs: Lab BOOTSTRAP COMMAND ARGS...
 *   do "COMMAND ARGS" ...                  several, in one process
 *   ready                                  waits until the broker answers
 *   topic NAME PARTITIONS [CONFIG=VALUE]   makes a topic
 *   partitions NAME COUNT                  adds partitions
 *   delete-topic NAME
 *   delete-records TOPIC PARTITION BEFORE  moves the log start
 *   delete-group GROUP
 *   commit GROUP TOPIC PARTITION OFFSET    commits for a group without members, which makes it where it is not there
 *   topic-config TOPIC CONFIG=VALUE
 *   group-config GROUP CONFIG=VALUE
 *   groups PREFIX COUNT TOPIC              so many groups with commits in all partitions of a topic
 *   acls USER GROUP-PREFIX                 what a reader needs: DESCRIBE on groups and topics, DESCRIBE_CONFIGS on topics
 *   read                                   an independent reading of all groups by Kafka's Admin client, as JSON
 * and those of Produce and Consume.
 */
public class Lab {
    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        if (args[1].equals("ready")) {
            ready(bootstrap);
            return;
        }
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            List<String> given = Arrays.asList(args).subList(1, args.length);
            if (given.get(0).equals("do")) {
                for (String line : given.subList(1, given.size())) run(bootstrap, admin, Arrays.asList(line.trim().split("\\s+")));
            } else {
                run(bootstrap, admin, given);
            }
        }
    }

    static void ready(String bootstrap) throws Exception {
        long end = System.nanoTime() + 90_000_000_000L;
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "default.api.timeout.ms", "90000", "request.timeout.ms", "5000"))) {
            while (true) {
                try {
                    if (!admin.describeCluster().nodes().get().isEmpty()) return;
                } catch (ExecutionException e) {
                    if (System.nanoTime() > end) throw e;
                }
                Thread.sleep(200);
            }
        }
    }

    static void run(String bootstrap, Admin admin, List<String> a) throws Exception {
        switch (a.get(0)) {
            case "topic" -> {
                Map<String, String> configs = new HashMap<>();
                for (String pair : a.subList(3, a.size())) configs.put(pair.split("=", 2)[0], pair.split("=", 2)[1]);
                admin.createTopics(List.of(new NewTopic(a.get(1), Optional.of(number(a, 2)), Optional.of((short) 1)).configs(configs))).all().get();
                // until the broker leads all of it
                for (int i = 0; i < 100; i++) {
                    var topic = admin.describeTopics(List.of(a.get(1))).allTopicNames();
                    try {
                        if (topic.get().get(a.get(1)).partitions().stream().allMatch(p -> p.leader() != null && !p.leader().isEmpty())) break;
                    } catch (ExecutionException e) {
                        // not known yet
                    }
                    Thread.sleep(50);
                }
            }
            case "partitions" -> admin.createPartitions(Map.of(a.get(1), NewPartitions.increaseTo(number(a, 2)))).all().get();
            case "delete-topic" -> admin.deleteTopics(List.of(a.get(1))).all().get();
            case "delete-records" -> admin.deleteRecords(Map.of(new TopicPartition(a.get(1), number(a, 2)), RecordsToDelete.beforeOffset(number(a, 3)))).all().get();
            case "delete-group" -> admin.deleteConsumerGroups(List.of(a.get(1))).all().get();
            case "commit" -> admin.alterConsumerGroupOffsets(a.get(1), Map.of(new TopicPartition(a.get(2), number(a, 3)), new OffsetAndMetadata(number(a, 4)))).all().get();
            case "topic-config" -> configure(admin, ConfigResource.Type.TOPIC, a.get(1), a.get(2));
            case "group-config" -> configure(admin, ConfigResource.Type.GROUP, a.get(1), a.get(2));
            case "groups" -> groups(admin, a.get(1), number(a, 2), a.get(3));
            case "acls" -> acls(admin, "User:" + a.get(1), a.get(2));
            case "read" -> System.out.println(Read.all(admin));
            default -> {
                if (!Produce.run(bootstrap, a) && !Consume.run(bootstrap, a)) throw new IllegalArgumentException("no such command: " + a.get(0));
            }
        }
    }

    static void configure(Admin admin, ConfigResource.Type type, String name, String pair) throws Exception {
        var entry = new ConfigEntry(pair.split("=", 2)[0], pair.split("=", 2)[1]);
        var change = new AlterConfigOp(entry, AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(type, name), List.of(change))).all().get();
    }

    static int number(List<String> a, int index) {
        return Integer.parseInt(a.get(index));
    }

    static void groups(Admin admin, String prefix, int count, String topic) throws Exception {
        int partitions = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
        var waiting = new LinkedHashMap<String, org.apache.kafka.common.KafkaFuture<Void>>();
        for (int n = 0; n < count; n++) {
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (int p = 0; p < partitions; p++) offsets.put(new TopicPartition(topic, p), new OffsetAndMetadata((n + p) % 50));
            String group = String.format("%s%03d", prefix, n);
            waiting.put(group, admin.alterConsumerGroupOffsets(group, offsets).all());
        }
        for (var future : waiting.values()) future.get();
    }

    static void acls(Admin admin, String user, String prefix) throws Exception {
        var group = new ResourcePattern(ResourceType.GROUP, prefix.equals("*") ? "*" : prefix, prefix.equals("*") ? PatternType.LITERAL : PatternType.PREFIXED);
        var topic = new ResourcePattern(ResourceType.TOPIC, "*", PatternType.LITERAL);
        admin.createAcls(List.of(allow(group, user, AclOperation.DESCRIBE), allow(topic, user, AclOperation.DESCRIBE), allow(topic, user, AclOperation.DESCRIBE_CONFIGS))).all().get();
    }

    static AclBinding allow(ResourcePattern what, String user, AclOperation operation) {
        return new AclBinding(what, new AccessControlEntry(user, "*", operation, AclPermissionType.ALLOW));
    }
}
