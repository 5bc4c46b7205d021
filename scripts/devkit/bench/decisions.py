"""Deciding alone, on snapshots that no broker would hold so many of."""

from functools import partial

import numpy as np
import pyarrow as pa

from devkit.bench.result import Result
from devkit.bench.settings import MASTER
from devkit.bench.timing import median
from retentiond import garbage_collection
from retentiond.config import TopicPolicy
from retentiond.config.pattern import Pattern
from retentiond.decide.plan import decide
from retentiond.model import GroupKind
from retentiond.snapshot import (
    GroupReading,
    PartitionReading,
    Snapshot,
    TopicReading,
    commit_table,
)
from retentiond.spark.session import SparkSessions

AT_MOST_S = {100_000: 0.4, 1_000_000: 0.9, 10_000_000: 3.0}
"""By commit rows."""

PARTITIONS_PER_TOPIC = 20
NOW_MS = 1_700_000_000_000
RECORDS = 1_000_000


def measure() -> list[Result]:
    """`decide` from a snapshot in Python to rows in Python, warm."""
    garbage_collection.collect_rarely()  # as the daemon does
    sessions = SparkSessions(MASTER, {})
    try:
        return [_measured(sessions, commits, snapshot(*shape)) for commits, shape in SHAPES.items()]
    finally:
        sessions.stop()


def _measured(sessions: SparkSessions, commits: int, world: Snapshot) -> Result:
    _check(world, sessions)
    took = median(partial(decide, sessions, world))
    return Result(f"decide on {commits:,} commits", took, "s", AT_MOST_S[commits])


SHAPES = {100_000: (4_000, 25), 1_000_000: (20_000, 50), 10_000_000: (20_000, 500)}
"""By commit rows: partitions, and groups that read each."""


def snapshot(partitions: int, groups_each: int) -> Snapshot:
    """Healthy topics; every group reads whole topics, and stands somewhere."""
    topics = partitions // PARTITIONS_PER_TOPIC
    groups = 4 * groups_each
    policy = TopicPolicy(enabled=True, consumed_retention_ms=0, excluded=(Pattern("console-.*"),))
    random = np.random.default_rng(1)
    readers = np.stack([random.permutation(groups)[:groups_each] for _ in range(topics)])
    partition_ids = np.repeat(np.arange(partitions, dtype=np.int32), groups_each)
    group_ids = readers[partition_ids[::groups_each] // PARTITIONS_PER_TOPIC].reshape(-1)
    offsets = random.integers(RECORDS, size=partition_ids.size)
    return Snapshot(
        cluster_id="bench",
        taken_at_ms=NOW_MS,
        topics=tuple(
            TopicReading(f"topic-{number:05d}", policy, "id", False, frozenset({"delete"}), None)
            for number in range(topics)
        ),
        partitions=tuple(
            PartitionReading(*divmod(number, PARTITIONS_PER_TOPIC), 0, RECORDS, RECORDS, RECORDS)
            for number in range(partitions)
        ),
        groups=tuple(
            GroupReading(f"group-{number:04d}", GroupKind.CLASSIC, "Empty")
            for number in range(groups)
        ),
        commits=commit_table(
            group_id=pa.array(group_ids, pa.int32()),
            partition_id=pa.array(partition_ids),
            is_committed=pa.array(np.ones(offsets.size, np.bool_)),
            offset=pa.array(offsets),
        ),
        readers=frozenset(),
        problems=(),
    )


def _check(world: Snapshot, sessions: SparkSessions) -> None:
    """The plan's minima against Arrow's. Raises ValueError where one differs."""
    grouped = world.commits.group_by("partition_id").aggregate([("offset", "min")])
    truth = dict(zip(*(grouped[name].to_pylist() for name in grouped.column_names), strict=True))
    rows = decide(sessions, world)
    right = sum(row.min_committed_offset == truth[at] for at, row in enumerate(rows))
    if right < len(truth):
        raise ValueError(f"minima right: {right} of {len(truth)}")
