"""What to do about a connection that fails, a right that is missing or a limit that is too low.

Both clients' errors end here, so that both say the same of the same problem.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum

from retentiond.errors import KafkaUnavailable
from retentiond.kafka.broker_errors import BrokerError
from retentiond.model import Failure


@dataclass(frozen=True, slots=True)
class SettingNames:
    """How the settings are called that an operator would look at; by default in ``kafka:``."""

    servers: str = "kafka.bootstrap.servers"
    protocol: str = "kafka.security.protocol"
    login: str = "kafka.sasl.username and kafka.sasl.password"
    mechanism: str = "kafka.sasl.mechanism"
    trust: str = "kafka.ssl.ca.location"
    certificate: str = "kafka.ssl.certificate.location and kafka.ssl.key.location"
    pass_phrase: str = "kafka.ssl.key.password"
    unchecked_name: str = "kafka.ssl.endpoint.identification.algorithm to none"
    token_from: str = "the token endpoint"
    token_place: str = "kafka.sasl.oauthbearer.token.endpoint.url"


class ProblemKind(StrEnum):
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
    UNMATCHED_PAIR = "certificate and key do not match"
    NO_PASS_PHRASE = "no pass phrase for the key"
    WRONG_PASS_PHRASE = "wrong pass phrase for the key"
    LOGIN_REFUSED = "login refused"
    LOGIN_WANTED = "login wanted"
    NO_LOGIN = "no login there"
    NO_TOKEN = "no token"
    OTHER_MECHANISM = "SASL mechanism not offered"


@dataclass(frozen=True, slots=True)
class ConnectionProblem:
    """``detail``: the other side's own words, where they help; never a secret."""

    kind: ProblemKind
    detail: str = ""


PASSING = (ProblemKind.NO_ADDRESS, ProblemKind.NOBODY_LISTENS, ProblemKind.NO_ANSWER)
"""A broker that is down shows any of these in turn, so none identifies the outage."""

SENTENCES = {
    ProblemKind.NO_ADDRESS: "the name {host} has no address; check {words.servers}",
    ProblemKind.NOBODY_LISTENS: "the connection is refused; "
    "check {words.servers}, and that the broker is up",
    ProblemKind.NO_ANSWER: "it does not answer{detail}; "
    "check {words.servers}, the network, and that the broker is up",
    ProblemKind.NOT_KAFKA: "it answers, but not as a Kafka broker does; "
    "check the port in {words.servers}",
    ProblemKind.CONTROLLER: "it is a controller, which does not know what consumers read; "
    "use a broker's port in {words.servers}",
    ProblemKind.NO_TLS: "it closes the connection instead of answering in TLS; "
    "check the port in {words.servers}, and {words.protocol}",
    ProblemKind.TLS_WANTED: "it speaks TLS; set {words.protocol} to SSL or SASL_SSL",
    ProblemKind.EXPIRED: "its certificate has expired; renew it on the broker, "
    "or correct this host's clock",
    ProblemKind.NOT_YET_VALID: "its certificate is not valid yet; "
    "check the clocks of this host and of whoever made it",
    ProblemKind.REVOKED: "its certificate is revoked; renew it on the broker",
    ProblemKind.UNTRUSTED: "its certificate is not signed by an authority that is trusted "
    "here{detail}; put that authority's certificate into {words.trust}",
    ProblemKind.WRONG_NAME: "its certificate is not made out to {host}; use a name of "
    "the certificate in {words.servers} and the broker's advertised.listeners, "
    "or set {words.unchecked_name}, which gives that check up",
    ProblemKind.REFUSED_CERTIFICATE: "it refuses this client's certificate{detail}; "
    "check {words.certificate}",
    ProblemKind.CERTIFICATE_WANTED: "it wants a certificate of this client; "
    "set {words.certificate}",
    ProblemKind.UNUSABLE_FILES: "this client's own certificates can't be used{detail}; "
    "check {words.certificate}, and {words.trust}",
    ProblemKind.UNMATCHED_PAIR: "this client's own certificates can't be used{detail}: the key "
    "does not belong to the certificate; check {words.certificate}: while they are being renewed, "
    "this ends as soon as both are new",
    ProblemKind.NO_PASS_PHRASE: "this client's key has a pass phrase; set {words.pass_phrase}",
    ProblemKind.WRONG_PASS_PHRASE: "the pass phrase does not open this client's key; "
    "check {words.pass_phrase}",
    ProblemKind.LOGIN_REFUSED: "it refuses the login{detail}; check {words.login}, "
    "and that the broker knows this user by {words.mechanism}",
    ProblemKind.LOGIN_WANTED: "it answers nothing without a login; set {words.protocol} to "
    "SASL_SSL or SASL_PLAINTEXT, or check the port in {words.servers}",
    ProblemKind.NO_LOGIN: "it takes no login; set {words.protocol} to SSL or PLAINTEXT, "
    "or check the port in {words.servers}",
    ProblemKind.NO_TOKEN: "{words.token_from} gave no token for it{detail}; "
    "check {words.login}, and {words.token_place}",
    ProblemKind.OTHER_MECHANISM: "it does not offer this SASL mechanism{detail}; "
    "check {words.mechanism}",
}


