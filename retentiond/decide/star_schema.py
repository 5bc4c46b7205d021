"""A snapshot as a star schema of integer tables, because Spark is fast with integers.

A name costs Spark several times what a number does. So Spark gets positions instead of names:
``topic_id``, ``partition_id`` and ``group_id`` are positions in `Snapshot.topics`, `.partitions`
and `.groups`. Groups are sorted by name, so the smallest ``group_id`` is the first by name.

If a table has several Spark partitions, several tasks count it and then exchange their results.
A table that is joined to it is broadcast to these tasks first, in a job of its own. That pays only
for many commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from retentiond.config import NoPolicy, PolicyConflict, PolicyUnreadable, TopicPolicy
from retentiond.config.settings import SETTINGS
from retentiond.decide.named_readers import (
    excluded_groups,
    failed_groups,
    foreign_readers,
    required_groups,
    table_of_pairs,
)
from retentiond.snapshot import VANISHED, Snapshot

T = TypeVar("T")
U = TypeVar("U")


def _flag(name: str) -> pa.Field:
    return pa.field(name, pa.bool_(), nullable=False)


def _position(name: str) -> pa.Field:
    return pa.field(name, pa.int32(), nullable=False)


RULE_SETTINGS = {
    setting: pa.bool_() if isinstance(setting.of(TopicPolicy()), bool) else pa.int64()
    for setting in SETTINGS
    if setting.in_rule
}
"""The settings of a policy that the rule has as columns, with their types."""
TOPICS = pa.schema(
    [
        _position("topic_id"),
        _flag("conflict"),
        _flag("policy_unreadable"),
        _flag("internal"),
        _flag("deletes"),
        _flag("compacts"),
        _flag("failed"),
        _flag("recreated"),
        _flag("hidden"),
        pa.field("consumed_retention_ms", pa.int64()),
        pa.field("forced_retention_ms", pa.int64()),
        pa.field("changelog_group_id", pa.int32()),  # the first that restores its state from it
        *(pa.field(rule.attribute, kind, nullable=False) for rule, kind in RULE_SETTINGS.items()),
    ]
)
"""``hidden``: some groups may be hidden, so no group is known not to read the topic."""
PARTITIONS = pa.schema(
    [
        _position("partition_id"),
        _position("topic_id"),
        pa.field("log_start_offset", pa.int64()),
        pa.field("high_watermark", pa.int64()),
        pa.field("last_stable_offset", pa.int64()),
        pa.field("retention_offset", pa.int64()),
        _flag("failed"),
    ]
)
GROUPS = pa.schema([_position("group_id")])
"""The columns of ``vanished``."""
COMMITS = pa.schema(
    [
        _position("group_id"),
        _position("partition_id"),
        _position("topic_id"),  # the partition's topic, so that Spark need not join it
        pa.field("offset", pa.int64()),  # null if there is none, or it could not be read
        _flag("is_committed"),
        _flag("is_replaced"),
        pa.field("remembered_offset", pa.int64()),
    ]
)
"""The columns of ``commits``. The last three are left out if they say nothing: if all rows are
committed, none is replaced, nothing is remembered. ``is_replaced``: by `COMMIT_SCHEMA`, replaced or
stale. ``remembered_offset``: only where the group now has a smaller commit on the partition, or
none; all others add nothing."""


@dataclass(frozen=True, slots=True)
class StarSchema(Generic[T]):
    """The tables from which a plan is computed, as `pyarrow.Table`s or as Spark DataFrames.

    ==============  ========================  ==================  ================================
    table           grain                     columns             rows
    ==============  ========================  ==================  ================================
    ``topics``      topic_id                  `TOPICS`            every topic
    ``partitions``  partition_id              `PARTITIONS`        every partition
    ``commits``     group_id, partition_id    `COMMITS`           every commit, now or before
    ``failed``      topic_id                  `FAILED`            first group that is unreadable
                                                                  as a whole and counts there
    ``readers``     group_id, topic_id        `GROUPS_OF_TOPICS`  readers seen now or before
    ``vanished``    group_id                  `GROUPS`            remembered, and not listed
    ``required``    group_id, topic_id        `GROUPS_OF_TOPICS`  groups that the policy requires
    ``excluded``    group_id, topic_id        `GROUPS_OF_TOPICS`  readers with a trace there that
                                                                  the policy excludes
    ``foreign``     group_id, topic_id        `GROUPS_OF_TOPICS`  external readers with a trace
                                                                  there that other policies name
    ==============  ========================  ==================  ================================

    `FAILED` and `GROUPS_OF_TOPICS` are those of `retentiond.decide.named_readers`. From ``failed``
    on, a table without rows is None. Most of them are empty on most clusters, and
    every table costs Spark a step.

    ``complete``: whether the listing of groups is complete; if not, no group is known to be absent.
    ``group_count`` is at least 1. ``in_one_part``: each DataFrame has a single Spark partition, so
    joins need no shuffle.
    """

    complete: bool
    group_count: int
    topics: T
    partitions: T
    commits: T
    failed: T | None
    readers: T | None
    vanished: T | None
    required: T | None
    excluded: T | None
    foreign: T | None
    in_one_part: bool = False

    def map(self, convert: Callable[[T], U]) -> StarSchema[U]:
        parts: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in parts.items():
            if value is not None and name not in ("complete", "group_count", "in_one_part"):
                parts[name] = convert(value)
        return StarSchema(**parts)


FEW_COMMITS = 2_000_000
"""One task counts fewer commits sooner than several tasks have exchanged their results."""


def to_dataframes(session: SparkSession, tables: StarSchema[pa.Table]) -> StarSchema[DataFrame]:
    dataframes = tables.map(session.createDataFrame)
    if tables.commits.num_rows >= FEW_COMMITS:
        return dataframes
    return replace(dataframes.map(lambda table: table.coalesce(1)), in_one_part=True)


def with_join_hint(table: DataFrame, star: StarSchema[DataFrame]) -> DataFrame:
    """A small table with the hint for Spark to join it to a larger one of the star schema."""
    return table.hint("shuffle_hash") if star.in_one_part else F.broadcast(table)


def star_schema(snapshot: Snapshot) -> StarSchema[pa.Table]:
    """A topic without a policy has no retention, requires no group and excludes none."""
    partitions = _partitions(snapshot)
    readers = snapshot.readers | snapshot.remembered_readers
    vanished = [at for at, group in enumerate(snapshot.groups) if group.state == VANISHED]
    return StarSchema(
        complete=not snapshot.problems,
        group_count=max(1, len(snapshot.groups)),
        topics=_topics(snapshot),
        partitions=partitions,
        commits=_commits(snapshot.commits, partitions),
        failed=_unless_empty(failed_groups(snapshot)),
        readers=_unless_empty(table_of_pairs(readers)),
        vanished=_unless_empty(_table(GROUPS, vanished)),
        required=_unless_empty(table_of_pairs(required_groups(snapshot))),
        excluded=_unless_empty(excluded_groups(snapshot)),
        foreign=_unless_empty(foreign_readers(snapshot)),
    )


def _unless_empty(table: pa.Table) -> pa.Table | None:
    return table if table.num_rows else None


def _topics(snapshot: Snapshot) -> pa.Table:
    topics = snapshot.topics
    policies = [None if isinstance(topic.policy, NoPolicy) else topic.policy for topic in topics]
    return _table(
        TOPICS,
        range(len(topics)),
        [isinstance(topic.policy, PolicyConflict) for topic in topics],
        [isinstance(topic.policy, PolicyUnreadable) for topic in topics],
        [topic.is_internal for topic in topics],
        ["delete" in topic.cleanup_policy for topic in topics],
        ["compact" in topic.cleanup_policy for topic in topics],
        [topic.failure is not None for topic in topics],
        [topic.recreated for topic in topics],
        [snapshot.hides_groups_of(topic) for topic in topics],
        [policy and policy.consumed_retention_ms for policy in policies],
        [topic.forced_retention_ms for topic in topics],
        _changelog_groups(snapshot),
        *([rule.of(policy or TopicPolicy()) for policy in policies] for rule in RULE_SETTINGS),
    )


def _changelog_groups(snapshot: Snapshot) -> list[int | None]:
    """For each topic, the first group by name that restores its state from the topic and isn't
    excluded there."""
    first: list[int | None] = [None] * len(snapshot.topics)
    for group, topic in sorted(snapshot.changelogs, reverse=True):
        if not snapshot.groups[group].is_excluded_by(snapshot.topics[topic].policy):
            first[topic] = group
    return first


def _partitions(snapshot: Snapshot) -> pa.Table:
    undecided = {
        at for at, topic in enumerate(snapshot.topics) if isinstance(topic.policy, NoPolicy)
    }
    partitions = snapshot.partitions
    return _table(
        PARTITIONS,
        range(len(partitions)),
        [at.topic for at in partitions],
        [at.log_start_offset for at in partitions],
        [at.high_watermark for at in partitions],
        [at.last_stable_offset for at in partitions],
        [None if at.topic in undecided else at.retention_offset for at in partitions],
        [at.failure is not None for at in partitions],
    )


def _commits(commits: pa.Table, partitions: pa.Table) -> pa.Table:
    offset, remembered = commits["offset"], commits["remembered_offset"]
    is_reached = pc.fill_null(pc.greater_equal(offset, remembered), False)
    columns = {
        "group_id": commits["group_id"],
        "partition_id": commits["partition_id"],
        "topic_id": partitions["topic_id"].take(commits["partition_id"]),
        "offset": offset,
    }
    if pc.any(pc.invert(commits["is_committed"])).as_py():
        columns["is_committed"] = commits["is_committed"]
    is_replaced = pc.or_(commits["is_replaced"], commits["is_stale"])
    if pc.any(is_replaced).as_py():
        columns["is_replaced"] = is_replaced
    not_reached = pc.if_else(is_reached, None, remembered)
    if not_reached.null_count < len(commits):
        columns["remembered_offset"] = not_reached
    schema = pa.schema([COMMITS.field(name) for name in columns])
    return pa.Table.from_arrays([*columns.values()], schema=schema)


def _table(schema: pa.Schema, *columns: Iterable[Any]) -> pa.Table:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
