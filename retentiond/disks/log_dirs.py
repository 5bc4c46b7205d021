"""The brokers' answers about their log directories, arranged by partition. A thread reads them
beside the cycle."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from retentiond.background import in_background
from retentiond.fields import BYTES, NUMBER, PARTITIONS, TEXT, described, said
from retentiond.kafka.interface import LogDirs
from retentiond.model import Failure, TopicPartition


class ReplicaFolder(NamedTuple):
    """A partition's folder on one broker; `kafka.interface.Replica` explains the figures."""

    broker: int
    log_dir: str
    size_bytes: int
    is_future: bool


Folders: TypeAlias = "tuple[ReplicaFolder, ...]"


@described
class Orphans:
    """The orphan partitions in a log directory."""

    broker: int = said(NUMBER, "the broker's id")
    log_dir: str = said(TEXT, "the log directory's path")
    partitions: int = said(
        PARTITIONS,
        "orphan partitions in a broker's log directory: the cluster's metadata do not assign them "
        "to the broker",
        metric="retentiond_orphan_log_partitions",
    )
    size_bytes: int = said(
        BYTES,
        "bytes of the orphan partitions in a broker's log directory",
        metric="retentiond_orphan_log_partition_size_bytes",
    )


LogDirKey: TypeAlias = tuple[int, str]
"""A broker's id, and the path of a log directory."""


@described
class LogDirCapacity:
    """Size and usable space of a log directory's disk. Brokers tell them from Kafka 3.3 on."""

    broker: int = said(NUMBER, "the broker's id")
    log_dir: str = said(TEXT, "the log directory's path")
    total_bytes: int = said(
        BYTES,
        "size of the disk that a log directory lies on; absent before Kafka 3.3 (KIP-827)",
        metric="retentiond_log_dir_total_bytes",
    )
    usable_bytes: int = said(
        BYTES,
        "bytes that the broker may still write on the disk of a log directory; absent before Kafka "
        "3.3 (KIP-827)",
        metric="retentiond_log_dir_usable_bytes",
    )

    @property
    def key(self) -> LogDirKey:
        return self.broker, self.log_dir

    @property
    def usable_share(self) -> float:
        """From 0 to 1, if the figures are plausible."""
        return self.usable_bytes / max(1, self.total_bytes)

    @property
    def left(self) -> str:
        """``14%``"""
        return f"{100 * self.usable_share:.3g}%"

    @property
    def is_plausible(self) -> bool:
        return 0 <= self.usable_bytes <= self.total_bytes and self.total_bytes > 0


@dataclass(frozen=True, slots=True)
class DiskReading:
    """One reading of all disks.

    - ``folders``: the folders of the requested partitions, on every broker that reports one.
    - ``unreadable``: partitions with a replica whose folder no broker reported.
    - ``orphans``: one entry for each log directory that was read, by broker and directory.
    - ``log_bytes``: the size of all folders in the log directories of all brokers; None if a
      directory could not be read.
    - ``topic_bytes``: the size of each topic's folders; None like ``log_bytes``.
    - ``space``: one entry for each log directory whose broker tells it, by broker and directory.
    - ``problems``: a sentence for each broker or directory that could not be read.
    """

    folders: Mapping[TopicPartition, Folders] = field(default_factory=dict)
    unreadable: frozenset[TopicPartition] = frozenset()
    orphans: tuple[Orphans, ...] = ()
    log_bytes: int | None = None
    topic_bytes: Mapping[str, int] | None = None
    space: tuple[LogDirCapacity, ...] = ()
    problems: tuple[str, ...] = ()

    def replicas(self, at: TopicPartition) -> Folders | None:
        """Without future ones; None if the folder of one replica is not known."""
        if at in self.unreadable:
            return None
        return tuple(folder for folder in self.folders.get(at, ()) if not folder.is_future) or None

    def log_dirs(self) -> Mapping[TopicPartition, tuple[LogDirKey, ...]]:
        """Of each replica in use, sorted; partitions of which one is not known are absent."""
        return {
            at: tuple(sorted((replica.broker, replica.log_dir) for replica in replicas))
            for at in self.folders
            if (replicas := self.replicas(at)) is not None
        }

    def size_of(self, replica: ReplicaKey) -> int | None:
        """None if it is not in that directory, or not known."""
        folders = self.replicas(replica.at) or ()
        return next((folder.size_bytes for folder in folders if folder[:2] == replica[1:]), None)

    def size_bytes(self, at: TopicPartition) -> int | None:
        """The size of all the partition's folders, future ones included: they take space too."""
        is_known = self.replicas(at) is not None
        return sum(folder.size_bytes for folder in self.folders[at]) if is_known else None


