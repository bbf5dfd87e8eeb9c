package lab;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sends small records.
 *   produce TOPIC RECORDS [PARTITION]              at once, in turn to all partitions or to one
 *   rate TOPIC SECONDS:RATE[,SECONDS:RATE...]      at these rates, one after the other
 *   transactions TOPIC COUNT RECORDS [OPEN-SECONDS]  so many transactions of so many records, committed; the last stays open for a while
 */
final class Produce {
    static boolean run(String bootstrap, List<String> a) throws Exception {
        switch (a.get(0)) {
            case "produce" -> {
                try (var producer = producer(bootstrap, Map.of())) {
                    int partitions = producer.partitionsFor(a.get(1)).size();
                    for (int n = 0; n < Lab.number(a, 2); n++) producer.send(record(a.get(1), a.size() > 3 ? Lab.number(a, 3) : n % partitions, n));
                }
            }
            case "rate" -> rate(bootstrap, a.get(1), a.get(2).split(","));
            case "transactions" -> transactions(bootstrap, a.get(1), Lab.number(a, 2), Lab.number(a, 3), a.size() > 4 ? Lab.number(a, 4) : 0);
            default -> {
                return false;
            }
        }
        return true;
    }

    static KafkaProducer<byte[], byte[]> producer(String bootstrap, Map<String, String> more) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "linger.ms", "20"));
        config.putAll(more);
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static ProducerRecord<byte[], byte[]> record(String topic, int partition, long n) {
        return new ProducerRecord<>(topic, partition, null, ("record " + n).getBytes(StandardCharsets.UTF_8));
    }

    static void rate(String bootstrap, String topic, String[] steps) throws Exception {
        try (var producer = producer(bootstrap, Map.of())) {
            int partitions = producer.partitionsFor(topic).size();
            long n = 0;
            for (String step : steps) {
                double seconds = Double.parseDouble(step.split(":")[0]), rate = Double.parseDouble(step.split(":")[1]);
                long began = System.nanoTime(), sent = 0;
                double gone;
                while ((gone = (System.nanoTime() - began) / 1e9) < seconds) {
                    for (long due = (long) (gone * rate); sent < due; sent++) producer.send(record(topic, (int) (n++ % partitions), n));
                    Thread.sleep(20);
                }
                System.out.println("sent " + sent + " records in " + seconds + " s");
            }
        }
    }

    static void transactions(String bootstrap, String topic, int count, int records, int open) throws Exception {
        try (var producer = producer(bootstrap, Map.of("transactional.id", "lab-" + topic))) {
            int partitions = producer.partitionsFor(topic).size();
            producer.initTransactions();
            for (int t = 0; t < count; t++) {
                producer.beginTransaction();
                for (int n = 0; n < records; n++) producer.send(record(topic, n % partitions, n));
                producer.flush();
                if (t == count - 1 && open > 0) {
                    System.out.println("open");
                    Thread.sleep(open * 1000L);
                }
                producer.commitTransaction();
            }
        }
    }
}
