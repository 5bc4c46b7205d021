"""A snapshot as a star schema of integer tables, because Spark is fast with integers.

A name costs Spark several times what a number does. So Spark gets positions instead of names:
``topic_id``, ``partition_id`` and ``group_id`` are positions in `Snapshot.topics`, `.partitions`
and `.groups`. Groups are sorted by name, so the smallest ``group_id`` is the first by name.

If a table has several Spark partitions, several tasks count it and then exchange their results.
A table that is joined to it is broadcast to these tasks first, in a job of its own. That pays only
for many commits.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from retentiond.config import NoPolicy, PolicyConflict, PolicyUnreadable, TopicPolicy
from retentiond.config.settings import SETTINGS
from retentiond.snapshot import (
    VANISHED,
    Flags,
    GroupTopic,
    Integers,
    Snapshot,
    distinct,
    topics_of,
)

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
        *(pa.field(each.attribute, kind, nullable=False) for each, kind in RULE_SETTINGS.items()),
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
FAILED = pa.schema(
    [_position("group_id"), _position("topic_id"), pa.field("more_groups", pa.int64())]
)
"""The columns of ``failed``. ``more_groups``: how many other unreadable groups count on the topic
that have no trace there."""
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
GROUPS_OF_TOPICS = pa.schema([_position("group_id"), _position("topic_id")])
"""The columns of ``readers``, ``required``, ``excluded`` and ``foreign``."""


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

    From ``failed`` on, a table without rows is None. Most of them are empty on most clusters, and
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
        def converted(table: T | None) -> U | None:
            return None if table is None else convert(table)

        return StarSchema(
            complete=self.complete,
            group_count=self.group_count,
            topics=convert(self.topics),
            partitions=convert(self.partitions),
            commits=convert(self.commits),
            failed=converted(self.failed),
            readers=converted(self.readers),
            vanished=converted(self.vanished),
            required=converted(self.required),
            excluded=converted(self.excluded),
            foreign=converted(self.foreign),
            in_one_part=self.in_one_part,
        )


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
    return StarSchema(
        complete=not snapshot.problems,
        group_count=max(1, len(snapshot.groups)),
        topics=_topics(snapshot),
        partitions=partitions,
        commits=_commits(snapshot.commits, partitions),
        failed=_unless_empty(_failed(snapshot)),
        readers=_unless_empty(_table_of_pairs(readers)),
        vanished=_unless_empty(
            _table(
                GROUPS, [at for at, each in enumerate(snapshot.groups) if each.state == VANISHED]
            )
        ),
        required=_unless_empty(_table_of_pairs(_required(snapshot))),
        excluded=_unless_empty(excluded_groups(snapshot)),
        foreign=_unless_empty(_foreign(snapshot)),
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
        *([each.of(policy or TopicPolicy()) for policy in policies] for each in RULE_SETTINGS),
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


def _required(snapshot: Snapshot) -> list[GroupTopic]:
    positions = {(each.name, each.is_external): at for at, each in enumerate(snapshot.groups)}
    return [
        GroupTopic(positions[reader], topic_id)
        for topic_id, topic in enumerate(snapshot.topics)
        for reader in topic.policy.required_readers()
    ]


def _failed(snapshot: Snapshot) -> pa.Table:
    """Thousands of groups fail with their coordinator. That is a fact of each topic, and not a row
    for each topic and group."""
    failed = np.array([each.failure is not None for each in snapshot.groups], np.bool_)
    tables = [_table(FAILED, [], [], [])]
    if failed.any():
        group, topic = _traces(snapshot, failed, np.ones(len(snapshot.topics), np.bool_))
        rules, rule_of = _rules(snapshot)
        for number, rule in enumerate(rules):
            counting = [at for at in np.flatnonzero(failed).tolist()
                        if not snapshot.groups[at].is_excluded_by(rule)]  # fmt: skip
            if counting:
                first, *others = counting
                traced = np.bincount(topic[np.isin(group, others)], minlength=len(rule_of))
                topics = np.flatnonzero(rule_of == number)
                columns = (np.full(len(topics), first), topics, len(others) - traced[topics])
                tables.append(_table(FAILED, *columns))
    return pa.concat_tables(tables).combine_chunks()


def excluded_groups(snapshot: Snapshot) -> pa.Table:
    """The readers that have a trace on a topic and don't count there. Each rule is asked once about
    each of its readers, however many topics have it."""
    rules, rule_of = _rules(snapshot)
    excludes = np.array([not each.counts_everybody for each in rules], np.bool_)
    groups = snapshot.groups
    group, topic = _traces(snapshot, np.ones(len(groups), np.bool_), excludes[rule_of])
    asked = rule_of[topic] * len(groups) + group
    excluded = [
        key
        for key in np.unique(asked).tolist()
        if groups[key % len(groups)].is_excluded_by(rules[key // len(groups)])
    ]
    is_excluded = np.isin(asked, excluded)
    return _table(GROUPS_OF_TOPICS, group[is_excluded], topic[is_excluded])


def _rules(snapshot: Snapshot) -> tuple[list[TopicPolicy | NoPolicy], Integers]:
    """Policies of which no two say the same about who counts; and which of them each topic has."""
    numbers: dict[Hashable, int] = {}
    rules: list[TopicPolicy | NoPolicy] = []
    rule_of = np.zeros(len(snapshot.topics), np.int64)
    for at, topic in enumerate(snapshot.topics):
        rule_of[at] = numbers.setdefault(topic.policy.who_counts, len(numbers))
        if len(rules) < len(numbers):
            rules.append(topic.policy)
    return rules, rule_of


def _foreign(snapshot: Snapshot) -> pa.Table:
    external = np.array([each.is_external for each in snapshot.groups], np.bool_)
    traces = _traces(snapshot, external, np.ones(len(snapshot.topics), np.bool_))
    return _table_of_pairs(
        GroupTopic(group, topic)
        for group, topic in zip(*(each.tolist() for each in traces), strict=True)
        if not snapshot.topics[topic].policy.names_external(snapshot.groups[group].name)
    )


def _traces(snapshot: Snapshot, groups: Flags, topics: Flags) -> tuple[Integers, Integers]:
    """Which of these groups have a trace on which of these topics: each pair once, as positions."""
    count = max(1, len(topics))
    pairs = np.empty(0, np.int64)
    if groups.any() and topics.any():
        commits = snapshot.commits
        by, at = commits["group_id"].to_numpy(), commits["partition_id"].to_numpy()
        on = topics_of(snapshot)[at]
        are_meant = groups[by] & topics[on]
        others = [*snapshot.readers, *snapshot.remembered_readers, *_required(snapshot)]
        pairs = np.append(
            by[are_meant].astype(np.int64) * count + on[are_meant],
            np.array([each.group * count + each.topic for each in others], np.int64),
        )
    group, topic = np.divmod(distinct(pairs), count)
    are_meant = groups[group] & topics[topic]
    return group[are_meant], topic[are_meant]


def _table_of_pairs(pairs: Iterable[GroupTopic]) -> pa.Table:
    rows = list(pairs)
    return _table(GROUPS_OF_TOPICS, [each.group for each in rows], [each.topic for each in rows])


def _table(schema: pa.Schema, *columns: Iterable[Any]) -> pa.Table:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
