"""What can be wrong with a connection, each as one sentence with what to do about it.

Both clients' errors end here, so that both say the same of the same problem.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from retentiond.errors import KafkaUnavailable


@dataclass(frozen=True, slots=True)
class SettingNames:
    """How the settings are called that an operator would look at; by default in ``kafka:``."""

    servers: str = "kafka.bootstrap.servers"
    protocol: str = "kafka.security.protocol"
    login: str = "kafka.sasl.username and kafka.sasl.password"
    mechanism: str = "kafka.sasl.mechanism"
    trust: str = "kafka.ssl.ca.location"
    certificate: str = "kafka.ssl.certificate.location and kafka.ssl.key.location"
    unchecked_name: str = "kafka.ssl.endpoint.identification.algorithm to none"
    token_from: str = "the token endpoint"
    token_place: str = "kafka.sasl.oauthbearer.token.endpoint.url"


TOKEN_WORDS = "kafka.sasl.oauthbearer.client.id and kafka.sasl.oauthbearer.client.secret"
"""The login of OAUTHBEARER."""


class Kind(StrEnum):
    """What is wrong, in two words or three: the same for as long as the same thing is wrong."""

    NO_ADDRESS = "no address"
    NOBODY_LISTENS = "nobody listens"
    NO_ANSWER = "no answer"
    NOT_KAFKA = "not Kafka"
    CONTROLLER = "a controller"
    NO_TLS = "no TLS there"
    TLS_WANTED = "TLS is wanted"
    EXPIRED = "certificate expired"
    NOT_YET_VALID = "certificate not yet valid"
    REVOKED = "certificate revoked"
    UNTRUSTED = "certificate not trusted"
    WRONG_NAME = "certificate of another host"
    REFUSED_CERTIFICATE = "certificate refused"
    CERTIFICATE_WANTED = "client certificate wanted"
    UNUSABLE_FILES = "unusable certificate files"
    LOGIN_REFUSED = "login refused"
    LOGIN_WANTED = "login wanted"
    NO_LOGIN = "no login there"
    NO_TOKEN = "no token"
    OTHER_MECHANISM = "SASL mechanism not offered"


@dataclass(frozen=True, slots=True)
class ConnectionProblem:
    """``detail``: the other side's own words, where they help; never a secret."""

    kind: Kind
    detail: str = ""


PASSING = (Kind.NO_ADDRESS, Kind.NOBODY_LISTENS, Kind.NO_ANSWER)
"""Of a broker that is down or starts. They take turns during one outage, so none is its kind."""

SENTENCES = {
    Kind.NO_ADDRESS: "the name {host} has no address; check {words.servers}",
    Kind.NOBODY_LISTENS: "the connection is refused; "
    "check {words.servers}, and that the broker is up",
    Kind.NO_ANSWER: "it does not answer{detail}; "
    "check {words.servers}, the network, and that the broker is up",
    Kind.NOT_KAFKA: "it answers, but not as a Kafka broker does; check the port in {words.servers}",
    Kind.CONTROLLER: "it is a controller, which does not know what consumers read; "
    "use a broker's port in {words.servers}",
    Kind.NO_TLS: "it closes the connection instead of answering in TLS; "
    "check the port in {words.servers}, and {words.protocol}",
    Kind.TLS_WANTED: "it speaks TLS; set {words.protocol} to SSL or SASL_SSL",
    Kind.EXPIRED: "its certificate has expired; renew it on the broker, or correct this host's "
    "clock",
    Kind.NOT_YET_VALID: "its certificate is not valid yet; "
    "check the clocks of this host and of whoever made it",
    Kind.REVOKED: "its certificate is revoked; renew it on the broker",
    Kind.UNTRUSTED: "its certificate is not signed by an authority that is trusted here{detail}; "
    "put that authority's certificate into {words.trust}",
    Kind.WRONG_NAME: "its certificate is not made out to {host}; use a name of the certificate in "
    "{words.servers} and the broker's advertised.listeners, "
    "or set {words.unchecked_name}, which gives that check up",
    Kind.REFUSED_CERTIFICATE: "it refuses this client's certificate{detail}; "
    "check {words.certificate}",
    Kind.CERTIFICATE_WANTED: "it wants a certificate of this client; set {words.certificate}",
    Kind.UNUSABLE_FILES: "this client's own certificates can't be used{detail}; "
    "check {words.certificate}, and {words.trust}",
    Kind.LOGIN_REFUSED: "it refuses the login{detail}; check {words.login}, "
    "and that the broker knows this user by {words.mechanism}",
    Kind.LOGIN_WANTED: "it answers nothing without a login; set {words.protocol} to "
    "SASL_SSL or SASL_PLAINTEXT, or check the port in {words.servers}",
    Kind.NO_LOGIN: "it takes no login; set {words.protocol} to SSL or PLAINTEXT, "
    "or check the port in {words.servers}",
    Kind.NO_TOKEN: "{words.token_from} gave no token for it{detail}; check {words.login}, "
    "and {words.token_place}",
    Kind.OTHER_MECHANISM: "it does not offer this SASL mechanism{detail}; check {words.mechanism}",
}


def unavailable(server: str, problem: ConnectionProblem, words: SettingNames) -> KafkaUnavailable:
    """The error to raise. ``server`` is the broker that it is about, ``HOST:PORT``."""
    sentence = SENTENCES[problem.kind].format(
        host=re.sub(r":\d+$", "", server),
        detail=f" ({problem.detail})" if problem.detail else "",
        words=words,
    )
    kind = None if problem.kind in PASSING else problem.kind.value
    return KafkaUnavailable(f"{server} can't be asked: {sentence}", kind=kind)


def no_answer_from(servers: str, reason: object, words: SettingNames) -> KafkaUnavailable:
    """The error to raise where nothing could be read, and nothing says more than ``reason``."""
    return KafkaUnavailable(
        f"{servers} can't be asked: {reason}; "
        f"check {words.servers}, the network and the credentials"
    )
