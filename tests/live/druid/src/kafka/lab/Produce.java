package lab;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Makes a topic and sends small JSON records to it at an even rate:
 * Produce BOOTSTRAP TOPIC PARTITIONS RECORDS-PER-SECOND SECONDS [SHARE-OF-PARTITION-0]
 */
public class Produce {
    public static void main(String[] args) throws Exception {
        String bootstrap = args[0], topic = args[1];
        int partitions = Integer.parseInt(args[2]);
        double rate = Double.parseDouble(args[3]), seconds = Double.parseDouble(args[4]);
        // a share above 1/PARTITIONS makes partition 0 a hot one
        double hot = args.length > 5 ? Double.parseDouble(args[5]) : 0;
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(topic, Optional.of(partitions), Optional.of((short) 1)))).all().get();
        } catch (ExecutionException e) {
            if (!(e.getCause() instanceof TopicExistsException)) throw e;
        }
        try (var producer = new KafkaProducer<>(Map.<String, Object>of("bootstrap.servers", bootstrap, "linger.ms", "50"),
                new ByteArraySerializer(), new ByteArraySerializer())) {
            long began = System.nanoTime(), sent = 0, end = (long) (rate * seconds);
            while (sent < end) {
                double now = (System.nanoTime() - began) / 1e9;
                for (long due = Math.min(end, (long) (now * rate)); sent < due; sent++) {
                    int partition = sent % 1000 < hot * 1000 ? 0 : (int) (sent % partitions);
                    String value = "{\"time\":\"" + Instant.now() + "\",\"key\":\"k" + sent % 100 + "\",\"value\":" + sent % 7 + "}";
                    producer.send(new ProducerRecord<>(topic, partition, null, value.getBytes(StandardCharsets.UTF_8)));
                }
                Thread.sleep(20);
            }
        }
        System.out.println("sent " + (long) (rate * seconds) + " records to " + topic);
    }
}
