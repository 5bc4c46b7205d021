"""What librdkafka does here: the listing of topics, and DeleteRecords.

kafka-python makes an object of each partition of the cluster in a listing. And it takes longer to
load, with what reads commits and offsets, than all else that `retentiond delete-records` does with
a file of offsets: by the daemon's path that command took 1.4 s of the processor, and Kafka's own
tool 0.8 s. So that command has topics described here, too. All look-ups of offsets are
kafka-python's.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import Any, TypeVar

from confluent_kafka import KafkaException, TopicCollection

from retentiond.errors import KafkaUnavailable, release_frames
from retentiond.kafka.cluster_identity import ClusterIdentity
from retentiond.kafka.confluent import admin
from retentiond.kafka.confluent import delete_records as deletions
from retentiond.kafka.confluent.admin import Admin
from retentiond.kafka.confluent.delete_records import (
    FUTURE_GRACE_S,
    LOOK_TIMEOUT_S,
    Deleter,
    url_safe,
)
from retentiond.kafka.errors.remedies import with_topic_grant
from retentiond.kafka.interface import INTERNAL_TOPICS, DeleteAnswer, Target, TopicDescription
from retentiond.kafka.settings.properties import ClientSettings
from retentiond.model import Failure, TopicPartition

T = TypeVar("T")

METADATA_TIMEOUT_S = 10.0
"""How long to try to reach any broker: librdkafka goes on trying for all of its time-out."""

FIRST_TRY_S = 1.0
"""When a client that all brokers refuse gives up; librdkafka itself never would."""

RETRY_IF_REFUSED_S = 2.0
"""How long to go on if all brokers have refused until then: one may just be starting."""

ERROR_POLL_S = 0.1
"""How often it is looked at what librdkafka says of its connections."""

KEEP_READY_S = 60.0
"""How long after its last use the client that deletes serves again: for the slices of one cycle."""

DELETE_TIMEOUT_S = 5.0
"""How long a leader may wait for its followers; a deletion that takes longer is read back."""


class LibrdkafkaClient:
    """One long-lived AdminClient that lists, thread-safe, and one for the requests of a cycle.

    Any call may raise `KafkaUnavailable`. Deletions are one thread's at a time.
    """

    def __init__(self, settings: ClientSettings) -> None:
        """Raises `ConfigError` for a value that librdkafka refuses."""
        self.identity = ClusterIdentity(settings.words.servers)
        self._timeout = settings.request_timeout_s
        self._admin = Admin(settings)
        self._deleter: Deleter | None = None
        self._made_of = ""  # the addresses
        self._used_at = -math.inf
        self._has_looked = False
        self.gap_s = 0.0
        """How long the last request took from the look's answer until it was handed over."""

    def close(self) -> None:
        """librdkafka ends a client that nobody refers to."""
        self._deleter = None
        self._admin.close()

    def topic_names(self) -> frozenset[str]:
        """All visible topics."""
        listed = self._listed(self._admin)
        brokers = [(node, str(broker.host), broker.port) for node, broker in listed.brokers.items()]
        self.identity.learn(listed.cluster_id, brokers)
        return frozenset(listed.topics)

    def _listed(self, client: Admin) -> Any:
        timeout = min(self._timeout, METADATA_TIMEOUT_S)
        with client.explaining():
            try:
                return client.client().list_topics(timeout=min(FIRST_TRY_S, timeout))
            except KafkaException as error:
                client.raise_if_final(admin.failure_of_error(error))
            try:
                return client.client().list_topics(
                    timeout=min(RETRY_IF_REFUSED_S, timeout) if client.is_refused else timeout
                )
            except KafkaException as error:
                raise client.unavailable(admin.failure_of_error(error)) from error

    def describe_topics(self, names: Collection[str]) -> Mapping[str, TopicDescription | Failure]:
        """As in the interface. Raises `KafkaUnavailable` where librdkafka could ask about none."""
        if not names:
            return {}
        with self._admin.explaining():
            futures = self._admin.client().describe_topics(
                TopicCollection(list(names)), request_timeout=self._timeout
            )
            found = {name: self._described(name, future) for name, future in futures.items()}
            unasked = [
                each
                for each in found.values()
                if isinstance(each, Failure) and each.code[0] == "_"  # librdkafka's own codes
            ]
            if len(unasked) == len(found):
                raise self._admin.unavailable(unasked[0])
        return found

    def _described(self, name: str, future: Future[Any]) -> TopicDescription | Failure:
        give_up_at = time.monotonic() + self._timeout + FUTURE_GRACE_S
        while not wait_for([future], ERROR_POLL_S).done and time.monotonic() < give_up_at:
            self._admin.raise_if_final("no broker lets this client in")
        try:
            described = future.result(0)
        except (KafkaException, TimeoutError) as error:
            return with_topic_grant(admin.failure_of_error(error), name, "Describe")
        return TopicDescription(
            name=described.name,
            topic_id=url_safe(described.topic_id),
            is_internal=described.is_internal or described.name in INTERNAL_TOPICS,
            partitions=tuple(sorted(partition.id for partition in described.partitions)),
        )

    def look_before_deleting(
        self,
        partitions: Collection[TopicPartition],
        prove: Callable[[], Callable[[], Collection[int]]] | None = None,
    ) -> Mapping[str, str | Failure]:
        """The topics' ids, through the client that the next request goes out by. ``prove`` has
        brokers prove their cluster to another client; what it returns waits for those that have. No
        other broker gets a request."""
        self._has_looked = False
        if not self._is_ready():
            self._connect(partitions)
        proven = None if prove is None else prove()
        ids = self._through_deleter(
            lambda deleter: deleter.look(partitions, min(self._timeout, LOOK_TIMEOUT_S), proven)
        )
        self._has_looked = True
        return ids

    def get_ready(self, partitions: Collection[TopicPartition]) -> None:
        """Connects the client that deletes. Where that fails, the next look says why."""
        with contextlib.suppress(KafkaUnavailable):
            self._connect(partitions)

    def _is_ready(self) -> bool:
        """Whether there is a client of today's addresses that has connected a moment ago."""
        return (
            self._deleter is not None
            and self._made_of == self.identity.servers
            and time.monotonic() - self._used_at < KEEP_READY_S
        )

    def _connect(self, partitions: Collection[TopicPartition]) -> None:
        if not self._is_ready():
            self._deleter = None
            if not self.identity.servers:
                self.topic_names()
            self._made_of = self.identity.servers
            self._deleter = self._new_deleter(self._admin.of_servers(self._made_of))
        timeout_s = min(self._timeout, METADATA_TIMEOUT_S)
        self._through_deleter(lambda deleter: deleter.get_ready(partitions, timeout_s))

    def _new_deleter(self, its_admin: Admin) -> Deleter:
        began = time.monotonic()
        try:
            self.identity.check(self._listed(its_admin).cluster_id)
        except BaseException as error:
            release_frames(error)  # which hold the client: librdkafka's have no other end
            del its_admin
            raise
        return Deleter(its_admin, self.identity, time.monotonic() - began)

    def _through_deleter(self, ask: Callable[[Deleter], T]) -> T:
        if self._deleter is None:
            raise KafkaUnavailable("the client that deletes is closed")
        try:
            answer = ask(self._deleter)
        except BaseException as error:
            self._deleter = None
            release_frames(error)  # as above
            raise
        self._used_at = time.monotonic()
        return answer

    def delete_records(
        self, cutoffs: Mapping[TopicPartition, int], *, not_after: float = math.inf
    ) -> Mapping[TopicPartition, DeleteAnswer]:
        """Raises ValueError for an offset that isn't positive: -1 would mean "everything"."""
        for partition, cutoff in cutoffs.items():
            if cutoff <= 0:
                raise ValueError(f"refusing to delete {partition} up to {cutoff}")
        return self._delete(cutoffs, DELETE_TIMEOUT_S, not_after)

    def delete_up_to(
        self, targets: Mapping[TopicPartition, Target], timeout_s: float
    ) -> Mapping[TopicPartition, DeleteAnswer]:
        """DeleteRecords as an operator words it: also everything, and offset 0.

        Raises ValueError for a negative offset.
        """
        return self._delete(deletions.offsets_of(targets), timeout_s)

    def _delete(
        self,
        offsets: Mapping[TopicPartition, int],
        timeout_s: float,
        not_after: float = math.inf,
    ) -> Mapping[TopicPartition, DeleteAnswer]:
        """Deletes through the client of the last look; without one, it looks first."""
        if not offsets:
            return {}
        if not self._has_looked:
            self.look_before_deleting(list(offsets))
        self._has_looked = False

        def request(deleter: Deleter) -> Mapping[TopicPartition, DeleteAnswer]:
            answers = deleter.request(offsets, timeout_s, not_after)
            self.gap_s = deleter.gap_s
            return answers

        return self._through_deleter(request)
