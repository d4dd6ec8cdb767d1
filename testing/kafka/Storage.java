import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Formats the folders of brokers that have not run yet. */
final class Storage {
    private Storage() {}

    static Object format(JsonNode arguments) {
        for (JsonNode config : arguments.get("configs")) {
            var command = new ArrayList<>(List.of("format", "-t", arguments.get("cluster").asText(), "-c", config.asText()));
            for (JsonNode user : arguments.get("scram")) {
                command.add("--add-scram");
                command.add(user.asText());
            }
            var said = new ByteArrayOutputStream();
            var printed = new PrintStream(said, true, StandardCharsets.UTF_8);
            if (kafka.tools.StorageTool.execute(command.toArray(new String[0]), printed) != 0) {
                throw new IllegalStateException(said.toString(StandardCharsets.UTF_8));
            }
        }
        return null;
    }
}
