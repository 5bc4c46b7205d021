"""Which readers a topic's policy speaks of: those that it requires, those that it excludes, and
external readers that other policies name.

Only readers with a trace on a topic are looked at. A table of all groups times all topics would be
millions of rows on a cluster with thousands of consoles.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
import pyarrow as pa

from retentiond.config import NoPolicy, TopicPolicy
from retentiond.snapshot import Flags, GroupTopic, Integers, Snapshot, distinct, topics_of

FAILED = pa.schema(
    [
        pa.field("group_id", pa.int32(), nullable=False),
        pa.field("topic_id", pa.int32(), nullable=False),
        pa.field("more_groups", pa.int64()),
    ]
)
"""The columns of ``failed``. ``more_groups``: how many other unreadable groups count on the topic
that have no trace there."""
GROUPS_OF_TOPICS = pa.schema(
    [
        pa.field("group_id", pa.int32(), nullable=False),
        pa.field("topic_id", pa.int32(), nullable=False),
    ]
)
"""The columns of ``readers``, ``required``, ``excluded`` and ``foreign``."""


def required_groups(snapshot: Snapshot) -> list[GroupTopic]:
    positions = {(group.name, group.is_external): at for at, group in enumerate(snapshot.groups)}
    return [
        GroupTopic(positions[reader], topic_id)
        for topic_id, topic in enumerate(snapshot.topics)
        for reader in topic.policy.required_readers()
    ]


def failed_groups(snapshot: Snapshot) -> pa.Table:
    """Thousands of groups fail with their coordinator. That is a fact of each topic, and not a row
    for each topic and group."""
    failed = np.array([reading.failure is not None for reading in snapshot.groups], np.bool_)
    tables = [pa.Table.from_batches([], FAILED)]
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
    excludes = np.array([not policy.counts_everybody for policy in rules], np.bool_)
    groups = snapshot.groups
    group, topic = _traces(snapshot, np.ones(len(groups), np.bool_), excludes[rule_of])
    keys = rule_of[topic] * len(groups) + group
    excluded = [
        key
        for key in np.unique(keys).tolist()
        if groups[key % len(groups)].is_excluded_by(rules[key // len(groups)])
    ]
    is_excluded = np.isin(keys, excluded)
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


def foreign_readers(snapshot: Snapshot) -> pa.Table:
    external = np.array([group.is_external for group in snapshot.groups], np.bool_)
    traces = _traces(snapshot, external, np.ones(len(snapshot.topics), np.bool_))
    return table_of_pairs(
        GroupTopic(group, topic)
        for group, topic in zip(*(column.tolist() for column in traces), strict=True)
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
        others = [*snapshot.readers, *snapshot.remembered_readers, *required_groups(snapshot)]
        pairs = np.append(
            by[are_meant].astype(np.int64) * count + on[are_meant],
            np.array([pair.group * count + pair.topic for pair in others], np.int64),
        )
    group, topic = np.divmod(distinct(pairs), count)
    are_meant = groups[group] & topics[topic]
    return group[are_meant], topic[are_meant]


def table_of_pairs(pairs: Iterable[GroupTopic]) -> pa.Table:
    rows = list(pairs)
    return _table(GROUPS_OF_TOPICS, [row.group for row in rows], [row.topic for row in rows])


def _table(schema: pa.Schema, *columns: Iterable[int]) -> pa.Table:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
