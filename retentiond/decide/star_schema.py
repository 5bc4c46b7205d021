"""A snapshot as a star schema of integer tables, which is how Spark is fast.

A name costs Spark several times what a number does, so every name stays behind and its
position in the snapshot goes: ``topic_id``, ``partition_id`` and ``group_id`` are positions in
`Snapshot.topics`, `.partitions` and `.groups`. Groups are sorted by name, so the smallest
``group_id`` is the first by name.

A table in parts is counted by several tasks, which then exchange what they have found, and what is
joined to it goes to each of them first, in a job of its own. That pays for many commits only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class StarSchema(Generic[T]):
    """The tables that a plan is worked out from: `pyarrow.Table`s, or the DataFrames of them.

    ===============  =========================  ==================================================
    table            grain                      columns beside the ids, as ``?`` nullable
    ===============  =========================  ==================================================
    ``topics``       topic_id                   conflict, internal, deletes, compacts,
                                                allow_compacted, failed, recreated, hidden: boolean;
                                                consumed_retention_ms?, forced_retention_ms?: long;
                                                min_groups: int; changelog_group_id?: int, the
                                                first that restores its state from the topic
    ``partitions``   partition_id, (topic_id)   log_start_offset?, high_watermark?,
                                                last_stable_offset?, retention_offset?: long;
                                                failed: boolean
    ``commits``      group_id, partition_id,    offset?: long; null is a commit that is unread
                     (topic_id)
    ``epochs``       group_id, partition_id,    offset, leader_epoch, known_epoch?, end_offset?:
                     (topic_id)                 see `EPOCH_SCHEMA`; shares: boolean, whether it is
                                                a share group
    ``failed``       group_id
    ``remembered``   group_id, partition_id,    offset?: long
                     (topic_id)
    ``stale``        group_id, partition_id,    offset: long; see `Snapshot.stale`
                     (topic_id)
    ``readers``      group_id, topic_id         now, or by what earlier cycles saw
    ``vanished``     group_id
    ``required``     group_id, topic_id
    ``excluded``     group_id, topic_id
    ===============  =========================  ==================================================

    ``failed`` are the groups that are unread as a whole, ``vanished`` those that are remembered and
    not listed. From there on, a table without rows is
    None: on most clusters that are most of them, and each would cost Spark a step.

    ``complete`` says whether the listing of groups was, and a topic's ``hidden`` that groups may
    be hidden from it; then nobody is known to be absent. ``group_count`` is at least 1.
    ``in_one_part``: each of the DataFrames is, so what meets in a join need not travel.
    """

    complete: bool
    group_count: int
    topics: T
    partitions: T
    commits: T
    epochs: T | None
    failed: T | None
    remembered: T | None
    stale: T | None
    readers: T | None
    vanished: T | None
    required: T | None
    excluded: T | None
    in_one_part: bool = False

    def map(self, convert: Callable[[T], U]) -> StarSchema[U]:
        """The same star with every table converted."""

        def some(table: T | None) -> U | None:
            return None if table is None else convert(table)

        return StarSchema(
            complete=self.complete,
            group_count=self.group_count,
            topics=convert(self.topics),
            partitions=convert(self.partitions),
            commits=convert(self.commits),
            epochs=some(self.epochs),
            failed=some(self.failed),
            remembered=some(self.remembered),
            stale=some(self.stale),
            readers=some(self.readers),
            vanished=some(self.vanished),
            required=some(self.required),
            excluded=some(self.excluded),
            in_one_part=self.in_one_part,
        )


FEW_COMMITS = 2_000_000
"""Fewer are counted by one task before several have exchanged anything."""


def frames(session: SparkSession, tables: StarSchema[pa.Table]) -> StarSchema[DataFrame]:
    """The tables as DataFrames of the same grain and columns."""
    made = tables.map(session.createDataFrame)
    if tables.commits.num_rows >= FEW_COMMITS:
        return made
    return replace(made.map(lambda table: table.coalesce(1)), in_one_part=True)


def small(table: DataFrame, star: StarSchema[DataFrame]) -> DataFrame:
    """A table of few rows, to be joined to a larger one of the star."""
    return table.hint("shuffle_hash") if star.in_one_part else F.broadcast(table)
