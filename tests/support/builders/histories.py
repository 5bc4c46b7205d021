"""What cycles leave for the history, written down as plain values, and what stands in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from retentiond.config import Config
from retentiond.disks.broker_disks import DiskReport
from retentiond.disks.log_dirs import LogDirCapacity
from retentiond.errors import HistoryUnavailable
from retentiond.history.entries import FinishedCycle
from retentiond.history.keeper import HistoryKeeper
from retentiond.history.place import location, store_options
from retentiond.history.schema import SCHEMA
from retentiond.history.upkeep import Merge
from retentiond.model import (
    DeletionOutcome,
    GroupKind,
    Outcome,
    Plan,
    PlanRow,
    Reason,
    TopicPartition,
    Verdict,
)
from retentiond.snapshot import (
    COMMIT_SCHEMA,
    GroupReading,
    GroupTopic,
    PartitionReading,
    Snapshot,
    TopicReading,
)

START_MS = 1_790_000_000_000
"""2026-09-21, 14:13 in UTC."""

MINUTE_MS = 60_000
DAY_MS = 1440 * MINUTE_MS
CLUSTER = "cluster-a"


def settings(state_dir: Path, **history: Any) -> Config:
    return Config.model_validate(
        {
            "kafka": {"bootstrap.servers": "localhost:9092"},
            "state_dir": str(state_dir),
            "history": history,
            "topics": [{"name": "orders", "retention.commitoffset.enable": True}],
        }
    )


@dataclass(slots=True)
class World:
    """A cluster as a cycle sees it. ``commits`` by group, topic and partition; ``readers`` are live
    members, by group and topic; ``states`` by group."""

    partitions: dict[tuple[str, int], int] = field(default_factory=lambda: {("orders", 0): 100})
    ids: dict[str, str] = field(default_factory=lambda: {"orders": "id-1"})
    commits: dict[tuple[str, str, int], int | None] = field(default_factory=dict)
    readers: set[tuple[str, str]] = field(default_factory=set)
    states: dict[str, str] = field(default_factory=dict)
    cluster_id: str = CLUSTER

    def seen(
        self, at_ms: int = START_MS, cycle_id: str = "c1", deleted: Sequence[TopicPartition] = ()
    ) -> FinishedCycle:
        """What a cycle leaves that has seen it so; one that deletes has nothing held."""
        snapshot = self._snapshot(at_ms)
        rows = tuple(
            PlanRow(
                topic,
                partition,
                topic_id=self.ids.get(topic),
                log_start_offset=0,
                high_watermark=end,
                min_committed_offset=5,
                binding_group="billing",
                binding_committed_offset=5,
                retention_offset=7,
                cutoff=5,
                verdict=Verdict.DELETE,
                reason=Reason.CONSUMED,
                groups=1,
                records=5,
                consumed_retention_ms=1000,
            )
            for (topic, partition), end in sorted(self.partitions.items())
        )
        plan = Plan(cycle_id, self.cluster_id, at_ms, not deleted, True, (), rows)
        outcomes = {
            TopicPartition(row.topic, row.partition): DeletionOutcome(
                row.topic,
                row.partition,
                Outcome.DELETED if (row.topic, row.partition) in deleted else Outcome.NOT_ATTEMPTED,
            )
            for row in rows
        }
        sizes = {TopicPartition(*at): end * 10 for at, end in self.partitions.items()}
        disk = DiskReport(size_bytes=sizes, space=(LogDirCapacity(1, "/kafka", 1000, 400),))
        return FinishedCycle(plan, outcomes, "ok", snapshot, disk)

    def known_readers(self) -> set[tuple[str, str]]:
        """Those that have no commit on their topic."""
        return self.readers - {(group, topic) for group, topic, _ in self.commits}

    def _snapshot(self, at_ms: int) -> Snapshot:
        names = sorted({topic for topic, _ in self.partitions})
        policy = settings(Path("/nowhere")).entries[0].policy
        topics = tuple(
            TopicReading(name, policy, self.ids.get(name), False, frozenset({"delete"}), 10_000)
            for name in names
        )
        places = sorted(self.partitions)
        partitions = tuple(
            PartitionReading(names.index(topic), partition, 0, end, end, 7)
            for (topic, partition), end in sorted(self.partitions.items())
        )
        ids = sorted(
            {*self.states, *(key[0] for key in self.commits), *(pair[0] for pair in self.readers)}
        )
        groups = tuple(
            GroupReading(each, GroupKind.CLASSIC, self.states.get(each, "Stable")) for each in ids
        )
        rows = [
            {
                "group_id": ids.index(group),
                "partition_id": places.index((topic, partition)),
                "is_committed": True,
                "offset": offset,
                "is_replaced": False,
                "is_stale": False,
            }
            for (group, topic, partition), offset in self.commits.items()
        ]
        commits = pa.Table.from_pylist(rows, schema=COMMIT_SCHEMA)
        readers = frozenset(
            GroupTopic(ids.index(group), names.index(topic)) for group, topic in self.readers
        )
        return Snapshot(
            self.cluster_id,
            at_ms,
            topics,
            partitions,
            groups,
            commits,
            readers,
            (),
        )


def dataset_in(path: str | Path) -> Any:
    """The table as other programs read it."""
    place = location(path)
    return DeltaTable(place, storage_options=store_options(place)).to_pyarrow_dataset()


def rows_in(path: str | Path, cluster_id: str = CLUSTER) -> list[dict[str, Any]]:
    """All that stands there of a cluster, by entry."""
    table = dataset_in(path).to_table()
    assert table.schema.equals(SCHEMA)
    rows = [row for row in table.to_pylist() if row["cluster_id"] == cluster_id]
    return sorted(rows, key=lambda row: row["entry"])


@dataclass(slots=True)
class Entry:
    """One of them as it is read back, with everything that holds after it."""

    cycle: Mapping[str, Any]
    partitions: dict[tuple[str, int], dict[str, Any]]
    commits: dict[tuple[str, str, int], int | None]
    states: dict[str, str]
    readers: set[tuple[str, str]]
    deletions: list[tuple[str, str, int]]  # cycle, topic, partition
    log_dirs: list[dict[str, Any]]


def entries_in(path: str | Path, cluster_id: str = CLUSTER) -> Iterator[Entry]:
    """In their order, what has changed laid over what stood there before."""
    by_entry: dict[int, list[dict[str, Any]]] = {}
    for row in rows_in(path, cluster_id):
        by_entry.setdefault(row["entry"], []).append(row)
    commits: dict[tuple[str, str, int], int | None] = {}
    states: dict[str, str] = {}
    readers: set[tuple[str, str]] = set()
    for rows in by_entry.values():
        of = {kind: [row for row in rows if row["kind"] == kind] for kind in KINDS}
        (cycle,) = of["cycle"]
        if cycle["is_whole"]:
            commits, states, readers = {}, {}, set()
        for row in of["commit"]:
            commits[row["group"], row["topic"], row["partition"]] = row["committed_offset"]
        commits = {key: offset for key, offset in commits.items() if offset is not None}
        for row in of["group"]:
            states[row["group"]] = row["state"]
        states = {group: state for group, state in states.items() if state is not None}
        for row in of["reader"]:
            pair = (row["group"], row["topic"])
            readers = readers | {pair} if row["state"] else readers - {pair}
        yield Entry(
            cycle,
            {(row["topic"], row["partition"]): row for row in of["partition"]},
            dict(commits),
            dict(states),
            set(readers),
            [(row["cycle_id"], row["topic"], row["partition"]) for row in of["deletion"]],
            of["log_dir"],
        )


KINDS = ("cycle", "partition", "commit", "group", "reader", "deletion", "log_dir")


class Cycles:
    """A daemon's, five minutes apart; what was told is in ``told``."""

    def __init__(self, place: str, merge: Merge | None = None, **history: object) -> None:
        self.elapsed_ms = 0
        self.told: list[HistoryUnavailable | None] = []
        config = settings(Path("/nowhere"), path=place, **history)
        self.keeper = HistoryKeeper(
            config, self.told.append, elapsed_ms=lambda: self.elapsed_ms, merge=merge
        )

    def one(self, world: World, ahead_ms: int = 0, deleted: Sequence[TopicPartition] = ()) -> None:
        """A cycle with its entry. ``ahead_ms``: of the date."""
        self.elapsed_ms += 5 * MINUTE_MS
        at_ms = START_MS + self.elapsed_ms + ahead_ms
        self.keeper.see(world.seen(at_ms, f"cycle-{self.elapsed_ms}", deleted))
        self.keeper.keep()
        assert self.keeper.finish(600)  # a busy machine is no failure
