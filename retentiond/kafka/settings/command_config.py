"""``--command-config``: an AdminClient's Java properties, as retentiond's clients take them.

Invariant: no key is passed over in silence. One that has no counterpart is an error that names
it, because half a configuration means another principal or half a TLS set-up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from retentiond.errors import ConfigError
from retentiond.kafka.remedies import SettingNames
from retentiond.kafka.settings import java_properties, logins, tls
from retentiond.kafka.settings.java_properties import parse_login
from retentiond.kafka.settings.properties import SECURITY_PROTOCOLS, ClientSettings, translate

PROPERTIES_OF_THE_SAME_NAME = (
    "client.id",
    "client.dns.lookup",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
    "connections.max.idle.ms",
    "metadata.max.age.ms",
)
"""Both of retentiond's clients have them too."""

LIBRDKAFKA_PROPERTIES = {
    "retry.backoff.ms": "retry.backoff.ms",
    "retry.backoff.max.ms": "retry.backoff.max.ms",
    "socket.connection.setup.timeout.ms": "socket.connection.setup.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
}
"""How a connection is tuned; kafka-python keeps its own values."""

TIMEOUT_PROPERTIES = ("request.timeout.ms", "default.api.timeout.ms")

SECURITY_PROPERTIES = ("security.protocol", "sasl.mechanism", "sasl.jaas.config")

TOKEN_PROPERTY_NAMES = {
    logins.TOKEN_URL: logins.TOKEN_URL,
    "sasl.oauthbearer.client.credentials.client.id": logins.CLIENT_ID,
    "sasl.oauthbearer.client.credentials.client.secret": logins.CLIENT_SECRET,
    logins.SCOPE: logins.SCOPE,
    logins.URL_ENCODE: logins.URL_ENCODE,
}
"""Kafka's properties for OAUTHBEARER, and those of the ``kafka:`` section."""

ENDPOINT_TRUST = "ssl.truststore.location"

TOKEN_OPTIONS = {
    "clientId": logins.CLIENT_ID,
    "clientSecret": logins.CLIENT_SECRET,
    "scope": logins.SCOPE,
    ENDPOINT_TRUST: logins.ENDPOINT_CA,
    "awsProfileName": logins.PROFILE,
    "awsRoleArn": logins.ROLE,
}
"""The same for options of the login modules."""

LOGIN_HANDLERS = {
    "sasl.login.callback.handler.class": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    ),
    "sasl.client.callback.handler.class": (
        "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    ),
}
"""Java's classes that do what retentiond does by itself."""

ENDPOINT_IDENTIFICATION = "ssl.endpoint.identification.algorithm"

LONGEST_TIMEOUT_MS = 300_000  # librdkafka's

COMMAND_WORDS = SettingNames(
    servers="--bootstrap-server",
    protocol="security.protocol in --command-config",
    login="sasl.jaas.config in --command-config",
    mechanism="sasl.mechanism",
    trust="ssl.truststore.location in --command-config",
    certificate="ssl.keystore.location in --command-config",
    pass_phrase="ssl.key.password in --command-config",
    unchecked_name="ssl.endpoint.identification.algorithm to nothing in --command-config",
    token_place="sasl.oauthbearer.token.endpoint.url in --command-config",
)
"""How an operator knows the settings here."""

NO_SERVERS = "bootstrap.servers"  # --bootstrap-server counts, as with Kafka's own tools


def read_settings(servers: str, path: Path | None) -> ClientSettings:
    """Raises `ConfigError` naming the file and the key."""
    file = None if path is None else str(path)
    try:
        properties = {} if path is None else java_properties.read(path)
    except OSError as error:
        raise ConfigError(f"can't be read ({error.strerror})", file=file) from error
    except ValueError as error:
        raise ConfigError(str(error), file=file) from error
    try:
        both, librdkafka = translated(properties)
        settings = translate({"bootstrap.servers": servers, **both})
    except ConfigError as error:
        key = (error.path or "").removeprefix("kafka.")
        if key == "bootstrap.servers":
            raise ConfigError(error.message, path="--bootstrap-server") from error
        raise ConfigError(error.message, path=key or None, file=file) from error
    words = replace(COMMAND_WORDS, token_from=settings.words.token_from)
    return replace(settings, confluent={**settings.confluent, **librdkafka}, words=words)


