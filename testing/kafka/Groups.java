import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.message.DescribeGroupsRequestData;
import org.apache.kafka.common.message.FindCoordinatorRequestData;
import org.apache.kafka.common.message.FindCoordinatorResponseData.Coordinator;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.OffsetCommitRequestData.OffsetCommitRequestPartition;
import org.apache.kafka.common.message.OffsetCommitRequestData.OffsetCommitRequestTopic;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.DescribeGroupsRequest;
import org.apache.kafka.common.requests.DescribeGroupsResponse;
import org.apache.kafka.common.requests.FindCoordinatorRequest;
import org.apache.kafka.common.requests.FindCoordinatorResponse;
import org.apache.kafka.common.requests.OffsetCommitRequest;
import org.apache.kafka.common.requests.OffsetCommitResponse;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.group.generated.GroupMetadataKey;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue;

/** Consumer groups: their coordinator, their members, and commits in the name of any member. */
final class Groups {
    private static final String OFFSETS = "__consumer_offsets";
    /** The version of a key in {@link #OFFSETS} whose value is a group's generation and members. */
    private static final short GROUP_METADATA = 2;

    private final Brokers brokers;

    Groups(Brokers brokers) {
        this.brokers = brokers;
    }

    void offer(Map<String, Tool.Command> commands) {
        commands.put("coordinator", arguments -> coordinator(arguments).id());
        commands.put("move_coordinator", this::moveCoordinator);
        commands.put("describe_group", this::describe);
        commands.put("delete_group", this::delete);
        commands.put("committed_offsets", this::committed);
        commands.put("commit_offsets", this::commit);
        commands.put("commit_offsets_in_transaction", this::commitInTransaction);
    }

    /** Creates the offsets topic, if it is the first question of this kind, and waits until all brokers agree. */
    private static Node coordinator(JsonNode arguments) throws Exception {
        String group = arguments.get("group").asText();
        String first = arguments.get("running").get(0).asText();
        var agreed = new Coordinator[1];
        Brokers.everywhere("a coordinator of group " + group, arguments, address -> {
            agreed[0] = coordinator(first, group);
            return agreed[0].errorCode() == Errors.NONE.code() && coordinator(address, group).nodeId() == agreed[0].nodeId();
        });
        return new Node(agreed[0].nodeId(), agreed[0].host(), agreed[0].port());
    }

    private static Coordinator coordinator(String address, String group) throws IOException {
        var data = new FindCoordinatorRequestData().setKeyType((byte) 0).setCoordinatorKeys(List.of(group));
        FindCoordinatorResponse seen = Brokers.ask(address, new FindCoordinatorRequest.Builder(data));
        return seen.data().coordinators().get(0);
    }

    private static String address(Node node) {
        return node.host() + ":" + node.port();
    }

    private TopicPartition partition(String group) throws Exception {
        var topic = brokers.admin().describeTopics(List.of(OFFSETS)).allTopicNames().get().get(OFFSETS);
        return new TopicPartition(OFFSETS, Utils.abs(group.hashCode()) % topic.partitions().size());
    }

    private TopicPartitionInfo info(TopicPartition partition) throws Exception {
        var topic = brokers.admin().describeTopics(List.of(OFFSETS)).allTopicNames().get().get(OFFSETS);
        return topic.partitions().get(partition.partition());
    }

    /** Puts another replica first and elects it; back only when every broker says so and it has loaded its groups. */
    private Object moveCoordinator(JsonNode arguments) throws Exception {
        String group = arguments.get("group").asText();
        Node from = coordinator(arguments);
        TopicPartition partition = partition(group);
        var replicas = new ArrayList<>(info(partition).isr().stream().map(Node::id).filter(id -> id != from.id()).toList());
        if (replicas.isEmpty()) {
            throw new IllegalStateException("no other replica of " + partition + " is in sync");
        }
        int to = replicas.get(0);
        for (Node replica : info(partition).replicas()) {
            if (!replicas.contains(replica.id())) {
                replicas.add(replica.id());
            }
        }
        var order = Optional.of(new NewPartitionReassignment(replicas));
        brokers.admin().alterPartitionReassignments(Map.of(partition, order)).all().get();
        Brokers.until("broker " + to + " first of " + partition, arguments, () -> info(partition).replicas().get(0).id() == to);
        try {
            var elected = brokers.admin().electLeaders(ElectionType.PREFERRED, Set.of(partition));
            elected.all().get();
        } catch (ExecutionException failure) {
            if (!(failure.getCause() instanceof ElectionNotNeededException)) {
                throw failure;
            }
        }
        // A coordinator answers from what it knows to be replicated. After its election that is known late; when the leader
        // tells the end of the log, it is known.
        brokers.admin().listOffsets(Map.of(partition, OffsetSpec.latest())).all().get();
        Brokers.everywhere("coordinator " + to + " of group " + group, arguments, address -> {
            Coordinator seen = coordinator(address, group);
            return seen.nodeId() == to && loaded(seen.host() + ":" + seen.port(), group);
        });
        return to;
    }

    private static boolean loaded(String address, String group) throws IOException {
        var data = new DescribeGroupsRequestData().setGroups(List.of(group));
        DescribeGroupsResponse seen = Brokers.ask(address, new DescribeGroupsRequest.Builder(data));
        Errors error = Errors.forCode(seen.data().groups().get(0).errorCode());
        return error == Errors.NONE || error == Errors.GROUP_ID_NOT_FOUND;
    }

