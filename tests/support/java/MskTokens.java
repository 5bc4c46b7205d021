import java.io.IOException;
import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerExtensionsValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;

/**
 * Stands in for Amazon's brokers: takes a token that is an address, signed with the one secret that
 * it knows (Signature Version 4, as the query's parameters). System properties: msk.id, msk.secret,
 * msk.region, msk.principal.
 */
public class MskTokens implements AuthenticateCallbackHandler {
    private static final DateTimeFormatter DATE =
            DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'").withZone(ZoneOffset.UTC);
    /** What Amazon's signer adds after it has signed. */
    private static final Set<String> UNSIGNED = Set.of("X-Amz-Signature", "User-Agent");

    @Override
    public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> jaas) {}

    @Override
    public void close() {}

    @Override
    public void handle(Callback[] callbacks) throws IOException {
        for (Callback callback : callbacks) {
            if (callback instanceof OAuthBearerValidatorCallback asked) {
                try {
                    asked.token(checked(asked.tokenValue()));
                } catch (Exception wrong) {
                    asked.error("invalid_token", "", wrong.toString());
                }
            } else if (callback instanceof OAuthBearerExtensionsValidatorCallback asked) {
                asked.inputExtensions().map().keySet().forEach(asked::valid);
            }
        }
    }

    private static OAuthBearerToken checked(String token) throws Exception {
        String text = new String(Base64.getUrlDecoder().decode(token), StandardCharsets.UTF_8);
        URI address = URI.create(text);
        String region = System.getProperty("msk.region");
        String host = "kafka." + region + ".amazonaws.com";
        require("https".equals(address.getScheme()) && host.equals(address.getHost()), "address");
        TreeMap<String, String> query = new TreeMap<>();
        for (String pair : address.getRawQuery().split("&")) {
            String[] parts = pair.split("=", 2);
            query.put(parts[0], parts[1]);
        }
        require("kafka-cluster%3AConnect".equals(query.get("Action")), "Action");
        require("AWS4-HMAC-SHA256".equals(query.get("X-Amz-Algorithm")), "algorithm");
        Instant signedAt = Instant.from(DATE.parse(query.get("X-Amz-Date")));
        Instant endsAt = signedAt.plusSeconds(Long.parseLong(query.get("X-Amz-Expires")));
        require(Instant.now().isBefore(endsAt), "it has expired");
        String day = query.get("X-Amz-Date").substring(0, 8);
        String scope = day + "/" + region + "/kafka-cluster/aws4_request";
        String credential = URLDecoder.decode(query.get("X-Amz-Credential"), StandardCharsets.UTF_8);
        require(credential.equals(System.getProperty("msk.id") + "/" + scope), "credential");
        String signed = query.entrySet().stream()
                .filter(each -> !UNSIGNED.contains(each.getKey()))
                .map(each -> each.getKey() + "=" + each.getValue())
                .collect(Collectors.joining("&"));
        String request = "GET\n/\n" + signed + "\nhost:" + host + "\n\nhost\n" + hash("");
        String toSign = "AWS4-HMAC-SHA256\n" + query.get("X-Amz-Date") + "\n" + scope + "\n" + hash(request);
        byte[] key = ("AWS4" + System.getProperty("msk.secret")).getBytes(StandardCharsets.UTF_8);
        for (String part : List.of(day, region, "kafka-cluster", "aws4_request", toSign)) {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            key = mac.doFinal(part.getBytes(StandardCharsets.UTF_8));
        }
        require(HexFormat.of().formatHex(key).equals(query.get("X-Amz-Signature")), "signature");
        return new Accepted(token, signedAt.toEpochMilli(), endsAt.toEpochMilli());
    }

    private static String hash(String text) throws Exception {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    }

    private static void require(boolean holds, String what) {
        if (!holds) {
            throw new IllegalArgumentException("not Amazon's token: " + what);
        }
    }

    private record Accepted(String value, Long startTimeMs, long lifetimeMs) implements OAuthBearerToken {
        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public String principalName() {
            return System.getProperty("msk.principal");
        }
    }
}
