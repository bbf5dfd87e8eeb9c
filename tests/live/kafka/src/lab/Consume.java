package lab;

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A consumer that works at a given rate until it is stopped, and then leaves its group:
 *   consume GROUP TOPICS PROTOCOL MILLIS-PER-RECORD [CONFIG=VALUE...] [pause=PARTITION] [commit=no]
 * TOPICS with commas; PROTOCOL: classic, consumer (KIP-848), share (KIP-932). With a pause it holds that partition and never reads it.
 */
final class Consume {
    static boolean run(String bootstrap, List<String> a) throws Exception {
        if (!a.get(0).equals("consume")) return false;
        String protocol = a.get(3);
        double millis = Double.parseDouble(a.get(4));
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "group.id", a.get(1), "max.poll.records", "50"));
        int paused = -1;
        boolean commits = true;
        for (String pair : a.subList(5, a.size())) {
            String[] parts = pair.split("=", 2);
            switch (parts[0]) {
                case "pause" -> paused = Integer.parseInt(parts[1]);
                case "commit" -> commits = !parts[1].equals("no");
                default -> config.put(parts[0], parts[1]);
            }
        }
        List<String> topics = List.of(a.get(2).split(","));
        if (protocol.equals("share")) {
            share(config, topics, millis);
        } else {
            config.put("group.protocol", protocol);
            config.put("enable.auto.commit", "false");
            config.putIfAbsent("auto.offset.reset", "earliest");
            if (protocol.equals("classic")) config.putIfAbsent("session.timeout.ms", "6000");
            plain(config, topics, millis, paused, commits);
        }
        return true;
    }

    static void plain(Map<String, Object> config, List<String> topics, double millis, int paused, boolean commits) throws Exception {
        var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        onStop(consumer::wakeup);
        consumer.subscribe(topics, new ConsumerRebalanceListener() {
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}

            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                if (paused >= 0) consumer.pause(partitions.stream().filter(p -> p.partition() == paused).toList());
            }
        });
        Work work = new Work(millis);
        try {
            while (true) {
                var records = consumer.poll(Duration.ofMillis(200));
                for (var record : records) work.one();
                if (commits && !records.isEmpty()) consumer.commitSync();
            }
        } catch (WakeupException e) {
            // asked to stop
        } finally {
            consumer.close(org.apache.kafka.clients.consumer.CloseOptions.timeout(Duration.ofSeconds(3)));
        }
    }

    /** The process ends with its last hook: this one waits until the consumer has left its group. */
    static void onStop(Runnable wakeUp) {
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            wakeUp.run();
            try {
                main.join(5000);
            } catch (InterruptedException e) {
                // it is over anyway
            }
        }));
    }

    static void share(Map<String, Object> config, List<String> topics, double millis) throws Exception {
        config.remove("max.poll.records");
        var consumer = new KafkaShareConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        onStop(consumer::wakeup);
        consumer.subscribe(topics);
        Work work = new Work(millis);
        try {
            while (true) {
                for (var record : consumer.poll(Duration.ofMillis(200))) work.one();
                // what was polled is accepted with the next poll
                consumer.commitSync();
            }
        } catch (WakeupException e) {
            // asked to stop
        } finally {
            consumer.close(Duration.ofSeconds(3));
        }
    }

    /** Takes its time for each record, without losing what is less than a millisecond. */
    static final class Work {
        private final double millis;
        private double owed;

        Work(double millis) {
            this.millis = millis;
        }

        void one() throws InterruptedException {
            owed += millis;
            if (owed >= 5) {
                long began = System.nanoTime();
                Thread.sleep((long) owed);
                owed -= (System.nanoTime() - began) / 1e6;
            }
        }
    }
}
