"""The demo's records, and what a consumer group has seen of them.

Invariant: a group sees every record of a partition exactly once and in order, over all the
lives of its consumer. As the producer numbers the records of a partition from 0 (and no
transaction puts markers between them), the record at an offset must carry that number.
"""

from collections.abc import Mapping

from devkit.demo.scenario import RECORD_BYTES


def encode(topic: str, partition: int, sequence: int) -> bytes:
    """The value of a partition's record number ``sequence``, counted from 0: `RECORD_BYTES`."""
    return f"{topic}-{partition} #{sequence} ".encode().ljust(RECORD_BYTES, b".")


class Account:
    """One group's account of one topic. Kept by the group's consumer, read by all.

    ``faults``: what a consumer must never see, a sentence each.
    """

    def __init__(self, group: str, topic: str, partitions: int) -> None:
        self.group = group
        self.topic = topic
        self.faults: list[str] = []
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
        if offset != expected:
            self._fault(partition, f"offset {offset} came, when {expected} was next")
        if value != encode(self.topic, partition, offset):
            self._fault(partition, f"offset {offset} carries {(value or b'').rstrip(b'.')[:80]!r}")
        self._next[partition] = max(expected, offset + 1)

    def begins_at(self, partition: int, log_start: int) -> None:
        """Enter that the partition now begins there.

        A consumer may have fetched records ahead that are deleted before it looks at them: then
        it sees no gap, although it would have, had it been restarted.
        """
        if log_start > max(self._next[partition], self._log_starts[partition]):
            self._fault(
                partition, f"the log begins at {log_start}, and {self._next[partition]} was next"
            )
        self._log_starts[partition] = log_start

    def _fault(self, partition: int, sentence: str) -> None:
        self.faults.append(f"group {self.group}, {self.topic}-{partition}: {sentence}")
