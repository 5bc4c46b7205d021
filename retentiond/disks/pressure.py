"""Log directories that run full: which are under pressure, and how many bytes must go there.

Brokers tell the total and the usable bytes of a directory's disk (KIP-827, Kafka 3.3). Unknown,
outdated or contradictory figures are no pressure.

The disk frees up late. A broker removes a segment from its log at the next retention check after
the log start offset has passed the segment, and from the disk ``file.delete.delay.ms`` later. The
bytes of both steps count as free already: those that earlier deletions are expected to free, and
those that have left the logs and not the disk.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar

from retentiond.config.disk_pressure import DiskPressure
from retentiond.disks.freed import FreedProgress
from retentiond.disks.log_dirs import DiskReading, LogDirCapacity, ReplicaKey
from retentiond.disks.predictions import Predictions
from retentiond.formatting import MINUTE_MS
from retentiond.kafka.interface import LogDirs
from retentiond.model import Failure, PlanRow, Reason, TopicPartition
from retentiond.snapshot import Snapshot, partitions_of

SAME_DISK = 0.001
"""Two directories of a broker lie on one disk if their disks have the same size and their usable
bytes differ by less than this part of it. The broker reads one after the other, so the figures can
differ a little."""

REMOVED_WINDOW_MS = 10 * MINUTE_MS
"""For how long a removed segment may still be on the disk. Kafka's default is a minute."""

LogDirKey: TypeAlias = "tuple[int, str]"
"""A broker's id, and the path of a log directory."""


class PressedLogDir(NamedTuple):
    """A log directory under pressure, in bytes. ``until_bytes``: the usable bytes at which its
    pressure ends. ``awaited_bytes``: what the broker is about to free."""

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
        """What must go in addition to the awaited bytes; never negative."""
        return max(0, self.until_bytes - self.usable_bytes - self.awaited_bytes)


def say_log_dir(log_dir: PressedLogDir) -> str:
    """``/data/2 of broker 1 has 14% left``"""
    share = 100 * log_dir.usable_bytes / log_dir.total_bytes
    return f"{log_dir.log_dir} of broker {log_dir.broker} has {share:.3g}% left"


class LogDirRelief(NamedTuple):
    """What a plan does for a log directory under pressure, in bytes.

    - ``planned_bytes``: what the plan's deletions free there.
    - ``short_bytes``: what is needed beyond that and may not be deleted.
    - ``kept_bytes``: by group, about what stays there until that group has read on; the largest
      first.
    - ``sizes``: what each of the plan's partitions takes there.
    - ``eager_rows``: the rows of the partitions there by the pressure retention, if it could help.
    - ``delayed``: what keeps deletions there from being done now: a pause, a limit, or both.
    """

    log_dir: PressedLogDir
    planned_bytes: int
    short_bytes: int
    kept_bytes: Mapping[str, int]
    sizes: Mapping[TopicPartition, int]
    eager_rows: Mapping[TopicPartition, PlanRow] = {}
    delayed: frozenset[Reason] = frozenset()


@dataclass(frozen=True, slots=True)
class Pressure:
    """Which log directories are under pressure, and what lies there.

    - ``log_dirs``: the directories under pressure, sorted by broker and directory.
    - ``remembered``: the same directories, and those of unknown space that were under pressure
      when their space was last known.
    - ``reading``: the disks. A known replica counts even if another one is not known.
    - ``awaited_bytes``: by replica, what earlier deletions are expected to free.
    - ``eager``: the cycle's snapshot with the pressure retention wherever that could help; None if
      it could help nowhere.
    """

    log_dirs: tuple[PressedLogDir, ...] = ()
    remembered: frozenset[LogDirKey] = frozenset()
    reading: DiskReading = field(default_factory=DiskReading)
    awaited_bytes: Mapping[ReplicaKey, int] = field(default_factory=dict)
    eager: Snapshot | None = None

    def partitions(self, snapshot: Snapshot) -> list[int]:
        """Positions of the partitions with a replica in a log directory under pressure."""
        if not self.log_dirs:
            return []
        pressed = {log_dir.key for log_dir in self.log_dirs}
        return [
            position
            for position, at in enumerate(partitions_of(snapshot))
            if not pressed.isdisjoint(self._keys_of(at))
        ]

    def log_dirs_of(self, at: TopicPartition) -> list[PressedLogDir]:
        """The log directories under pressure that have a replica of the partition."""
        keys = set(self._keys_of(at))
        return [log_dir for log_dir in self.log_dirs if log_dir.key in keys]

    def _keys_of(self, at: TopicPartition) -> Iterator[LogDirKey]:
        for folder in self.reading.folders.get(at, ()):
            if not folder.is_future:
                yield folder.broker, folder.log_dir


NO_PRESSURE = Pressure()


