"""What a cycle says of the disks, beside its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from retentiond.disk.reading import Orphans
from retentiond.disk.stuck import Stuck
from retentiond.model import TopicPartition


@dataclass(frozen=True, slots=True)
class DiskReport:
    """Whatever is not known is absent.

    - ``size_bytes``: of each partition on all its replicas.
    - ``freed_bytes``: by topic, what earlier deletions turned out to have freed since the last
      cycle.
    - ``stuck``: partitions whose retention stands still, in a plan's order.
    - ``orphans``: one for each log directory that was read.
    - ``log_bytes``: of all logs in the cluster, Kafka's own too.
    - ``problems``: what could not be read or written, a sentence each.
    """

    size_bytes: Mapping[TopicPartition, int] = field(default_factory=dict)
    freed_bytes: Mapping[str, int] = field(default_factory=dict)
    stuck: tuple[Stuck, ...] = ()
    orphans: tuple[Orphans, ...] = ()
    log_bytes: int | None = None
    problems: tuple[str, ...] = ()

    def stuck_at(self, at: TopicPartition) -> tuple[Stuck, ...]:
        """Each cause once, as far as there is one."""
        return tuple(each for each in self.stuck if each.at == at)


NO_DISKS = DiskReport()
