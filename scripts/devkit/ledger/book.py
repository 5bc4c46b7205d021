"""The book into which producers and consumers enter what they did: the ledger itself.

It judges nothing, but for one thing that can be told at once: an offset of a partition carries
one record, whoever tells of it. Times are epoch milliseconds by the host's clock, which is the
daemon's, too.
"""

import threading
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from devkit.ledger.marks import Marks, Times
from devkit.ledger.scenario import Partition

Reading = tuple[str, Partition]
"""A group and a partition that it reads."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit was asked for at ``sent_ms``, and answered or given up at ``ended_ms``.

    Where it is not ``acknowledged``, it may still have been done.
    """

    offset: int
    sent_ms: float
    ended_ms: float
    acknowledged: bool


@dataclass(frozen=True, slots=True)
class Skip:
    """A consumer that stood at ``start`` got the record at ``end`` next."""

    group: str
    partition: Partition
    start: int
    end: int
    at_ms: float


@dataclass(frozen=True, slots=True)
class Reset:
    """A consumer asked for ``offset``, was told that it is out of range, and went on at
    ``log_start``."""

    group: str
    partition: Partition
    offset: int
    log_start: int
    at_ms: float


class Book:
    """Written to by many threads; read once they have ended, except where it says otherwise."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sequences: defaultdict[Partition, array[int]] = defaultdict(lambda: array("q"))
        self.owed: defaultdict[Partition, Marks] = defaultdict(Marks)
        self.seen: defaultdict[Reading, Marks] = defaultdict(Marks)
        self.shared: defaultdict[Reading, Times] = defaultdict(Times)
        self.commits: defaultdict[Reading, list[Commit]] = defaultdict(list)
        self.skips: list[Skip] = []
        self.resets: list[Reset] = []
        self.contradictions: list[str] = []
        self.counts: Counter[str] = Counter()

    def wrote(self, partition: Partition, offset: int, sequence: int) -> None:
        """A record is at that offset; in a transaction, whatever becomes of that."""
        with self._lock:
            self._identify(partition, offset, sequence)

    def owes(self, partition: Partition, offsets: Iterable[int]) -> None:
        """They are acknowledged, and their transaction committed: all consumers must see them."""
        with self._lock:
            for offset in offsets:
                self.owed[partition].add(offset)
                self.counts["records written"] += 1

    def saw(self, group: str, partition: Partition, offset: int, sequence: int | None) -> None:
        """The group was given that record. What one was given, all others are owed."""
        with self._lock:
            self._saw(group, partition, offset, sequence)

    def shares(
        self, group: str, partition: Partition, offset: int, sequence: int | None, at_ms: float
    ) -> None:
        """The same of a share group, which has acknowledged it after ``at_ms``, if at all."""
        with self._lock:
            self._saw(group, partition, offset, sequence)
            self.shared[group, partition].note(offset, at_ms)

    def committed(self, group: str, commits: Iterable[tuple[Partition, Commit]]) -> None:
        """In any order: each member is heard on its own."""
        with self._lock:
            for partition, commit in commits:
                self.commits[group, partition].append(commit)
                self.counts["commits"] += 1

    def skipped(self, skip: Skip) -> None:
        """Markers and aborted records lie in between, or else something is lost."""
        with self._lock:
            self.skips.append(skip)

    def was_reset(self, reset: Reset) -> None:
        with self._lock:
            self.resets.append(reset)

    def count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def position(self, group: str, partition: Partition) -> int | None:
        """The last offset whose commit was acknowledged. At any time."""
        with self._lock:
            acknowledged = [each for each in self.commits[group, partition] if each.acknowledged]
            return max(acknowledged, key=lambda each: each.sent_ms).offset if acknowledged else None

    def end(self, partition: Partition) -> int:
        """One past the last record that is owed. At any time."""
        with self._lock:
            return self.owed[partition].end

    def unshared(self, group: str, partition: Partition) -> int:
        """Owed records that the group has not seen. At any time."""
        with self._lock:
            size = self.owed[partition].end
            owed, seen = self.owed[partition].flags(size), self.seen[group, partition].flags(size)
            return int((owed & ~seen).sum())

    def _saw(self, group: str, partition: Partition, offset: int, sequence: int | None) -> None:
        self._identify(partition, offset, sequence)
        self.seen[group, partition].add(offset)
        self.owed[partition].add(offset)
        self.counts["records delivered"] += 1

    def _identify(self, partition: Partition, offset: int, sequence: int | None) -> None:
        known = self._sequences[partition]
        if offset >= len(known):
            known.extend([0] * (offset + 1 - len(known) + 4096))
        if sequence is None or known[offset] not in (0, sequence):
            self.contradictions.append(
                f"{partition[0]}-{partition[1]}: offset {offset} carries record {sequence}, "
                f"and carried {known[offset]} before"
            )
        else:
            known[offset] = sequence
