"""What is remembered of topics: their ids, which groups read them, and how long they are gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from retentiond.memory.remembered import KnownTopic, Remembered
from retentiond.snapshot import Integers, Snapshot, distinct, topics_of


def known_topics(
    snapshot: Snapshot, before: Remembered, settle_cycles: int
) -> dict[str, KnownTopic]:
    """The topics that have an id, as they are to be remembered after this reading.

    `KnownTopic.agreed` counts up to ``settle_cycles``: a topic that has settled stays settled until
    it is recreated.
    """
    readers: Mapping[int, tuple[str, ...]] | None = None
    is_complete = snapshot.complete
    known = {}
    for position, topic in enumerate(snapshot.topics):
        if topic.topic_id is None:
            continue
        last = before.topics.get(topic.name)
        if topic.recreated and not _has_seen_all_commits(snapshot, position):
            continue  # it counts as recreated until all commits that may be stale are known
        if last is None or last.topic_id != topic.topic_id:
            last = KnownTopic(topic.topic_id)
        known[topic.name] = last
        if is_complete and last.agreed < settle_cycles:
            readers = readers_by_topic(snapshot) if readers is None else readers
            now = readers.get(position, ())
            agreed = last.agreed + 1 if now == last.groups else 1
            known[topic.name] = replace(last, groups=now, agreed=agreed)
    return known


def _has_seen_all_commits(snapshot: Snapshot, topic: int) -> bool:
    """Whether this reading has every commit on the topic, of all groups that count."""
    reading = snapshot.topics[topic]
    if snapshot.problems or snapshot.hides_groups_of(reading) or reading.failure is not None:
        return False
    partitions = [at for at, each in enumerate(snapshot.partitions) if each.topic == topic]
    commits = snapshot.commits.filter(
        pc.and_(snapshot.commits["is_committed"], pc.is_null(snapshot.commits["offset"]))
    )
    here = commits.filter(pc.is_in(commits["partition_id"], pa.array(partitions, pa.int32())))
    unreadable = {*here["group_id"].to_pylist()}
    unreadable |= {at for at, group in enumerate(snapshot.groups) if group.failure is not None}
    return all(reading.policy.excludes(snapshot.groups[at].name) for at in unreadable)


def readers_by_topic(snapshot: Snapshot) -> dict[int, tuple[str, ...]]:
    """The groups that have committed on a topic, now or before, or may read it, sorted by name; by
    the topic's position."""
    others = [*snapshot.readers, *snapshot.remembered_readers]
    count = len(snapshot.topics)
    pairs = distinct(
        np.append(
            distinct(group_and_topic(snapshot, snapshot.commits)),
            np.array([group * count + topic for group, topic in others], np.int64),
        )
    )
    by_topic: defaultdict[int, list[str]] = defaultdict(list)
    for group, topic in zip(
        *(each.tolist() for each in np.divmod(pairs, max(1, count))), strict=True
    ):
        by_topic[topic].append(snapshot.groups[group].group_id)
    return {topic: tuple(groups) for topic, groups in by_topic.items()}


def group_and_topic(snapshot: Snapshot, commits: pa.Table) -> Integers:
    """For each row, the positions of its group and topic as one number: group * topics + topic."""
    groups: Integers = commits["group_id"].to_numpy().astype(np.int64)
    topics = topics_of(snapshot)[commits["partition_id"].to_numpy()]
    pairs: Integers = groups * len(snapshot.topics) + topics
    return pairs


def gone_topics(snapshot: Snapshot) -> frozenset[str]:
    """Topics that no longer exist and that no group wants to read."""
    return snapshot.gone_topics.difference(*snapshot.other_topics.values())


def gone_ms(snapshot: Snapshot, before: Remembered, observed_ms: int) -> dict[str, int]:
    """For how long each of `gone_topics` is gone. Only a complete reading proves it."""
    if not snapshot.complete:
        return {}
    return {
        name: before.gone_ms[name] + observed_ms if name in before.gone_ms else 0
        for name in gone_topics(snapshot)
    }
