"""From names to positions, for all commits at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from retentiond.collect.snapshot import COMMIT_SCHEMA, GroupTopic, PartitionReading
from retentiond.collect.topics import EnabledTopic
from retentiond.commit_columns import CommitColumns
from retentiond.model import Commit

Positions = npt.NDArray[np.int64]

NOWHERE = -1


def commit_rows(
    commits: Mapping[int, Sequence[Commit]],
    topics: Sequence[EnabledTopic],
    partitions: Sequence[PartitionReading],
) -> tuple[pa.Table, set[GroupTopic]]:
    """`COMMIT_SCHEMA`, and the groups with commits on partitions that the metadata lacks.

    ``commits``: by the group's position; those on other topics are left out. ``partitions``:
    sorted by topic and partition.
    """
    columns = [CommitColumns.of(each) for each in commits.values()]
    groups = np.repeat(np.array([*commits], np.int64), [len(each) for each in columns])
    on = _topics_of(columns, {topic.reading.name: at for at, topic in enumerate(topics)})
    numbers, offsets = (
        np.concatenate([np.empty(0, np.int64), *found])
        for found in ([each.partitions for each in columns], [each.offsets for each in columns])
    )
    unread = np.concatenate([np.empty(0, np.bool_), *(each.unread for each in columns)])
    at = np.full(len(on), NOWHERE)
    at[on != NOWHERE] = _positions(on[on != NOWHERE], numbers[on != NOWHERE], partitions)
    is_there = at != NOWHERE
    is_stray = (on != NOWHERE) & ~is_there
    rows = pa.Table.from_arrays(
        [
            pa.array(groups[is_there], COMMIT_SCHEMA.field("group_id").type),
            pa.array(at[is_there], COMMIT_SCHEMA.field("partition_id").type),
            pa.array(offsets[is_there], mask=unread[is_there]),
        ],
        schema=COMMIT_SCHEMA,
    )
    strays = zip(groups[is_stray].tolist(), on[is_stray].tolist(), strict=True)
    return rows, {GroupTopic(*stray) for stray in strays}


def _topics_of(columns: Sequence[CommitColumns], topic_ids: Mapping[str, int]) -> Positions:
    """Each row's topic."""
    blocks = [block for each in columns for block in each.topics]
    return np.repeat(
        np.array([topic_ids.get(name, NOWHERE) for name, _ in blocks], np.int64),
        np.array([count for _, count in blocks], np.int64),
    )


def _positions(
    topics: Positions, numbers: Positions, partitions: Sequence[PartitionReading]
) -> Positions:
    """Where the numbered partitions of those topics stand among ``partitions``.

    Both are one ascending key: all that is asked for is found by one search.
    """
    if not partitions:
        return np.full(len(topics), NOWHERE)
    width = 1 + max(each.partition for each in partitions)
    keys = np.array([each.topic * width + each.partition for each in partitions], np.int64)
    asked = np.where(numbers < width, topics * width + numbers, NOWHERE)
    found = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return np.where(keys[found] == asked, found, NOWHERE)
