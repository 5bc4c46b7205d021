"""Deciding alone, on snapshots that no broker would hold so many of."""

import re
from functools import partial

import numpy as np
import pyarrow as pa

from devkit.bench.result import Result
from devkit.bench.settings import MASTER
from devkit.bench.timing import median
from retentiond import garbage
from retentiond.collect.snapshot import (
    COMMIT_SCHEMA,
    GroupReading,
    PartitionReading,
    Snapshot,
    TopicReading,
)
from retentiond.config import TopicPolicy
from retentiond.model import GroupKind
from retentiond.plan.plan import decide
from retentiond.plan.session import SparkSessions

AT_MOST_S = {100_000: 0.6, 1_000_000: 1.2}
"""By commit rows."""

PARTITIONS_PER_TOPIC = 20
NOW_MS = 1_700_000_000_000
RECORDS = 1_000_000


def measure() -> list[Result]:
    """`decide` from a snapshot in Python to rows in Python, warm."""
    garbage.look_rarely()  # as the daemon does
    sessions = SparkSessions(MASTER, {})
    try:
        seconds = {}
        for commits, shape in SHAPES.items():
            world = snapshot(*shape)
            _check(world, sessions)
            seconds[commits] = median(partial(decide, sessions, world))
    finally:
        sessions.stop()
    small, large = sorted(seconds)
    return [
        *(
            Result(f"decide on {commits:,} commits", took, "s", AT_MOST_S[commits])
            for commits, took in seconds.items()
        ),
        Result(f"growth from {small:,} to {large:,}", seconds[large] / seconds[small], "x"),
    ]


SHAPES = {100_000: (4_000, 25), 1_000_000: (20_000, 50)}
"""By commit rows: partitions, and groups that read each."""


def snapshot(partitions: int, groups_each: int) -> Snapshot:
    """Healthy topics; every group reads whole topics, and stands somewhere."""
    topics = partitions // PARTITIONS_PER_TOPIC
    groups = 4 * groups_each
    policy = TopicPolicy(
        enabled=True, consumed_retention_ms=0, excluded=(re.compile("console-.*"),)
    )
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
        commits=pa.Table.from_arrays(
            [pa.array(group_ids, pa.int32()), pa.array(partition_ids), pa.array(offsets)],
            schema=COMMIT_SCHEMA,
        ),
        remembered=COMMIT_SCHEMA.empty_table(),
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
