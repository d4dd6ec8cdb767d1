import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * What a test asks of a Kafka cluster, answered by Kafka's own clients and classes.
 *
 * <p>{@code java Tool ADDRESS...} with the brokers' internal listeners. One JSON object a line on standard input:
 * {@code {"id": 1, "command": "create_topic", "limit_ms": 30000, ...}}; one a line on standard output, in the order of
 * completion: {@code {"id": 1, "ok": ...}} or {@code {"id": 1, "error": "..."}}. Ends at the end of its input.
 */
public final class Tool {
    static final ObjectMapper JSON = new ObjectMapper();

    /** Answers one command; what it throws becomes the answer's error. */
    interface Command {
        Object run(JsonNode arguments) throws Exception;
    }

    private final Map<String, Command> commands = new HashMap<>();
    private final PrintStream answers;

    private Tool(PrintStream answers, String[] addresses) {
        this.answers = answers;
        var brokers = new Brokers(addresses);
        commands.put("format", Storage::format);
        new Groups(brokers).offer(commands);
        new Records(brokers).offer(commands);
        new Topics(brokers).offer(commands);
        new Users(brokers).offer(commands);
    }

    public static void main(String[] addresses) throws Exception {
        var answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // Kafka's classes print there
        var tool = new Tool(answers, addresses);
        ExecutorService workers = Executors.newCachedThreadPool();
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            JsonNode question = JSON.readTree(line);
            workers.execute(() -> tool.answer(question));
        }
        Runtime.getRuntime().halt(0);
    }

    private void answer(JsonNode question) {
        ObjectNode answer = JSON.createObjectNode().put("id", question.get("id").asLong());
        try {
            Command command = commands.get(question.get("command").asText());
            answer.set("ok", JSON.valueToTree(command.run(question)));
        } catch (Throwable failure) {
            failure.printStackTrace();
            answer.put("error", text(failure));
        }
        synchronized (answers) {
            answers.println(answer);
        }
    }

    /** The name and message of what went wrong, without the wrappers of futures. */
    static String text(Throwable failure) {
        Throwable cause = failure;
        while (cause instanceof ExecutionException || cause instanceof CompletionException) {
            cause = cause.getCause();
        }
        return cause.getClass().getSimpleName() + ": " + cause.getMessage();
    }
}
