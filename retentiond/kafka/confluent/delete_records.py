"""DeleteRecords (KIP-107) through librdkafka: one request to each leader, an answer a partition.

librdkafka sends it by the topic's name to whom it believes to lead, over connections that it makes
and makes again by itself. So the requests of a cycle have a client of their own (`Deleter`), made
from the addresses that the proven cluster advertises, and asked right before each request which
cluster and which topics it speaks to.

A connection takes many round trips: for the name, TLS and the login. `Deleter.get_ready` makes it
before the evidence is read, so that the look takes three and the request half of one.

Invariant: the topics' ids are asked for when everything else has answered, and their answer is the
last that is awaited before the request. Asked for beside something slower, they would be as old as
that is slow, and a topic may be recreated meanwhile.

Invariant: a request goes only to a leader that has just answered. librdkafka keeps one for any
other until that leader answers or the request's time is over, and the evidence grows old meanwhile.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeAlias

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from retentiond.clock import seconds_since_boot
from retentiond.errors import KafkaUnavailable
from retentiond.kafka.cluster_identity import ClusterIdentity, address
from retentiond.kafka.confluent.admin import explained, failure_of_deletion, failure_of_error
from retentiond.kafka.interface import (
    KAFKAS_HIGH_WATERMARK,
    DeleteAnswer,
    DeleteFailure,
    OffsetBound,
    RequestResult,
    Target,
)
from retentiond.kafka.remedies import with_topic_grant
from retentiond.kafka.settings.properties import ClientSettings
from retentiond.model import Failure, TopicPartition

DeleteAnswers: TypeAlias = dict[TopicPartition, DeleteAnswer]

LOOK_TIMEOUT_S = 3.0
"""How long the look before a request may take: the evidence grows old meanwhile."""

FUTURE_GRACE_S = 5.0
"""How much longer a future is waited for than its request may take."""

CONNECT_LEADERS_S = 1.0
"""How long to wait for the leaders, or as much longer as brokers are far away. One that does not
answer holds up nobody else: its partitions are left out."""

LEADER_RETRY_S = 0.1
"""How long until a leader that moved is looked for again, and how long a question takes at
least."""

NETWORK_GRACE_S = 1.5
"""How long an answer may be on its way after a leader has waited for its followers. Without one the
log start is read back, and a process that is asked to end waits no longer than this."""

TOO_LATE = DeleteFailure(
    RequestResult.NOT_SENT,
    Failure("TOO_LATE", "the groups were read too long ago when the request was about to go out"),
)

LEADER_SILENT = DeleteFailure(
    RequestResult.NOT_SENT,
    Failure(
        "LEADER_NOT_AVAILABLE",
        "the partition's leader did not answer right before the request",
    ),
)


class Deleter:
    """A client for the requests of a cycle, made of the brokers that the proven cluster advertises.

    It knows nothing from before, so no connection of it was made when an address led elsewhere.
    """

    def __init__(
        self,
        client: AdminClient,
        settings: ClientSettings,
        identity: ClusterIdentity,
        connected_in_s: float = 0.0,
    ) -> None:
        """``settings``: of the client. ``connected_in_s``: how long its first connection took."""
        self._client = client
        self._settings = settings
        self._identity = identity
        self._connected_in_s = connected_in_s
        self._answered: dict[int, TopicPartition] = {}
        """The leaders that have answered, and what they were asked about."""
        self._leaders: dict[TopicPartition, int] = {}
        """Of the partitions that were last asked about."""
        self._silent: frozenset[TopicPartition] = frozenset()
        self._looked_at = self._handed_over_at = 0.0

    def get_ready(self, partitions: Collection[TopicPartition], timeout_s: float) -> None:
        """Connects to the leaders. Raises `KafkaUnavailable` where it can't ask who leads."""
        patience_s = max(CONNECT_LEADERS_S, 2 * self._connected_in_s)
        with explained(self._settings):
            self._ask_leaders(partitions, timeout_s, patience_s)

    def look(
        self,
        partitions: Collection[TopicPartition],
        timeout_s: float = LOOK_TIMEOUT_S,
        proven: Callable[[], Collection[int]] | None = None,
    ) -> dict[str, str | Failure]:
        """The topics' ids, as Kafka's tools print them; each by its name.

        Asks one after the other: the leaders, which cluster it is, and the ids.
        ``proven``: a leader that is not among these brokers counts as silent.
        Raises `OtherCluster` where it speaks to another cluster, `KafkaUnavailable` where it can't
        ask.
        """
        names = sorted({partition.topic for partition in partitions})
        patience_s = max(CONNECT_LEADERS_S, self._connected_in_s / 2)
        with explained(self._settings):
            silent = self._ask_leaders(partitions, timeout_s, patience_s)
            if proven is not None:
                answered = proven()
                silent |= {at for at, by in self._leaders.items() if by not in answered}
            self._silent = silent
            cluster = self._client.describe_cluster(request_timeout=timeout_s)
            self._compare(cluster.result(timeout_s + FUTURE_GRACE_S))
            topics = self._client.describe_topics(TopicCollection(names), request_timeout=timeout_s)
            ids = {name: _topic_id(future, timeout_s) for name, future in topics.items()}
        self._looked_at = self._handed_over_at = time.monotonic()
        return ids

    def _ask_leaders(
        self, partitions: Collection[TopicPartition], timeout_s: float, patience_s: float
    ) -> frozenset[TopicPartition]:
        """The partitions without a leader, or whose leader did not answer.

        Each is asked about one partition; the one that has told who leads has just answered. While
        one no longer leads, the next is looked for.
        """
        client = self._client
        until = time.monotonic() + patience_s
        earlier = _ask_for_starts(client, self._answered, patience_s)
        listing = client.list_topics(timeout=timeout_s)
        # librdkafka may have asked another broker, which leads that partition now.
        led = dict(_leaders(listing, self._answered.values()))
        answered = {
            by for by in _answering(earlier, patience_s) if led.get(self._answered[by]) == by
        }
        answered.add(listing.orig_broker_id)
        while True:
            leaders = self._leaders = dict(_leaders(listing, partitions))
            missing = {by: at for at, by in leaders.items() if by >= 0 and by not in answered}
            if missing:
                left_s = max(until - time.monotonic(), LEADER_RETRY_S)
                answered |= _answering(_ask_for_starts(client, missing, left_s), left_s)
            silent = frozenset(at for at, by in leaders.items() if by not in answered)
            if not silent or time.monotonic() + LEADER_RETRY_S > until:
                self._answered = {by: at for at, by in leaders.items() if by in answered}
                return silent
            time.sleep(LEADER_RETRY_S)
            listing = client.list_topics(timeout=max(until - time.monotonic(), LEADER_RETRY_S))
            answered.add(listing.orig_broker_id)

    def request(
        self, offsets: Mapping[TopicPartition, int], timeout_s: float, not_after: float = math.inf
    ) -> DeleteAnswers:
        """Only after a `look`; none goes to a leader that was silent then."""

        def refuse() -> DeleteFailure | None:
            self._handed_over_at = time.monotonic()
            return TOO_LATE if seconds_since_boot() > not_after else None

        answering = {at: offset for at, offset in offsets.items() if at not in self._silent}
        answers = request(self._client, answering, timeout_s, refuse)
        return dict.fromkeys(offsets, LEADER_SILENT) | answers

    @property
    def gap_s(self) -> float:
        """How long it took from the look's answer until the request was handed over."""
        return self._handed_over_at - self._looked_at

    def _compare(self, cluster: Any) -> None:
        self._identity.check(cluster.cluster_id)
        for node in cluster.nodes:
            before = self._identity.endpoints.get(node.id, (node.host, node.port))
            if before != (node.host, node.port):
                raise KafkaUnavailable(
                    f"broker {node.id} was at {address(*before)} when the groups were read, and is "
                    f"at {address(node.host, node.port)} for the client that deletes; nothing was "
                    "requested"
                )


