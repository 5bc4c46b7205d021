"""What is remembered after a reading, reader by reader: `retentiond.memory` is held against it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from retentiond.memory.readers import GroupOnTopic, RememberedReader
from retentiond.snapshot import ABSENT, VANISHED, GroupReading, Snapshot, TopicReading

Known = Mapping[GroupOnTopic, RememberedReader]


def after_reading(snapshot: Snapshot, before: Known, observed_ms: int) -> Known:
    """``observed_ms``: for how long an absence that goes on was observed."""
    topics = {topic.name: topic for topic in snapshot.topics}
    groups = {(group.name, group.is_external): group for group in snapshot.groups}
    shown = _shown(snapshot)
    now_ms = snapshot.taken_at_ms
    known: dict[GroupOnTopic, RememberedReader] = {}
    for at, last in before.items():
        topic = topics.get(at.topic)
        is_void = topic is not None and topic.recreated
        valid = replace(last, offsets={}, moved_at_ms={}, stale=frozenset()) if is_void else last
        kept: RememberedReader | None = valid
        if at not in shown:
            kept = _unseen(snapshot, topic, groups.get(at.reader), valid, observed_ms)
        if kept is not None:
            known[at] = kept
    for at, commits in shown.items():
        kind = groups[at.reader].kind
        last = known.get(at) or RememberedReader(kind, {}, seen_at_ms=now_ms)
        known[at] = replace(last, kind=kind, absent_since_ms=None, absent_ms=0)
        for partition, commit in commits.items():
            known[at] = _with(known[at], partition, commit, now_ms)
    return known


class Shown(NamedTuple):
    """A commit. ``offset``: None if it can't be read."""

    offset: int | None
    log_start: int | None
    is_stale: bool


def _with(last: RememberedReader, partition: int, commit: Shown, now_ms: int) -> RememberedReader:
    offset, log_start, is_stale = commit
    if offset is None:
        return last
    before = last.offsets.get(partition)
    if before is not None and log_start is not None and offset < before and offset < log_start:
        offset = before  # it went back to records that are gone
    stands = offset == before and partition in last.moved_at_ms
    others = last.stale - {partition}
    return replace(
        last,
        offsets={**last.offsets, partition: offset},
        moved_at_ms=last.moved_at_ms if stands else {**last.moved_at_ms, partition: now_ms},
        stale=others | {partition} if is_stale else others,
    )


def _unseen(
    snapshot: Snapshot,
    topic: TopicReading | None,
    group: GroupReading | None,
    last: RememberedReader,
    observed_ms: int,
) -> RememberedReader | None:
    """A reader of which the reading shows no trace; None: it is no longer waited for."""
    is_listed = group is not None and group.state not in (VANISHED, ABSENT)
    is_unreadable = group is not None and (group.failure or group.problem) is not None
    if is_unreadable or (is_listed and not last.offsets):
        return replace(last, absent_since_ms=None, absent_ms=0)
    if not snapshot.complete or topic is None or topic.failure is not None:
        return last
    if last.absent_since_ms is None:
        return replace(last, absent_since_ms=snapshot.taken_at_ms, absent_ms=0)
    patience_ms = getattr(topic.policy, "forget_vanished_after_ms", None)
    if patience_ms is not None and last.absent_ms >= patience_ms:
        return None
    return replace(last, absent_ms=last.absent_ms + observed_ms)


def _shown(snapshot: Snapshot) -> Mapping[GroupOnTopic, Mapping[int, Shown]]:
    """The readers that have a trace, with their commits by partition."""
    found: defaultdict[GroupOnTopic, dict[int, Shown]] = defaultdict(dict)

    def reader(group: int, topic: str) -> GroupOnTopic:
        reading = snapshot.groups[group]
        return GroupOnTopic(reading.name, topic, reading.is_external)

    for row in snapshot.commits.to_pylist():
        if not row["is_committed"]:
            continue
        partition = snapshot.partitions[row["partition_id"]]
        at = reader(row["group_id"], snapshot.topics[partition.topic].name)
        found[at][partition.partition] = Shown(
            row["offset"], partition.log_start_offset, row["is_stale"]
        )
    for member in snapshot.readers:
        _ = found[reader(member.group, snapshot.topics[member.topic].name)]
    for group, names in snapshot.other_topics.items():
        for name in names:
            _ = found[GroupOnTopic(group, name)]
    return found
