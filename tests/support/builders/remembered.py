"""What is remembered, reader by reader."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from retentiond.config import TopicPolicy
from retentiond.memory.readers import READERS, GroupOnTopic, Readers, RememberedReader
from retentiond.memory.remembered import Remembered
from retentiond.snapshot import Snapshot


def readers_table(readers: Mapping[GroupOnTopic, RememberedReader]) -> Readers:
    rows = [
        {
            "topic": at.topic,
            "group": at.group_id,
            "is_external": at.is_external,
            "kind": last.kind.value,
            "seen_at_ms": last.seen_at_ms,
            "absent_since_ms": last.absent_since_ms,
            "absent_ms": last.absent_ms,
            "partitions": (partitions := sorted(last.offsets)),
            "offsets": [last.offsets[partition] for partition in partitions],
            "moved_at_ms": [last.moved_at_ms.get(partition) for partition in partitions],
            "is_stale": [partition in last.stale for partition in partitions],
        }
        for at, last in sorted(readers.items(), key=lambda item: item[0].key)
    ]
    return Readers(pa.Table.from_pylist(rows, schema=READERS))


def named(keys: pa.Array) -> tuple[GroupOnTopic, ...]:
    """The readers of these `GroupOnTopic.key`s."""
    found = (key.split("\0") for key in keys.to_pylist())
    return tuple(
        GroupOnTopic(group, topic, is_external == "1") for topic, group, is_external in found
    )


def known_commits(snapshot: Snapshot, before: Remembered) -> dict[GroupOnTopic, RememberedReader]:
    """Less what says nothing any more: commits on a topic that was recreated, and readers that the
    policy has given up waiting for."""
    by_name = {topic.name: topic for topic in snapshot.topics}
    known = {}
    for at, last in before.commits.items():
        topic = by_name.get(at.topic)
        if topic is None:
            continue
        patience_ms = None
        if isinstance(topic.policy, TopicPolicy):
            patience_ms = topic.policy.forget_vanished_after_ms
        is_absent = last.absent_since_ms is not None
        if is_absent and patience_ms is not None and last.absent_ms >= patience_ms:
            continue
        known[at] = RememberedReader(last.kind, {}) if topic.recreated else last
    return known
