"""A snapshot as a star of integer tables, which is how Spark is fast.

A name costs Spark several times what a number does, so every name stays behind and its
position in the snapshot goes: ``topic_id``, ``partition_id`` and ``group_id`` are positions in
`Snapshot.topics`, `.partitions` and `.groups`. Groups are sorted by name, so the smallest
``group_id`` is the first by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Star(Generic[T]):
    """The tables that a plan is worked out from: `pyarrow.Table`s, or the DataFrames of them.

    ===============  =========================  ==================================================
    table            grain                      columns beside the ids, as ``?`` nullable
    ===============  =========================  ==================================================
    ``topics``       topic_id                   conflict, internal, deletes, compacts,
                                                allow_compacted, failed, recreated, hidden: boolean;
                                                consumed_retention_ms?, forced_retention_ms?: long;
                                                min_groups: int
    ``partitions``   partition_id, (topic_id)   log_start_offset?, high_watermark?,
                                                last_stable_offset?, retention_offset?: long;
                                                failed: boolean
    ``commits``      group_id, partition_id,    offset?: long; null is a commit that is unread
                     (topic_id)
    ``failed``       group_id
    ``remembered``   group_id, partition_id,    offset?: long
                     (topic_id)
    ``readers``      group_id, topic_id
    ``required``     group_id, topic_id
    ``excluded``     group_id, topic_id
    ===============  =========================  ==================================================

    ``failed`` are the groups that are unread as a whole. From there on, a table without rows is
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
    failed: T | None
    remembered: T | None
    readers: T | None
    required: T | None
    excluded: T | None
    in_one_part: bool = False

    def map(self, convert: Callable[[T], U]) -> Star[U]:
        """The same star with every table converted."""

        def some(table: T | None) -> U | None:
            return None if table is None else convert(table)

        return Star(
            complete=self.complete,
            group_count=self.group_count,
            topics=convert(self.topics),
            partitions=convert(self.partitions),
            commits=convert(self.commits),
            failed=some(self.failed),
            remembered=some(self.remembered),
            readers=some(self.readers),
            required=some(self.required),
            excluded=some(self.excluded),
            in_one_part=self.in_one_part,
        )
