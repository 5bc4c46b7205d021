"""A broker's disks as Kafka would leave them, and a cluster that says what a test wants."""

from __future__ import annotations

import struct
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from retentiond.clock import Uptime
from retentiond.kafka.log_dirs import ClusterView, TopicReplicas, TopicReplicasAnswer
from retentiond.model import Failure
from retentiond.tools.orphans.broker_process import identify
from retentiond.tools.orphans.orphan import Orphan, Scan
from retentiond.tools.orphans.remove import AuditedRemovals
from retentiond.tools.orphans.scan import Approve, HostClocks, RemovalTerms, take_look

BROKER = 7

CLUSTER = "Kcluster-of-the-tests"

OLD_ID, NEW_ID = "AAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBB"

HOUR_MS = 3_600_000

DAY_MS = 24 * HOUR_MS

HEX = "0123456789abcdef" * 2


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def batch(timestamp_ms: int, size: int = 100) -> bytes:
    """A batch of records in format 2: its header, and something after it."""
    header = struct.pack(
        ">qiibIhiqqqhii", 0, 49 + size, 0, 2, 0, 0, 0, timestamp_ms, timestamp_ms, -1, -1, -1, 1
    )
    return header + b"r" * size


def time_index(*timestamps_ms: int) -> bytes:
    return b"".join(struct.pack(">qi", each, offset) for offset, each in enumerate(timestamps_ms))


def metadata(topic_id: str) -> str:
    return f"version: 0\ntopic_id: {topic_id}"


class Cluster:
    """``topics``: what every broker answers; a name that is not in it is no topic."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicReplicasAnswer] = {}
        self.live = [BROKER, 8, 9]
        self.registered = [BROKER, 8, 9]
        self.tells_fenced = True
        self.by_broker: dict[int, Mapping[str, TopicReplicasAnswer] | Failure] = {}
        self.cluster_id = CLUSTER
        self.may_describe_cluster = True
        self.retention: int | Failure | None = 7 * DAY_MS
        self.clock: int | Failure | None = None
        self.asked = 0

    def assign(self, topic: str, *brokers: int, topic_id: str = OLD_ID, partition: int = 0) -> None:
        self.topics[topic] = TopicReplicas(topic_id, {partition: frozenset(brokers)})

    def replicas(self, names: Collection[str]) -> ClusterView:
        self.asked += 1
        return ClusterView(
            self.cluster_id,
            frozenset(self.registered),
            self.tells_fenced,
            self.may_describe_cluster,
            {
                broker: self.by_broker.get(broker, {name: self.topics.get(name) for name in names})
                for broker in self.live
            },
        )

    def retention_ms(self, broker: int) -> int | Failure | None:
        if broker != BROKER:
            raise AssertionError(f"asked broker {broker}")
        return self.retention

    def cluster_time(self) -> int | Failure | None:
        return self.clock


@dataclass
class Records(AuditedRemovals):
    """A journal that remembers: (folder, its new name) and (folder, its fate, reason)."""

    begun: list[tuple[str, str]] = field(default_factory=list)
    ended: list[tuple[str, str, str | None]] = field(default_factory=list)

    def removing(self, orphan: Orphan, new_name: str) -> None:
        self.begun.append((orphan.folder.name, new_name))

    def settled(self, orphan: Orphan) -> None:
        self.ended.append((orphan.folder.name, orphan.fate.value, orphan.reason))


class Host:
    """One log directory, three hours of patience in ``later`` looks."""

    def __init__(self, folder: Path) -> None:
        self.log_dir = folder / "kafka"
        self.state_dir = folder / "state"
        self.state_dir.mkdir()
        self.add_log_dir(self.log_dir)
        self.cluster = Cluster()
        self.journal = Records()
        self.terms = RemovalTerms(after_ms=2 * HOUR_MS)
        self.log_dirs = [self.log_dir]

    def add_log_dir(self, log_dir: Path, broker: int = BROKER, cluster: str = CLUSTER) -> None:
        log_dir.mkdir()
        (log_dir / "meta.properties").write_text(
            f"#\n#Sat Jan 01 00:00:00 UTC 2026\nversion=1\nnode.id={broker}\ncluster.id={cluster}\n"
        )
        (log_dir / ".lock").touch()

    def put(
        self,
        name: str,
        *,
        topic_id: str | None = OLD_ID,
        ages_ms: Sequence[int] = (30 * DAY_MS,),
        log_dir: Path | None = None,
    ) -> Path:
        """A folder with one segment, a batch of each age."""
        folder = (log_dir or self.log_dir) / name
        folder.mkdir()
        now = now_ms()
        (folder / f"{0:020}.log").write_bytes(b"".join(batch(now - age) for age in ages_ms))
        (folder / f"{0:020}.index").write_bytes(b"")
        (folder / f"{0:020}.timeindex").write_bytes(b"")
        (folder / "leader-epoch-checkpoint").write_text("0\n0\n")
        if topic_id is not None:
            (folder / "partition.metadata").write_text(metadata(topic_id))
        return folder

    def look(
        self,
        *,
        after_ms: int = 0,
        remove: bool = False,
        approve: Approve | None = None,
        wrong_by_ms: int = 0,
        boot: str = "a-boot",
    ) -> Scan:
        """One look, so much later than now, by a clock that is wrong by so much."""
        return take_look(
            identify(self.log_dirs),
            self.cluster,
            self.terms,
            self.state_dir,
            self.journal,
            approve=(lambda _: True) if remove else approve,
            clocks=HostClocks(
                lambda: now_ms() + after_ms + wrong_by_ms,
                lambda: Uptime(boot, now_ms() + after_ms),
            ),
        )

    def remove(self) -> Scan:
        """What is an orphan now is removed three hours later, if anything lets it."""
        self.look()
        return self.look(after_ms=3 * HOUR_MS, remove=True)

    def names(self) -> set[str]:
        """The folders on the disk."""
        return {entry.name for entry in self.log_dir.iterdir() if entry.is_dir()}


def stray(topic: str, partition: int = 0) -> str:
    return f"{topic}-{partition}.{uuid.uuid4().hex}-stray"