def _leaders(
    listing: Any, partitions: Collection[TopicPartition]
) -> Iterator[tuple[TopicPartition, int]]:
    """The leaders of the partitions that exist; -1: nobody leads."""
    for at in partitions:
        topic = listing.topics.get(at.topic)
        if topic and at.partition in topic.partitions:
            yield at, topic.partitions[at.partition].leader


def _ask_for_starts(
    client: AdminClient, partitions: Mapping[int, TopicPartition], timeout_s: float
) -> dict[int, Future[Any]]:
    if not partitions:
        return {}
    questions = {leader: ConfluentPartition(*at) for leader, at in partitions.items()}
    futures = client.list_offsets(
        dict.fromkeys(questions.values(), OffsetSpec.earliest()), request_timeout=timeout_s
    )
    return {leader: futures[question] for leader, question in questions.items()}


def _answering(starts: Mapping[int, Future[Any]], timeout_s: float) -> set[int]:
    """The leaders that tell. For one that does not answer librdkafka gives -1001, and no
    exception."""
    answered = set()
    for leader, future in starts.items():
        with contextlib.suppress(KafkaException, TimeoutError):
            if future.result(timeout_s + FUTURE_GRACE_S).offset >= 0:
                answered.add(leader)
    return answered


def _topic_id(future: Any, timeout_s: float) -> str | Failure:
    """librdkafka prints ids in base64's standard alphabet, Kafka in the URL-safe one."""
    try:
        topic_id = str(future.result(timeout_s + FUTURE_GRACE_S).topic_id)
    except (KafkaException, TimeoutError) as error:
        return failure_of_error(error)
    if not topic_id.strip("A"):
        return Failure("NO_TOPIC_ID", "the cluster gives no topic ids")
    return topic_id.translate(str.maketrans("+/", "-_"))


