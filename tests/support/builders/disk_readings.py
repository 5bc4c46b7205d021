"""Readings of disks, in a few words."""

from __future__ import annotations

from collections.abc import Mapping

from retentiond.disks.log_dirs import DiskReading, ReplicaFolder, ReplicaKey
from retentiond.model import TopicPartition

AT = TopicPartition("orders", 0)
SEGMENT = 1000


def reading(sizes: Mapping[int, int], *, future: Mapping[int, int] | None = None) -> DiskReading:
    """Of `AT`: sizes by broker, in the directory /a of each; ``future`` ones lie in /b."""
    folders = [ReplicaFolder(broker, "/a", size, 0, False) for broker, size in sizes.items()]
    folders += [
        ReplicaFolder(broker, "/b", size, 5, True) for broker, size in (future or {}).items()
    ]
    return DiskReading({AT: tuple(folders)})


def replica(broker: int = 1, log_dir: str = "/a") -> ReplicaKey:
    return ReplicaKey(AT, broker, log_dir)
