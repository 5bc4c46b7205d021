"""librdkafka's client, which deletes. Everything that is read, kafka-python reads."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from retentiond.errors import KafkaUnavailable, release_frames
from retentiond.kafka.cluster_identity import ClusterIdentity
from retentiond.kafka.confluent import delete_records as deletions
from retentiond.kafka.confluent.admin import explained, new_client
from retentiond.kafka.confluent.delete_records import LOOK_TIMEOUT_S, Deleter
from retentiond.kafka.interface import DeleteAnswer, Target
from retentiond.kafka.settings.oauth import TokenSource
from retentiond.kafka.settings.properties import ClientSettings
from retentiond.kafka.settings.tls import FileStamps, file_stamps
from retentiond.model import Failure, TopicPartition

T = TypeVar("T")

METADATA_TIMEOUT_S = 10.0
"""How long to try to reach any broker: librdkafka goes on trying for all of its time-out."""

KEEP_READY_S = 60.0
"""How long after its last use the client that deletes serves again: for the slices of one cycle."""

DELETE_TIMEOUT_S = 5.0
"""How long a leader may wait for its followers; a deletion that takes longer is read back."""


class LibrdkafkaClient:
    """One AdminClient at a time, for the requests of a cycle.

    Any call may raise `KafkaUnavailable`. Deletions are one thread's at a time.
    """

    def __init__(
        self,
        settings: ClientSettings,
        identity: ClusterIdentity,
        find_brokers: Callable[[], object],
    ) -> None:
        """``identity``: the cluster's, as kafka-python's clients have learnt it; ``find_brokers``
        has one of them learn where the brokers are. Raises `ConfigError` for a value that
        librdkafka refuses."""
        self._settings = settings
        self._identity = identity
        self._find_brokers = find_brokers
        self._timeout = settings.request_timeout_s
        self._tokens = TokenSource(settings.oauth) if settings.oauth else None
        self._deleter: Deleter | None = None
        self._made_of: tuple[str, FileStamps] = ("", ())  # the addresses, and certificates
        self._used_at = -math.inf
        self._has_looked = False
        self.gap_s = 0.0
        """How long the last request took from the look's answer until it was handed over."""
        with contextlib.suppress(KafkaUnavailable):
            new_client(settings, self._tokens)

    def close(self) -> None:
        """librdkafka ends a client that nobody refers to."""
        self._deleter = None

    def look_before_deleting(
        self,
        partitions: Collection[TopicPartition],
        prove: Callable[[], Callable[[], Collection[int]]] | None = None,
    ) -> Mapping[str, str | Failure]:
        """``prove`` has brokers prove their cluster to another client; what it returns waits for
        those that have. No other broker gets a request."""
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
        """Where it fails, the next look says why."""
        with contextlib.suppress(KafkaUnavailable):
            self._connect(partitions)

    def _is_ready(self) -> bool:
        """Whether there is a client of today's addresses and certificates that has connected a
        moment ago."""
        return (
            self._deleter is not None
            and self._made_of == self._wanted()
            and time.monotonic() - self._used_at < KEEP_READY_S
        )

    def _wanted(self) -> tuple[str, FileStamps]:
        return self._identity.servers, file_stamps(self._settings)

    def _connect(self, partitions: Collection[TopicPartition]) -> None:
        timeout_s = min(self._timeout, METADATA_TIMEOUT_S)
        if not self._is_ready():
            self._deleter, self._has_looked = None, False  # a newer client has looked nothing up
            if not self._identity.servers:
                self._find_brokers()
            self._made_of = self._wanted()
            self._deleter = self._new_deleter(timeout_s)
        self._through_deleter(lambda deleter: deleter.get_ready(partitions, timeout_s))

    def _new_deleter(self, timeout_s: float) -> Deleter:
        servers, _ = self._made_of
        confluent = {**self._settings.confluent, "bootstrap.servers": servers}
        settings = replace(self._settings, confluent=confluent, bootstrap_servers=servers)
        began = time.monotonic()
        client = new_client(settings, self._tokens)
        try:
            with explained(settings):
                listed = client.list_topics(timeout=timeout_s)
            self._identity.check(listed.cluster_id)
        except BaseException as error:
            release_frames(error)  # which hold the client: librdkafka's have no other end
            del client
            raise
        return Deleter(client, settings, self._identity, time.monotonic() - began)

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
        """Raises ValueError for a negative offset."""
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