def pressure(
    reading: DiskReading,
    rules: DiskPressure,
    before: Collection[LogDirKey],
    followed: FreedProgress,
    removed: Mapping[LogDirKey, int],
) -> Pressure:
    """The log directories under pressure by this cycle's reading.

    ``before``: `Pressure.remembered` of the previous cycle. ``followed``: earlier deletions,
    compared with this reading. ``removed``: the result of `RemovedSegments.bytes_by_log_dir`.
    """
    awaited: defaultdict[LogDirKey, int] = defaultdict(int, removed)
    for replica, awaited_bytes in followed.awaited_bytes.items():
        awaited[replica.broker, replica.log_dir] += awaited_bytes
    known = [log_dir for log_dir in reading.space if _is_plausible(log_dir)]
    pressed = tuple(
        PressedLogDir(*each, int(each.total_bytes * rules.until_free / 100), awaited[each[:2]])
        for each in known
        if each.usable_bytes
        < each.total_bytes * (rules.until_free if each[:2] in before else rules.below_free) / 100
    )
    unknown = set(before) - {log_dir[:2] for log_dir in known}
    return Pressure(
        pressed,
        frozenset(unknown | {log_dir.key for log_dir in pressed}),
        # Without `unreadable`: a replica takes its space even if another replica is not known.
        DiskReading(folders=reading.folders),
        followed.awaited_bytes,
    )


def _is_plausible(space: LogDirCapacity) -> bool:
    return 0 <= space.usable_bytes <= space.total_bytes and space.total_bytes > 0


def bytes_by_log_dir(
    predictions: Predictions, partitions: Iterable[TopicPartition]
) -> dict[LogDirKey, int]:
    """The bytes that the predicted deletions of these partitions free in each log directory."""
    freed: defaultdict[LogDirKey, int] = defaultdict(int)
    for at in partitions:
        for replica, predicted_bytes in predictions.get(at, {}).items():
            freed[replica.broker, replica.log_dir] += predicted_bytes
    return freed


SomeLogDir = TypeVar("SomeLogDir", PressedLogDir, LogDirCapacity)


def grouped_by_disk(log_dirs: Iterable[SomeLogDir]) -> list[list[SomeLogDir]]:
    """The log directories, grouped by disk."""
    disks: list[list[SomeLogDir]] = []
    for log_dir in log_dirs:
        for disk in disks:
            first = disk[0]
            difference = abs(first.usable_bytes - log_dir.usable_bytes)
            if (first.broker, first.total_bytes) == (log_dir.broker, log_dir.total_bytes) and (
                difference <= SAME_DISK * first.total_bytes
            ):
                disk.append(log_dir)
                break
        else:
            disks.append([log_dir])
    return disks


FolderKey: TypeAlias = "tuple[str, int, bool]"
"""Topic, partition, and whether the replica is a future one."""

SizesByLogDir: TypeAlias = "Mapping[LogDirKey, Mapping[FolderKey, int]]"


def sizes_by_log_dir(found: LogDirs) -> SizesByLogDir:
    """The size of each folder in the directories that could be read."""
    return {
        (broker, log_dir.path): {
            (replica.topic, replica.partition, replica.is_future): replica.size_bytes
            for replica in log_dir.replicas
        }
        for broker, answer in found.brokers.items()
        if not isinstance(answer, Failure)
        for log_dir in answer
        if log_dir.failure is None
    }


class _DiskUsage(NamedTuple):
    """A disk in one reading. ``other_bytes``: what is on the disk and not in a log.
    ``shrunk_bytes``: what has left the logs since the previous reading."""

    at_ms: int
    other_bytes: int
    shrunk_bytes: int


class RemovedSegments:
    """Bytes that have left the logs and not the disk yet, by the readings of one process.

    A broker renames a segment before it deletes the file, and then no longer counts it in the log's
    size. Until the file is gone, the bytes outside the logs are that much higher than they were
    lately. They count as removed segments only as far as the logs have shrunk, because other files
    may have grown.
    """

    def __init__(self) -> None:
        self._sizes: SizesByLogDir = {}
        self._recent: dict[tuple[LogDirKey, ...], list[_DiskUsage]] = {}

    def bytes_by_log_dir(
        self, space: Sequence[LogDirCapacity], sizes: SizesByLogDir, now_ms: int
    ) -> dict[LogDirKey, int]:
        """Adds this reading and returns the bytes. If a disk has several directories, the first one
        gets them all. ``now_ms`` is monotonic time."""
        removed: dict[LogDirKey, int] = {}
        for disk in grouped_by_disk(log_dir for log_dir in space if _is_plausible(log_dir)):
            keys = tuple(log_dir[:2] for log_dir in disk)
            log_bytes = sum(sum(sizes[key].values()) for key in keys)
            other_bytes = disk[0].total_bytes - disk[0].usable_bytes - log_bytes
            shrunk_bytes = sum(self._shrunk_bytes(key, sizes[key]) for key in keys)
            recent = [
                usage
                for usage in self._recent.get(keys, [])
                if usage.at_ms >= now_ms - REMOVED_WINDOW_MS
            ]
            recent.append(_DiskUsage(now_ms, other_bytes, shrunk_bytes))
            grown_bytes = other_bytes - min(usage.other_bytes for usage in recent)
            removed[keys[0]] = min(grown_bytes, sum(usage.shrunk_bytes for usage in recent))
            self._recent[keys] = recent
        self._sizes = sizes
        return removed

    def _shrunk_bytes(self, key: LogDirKey, sizes: Mapping[FolderKey, int]) -> int:
        """The bytes that have left the directory's folders since the previous reading. A folder
        that is gone (its topic was deleted, say) counts with its whole size."""
        previous = self._sizes.get(key, {})
        return sum(max(0, size - sizes.get(folder, 0)) for folder, size in previous.items())
