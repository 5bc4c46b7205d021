"""The book into which producers and consumers of one cluster enter what they did: the ledger.

It knows a topic by its name and its *incarnation*, 0 and up: a topic that was deleted and created
again is another one. Where a record is, is known when it was sent and acknowledged within the
same incarnation. Times are epoch milliseconds by the bench's own clock.
"""

import threading
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from devkit.ledger.record import now_ms
from devkit.ledger.scenario import Partition
from devkit.ledger.shown import FOREVER, Shown

Log = tuple[str, int, int]
"""Topic, incarnation, partition number."""

Reading = tuple[str, Partition]
"""A group and a partition that it reads."""


@dataclass(slots=True)
class Incarnation:
    """From when its creation was asked for until its deletion was."""

    topic_id: str
    since_ms: float
    until_ms: float = FOREVER


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
class Begin:
    """A member went to ``offset``; what lies below was given up by the group's own will where it
    says so."""

    offset: int
    gave_up: bool
    at_ms: float


@dataclass(frozen=True, slots=True)
class Loss:
    """A consumer stood at ``start``, and the next that it found is at ``end``.

    ``reset``: it was told that ``start`` is out of range.
    """

    group: str
    partition: Partition
    start: int
    end: int
    at_ms: float
    reset: bool = False


@dataclass(frozen=True, slots=True)
class Own:
    """What a reader keeps by itself: the next offset, and its last record's timestamp."""

    incarnation: int
    offset: int
    timestamp_ms: int


class Records:
    """The records of one log that are known to be there, and whether they are owed."""

    def __init__(self) -> None:
        self.offsets = array("q")
        self.sequences = array("q")

    @property
    def end(self) -> int:
        """One past the greatest offset."""
        return max(self.offsets[-200:], default=-1) + 1  # all but sorted: answers overtake


