import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.message.DescribeUserScramCredentialsRequestData;
import org.apache.kafka.common.message.DescribeUserScramCredentialsRequestData.UserName;
import org.apache.kafka.common.requests.DescribeAclsRequest;
import org.apache.kafka.common.requests.DescribeAclsResponse;
import org.apache.kafka.common.requests.DescribeUserScramCredentialsRequest;
import org.apache.kafka.common.requests.DescribeUserScramCredentialsResponse;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;

/** SCRAM passwords and access control lists. */
final class Users {
    private static final ScramMechanism MECHANISM = ScramMechanism.SCRAM_SHA_256;
    private static final int FEWEST_ITERATIONS = 4096;

    private final Brokers brokers;
    private int iterations = FEWEST_ITERATIONS;

    Users(Brokers brokers) {
        this.brokers = brokers;
    }

    void offer(Map<String, Tool.Command> commands) {
        commands.put("set_password", this::setPassword);
        commands.put("remove_user", this::removeUser);
        commands.put("add_acl", this::addAcl);
        commands.put("remove_acls", this::removeAcls);
    }

    /** A broker does not tell a password; each gets a number of iterations of its own, and that it tells. */
    private synchronized Object setPassword(JsonNode arguments) throws Exception {
        String user = arguments.get("user").asText();
        iterations += 1;
        var info = new ScramCredentialInfo(MECHANISM, iterations);
        var change = new UserScramCredentialUpsertion(user, info, arguments.get("password").asText());
        brokers.admin().alterUserScramCredentials(List.of(change)).all().get();
        Brokers.everywhere("password of " + user, arguments, address -> iterations(address, user) == iterations);
        return null;
    }

    private Object removeUser(JsonNode arguments) throws Exception {
        String user = arguments.get("user").asText();
        var change = new UserScramCredentialDeletion(user, MECHANISM);
        brokers.admin().alterUserScramCredentials(List.of(change)).all().get();
        Brokers.everywhere("user " + user + " gone", arguments, address -> iterations(address, user) == 0);
        return null;
    }

    private static int iterations(String address, String user) throws IOException {
        var data = new DescribeUserScramCredentialsRequestData().setUsers(List.of(new UserName().setName(user)));
        DescribeUserScramCredentialsResponse seen = Brokers.ask(address, new DescribeUserScramCredentialsRequest.Builder(data));
        return seen.data().results().stream().flatMap(result -> result.credentialInfos().stream())
                .filter(info -> info.mechanism() == MECHANISM.type()).mapToInt(info -> info.iterations()).findAny().orElse(0);
    }

    private Object addAcl(JsonNode arguments) throws Exception {
        var resource = new ResourcePattern(ResourceType.fromString(arguments.get("resource").asText()),
                arguments.get("name").asText(), PatternType.LITERAL);
        var entry = new AccessControlEntry(principal(arguments), "*",
                AclOperation.fromString(arguments.get("operation").asText()),
                AclPermissionType.fromString(arguments.get("permission").asText()));
        var acl = new AclBinding(resource, entry);
        brokers.admin().createAcls(List.of(acl)).all().get();
        Brokers.everywhere(acl.toString(), arguments, address -> count(address, acl.toFilter()) == 1);
        return null;
    }

    private Object removeAcls(JsonNode arguments) throws Exception {
        var filter = new AclBindingFilter(ResourcePatternFilter.ANY,
                new AccessControlEntryFilter(principal(arguments), null, AclOperation.ANY, AclPermissionType.ANY));
        brokers.admin().deleteAcls(List.of(filter)).all().get();
        Brokers.everywhere("no " + filter, arguments, address -> count(address, filter) == 0);
        return null;
    }

    private static String principal(JsonNode arguments) {
        return "User:" + arguments.get("user").asText();
    }

    private static int count(String address, AclBindingFilter filter) throws IOException {
        DescribeAclsResponse seen = Brokers.ask(address, new DescribeAclsRequest.Builder(filter));
        return DescribeAclsResponse.aclBindings(seen.acls()).size();
    }
}
