"""What a consumer group has seen of a topic, and whether anything was missing.

Invariant: a group sees every record of a partition exactly once and in order, over all the
lives of its consumer. As the producer numbers the records of a partition from 0 (and no
transaction puts markers between them), the record at an offset must carry that number.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from devkit.demo.record import describe, encode


class FaultKind(StrEnum):
    GAP = "gap"  # records were left out
    REPETITION = "repetition"  # a record came again
    RESET = "reset"  # the next record to read is no longer there
    WRONG_RECORD = "wrong record"  # an offset carries another record than was written there
    DELETED_UNREAD = "deleted unread"  # the broker has deleted what was not read


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that a consumer must never see."""

    kind: FaultKind
    group: str
    topic: str
    partition: int
    sentence: str

    def __str__(self) -> str:
        return f"{self.kind}: group {self.group}, {self.topic}-{self.partition}: {self.sentence}"


class Ledger:
    """One group's account of one topic. Kept by the group's consumer, read by all."""

    def __init__(self, group: str, topic: str, partitions: int) -> None:
        self.group = group
        self.topic = topic
        self.faults: list[Fault] = []
        self._next = dict.fromkeys(range(partitions), 0)
        self._log_starts = dict.fromkeys(range(partitions), 0)

    @property
    def next_offsets(self) -> Mapping[int, int]:
        """By partition, the offset that must come next; all below have been seen."""
        return dict(self._next)

    @property
    def records(self) -> int:
        """Seen so far, on all partitions."""
        return sum(self._next.values())

    def see(self, partition: int, offset: int, value: bytes | None) -> None:
        """Enter a record that the consumer got."""
        expected = self._next[partition]
        if offset > expected:
            self._fault(
                FaultKind.GAP,
                partition,
                f"{offset - expected} records are missing, offsets {expected} to {offset - 1}",
            )
        elif offset < expected:
            sentence = f"offset {offset} came again, when {expected} was next"
            self._fault(FaultKind.REPETITION, partition, sentence)
        if value != encode(self.topic, partition, offset):
            sentence = f"offset {offset} carries {describe(value)}"
            self._fault(FaultKind.WRONG_RECORD, partition, sentence)
        self._next[partition] = max(expected, offset + 1)

    def reset(self, partition: int, said: str) -> None:
        """Enter that the broker no longer has the next record; ``said`` is the client's error."""
        sentence = f"offset {self._next[partition]} could not be read ({said})"
        self._fault(FaultKind.RESET, partition, sentence)

    def begins_at(self, partition: int, log_start: int) -> None:
        """Enter that the partition now begins there.

        A consumer may have fetched records ahead that are deleted before it looks at them: then
        it sees no gap, although it would have, had it been restarted.
        """
        if log_start > max(self._next[partition], self._log_starts[partition]):
            sentence = f"the log begins at {log_start}, and {self._next[partition]} was next"
            self._fault(FaultKind.DELETED_UNREAD, partition, sentence)
        self._log_starts[partition] = log_start

    def _fault(self, kind: FaultKind, partition: int, sentence: str) -> None:
        self.faults.append(Fault(kind, self.group, self.topic, partition, sentence))