    private Object describe(JsonNode arguments) throws Exception {
        String group = arguments.get("group").asText();
        coordinator(arguments);
        ConsumerGroupDescription seen;
        try {
            seen = brokers.admin().describeConsumerGroups(List.of(group)).all().get().get(group);
        } catch (ExecutionException failure) {
            if (failure.getCause() instanceof GroupIdNotFoundException) {
                return Map.of("state", "Dead", "generation", -1, "members", List.of());
            }
            throw failure;
        }
        var members = new ArrayList<Map<String, Object>>();
        for (var member : seen.members()) {
            var partitions = member.assignment().topicPartitions().stream()
                    .map(owned -> Map.of("topic", owned.topic(), "partition", owned.partition())).toList();
            members.add(Map.of("id", member.consumerId(), "client_id", member.clientId(), "partitions", partitions));
        }
        int generation = seen.groupEpoch().isPresent() ? seen.groupEpoch().get() : generation(group).orElse(-1);
        return Map.of("state", seen.groupState().toString(), "generation", generation, "members", members);
    }

    /** Of a group of the classic protocol no answer tells the generation: it is read where the coordinator keeps it. */
    private OptionalInt generation(String group) throws Exception {
        TopicPartition partition = partition(group);
        Map<String, Object> settings = Map.of("bootstrap.servers", brokers.bootstrap());
        var generation = OptionalInt.empty();
        try (var log = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            log.assign(List.of(partition));
            log.seekToBeginning(List.of(partition));
            long end = log.endOffsets(List.of(partition)).get(partition);
            while (log.position(partition) < end) {
                for (var record : log.poll(Duration.ofMillis(200))) {
                    var key = ByteBuffer.wrap(record.key());
                    if (key.getShort() == GROUP_METADATA
                            && new GroupMetadataKey(new ByteBufferAccessor(key), (short) 0).group().equals(group)) {
                        generation = record.value() == null ? OptionalInt.empty() : generation(ByteBuffer.wrap(record.value()));
                    }
                }
            }
        }
        return generation;
    }

    private static OptionalInt generation(ByteBuffer value) {
        short version = value.getShort();
        return OptionalInt.of(new GroupMetadataValue(new ByteBufferAccessor(value), version).generation());
    }

    private Object delete(JsonNode arguments) throws Exception {
        brokers.admin().deleteConsumerGroups(List.of(arguments.get("group").asText())).all().get();
        return null;
    }

    private Object committed(JsonNode arguments) throws Exception {
        String group = arguments.get("group").asText();
        var offsets = brokers.admin().listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
        var found = new ArrayList<Map<String, Object>>();
        offsets.forEach((partition, committed) -> {
            if (committed != null) {
                found.add(Map.of("topic", partition.topic(), "partition", partition.partition(), "offset", committed.offset(),
                        "metadata", committed.metadata()));
            }
        });
        return found;
    }

    /** A plain commit; null if it was accepted, else the broker's error. */
    private Object commit(JsonNode arguments) throws Exception {
        var topics = new HashMap<String, OffsetCommitRequestTopic>();
        for (JsonNode offset : arguments.get("offsets")) {
            var topic = topics.computeIfAbsent(offset.get("topic").asText(), name -> new OffsetCommitRequestTopic().setName(name));
            topic.partitions().add(new OffsetCommitRequestPartition().setPartitionIndex(offset.get("partition").asInt())
                    .setCommittedOffset(offset.get("offset").asLong()).setCommittedMetadata(""));
        }
        var data = new OffsetCommitRequestData().setGroupId(arguments.get("group").asText())
                .setGenerationIdOrMemberEpoch(arguments.get("generation").asInt())
                .setMemberId(arguments.get("member").asText()).setTopics(List.copyOf(topics.values()));
        String coordinator = address(coordinator(arguments));
        OffsetCommitResponse seen = Brokers.ask(coordinator, OffsetCommitRequest.Builder.forTopicNames(data));
        for (var topic : seen.data().topics()) {
            for (var partition : topic.partitions()) {
                if (partition.errorCode() != Errors.NONE.code()) {
                    return Errors.forCode(partition.errorCode()).name();
                }
            }
        }
        return null;
    }

    /** A commit in a transaction of its own; null if it was accepted, else what the client threw. */
    @SuppressWarnings("removal") // no other constructor takes a generation and a member
    private Object commitInTransaction(JsonNode arguments) throws Exception {
        var offsets = new HashMap<TopicPartition, OffsetAndMetadata>();
        for (JsonNode offset : arguments.get("offsets")) {
            offsets.put(new TopicPartition(offset.get("topic").asText(), offset.get("partition").asInt()),
                    new OffsetAndMetadata(offset.get("offset").asLong()));
        }
        var member = new ConsumerGroupMetadata(arguments.get("group").asText(), arguments.get("generation").asInt(),
                arguments.get("member").asText(), Optional.empty());
        coordinator(arguments);
        try (var producer = Records.producer(brokers, arguments)) {
            producer.initTransactions();
            producer.beginTransaction();
            try {
                producer.sendOffsetsToTransaction(offsets, member);
                producer.commitTransaction();
                return null;
            } catch (KafkaException refused) {
                producer.abortTransaction();
                return Tool.text(refused);
            }
        }
    }
}
