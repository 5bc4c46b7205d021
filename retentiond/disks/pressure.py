"""Log directories that are nearly full: which are under pressure, and how many bytes to free there.

Brokers tell the total and the usable bytes of a directory's disk (KIP-827, Kafka 3.3). Unknown,
outdated or contradictory figures are no pressure.

The disk frees up late. A broker removes a segment from its log at the next retention check after
the log start offset has passed the segment, and from the disk ``file.delete.delay.ms`` later. The
bytes of both steps count as free already: those that earlier deletions are expected to free, and
those that have left the logs and not the disk.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from retentiond.config.disks import DiskPressure
from retentiond.disks.freed import FreedProgress
from retentiond.disks.log_dirs import DiskReading, LogDirCapacity, LogDirKey, ReplicaKey
from retentiond.disks.predictions import Predictions
from retentiond.disks.recent import RecentDisks
from retentiond.fields import BYTES, BYTES_BY_NAME, described, inlined, said
from retentiond.model import PlanRow, Reason, TopicPartition
from retentiond.snapshot import Snapshot, partitions_of


@described
class PressedLogDir(LogDirCapacity):
    """A log directory under pressure. ``disk``: the first directory on the same disk; None if it is
    the only one."""

    until_bytes: int = said(BYTES, "the usable bytes at which its pressure ends")
    awaited_bytes: int = said(BYTES, "what the broker is about to free on its disk", default=0)
    disk: str | None = None

    @property
    def disk_key(self) -> LogDirKey:
        """The same for all directories on the disk."""
        return self.broker, self.log_dir if self.disk is None else self.disk

    @property
    def needed_bytes(self) -> int:
        """What must be freed in addition to the awaited bytes; never negative."""
        return max(0, self.until_bytes - self.usable_bytes - self.awaited_bytes)


def say_log_dir(log_dir: PressedLogDir) -> str:
    """``/data/2 of broker 1 has 14% left``"""
    share = 100 * log_dir.usable_bytes / log_dir.total_bytes
    return f"{log_dir.log_dir} of broker {log_dir.broker} has {share:.3g}% left"


@described
class LogDirRelief:
    """What a plan does for a log directory under pressure, in bytes.

    - ``sizes``: what each of the plan's partitions takes there.
    - ``waiting_bytes``: what else can be deleted on its disk, and waits for the end of a pause or
      for a limit.
    - ``eager_rows``: the rows of the partitions there by the pressure retention, if it could help.
    - ``delayed``: what keeps deletions on its disk from being done now: a pause, a limit, or both.
    """

    log_dir: PressedLogDir = inlined(PressedLogDir)
    planned_bytes: int = said(
        BYTES,
        "log directory under pressure: bytes that the plan's deletions free on its disk, by "
        "estimate",
        metric="retentiond_log_dir_planned_bytes",
    )
    short_bytes: int = said(
        BYTES,
        "log directory under pressure: bytes that are missing after the plan's deletions, because "
        "nothing more can be deleted. 0: the plan frees enough, or will once a pause ends or a "
        "limit allows it",
        metric="retentiond_log_dir_short_bytes",
    )
    kept_bytes: Mapping[str, int] = said(
        BYTES_BY_NAME, "by group, about what it keeps there until it has read on; the most first"
    )
    sizes: Mapping[TopicPartition, int]
    waiting_bytes: int = 0
    eager_rows: Mapping[TopicPartition, PlanRow] = field(default_factory=dict)
    delayed: frozenset[Reason] = frozenset()


@dataclass(frozen=True, slots=True)
class Pressure:
    """Which log directories are under pressure, and what lies there.

    - ``log_dirs``: sorted by broker and directory.
    - ``remembered``: the same directories, and those of unknown space that were under pressure
      when their space was last known.
    - ``reading``: the disks. A known replica counts even if another one is not known.
    - ``awaited_bytes``: by replica, what earlier deletions are expected to free.
    - ``recent``: the readings of the last minutes, with this one; None if the disks are not known.
    - ``eager``: the cycle's snapshot with the pressure retention wherever that could help; None if
      it could help nowhere.
    - ``problem``: why this cycle's reading does not count; None if it does.
    """

    log_dirs: tuple[PressedLogDir, ...] = ()
    remembered: frozenset[LogDirKey] = frozenset()
    reading: DiskReading = field(default_factory=DiskReading)
    awaited_bytes: Mapping[ReplicaKey, int] = field(default_factory=dict)
    recent: RecentDisks | None = None
    eager: Snapshot | None = None
    problem: str | None = None

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
    recent: RecentDisks | None = None,
) -> Pressure:
    """``before``: `Pressure.remembered` of the previous cycle. ``followed``: earlier deletions,
    compared with this reading. ``recent``: see `Pressure`."""
    disks = {} if recent is None else recent.disks()
    disk_of = {key: first for first, keys in disks.items() for key in keys}
    awaited: defaultdict[LogDirKey, int] = defaultdict(int)
    if recent is not None:
        awaited.update({first: recent.removed_bytes(keys) for first, keys in disks.items()})
    for replica, awaited_bytes in followed.awaited_bytes.items():
        key = (replica.broker, replica.log_dir)
        awaited[disk_of.get(key, key)] += awaited_bytes
    pressed_disks = {disk_of.get(key, key) for key in before}
    plausible = [log_dir for log_dir in reading.space if log_dir.is_plausible]
    pressed = []
    for log_dir in plausible:
        disk = disk_of.get(log_dir.key, log_dir.key)
        line = rules.until_free if disk in pressed_disks else rules.below_free
        if log_dir.usable_bytes < log_dir.total_bytes * line / 100:
            until_bytes = math.ceil(log_dir.total_bytes * rules.until_free / 100)
            space = (*log_dir.key, log_dir.total_bytes, log_dir.usable_bytes)
            pressed.append(PressedLogDir(*space, until_bytes, awaited[disk], disk[1]))
    unknown = set(before) - {log_dir.key for log_dir in plausible}
    return Pressure(
        tuple(pressed),
        frozenset(unknown | {log_dir.key for log_dir in pressed}),
        # Without `unreadable`: a replica takes its space even if another replica is not known.
        DiskReading(folders=reading.folders),
        followed.awaited_bytes,
        recent,
    )


def bytes_by_log_dir(predictions: Predictions) -> dict[LogDirKey, int]:
    """The bytes that the predicted deletions free in each log directory."""
    freed: defaultdict[LogDirKey, int] = defaultdict(int)
    for by_replica in predictions.values():
        for replica, predicted_bytes in by_replica.items():
            freed[replica.broker, replica.log_dir] += predicted_bytes
    return freed


def bytes_by_disk(
    log_dirs: Iterable[PressedLogDir], by_log_dir: Mapping[LogDirKey, int]
) -> dict[LogDirKey, int]:
    """By `PressedLogDir.disk_key`, the bytes in the directories under pressure on that disk."""
    on_disk: defaultdict[LogDirKey, int] = defaultdict(int)
    for log_dir in log_dirs:
        on_disk[log_dir.disk_key] += by_log_dir.get(log_dir.key, 0)
    return on_disk