ADVERTISED = "the broker's advertised.listeners"


def unavailable(
    server: str, problem: ConnectionProblem, words: SettingNames, *, named_by: str | None = None
) -> KafkaUnavailable:
    """The error to raise. ``server`` is the broker that it is about, ``HOST:PORT``; ``named_by``:
    the servers that told it, where it is none of those that an operator has named."""
    if named_by is not None:
        words = replace(words, servers=ADVERTISED)
    sentence = SENTENCES[problem.kind].format(
        host=re.sub(r":\d+$", "", server),
        detail=f" ({problem.detail})" if problem.detail else "",
        words=words,
    )
    sentence = sentence.replace(f"{ADVERTISED} and {ADVERTISED}", ADVERTISED)
    given = f", where {named_by} sends its clients (advertised.listeners)," if named_by else ""
    kind = None if problem.kind in PASSING else problem.kind.value
    return KafkaUnavailable(f"{server}{given} can't be asked: {sentence}", kind=kind)


def no_answer_from(servers: str, reason: object, words: SettingNames) -> KafkaUnavailable:
    """The error to raise where nothing could be read, and nothing says more than ``reason``."""
    return KafkaUnavailable(
        f"{servers} can't be asked: {reason}; "
        f"check {words.servers}, the network and the credentials"
    )


TOPIC_REFUSED = BrokerError.TOPIC_AUTHORIZATION_FAILED.name

GROUP_REFUSED = BrokerError.GROUP_AUTHORIZATION_FAILED.name

NOT_UNPACKED = BrokerError.INVALID_RECORD.name

RAISE_THE_LIMIT = (
    "the broker does not unpack the records whose timestamps it is asked for: raise "
    "max.decompressed.message.bytes, of the brokers or of the topic, above what they take unpacked"
)

OPERATIONS = {
    "Describe": "DESCRIBE",
    "DescribeConfigs": "DESCRIBE_CONFIGS",
    "Delete": "DELETE",
    "Read": "READ",
}
"""Operations by the name that kafka-acls gives them, with the name that Kafka gives them."""

DESCRIBE_GROUPS = (
    "grant this principal DESCRIBE on all groups "
    "(kafka-acls --add --group '*' --operation Describe)"
)

DESCRIBE_READ_TOPICS = (
    "grant this principal DESCRIBE on all topics, some of which the group reads "
    "(kafka-acls --add --topic '*' --operation Describe)"
)


def with_topic_grant(failure: Failure, topic: str, operation: str) -> Failure:
    """The failure; if a right on the topic is missing, with how it is granted, and if a limit is
    too low, with which."""
    if failure.code == NOT_UNPACKED:
        return replace(failure, message=RAISE_THE_LIMIT)
    if failure.code != TOPIC_REFUSED:
        return failure
    return replace(
        failure,
        message=f"grant this principal {OPERATIONS[operation]} on the topic "
        f"(kafka-acls --add --topic {topic} --operation {operation})",
    )


def with_group_grant(failure: Failure) -> Failure:
    """The same for a request about a group. Kafka shows one that has adopted the new protocols
    only to those who may see all topics that it reads."""
    grants = {GROUP_REFUSED: DESCRIBE_GROUPS, TOPIC_REFUSED: DESCRIBE_READ_TOPICS}
    return replace(failure, message=grants.get(failure.code, failure.message))