def no_disk_reading(failure: Failure) -> DiskReading:
    return DiskReading(problems=(f"the brokers' disks can't be read: {failure}",))


def disk_reading(disks: LogDirs, partitions: Collection[TopicPartition]) -> DiskReading:
    """The folders of these partitions, and all orphans."""
    wanted = set(partitions)
    folders: defaultdict[TopicPartition, list[ReplicaFolder]] = defaultdict(list)
    orphans: list[Orphans] = []
    space: list[LogDirCapacity] = []
    unseen = sorted({node for to in disks.assigned.values() for node in to} - disks.brokers.keys())
    problems = [f"the disks of broker {node} can't be read: it is not there" for node in unseen]
    topic_bytes: Counter[str] = Counter()
    for broker, answer in sorted(disks.brokers.items()):
        if isinstance(answer, Failure):
            problems.append(f"the disks of broker {broker} can't be read: {answer}")
            continue
        for directory in sorted(answer, key=lambda log_dir: log_dir.path):
            if directory.failure:
                problems.append(f"{directory.path} of broker {broker}: {directory.failure}")
                continue
            for replica in directory.replicas:
                topic_bytes[replica.topic] += replica.size_bytes
                at = TopicPartition(replica.topic, replica.partition)
                if at in wanted and not replica.is_orphan:
                    folders[at].append(
                        ReplicaFolder(broker, directory.path, replica.size_bytes, replica.is_future)
                    )
            sizes = [copy.size_bytes for copy in directory.replicas if copy.is_orphan]
            orphans.append(Orphans(broker, directory.path, len(sizes), sum(sizes)))
            if directory.total_bytes is not None and directory.usable_bytes is not None:
                space.append(
                    LogDirCapacity(
                        broker, directory.path, directory.total_bytes, directory.usable_bytes
                    )
                )
    return DiskReading(
        folders={at: tuple(found_at) for at, found_at in folders.items()},
        unreadable=frozenset(
            at for at in wanted if not _is_complete(disks.assigned.get(at), folders.get(at, ()))
        ),
        orphans=tuple(orphans),
        log_bytes=None if problems else topic_bytes.total(),
        topic_bytes=None if problems else topic_bytes,
        space=tuple(space),
        problems=tuple(problems),
    )


def _is_complete(assigned: Collection[int] | None, folders: Sequence[ReplicaFolder]) -> bool:
    if not assigned:
        return False
    return set(assigned) <= {folder.broker for folder in folders if not folder.is_future}


class ReplicaKey(NamedTuple):
    at: TopicPartition
    broker: int
    log_dir: str


MAX_WAIT_S = 1.0
"""After a cycle's last request."""

MAX_END_S = 1.0
"""For a reading that is told not to wait for more brokers."""

LATE = Failure("REQUEST_TIMED_OUT", "no broker has answered yet; the next cycle asks again")

ReadLogDirs: TypeAlias = "Callable[[Callable[[], bool]], LogDirs]"
"""Asks all brokers, and waits for no more of them once the callable that it gets returns true."""


class DiskReader:
    """Reads the disks in a thread. At most one reading is under way, so readings don't pile up
    behind brokers that don't answer."""

    def __init__(self, max_wait_s: float = MAX_WAIT_S, max_end_s: float = MAX_END_S) -> None:
        self._max_wait_s, self._max_end_s = max_wait_s, max_end_s
        self._reading: Future[LogDirs | Failure] | None = None
        self._give_up = threading.Event()
        self._result: LogDirs | Failure | None = LATE

    def begin(self, read: ReadLogDirs) -> None:
        """Starts a reading, unless an earlier one has not ended."""
        if self._reading is not None and not self._reading.done():
            self._result = LATE
            return
        self._result, self._give_up = None, threading.Event()
        give_up = self._give_up.is_set
        self._reading = in_background(lambda: _read(read, give_up), "read-disks")

    def result(self) -> LogDirs | Failure:
        """What the brokers have answered after ``max_wait_s`` at most; the same for the whole
        cycle, whatever is answered later."""
        if self._result is None and self._reading is not None:
            wait([self._reading], self._max_wait_s)
            self._give_up.set()
            wait([self._reading], self._max_end_s)
            self._result = self._reading.result() if self._reading.done() else LATE
        return self._result or LATE


def _read(read: ReadLogDirs, give_up: Callable[[], bool]) -> LogDirs | Failure:
    try:
        return read(give_up)
    except Exception as error:  # noqa: BLE001 - any error means that the disks are not known
        return Failure(type(error).__name__, str(error) or "the reading failed")
