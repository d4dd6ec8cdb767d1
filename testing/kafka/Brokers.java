import com.fasterxml.jackson.databind.JsonNode;
import java.io.DataInputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.utils.Utils;

/**
 * The brokers: all of them through one admin client, or one of them by itself.
 *
 * <p>What the controller has decided, each broker learns a little later. A change counts as done when each broker that runs
 * says so itself, and that only a question to this one broker can tell: the admin client asks whichever it likes.
 */
final class Brokers {
    private static final int ANSWER_MS = 3_000;

    private final String bootstrap;
    private Admin admin;

    Brokers(String[] addresses) {
        bootstrap = String.join(",", addresses);
    }

    String bootstrap() {
        return bootstrap;
    }

    synchronized Admin admin() {
        if (admin == null) {
            admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "request.timeout.ms", "5000",
                    "default.api.timeout.ms", "30000", "reconnect.backoff.max.ms", "200"));
        }
        return admin;
    }

    /** Asks this one broker, in the newest version that this client knows. */
    @SuppressWarnings("unchecked")
    static <T extends AbstractResponse> T ask(String address, AbstractRequest.Builder<?> request) throws IOException {
        ApiKeys api = request.apiKey();
        short version = request.latestAllowedVersion();
        var header = new RequestHeader(api, version, "keylane-testing", 1);
        byte[] bytes = Utils.toArray(request.build(version).serializeWithHeader(header));
        int colon = address.lastIndexOf(':');
        var broker = new InetSocketAddress(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
        try (var socket = new Socket()) {
            socket.connect(broker, ANSWER_MS);
            socket.setSoTimeout(ANSWER_MS);
            socket.getOutputStream().write(ByteBuffer.allocate(4 + bytes.length).putInt(bytes.length).put(bytes).array());
            var input = new DataInputStream(socket.getInputStream());
            var answer = new byte[input.readInt()];
            input.readFully(answer);
            return (T) AbstractResponse.parseResponse(ByteBuffer.wrap(answer), header);
        }
    }

    /** What one broker is asked again and again, until it says yes. */
    interface BrokerCondition {
        boolean holds(String address) throws Exception;
    }

    /** Waits until the condition holds on each broker that runs, for at most the command's limit each. */
    static void everywhere(String what, JsonNode arguments, BrokerCondition condition) throws Exception {
        for (JsonNode broker : arguments.get("running")) {
            String address = broker.asText();
            until(what + " on " + address, arguments, () -> condition.holds(address));
        }
    }

    /** What is looked at again and again, until it is so. */
    interface Condition {
        boolean holds() throws Exception;
    }

    /** Waits until the condition holds, for at most the command's limit. */
    static void until(String what, JsonNode arguments, Condition condition) throws Exception {
        long end = System.nanoTime() + arguments.get("limit_ms").asLong() * 1_000_000;
        String last = "not so";
        while (System.nanoTime() < end) {
            try {
                if (condition.holds()) {
                    return;
                }
                last = "not so";
            } catch (IOException failure) {
                last = Tool.text(failure);
            }
            Thread.sleep(20);
        }
        throw new TimeoutException("waited in vain for " + what + ": " + last);
    }
}
