"""What the brokers' disks hold, put together by partition, and read beside the cycle."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from retentiond.errors import RetentiondError
from retentiond.kafka.interface import LogDir, LogDirs, Replica
from retentiond.model import Failure, TopicPartition


class ReplicaFolder(NamedTuple):
    """A partition's folder on one broker; its figures are those of `kafka.interface.Replica`."""

    broker: int
    log_dir: str
    size_bytes: int
    offset_lag: int | None
    is_future: bool


Folders: TypeAlias = "tuple[ReplicaFolder, ...]"


class Orphans(NamedTuple):
    """The partition folders in a log directory that no metadata account for."""

    broker: int
    log_dir: str
    partitions: int
    size_bytes: int


class LogDirCapacity(NamedTuple):
    """Of the disk that a log directory lies on, in bytes; Kafka tells it from 3.3 on."""

    broker: int
    log_dir: str
    total_bytes: int
    usable_bytes: int


@dataclass(frozen=True, slots=True)
class DiskReading:
    """One look at all disks.

    - ``folders``: of the partitions asked about, wherever a broker shows one.
    - ``unreadable``: partitions of which a broker that is to hold one could not be read.
    - ``orphans``: one for each log directory that was read, sorted by broker and directory.
    - ``log_bytes``: of all that lies in the log directories of all brokers; None where one of
      them could not be read.
    - ``space``: of each log directory where it is told, sorted by broker and directory.
    - ``problems``: what could not be read, a sentence each.
    """

    folders: Mapping[TopicPartition, Folders] = field(default_factory=dict)
    unreadable: frozenset[TopicPartition] = frozenset()
    orphans: tuple[Orphans, ...] = ()
    log_bytes: int | None = None
    space: tuple[LogDirCapacity, ...] = ()
    problems: tuple[str, ...] = ()

    def replicas(self, at: TopicPartition) -> Folders | None:
        """The folders in use, on every broker that is to hold one; None where one is not known."""
        if at in self.unreadable:
            return None
        return tuple(each for each in self.folders.get(at, ()) if not each.is_future) or None

    def log_dirs(self) -> Mapping[TopicPartition, tuple[tuple[int, str], ...]]:
        """The broker and the path of each replica in use, sorted; partitions of which one is not
        known are absent."""
        return {
            at: tuple(sorted((each.broker, each.log_dir) for each in replicas))
            for at in self.folders
            if (replicas := self.replicas(at)) is not None
        }

    def size_of(self, replica: ReplicaKey) -> int | None:
        """Of one replica in use; None where it is not there, or not known."""
        found = self.replicas(replica.at) or ()
        return next((each.size_bytes for each in found if each[:2] == replica[1:]), None)

    def size_bytes(self, at: TopicPartition) -> int | None:
        """Of all replicas together, future ones too: they take their place as well."""
        known = self.replicas(at) is not None
        return sum(each.size_bytes for each in self.folders[at]) if known else None


NOTHING_READ = DiskReading()


def no_disk_reading(failure: Failure) -> DiskReading:
    """Where no broker could be asked."""
    return DiskReading(problems=(f"the brokers' disks can't be read: {failure}",))


def disk_reading(found: LogDirs, partitions: Collection[TopicPartition]) -> DiskReading:
    """The reading of those partitions, and of all orphans."""
    wanted = set(partitions)
    folders: defaultdict[TopicPartition, list[ReplicaFolder]] = defaultdict(list)
    orphans: list[Orphans] = []
    space: list[LogDirCapacity] = []
    problems: list[str] = []
    log_bytes = 0
    for broker, answer in sorted(found.brokers.items()):
        if isinstance(answer, Failure):
            problems.append(f"the disks of broker {broker} can't be read: {answer}")
            continue
        for directory in sorted(answer, key=lambda each: each.path):
            if directory.failure:
                problems.append(f"{directory.path} of broker {broker}: {directory.failure}")
                continue
            for replica in directory.replicas:
                log_bytes += replica.size_bytes
                at = TopicPartition(replica.topic, replica.partition)
                if at in wanted and not replica.is_orphan:
                    folders[at].append(_folder(broker, directory, replica))
            orphans.append(_orphans(broker, directory))
            if directory.total_bytes is not None and directory.usable_bytes is not None:
                space.append(
                    LogDirCapacity(
                        broker, directory.path, directory.total_bytes, directory.usable_bytes
                    )
                )
    return DiskReading(
        folders={at: tuple(each) for at, each in folders.items()},
        unreadable=frozenset(
            at for at in wanted if not _is_complete(found.assigned.get(at), folders.get(at, ()))
        ),
        orphans=tuple(orphans),
        log_bytes=None if problems else log_bytes,
        space=tuple(space),
        problems=tuple(problems),
    )


def _folder(broker: int, directory: LogDir, replica: Replica) -> ReplicaFolder:
    return ReplicaFolder(
        broker, directory.path, replica.size_bytes, replica.offset_lag, replica.is_future
    )


def _orphans(broker: int, directory: LogDir) -> Orphans:
    sizes = [replica.size_bytes for replica in directory.replicas if replica.is_orphan]
    return Orphans(broker, directory.path, len(sizes), sum(sizes))


def _is_complete(assigned: Collection[int] | None, found: Sequence[ReplicaFolder]) -> bool:
    if not assigned:
        return False
    return set(assigned) <= {each.broker for each in found if not each.is_future}


class ReplicaKey(NamedTuple):
    """A partition's folder: the broker's id, and the log directory that it lies in."""

    at: TopicPartition
    broker: int
    log_dir: str


PATIENCE_S = 1.0
"""How long a cycle that has sent its last request still waits for the disks."""

LATE = Failure("REQUEST_TIMED_OUT", "a broker has not answered yet; the next cycle asks again")


class DiskReader:
    """At most one reading is under way: one that a silent broker holds up is not joined by more."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._thread: threading.Thread | None = None
        self._found: LogDirs | Failure = LATE
        self._is_old = False  # what is under way was begun for an earlier cycle

    def begin(self, read: Callable[[], LogDirs]) -> None:
        """Starts a reading; nothing, while an earlier one has not ended."""
        self._is_old = self._thread is not None and self._thread.is_alive()
        if self._is_old:
            return
        self._found = LATE
        self._thread = threading.Thread(
            target=self._read, args=(read,), name="read-disks", daemon=True
        )
        self._thread.start()

    def result(self) -> LogDirs | Failure:
        """What was found, if it comes within the patience."""
        if self._thread is None or self._is_old:
            return LATE
        self._thread.join(self._patience_s)
        return self._found

    def _read(self, read: Callable[[], LogDirs]) -> None:
        try:
            self._found = read()
        except RetentiondError as error:
            self._found = Failure(type(error).__name__, str(error))
        except Exception as error:  # noqa: BLE001 - whatever it was, the disks are not known
            self._found = Failure(type(error).__name__, str(error) or "the reading failed")