def request(
    admin: AdminClient,
    offsets: Mapping[TopicPartition, int],
    timeout_s: float,
    refuse: Callable[[], DeleteFailure | None] = lambda: None,
) -> DeleteAnswers:
    """The low watermark of each partition, or why there is none.

    ``timeout_s``: how long a leader may wait for its followers. The offsets go out as they are;
    ``refuse`` says, right before librdkafka gets them, why it may not.
    """
    if not offsets:
        return {}
    wanted = [ConfluentPartition(*partition, offset) for partition, offset in offsets.items()]
    if (refusal := refuse()) is not None:
        return dict.fromkeys(offsets, refusal)
    futures = admin.delete_records(
        wanted,
        request_timeout=timeout_s + NETWORK_GRACE_S,
        operation_timeout=timeout_s,
    )
    answers: DeleteAnswers = {}
    for key, future in futures.items():
        try:
            low_watermark: int = future.result(timeout_s + FUTURE_GRACE_S).low_watermark
            answers[TopicPartition(key.topic, key.partition)] = low_watermark
        except (KafkaException, TimeoutError) as error:
            failed = failure_of_deletion(error)
            message = SENTENCES.get(failed.failure.code, failed.failure.message)
            failure = replace(failed.failure, message=message)
            answers[TopicPartition(key.topic, key.partition)] = replace(
                failed, failure=with_topic_grant(failure, key.topic, "Delete")
            )
    return answers


SENTENCES = {
    "OFFSET_OUT_OF_RANGE": "the offset is beyond the high watermark",
    "POLICY_VIOLATION": "the topic's cleanup.policy has no delete",
    "INVALID_TOPIC_EXCEPTION": "the broker deletes nothing from a topic like this",
}
"""What a refusal of DeleteRecords means."""


def offsets_of(targets: Mapping[TopicPartition, Target]) -> dict[TopicPartition, int]:
    """The offsets as Kafka wants them: here alone a high watermark becomes its -1.

    Raises ValueError for a negative offset.
    """
    offsets: dict[TopicPartition, int] = {}
    for at, target in targets.items():
        if target is OffsetBound.HIGH_WATERMARK:
            offsets[at] = KAFKAS_HIGH_WATERMARK
        elif target < 0:
            raise ValueError(f"refusing to delete {at} up to {target}")
        else:
            offsets[at] = target
    return offsets
