import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.message.DescribeConfigsRequestData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.DescribeConfigsRequest;
import org.apache.kafka.common.requests.DescribeConfigsResponse;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.requests.MetadataResponse.PartitionMetadata;
import org.apache.kafka.common.requests.MetadataResponse.TopicMetadata;

/** What the cluster says of itself and of its topics, and changes of topics. */
final class Topics {
    private final Brokers brokers;

    Topics(Brokers brokers) {
        this.brokers = brokers;
    }

    void offer(Map<String, Tool.Command> commands) {
        commands.put("metadata", Topics::metadata);
        commands.put("create_topic", this::create);
        commands.put("delete_topic", this::delete);
        commands.put("add_partitions", this::addPartitions);
        commands.put("alter_topic_config", this::alterConfig);
        commands.put("delete_records", this::deleteRecords);
        commands.put("list_offsets", this::listOffsets);
    }

    /** One broker's view: which brokers there are, and how many partitions have no leader or a replica out of sync. */
    static Object metadata(JsonNode arguments) throws IOException {
        MetadataResponse seen = Brokers.ask(arguments.get("address").asText(), MetadataRequest.Builder.allTopics());
        long unhealthy = seen.topicMetadata().stream().flatMap(topic -> topic.partitionMetadata().stream())
                .filter(partition -> !healthy(partition)).count();
        return Map.of("brokers", seen.brokersById().keySet(), "unhealthy", unhealthy);
    }

    private static boolean healthy(PartitionMetadata partition) {
        return partition.leaderId.isPresent() && partition.inSyncReplicaIds.size() == partition.replicaIds.size();
    }

    static Optional<TopicMetadata> describe(String address, String topic) throws IOException {
        var request = new MetadataRequest.Builder(List.of(topic), false);
        MetadataResponse seen = Brokers.ask(address, request);
        return seen.topicMetadata().stream().filter(found -> found.error() != Errors.UNKNOWN_TOPIC_OR_PARTITION).findAny();
    }

    private static void awaitPartitions(String topic, int partitions, JsonNode arguments) throws Exception {
        Brokers.everywhere("topic " + topic + " with " + partitions + " led partitions", arguments, address -> {
            var led = describe(address, topic).map(found -> found.partitionMetadata().stream()
                    .filter(partition -> partition.error == Errors.NONE && partition.leaderId.isPresent()).count());
            return led.orElse(0L) == partitions;
        });
    }

    private Object create(JsonNode arguments) throws Exception {
        String name = arguments.get("topic").asText();
        int partitions = arguments.get("partitions").asInt();
        var configs = new HashMap<String, String>();
        arguments.get("configs").properties().forEach(config -> configs.put(config.getKey(), config.getValue().asText()));
        var topic = new NewTopic(name, Optional.of(partitions), Optional.empty()).configs(configs);
        brokers.admin().createTopics(List.of(topic)).all().get();
        awaitPartitions(name, partitions, arguments);
        return null;
    }

    private Object delete(JsonNode arguments) throws Exception {
        String name = arguments.get("topic").asText();
        brokers.admin().deleteTopics(List.of(name)).all().get();
        Brokers.everywhere("topic " + name + " gone", arguments, address -> describe(address, name).isEmpty());
        return null;
    }

    private Object addPartitions(JsonNode arguments) throws Exception {
        String name = arguments.get("topic").asText();
        int partitions = arguments.get("partitions").asInt();
        brokers.admin().createPartitions(Map.of(name, NewPartitions.increaseTo(partitions))).all().get();
        awaitPartitions(name, partitions, arguments);
        return null;
    }

    private Object alterConfig(JsonNode arguments) throws Exception {
        String name = arguments.get("topic").asText();
        String key = arguments.get("key").asText();
        String value = arguments.get("value").asText();
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, name);
        var change = new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET);
        brokers.admin().incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
        Brokers.everywhere(name + "'s " + key + "=" + value, arguments, address -> config(address, name, key).equals(value));
        return null;
    }

    private static String config(String address, String topic, String key) throws IOException {
        var resource = new DescribeConfigsRequestData.DescribeConfigsResource().setResourceName(topic)
                .setResourceType(ConfigResource.Type.TOPIC.id()).setConfigurationKeys(List.of(key));
        var data = new DescribeConfigsRequestData().setResources(List.of(resource));
        DescribeConfigsResponse seen = Brokers.ask(address, new DescribeConfigsRequest.Builder(data));
        return seen.data().results().get(0).configs().stream().findAny().map(config -> config.value()).orElse("");
    }

    private Object deleteRecords(JsonNode arguments) throws Exception {
        var partition = new TopicPartition(arguments.get("topic").asText(), arguments.get("partition").asInt());
        var before = RecordsToDelete.beforeOffset(arguments.get("before").asLong());
        return brokers.admin().deleteRecords(Map.of(partition, before)).lowWatermarks().get(partition).get().lowWatermark();
    }

    private Object listOffsets(JsonNode arguments) throws Exception {
        String name = arguments.get("topic").asText();
        var topic = brokers.admin().describeTopics(List.of(name)).allTopicNames().get().get(name);
        var earliest = new HashMap<TopicPartition, OffsetSpec>();
        var latest = new HashMap<TopicPartition, OffsetSpec>();
        for (var info : topic.partitions()) {
            earliest.put(new TopicPartition(name, info.partition()), OffsetSpec.earliest());
            latest.put(new TopicPartition(name, info.partition()), OffsetSpec.latest());
        }
        var starts = brokers.admin().listOffsets(earliest).all().get();
        var ends = brokers.admin().listOffsets(latest).all().get();
        var found = new ArrayList<Map<String, Object>>();
        for (var info : topic.partitions()) {
            var partition = new TopicPartition(name, info.partition());
            found.add(Map.of("partition", info.partition(), "start", starts.get(partition).offset(), "end",
                    ends.get(partition).offset()));
        }
        return found;
    }
}