class Book:
    """Written to by many threads; read once they have ended, except where it says otherwise.

    ``all_known``: every reader counts as shown from its first commit on.
    """

    def __init__(self, *, all_known: bool = False) -> None:
        self._lock = threading.RLock()
        self._all_known = all_known
        self._carried: defaultdict[Log, dict[int, int]] = defaultdict(dict)
        self._logs: dict[int, Log] = {}  # by sequence
        self._owed: set[int] = set()
        self.topics: defaultdict[str, list[Incarnation]] = defaultdict(list)
        self.owed: defaultdict[Log, Records] = defaultdict(Records)
        self.given: defaultdict[Reading, array[int]] = defaultdict(lambda: array("q"))
        self.own: dict[Reading, Own] = {}
        self.commits: defaultdict[Reading, list[Commit]] = defaultdict(list)
        self.begins: defaultdict[Reading, list[Begin]] = defaultdict(list)
        self.shown = Shown()
        self.share_groups: set[str] = set()
        self.forgotten: set[str] = set()
        self.losses: list[Loss] = []
        self.contradictions: list[str] = []
        self.counts: Counter[str] = Counter()

    # Topics

    def created(self, topic: str, topic_id: str, since_ms: float) -> None:
        with self._lock:
            self.topics[topic].append(Incarnation(topic_id, since_ms))

    def deleting(self, topic: str) -> None:
        """It is about to be asked for; nobody knows what is where until it is ``created``."""
        with self._lock:
            self.topics[topic][-1].until_ms = now_ms()

    def living(self, topic: str) -> int | None:
        """The incarnation there is now, for certain. At any time."""
        return self.incarnation(topic, now_ms())

    def incarnation(self, topic: str, at_ms: float) -> int | None:
        """The one there was at that time, for certain. At any time."""
        lives = self.topics[topic]
        number = bisect_right([each.since_ms for each in lives], at_ms) - 1
        return number if number >= 0 and at_ms < lives[number].until_ms else None

    # Producers

    def wrote(self, log: Log, offset: int, sequence: int, *, owed: bool = True) -> None:
        """It is there, for certain. ``owed``: consumers must see it."""
        with self._lock:
            self._identify(log, offset, sequence)
            if owed:
                self._owe(log, offset, sequence)

    def owes(self, log: Log, offset: int, sequence: int) -> None:
        with self._lock:
            self._owe(log, offset, sequence)

    # Consumers

    def saw(
        self, group: str, partition: Partition, offset: int, sequence: int | None, stamp_ms: int
    ) -> None:
        """The group was given that record. What one was given, all others are owed."""
        with self._lock:
            self.counts["records delivered"] += 1
            if sequence is None:
                self.contradictions.append(f"{partition}: no record of the bench at {offset}")
                return
            log = self._logs.get(sequence)
            if log is None and len(self.topics[partition[0]]) == 1:
                log = (partition[0], 0, partition[1])
            if log is not None:
                self._identify(log, offset, sequence)
                self._owe(log, offset, sequence)
                self.own[group, partition] = Own(log[1], offset + 1, stamp_ms)
            self.given[group, partition].append(sequence)

    def began(self, group: str, partition: Partition, begin: Begin) -> None:
        with self._lock:
            self.begins[group, partition].append(begin)

    def moved(self, group: str, partition: Partition, offset: int) -> None:
        """Back, by its own will."""
        with self._lock:
            own = self.own.get((group, partition))
            if own is not None:
                self.own[group, partition] = Own(own.incarnation, offset, own.timestamp_ms)

    def committed(self, group: str, commits: Iterable[tuple[Partition, Commit]]) -> None:
        """In any order: each member is heard on its own."""
        with self._lock:
            for partition, commit in commits:
                self.commits[group, partition].append(commit)
                self.counts["commits"] += 1

    def lost(self, loss: Loss) -> None:
        with self._lock:
            self.losses.append(loss)

    def forget(self, group: str) -> None:
        """An operator has let go of it."""
        with self._lock:
            self.forgotten.add(group)

    def count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def shown_since(self, group: str, topic: str) -> float | None:
        """Since when the daemon has seen it as a reader of the topic. At any time."""
        if self._all_known or group in self.share_groups:
            return 0.0
        with self._lock:
            commits = [
                each
                for (name, partition), made in self.commits.items()
                if name == group and partition[0] == topic
                for each in made
                if each.acknowledged
            ]
            visible = []
            for life in self.topics[topic]:  # a commit stays for as long as the topic does
                since = [each.ended_ms for each in commits if life.since_ms <= each.sent_ms]
                visible.append((min(since, default=FOREVER), life.until_ms))
            return self.shown.since(group, topic, visible)

    # What can be asked at any time

    def position(self, group: str, partition: Partition) -> int | None:
        """The last offset whose commit on the living topic was acknowledged."""
        with self._lock:
            since = self.topics[partition[0]][-1].since_ms
            made = [
                each
                for each in self.commits[group, partition][-50:]
                if each.acknowledged and each.sent_ms >= since
            ]
            return max(made, key=lambda each: each.sent_ms).offset if made else None

    def end(self, partition: Partition) -> int:
        """One past the last record that is owed, of the living topic."""
        with self._lock:
            topic, number = partition
            return self.owed[topic, len(self.topics[topic]) - 1, number].end

    def own_positions(self, group: str) -> dict[Partition, Own]:
        """On the living topics, without those that are not sure."""
        with self._lock:
            return {
                partition: own
                for (name, partition), own in self.own.items()
                if name == group and own.incarnation == self.living(partition[0])
            }

    def _owe(self, log: Log, offset: int, sequence: int) -> None:
        if sequence in self._owed:
            return
        self._owed.add(sequence)
        self.owed[log].offsets.append(offset)
        self.owed[log].sequences.append(sequence)
        self.counts["records written"] += 1

    def _identify(self, log: Log, offset: int, sequence: int) -> None:
        self._logs[sequence] = log
        carried = self._carried[log].setdefault(offset, sequence)
        if carried != sequence:
            self.contradictions.append(
                f"{log[0]}-{log[2]}: offset {offset} carries record {sequence}, "
                f"and carried {carried} before"
            )
