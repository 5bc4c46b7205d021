"""Whether there is a record between a group's position and the end of the log.

A consumer of transactions that commits "last record + 1" stands before the last commit marker for
ever. On an idle topic Kafka's retention reaches the marker, and nothing is lost: it is no record.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from retentiond.kafka.interface import NOT_ANSWERED, Kafka
from retentiond.model import Failure, TopicPartition

LONGEST = 1_000
"""Offsets of a tail that is worth a look. A longer one has records."""

MOST_ASKED = 200
"""Partitions in a round. The next cycle goes on."""

ROUNDS = 3


class Tail(NamedTuple):
    """What a log has from a position up to its end."""

    topic_id: str | None
    at: TopicPartition
    offset: int
    end: int


class Tails:
    """Remembers what it has found, as long as it is asked about."""

    def __init__(self) -> None:
        self._known: dict[Tail, int | Failure | None] = {}

    def without_record(self, kafka: Kafka, wanted: Collection[Tail]) -> frozenset[Tail]:
        """Those with nothing to read. One that can't be read has records. Raises
        `KafkaUnavailable`."""
        shortest_first = sorted(set(wanted), key=lambda tail: tail.end - tail.offset)
        self._known = {tail: self._known[tail] for tail in shortest_first if tail in self._known}
        for _ in range(ROUNDS):
            asked: dict[TopicPartition, Tail] = {}
            for tail in shortest_first:
                if tail not in self._known and len(asked) < MOST_ASKED:
                    asked.setdefault(tail.at, tail)
            if not asked:
                break
            answers = kafka.next_records({at: tail.offset for at, tail in asked.items()})
            for tail in shortest_first:
                if tail.at in asked and tail.offset <= asked[tail.at].offset:
                    answer = answers.get(tail.at, NOT_ANSWERED)
                    if answer is not None or tail == asked[tail.at]:
                        self._known.setdefault(tail, answer)
        return frozenset(tail for tail, answer in self._known.items() if answer is None)
