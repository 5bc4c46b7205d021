"""Log directories that run full: which are under pressure, and how much is to go there.

Kafka tells the total and the usable bytes of a directory's disk (KIP-827, 3.3). Unknown, stale or
contradictory space is no pressure.

Bytes come off late. A broker takes a segment out of its log at its next look after the log start
has passed it, and off the disk ``file.delete.delay.ms`` after that. Both are on their way, and
count as free: what earlier deletions are to free, and what has left the logs and not the disk.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar

from retentiond.config.disk_pressure import DiskPressure
from retentiond.disks.freed import FreedProgress
from retentiond.disks.log_dirs import DiskReading, LogDirCapacity, ReplicaKey
from retentiond.disks.predictions import Predictions
from retentiond.formatting import MINUTE_MS
from retentiond.kafka.interface import LogDirs
from retentiond.model import Failure, TopicPartition
from retentiond.snapshot import Snapshot, partitions_of

SAME_DISK = 0.001
"""Directories of one broker lie on one disk if its size is the same and its usable bytes differ by
less than this part of it: the broker reads them one after the other, while others write."""

REMOVED_WINDOW_MS = 10 * MINUTE_MS
"""For how long what has left a log may still be on the disk; Kafka's default is a minute."""

LogDirKey: TypeAlias = "tuple[int, str]"
"""A broker's id, and the path of a log directory."""


class PressedLogDir(NamedTuple):
    """A log directory under pressure, in bytes. ``until_bytes``: with so much usable space it is
    under pressure no more. ``awaited_bytes``: what is on its way off the disk."""

    broker: int
    log_dir: str
    total_bytes: int
    usable_bytes: int
    until_bytes: int
    awaited_bytes: int = 0

    @property
    def key(self) -> LogDirKey:
        return self.broker, self.log_dir

    @property
    def needed_bytes(self) -> int:
        """What is to go beside what is on its way; never negative."""
        return max(0, self.until_bytes - self.usable_bytes - self.awaited_bytes)


class LogDirRelief(NamedTuple):
    """What a plan does for a log directory under pressure, in bytes.

    ``planned_bytes``: what its deletions free there. ``short_bytes``: what is needed beyond, and
    may not go. ``kept_bytes``: by the group that binds, about what nobody deletes there before it
    has read on, the most first. ``sizes``: of the plan's partitions, what each has there.
    """

    log_dir: PressedLogDir
    planned_bytes: int
    short_bytes: int
    kept_bytes: Mapping[str, int]
    sizes: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Pressure:
    """Which log directories are under pressure, and what lies there.

    - ``log_dirs``: those under pressure, sorted by broker and directory.
    - ``remembered``: the same, and those under pressure when their space was last known.
    - ``reading``: the disks, where each replica counts that is known, whatever is not.
    - ``awaited_bytes``: by replica, what earlier deletions are to free.
    - ``eager``: the cycle's snapshot with the pressure retention in force wherever that could help;
      None: nowhere.
    """

    log_dirs: tuple[PressedLogDir, ...] = ()
    remembered: frozenset[LogDirKey] = frozenset()
    reading: DiskReading = field(default_factory=DiskReading)
    awaited_bytes: Mapping[ReplicaKey, int] = field(default_factory=dict)
    eager: Snapshot | None = None

    def partitions(self, snapshot: Snapshot) -> list[int]:
        """Positions of those with a replica in a log directory under pressure."""
        if not self.log_dirs:
            return []
        pressed = {each.key for each in self.log_dirs}
        return [
            position
            for position, at in enumerate(partitions_of(snapshot))
            if any(
                (folder.broker, folder.log_dir) in pressed
                for folder in self.reading.folders.get(at, ())
                if not folder.is_future
            )
        ]


NO_PRESSURE = Pressure()


def pressure(
    reading: DiskReading,
    rules: DiskPressure,
    before: Collection[LogDirKey],
    followed: FreedProgress,
    removed: Mapping[LogDirKey, int],
) -> Pressure:
    """What a reading of this cycle says. ``before``: `Pressure.remembered` of the cycle before;
    ``followed``: what has become of earlier deletions, by this reading; ``removed``: of
    `RemovedSegments`."""
    awaited: defaultdict[LogDirKey, int] = defaultdict(int, removed)
    for replica, awaited_bytes in followed.awaited_bytes.items():
        awaited[replica.broker, replica.log_dir] += awaited_bytes
    known = [each for each in reading.space if _is_plausible(each)]
    pressed = tuple(
        PressedLogDir(*each, int(each.total_bytes * rules.until_free / 100), awaited[each[:2]])
        for each in known
        if each.usable_bytes
        < each.total_bytes * (rules.until_free if each[:2] in before else rules.below_free) / 100
    )
    unknown = set(before) - {each[:2] for each in known}
    return Pressure(
        pressed,
        frozenset(unknown | {each.key for each in pressed}),
        # A replica whose other brokers can't be read takes its place here all the same.
        DiskReading(folders=reading.folders),
        followed.awaited_bytes,
    )


