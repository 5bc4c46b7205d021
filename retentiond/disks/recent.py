"""The log directories in the readings of the last ten minutes: what has left the logs and not the
disk.

A broker renames a segment before it deletes the file, and then no longer counts it in the log's
size. Until the file is gone, the bytes outside the logs are that much higher than they were. They
count as removed segments only as far as the logs have lost bytes, because other files may have
grown. A log that is written to at the same time loses more than it shrinks. Once they have come
free they don't count again, whatever else fills the disk then.

The readings are stored, so that a restart, or another command, does not take these bytes for bytes
that must still be deleted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_low
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar, get_args

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from retentiond.clock import Uptime
from retentiond.disks.log_dirs import LogDirCapacity, LogDirKey, ReplicaKey
from retentiond.formatting import MINUTE_MS
from retentiond.kafka.interface import LogDirs
from retentiond.model import Failure

SAME_DISK = 1e-5
"""The usable bytes of two directories on one disk differ by at most this part of the disk. The
broker looks at one right after the other, so only what is written in between makes a difference."""

WINDOW_MS = 10 * MINUTE_MS
"""For how long a removed segment may still be on the disk. Kafka's default is a minute."""


class _AsPairs:
    """Stores a mapping as a list of pairs, because a key of JSON is a text."""

    def __get_pydantic_core_schema__(
        self, mapping: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        pairs = handler.generate_schema(list[tuple[get_args(mapping)]])  # type: ignore[misc]  # known at run time only
        stored = core_schema.plain_serializer_function_ser_schema(
            lambda mapping: list(mapping.items()), return_schema=pairs
        )
        return core_schema.no_info_after_validator_function(dict, pairs, serialization=stored)


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

StoredMapping: TypeAlias = Annotated[Mapping[_Key, _Value], _AsPairs()]
"""A mapping whose keys are tuples, and which is stored."""

NOTHING_FREED: Mapping[ReplicaKey, int] = {}

FolderKey: TypeAlias = tuple[str, int, bool]
"""Topic, partition, and whether the replica is a future one."""

SizesByLogDir: TypeAlias = StoredMapping[LogDirKey, StoredMapping[FolderKey, int]]


def sizes_by_log_dir(disks: LogDirs) -> SizesByLogDir:
    """Of the directories that could be read."""
    return {
        (broker, log_dir.path): {
            (replica.topic, replica.partition, replica.is_future): replica.size_bytes
            for replica in log_dir.replicas
        }
        for broker, answer in disks.brokers.items()
        if not isinstance(answer, Failure)
        for log_dir in answer
        if log_dir.failure is None
    }


class LogDirUse(NamedTuple):
    """A log directory in one reading. ``at_ms``: uptime. ``log_bytes``: the size of its logs.
    ``shrunk_bytes``: what has left the logs since the previous reading."""

    at_ms: int
    total_bytes: int
    usable_bytes: int
    log_bytes: int
    shrunk_bytes: int


@dataclass(frozen=True, slots=True)
class RecentDisks:
    """The directories whose space was told in the last ten minutes before the last reading.
    ``uses``: their readings, the oldest first. ``sizes``: of folders, in the last reading of each.
    """

    boot_id: str = ""
    uses: StoredMapping[LogDirKey, Sequence[LogDirUse]] = field(default_factory=dict)
    sizes: SizesByLogDir = field(default_factory=dict)

    def with_reading(
        self,
        space: Sequence[LogDirCapacity],
        sizes: SizesByLogDir,
        now: Uptime,
        freed: Mapping[ReplicaKey, int] = NOTHING_FREED,
    ) -> RecentDisks:
        """The recent readings with one more. Earlier ones of another boot can't be dated, so they
        are left out. ``freed``: what this reading found freed, by `FreedProgress`."""
        oldest_ms = now.ms - WINDOW_MS
        uses: dict[LogDirKey, Sequence[LogDirUse]] = {}
        for key, earlier in self.uses.items() if self.boot_id == now.boot_id else ():
            if recent := [use for use in earlier if oldest_ms <= use.at_ms <= now.ms]:
                uses[key] = recent
        last_sizes = {key: self.sizes.get(key, {}) for key in uses}
        freed_in: defaultdict[LogDirKey, dict[FolderKey, int]] = defaultdict(dict)
        for replica, freed_bytes in freed.items():
            freed_in[replica.broker, replica.log_dir][(*replica.at, False)] = freed_bytes
        for log_dir in space:
            if not log_dir.is_plausible:
                continue
            key = log_dir.key
            use = LogDirUse(
                now.ms,
                log_dir.total_bytes,
                log_dir.usable_bytes,
                sum(sizes[key].values()),
                # A folder that is gone (its topic was deleted, say) counts with its whole size.
                sum(
                    max(size - sizes[key].get(folder, 0), freed_in[key].get(folder, 0))
                    for folder, size in last_sizes.get(key, {}).items()
                ),
            )
            uses[key] = [*uses.get(key, ()), use]
            last_sizes[key] = sizes[key]
        return RecentDisks(now.boot_id, uses, last_sizes)

    def disks(self) -> Mapping[LogDirKey, Sequence[LogDirKey]]:
        """The directories of the last reading, by the first directory on their disk."""
        last_ms = max((uses[-1].at_ms for uses in self.uses.values()), default=0)
        disks: dict[LogDirKey, list[LogDirKey]] = {}
        for key in sorted(key for key, uses in self.uses.items() if uses[-1].at_ms == last_ms):
            same = (first for first in disks if self._are_on_one_disk(first, key))
            disks.setdefault(next(same, key), []).append(key)
        return disks

    def removed_bytes(self, disk: Collection[LogDirKey]) -> int:
        """What has left the logs and not the disk. ``disk``: its directories, of `disks`.

        A reading can only add what has left the logs since the one before. So a file that appears
        after the segments are gone does not count. One that appears before does, for as long as the
        window lasts: it looks like a segment that is still there. To count too much delays relief,
        and to count too little deletes records that could have stayed.
        """
        removed_bytes, lowest = 0, None
        for uses in self._together(disk):
            on_disk = uses[0].total_bytes - uses[0].usable_bytes
            others = on_disk - sum(use.log_bytes for use in uses)  # not in a log
            lowest = others if lowest is None else min(lowest, others)
            removed_bytes += sum(use.shrunk_bytes for use in uses)
            removed_bytes = min(removed_bytes, others - lowest)
        return removed_bytes

    def _are_on_one_disk(self, one: LogDirKey, other: LogDirKey) -> bool:
        """Whether two directories look as if they were on one disk, in most of the readings.

        One reading can be wrong: two disks can be equally full for a moment, and a slow broker can
        look at the same disk at two times. If as many readings say so as not, it is one disk. To
        take two disks for one delays relief; to take one for two deletes up to twice as much.
        """
        if one[0] != other[0]:
            return False
        together = self._together((one, other))
        if any(first.total_bytes != second.total_bytes for first, second in together):
            return False
        differences = [abs(first.usable_bytes - second.usable_bytes) for first, second in together]
        return median_low(differences) <= SAME_DISK * together[-1][0].total_bytes

    def _together(self, keys: Collection[LogDirKey]) -> list[tuple[LogDirUse, ...]]:
        """The readings that have all of these directories. The last one does."""
        uses = [self.uses[key] for key in keys]
        times = set.intersection(*({use.at_ms for use in of_one} for of_one in uses))
        common = [[use for use in of_one if use.at_ms in times] for of_one in uses]
        return list(zip(*common, strict=False))
