"""How a replica on a disk is named."""

from __future__ import annotations

from typing import NamedTuple

from retentiond.model import TopicPartition


class ReplicaKey(NamedTuple):
    """A partition's folder: the broker's id, and the log directory that it lies in."""

    at: TopicPartition
    broker: int
    log_dir: str