def translated(properties: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """For both clients, by the names of the ``kafka:`` section, and for librdkafka alone."""
    rest = {key: value.strip() for key, value in properties.items() if key != NO_SERVERS}
    both = {key: rest.pop(key) for key in PROPERTIES_OF_THE_SAME_NAME if key in rest}
    librdkafka = {name: rest.pop(key) for key, name in LIBRDKAFKA_PROPERTIES.items() if key in rest}
    timeouts = [_milliseconds(key, rest.pop(key)) for key in TIMEOUT_PROPERTIES if key in rest]
    if timeouts:
        both["socket.timeout.ms"] = str(min(timeouts))
    login = (*SECURITY_PROPERTIES, *TOKEN_PROPERTY_NAMES, *LOGIN_HANDLERS)
    both |= _login({key: rest.pop(key) for key in login if key in rest})
    if ENDPOINT_IDENTIFICATION in rest:
        both[ENDPOINT_IDENTIFICATION] = rest.pop(ENDPOINT_IDENTIFICATION) or "none"
    files, inline = tls.stores({key: rest.pop(key) for key in tls.PROPERTIES if key in rest})
    for key in sorted(rest):
        why = "this property can't be translated for librdkafka; remove it"
        if key.startswith("ssl.") and key.endswith("store.password"):
            why = "PEM files have no store password; ssl.key.password is the key's"
        raise ConfigError(why, path=key)
    return both | files, librdkafka | inline


def _milliseconds(key: str, value: str) -> int:
    if not value.isdecimal() or not int(value):
        raise ConfigError("expected milliseconds, 1 or more", path=key)
    return min(int(value), LONGEST_TIMEOUT_MS)


def _login(properties: Mapping[str, str]) -> dict[str, str]:
    """Without a SASL protocol Kafka's clients make nothing of the others, and so does this."""
    protocol, mechanism, jaas = SECURITY_PROPERTIES
    spoken = properties.get(protocol, "PLAINTEXT").upper()
    if spoken not in SECURITY_PROTOCOLS:
        raise ConfigError(f"expected one of {', '.join(SECURITY_PROTOCOLS)}", path=protocol)
    if not spoken.startswith("SASL_"):
        return {protocol: spoken}
    named = properties.get(mechanism, logins.KERBEROS).upper()  # Kafka's default
    if named not in logins.SASL_MECHANISMS:
        kerberos = f"; {logins.NO_KERBEROS}" if named == logins.KERBEROS else ""
        expected = ", ".join(logins.SASL_MECHANISMS)
        raise ConfigError(f"expected one of {expected}, not {named}{kerberos}", path=mechanism)
    if jaas not in properties:
        raise ConfigError(f"{named} needs it", path=jaas)
    try:
        mechanisms, options = parse_login(properties[jaas])
    except ValueError as error:
        raise ConfigError(str(error), path=jaas) from error
    if named not in mechanisms:
        raise ConfigError(f"its login module is none for {named}", path=jaas)
    if named in logins.PASSWORD_MECHANISMS:
        secrets = {f"sasl.{name}": value for name, value in options.items()}
    else:
        secrets = _token_login(properties, options)
    return {protocol: spoken, mechanism: named, **secrets}


def _token_login(properties: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """As in Kafka, an option beats the property that says the same."""
    for name, classes in LOGIN_HANDLERS.items():
        if properties.get(name, classes[0]) not in classes:
            raise ConfigError("this class can't be translated; remove it", path=name)
    if ENDPOINT_TRUST in options and options.get("ssl.truststore.type", "JKS").upper() != "PEM":
        raise ConfigError(
            'its trust store must be PEM: write ssl.truststore.type="PEM" beside its location',
            path="sasl.jaas.config",
        )
    extensions = [
        f"{name.removeprefix('extension_')}={value}"
        for name, value in options.items()
        if name.startswith("extension_")
    ]
    return {
        **{
            TOKEN_PROPERTY_NAMES[name]: value
            for name, value in properties.items()
            if name in TOKEN_PROPERTY_NAMES
        },
        **{TOKEN_OPTIONS[name]: value for name, value in options.items() if name in TOKEN_OPTIONS},
        **({logins.EXTENSIONS: ",".join(extensions)} if extensions else {}),
    }
