import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Records from Java's producer, with its default partitioner. */
final class Records {
    private final Brokers brokers;

    Records(Brokers brokers) {
        this.brokers = brokers;
    }

    void offer(Map<String, Tool.Command> commands) {
        commands.put("produce", this::produce);
    }

    /** Its settings are {@code compression} and {@code transactional_id}, both optional. */
    static KafkaProducer<byte[], byte[]> producer(Brokers brokers, JsonNode arguments) {
        var settings = new HashMap<String, Object>();
        settings.put("bootstrap.servers", brokers.bootstrap());
        settings.put("max.block.ms", arguments.get("limit_ms").asText());
        settings.put("reconnect.backoff.max.ms", "200");
        // How large a record may be is for the broker to say.
        settings.put("max.request.size", String.valueOf(16 << 20));
        if (arguments.hasNonNull("compression")) {
            settings.put("compression.type", arguments.get("compression").asText());
        }
        if (arguments.hasNonNull("transactional_id")) {
            settings.put("transactional.id", arguments.get("transactional_id").asText());
        }
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private Object produce(JsonNode arguments) throws Exception {
        boolean transactional = arguments.hasNonNull("transactional_id");
        try (var producer = producer(brokers, arguments)) {
            if (transactional) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            var sent = new ArrayList<Future<RecordMetadata>>();
            for (JsonNode record : arguments.get("records")) {
                sent.add(producer.send(record(arguments.get("topic").asText(), record)));
            }
            producer.flush();
            var places = new ArrayList<Map<String, Object>>();
            for (var receipt : sent) {
                places.add(Map.of("partition", receipt.get().partition(), "offset", receipt.get().offset()));
            }
            if (transactional && arguments.get("commit").asBoolean()) {
                producer.commitTransaction();
            } else if (transactional) {
                producer.abortTransaction();
            }
            return places;
        }
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, JsonNode record) throws IOException {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : record.get("headers")) {
            headers.add(new RecordHeader(header.get("name").asText(), header.get("value").binaryValue()));
        }
        Integer partition = record.hasNonNull("partition") ? record.get("partition").asInt() : null;
        return new ProducerRecord<>(topic, partition, record.get("key").binaryValue(), record.get("value").binaryValue(), headers);
    }
}