def _is_plausible(space: LogDirCapacity) -> bool:
    return 0 <= space.usable_bytes <= space.total_bytes and space.total_bytes > 0


def bytes_by_log_dir(
    predictions: Predictions, partitions: Iterable[TopicPartition]
) -> dict[LogDirKey, int]:
    """What the predicted deletions of these partitions free together."""
    freed: defaultdict[LogDirKey, int] = defaultdict(int)
    for at in partitions:
        for replica, predicted_bytes in predictions.get(at, {}).items():
            freed[replica.broker, replica.log_dir] += predicted_bytes
    return freed


SomeLogDir = TypeVar("SomeLogDir", PressedLogDir, LogDirCapacity)


def disks(log_dirs: Iterable[SomeLogDir]) -> list[list[SomeLogDir]]:
    """The log directories, those of one disk together."""
    found: list[list[SomeLogDir]] = []
    for each in log_dirs:
        for disk in found:
            first = disk[0]
            apart = abs(first.usable_bytes - each.usable_bytes)
            if (first.broker, first.total_bytes) == (each.broker, each.total_bytes) and (
                apart <= SAME_DISK * first.total_bytes
            ):
                disk.append(each)
                break
        else:
            found.append([each])
    return found


FolderKey: TypeAlias = "tuple[str, int, bool]"
"""Topic, partition, and whether it is to take another's place."""

SizesByLogDir: TypeAlias = "Mapping[LogDirKey, Mapping[FolderKey, int]]"


def sizes_by_log_dir(found: LogDirs) -> SizesByLogDir:
    """Bytes of each folder in the directories that could be read."""
    return {
        (broker, log_dir.path): {
            (each.topic, each.partition, each.is_future): each.size_bytes
            for each in log_dir.replicas
        }
        for broker, answer in found.brokers.items()
        if not isinstance(answer, Failure)
        for log_dir in answer
        if log_dir.failure is None
    }


class _Seen(NamedTuple):
    """``beside_bytes``: what the disk holds beside the logs; ``left_bytes``: what has left the logs
    since the reading before."""

    at_ms: int
    beside_bytes: int
    left_bytes: int


class RemovedSegments:
    """What has left the logs, and not the disk yet, by the readings of one process.

    A segment that a broker removes is renamed first, and no longer counts in its log's size. Until
    it is gone, the disk holds that much more beside the logs than it did lately. That is taken for
    removed segments as far as the logs have shrunk; other files may have grown.
    """

    def __init__(self) -> None:
        self._sizes: SizesByLogDir = {}
        self._seen: dict[tuple[LogDirKey, ...], list[_Seen]] = {}

    def bytes_by_log_dir(
        self, space: Sequence[LogDirCapacity], sizes: SizesByLogDir, now_ms: int
    ) -> dict[LogDirKey, int]:
        """With what this reading adds; of several directories on a disk the first one has it.
        ``now_ms``: on a clock that nobody sets."""
        found: dict[LogDirKey, int] = {}
        for disk in disks(each for each in space if _is_plausible(each)):
            keys = tuple(each[:2] for each in disk)
            in_logs = sum(sum(sizes[key].values()) for key in keys)
            used = disk[0].total_bytes - disk[0].usable_bytes
            left = sum(self._left(key, sizes[key]) for key in keys)
            lately = [
                each
                for each in self._seen.get(keys, [])
                if each.at_ms >= now_ms - REMOVED_WINDOW_MS
            ]
            lately.append(_Seen(now_ms, used - in_logs, left))
            beside = used - in_logs - min(each.beside_bytes for each in lately)
            found[keys[0]] = min(beside, sum(each.left_bytes for each in lately))
            self._seen[keys] = lately
        self._sizes = sizes
        return found

    def _left(self, key: LogDirKey, sizes: Mapping[FolderKey, int]) -> int:
        """A folder that is gone, of a deleted topic for one, has left with all it had."""
        before = self._sizes.get(key, {})
        return sum(max(0, size - sizes.get(folder, 0)) for folder, size in before.items())
