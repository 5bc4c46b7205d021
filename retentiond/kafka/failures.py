"""confluent-kafka's errors, turned into retentiond's values at one boundary.

kafka-python's are in `retentiond.kafka.protocol_failures`: a command that needs confluent-kafka
only starts without the other client.
"""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from retentiond.errors import ConfigError, KafkaUnavailable, RetentiondError
from retentiond.kafka.port import DeleteFailure, RequestResult
from retentiond.model import Failure

LEADER_MOVED = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError._NOENT,  # librdkafka found no leader at all, and asked nobody
    }
)
"""Answers that a metadata refresh and a second request mend, whatever ``retriable()`` says."""

REFUSED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError.INVALID_REQUEST,
        KafkaError._INVALID_ARG,  # these are librdkafka's own: nothing went out
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._AUTHENTICATION,
        KafkaError._UNSUPPORTED_FEATURE,
    }
)
"""Answers of DeleteRecords that prove that no log start offset was moved.

UNKNOWN_TOPIC_OR_PART is none: a broker whose replica is taken from it while it waits for its
followers answers so after it has moved the log start.
"""


def of_confluent(error: BaseException) -> Failure:
    """A confluent-kafka exception, or a future's time-out, as a value."""
    if isinstance(error, KafkaException):
        cause: KafkaError = error.args[0]
        return Failure(cause.name(), cause.str())
    if isinstance(error, TimeoutError):
        return Failure("_TIMED_OUT", "the client did not answer in time")
    return Failure(type(error).__name__, str(error))


def unavailable(servers: str, reason: object) -> KafkaUnavailable:
    """The error to raise where nothing could be read."""
    return KafkaUnavailable(
        f"{servers} can't be asked: {reason}; "
        "check kafka.bootstrap.servers, the network and the credentials"
    )


def of_client(servers: str, error: KafkaException) -> RetentiondError:
    """The error to raise where librdkafka made no client: it refused a value, or lacks a token."""
    cause: KafkaError = error.args[0]
    if cause.code() == KafkaError._INVALID_ARG:
        return ConfigError(f"Kafka's client refuses this: {cause.str().strip()}", path="kafka")
    return unavailable(servers, of_confluent(error))


def has_moved(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() in LEADER_MOVED


def of_deletion(error: BaseException) -> DeleteFailure:
    """What a failed DeleteRecords proves. Anything not known to be a refusal proves nothing."""
    failure = of_confluent(error)
    if has_moved(error):
        return DeleteFailure(RequestResult.MOVED, failure)
    if isinstance(error, KafkaException) and error.args[0].code() in REFUSED:
        return DeleteFailure(RequestResult.REFUSED, failure)
    return DeleteFailure(RequestResult.UNKNOWN, failure)
