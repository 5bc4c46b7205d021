"""What is to be remembered of each topic: how long the readings agree on who reads it
(``limits.settle_cycles``), and where its partitions ended."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from retentiond.collect.arrival import ends_by_topic, with_ends
from retentiond.collect.remembered import KnownTopic, Remembered
from retentiond.collect.snapshot import Snapshot


def known_topics(
    snapshot: Snapshot, before: Remembered, settle_cycles: int
) -> dict[str, KnownTopic]:
    """Each topic with an id, as it is to be remembered after this reading.

    ``agreed`` counts complete readings in a row with the same groups, this one included, up to
    ``settle_cycles``: a topic that has settled stays so until it is recreated.
    """
    groups = groups_by_topic(snapshot)
    ends = ends_by_topic(snapshot)
    is_complete = snapshot.complete
    known = {}
    for position, topic in enumerate(snapshot.topics):
        if topic.topic_id is None:
            continue
        last = before.topics.get(topic.name)
        if last is None or last.topic_id != topic.topic_id:
            last = KnownTopic(topic.topic_id)
        last = replace(last, ends=with_ends(last.ends, ends[position], topic.policy))
        known[topic.name] = last
        if is_complete and last.agreed < settle_cycles:
            now = tuple(sorted(groups[position]))
            agreed = last.agreed + 1 if now == last.groups else 1
            known[topic.name] = replace(last, groups=now, agreed=agreed)
    return known


def groups_by_topic(snapshot: Snapshot) -> defaultdict[int, set[str]]:
    """Who has committed on a topic, now or before, or may read it; by the topic's position."""
    groups: defaultdict[int, set[str]] = defaultdict(set)
    for reader in snapshot.readers:
        groups[reader.topic].add(snapshot.groups[reader.group].group_id)
    topic_of = np.array([each.topic for each in snapshot.partitions], np.int64)
    for table in (snapshot.commits, snapshot.remembered):
        topics = topic_of[table["partition_id"].to_numpy()]
        pairs = np.unique(topics * len(snapshot.groups) + table["group_id"].to_numpy())
        for topic, group in zip(*divmod(pairs, max(1, len(snapshot.groups))), strict=True):
            groups[int(topic)].add(snapshot.groups[group].group_id)
    return groups
