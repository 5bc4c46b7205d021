"""What a cycle has seen that is not yet remembered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from retentiond.collect.agreement import known_topics
from retentiond.collect.remembered import (
    GroupOnTopic,
    KnownTopic,
    LastCommits,
    Remembered,
    is_forgotten,
)
from retentiond.collect.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Changes:
    """In the order in which they apply.

    ``void_topics`` were recreated, and lose all that was known of their groups; ``topics``
    replace what was remembered; so do ``found``, which were not remembered, and ``seen``, which
    were, if nobody has released them meanwhile; ``absent`` are missing for the first time, at
    ``now_ms``; ``forgotten`` are missing for longer than their policy waits.
    """

    now_ms: int
    void_topics: tuple[str, ...]
    topics: Mapping[str, KnownTopic]
    found: Mapping[GroupOnTopic, LastCommits]
    seen: Mapping[GroupOnTopic, LastCommits]
    absent: tuple[GroupOnTopic, ...]
    forgotten: tuple[GroupOnTopic, ...]

    def __bool__(self) -> bool:
        return any(
            (self.void_topics, self.topics, self.found, self.seen, self.absent, self.forgotten)
        )


def changes(snapshot: Snapshot, before: Remembered, settle_cycles: int) -> Changes:
    """From what was remembered to what is to be."""
    void = {topic.name for topic in snapshot.topics if topic.recreated}
    known = {at: last for at, last in before.commits.items() if at.topic not in void}
    present = _present(snapshot, known)
    policies = {topic.name: topic.policy for topic in snapshot.topics if topic.failure is None}
    missing = _missing(snapshot, known, present)
    return Changes(
        now_ms=snapshot.taken_at_ms,
        void_topics=tuple(sorted(void)),
        topics={
            name: topic
            for name, topic in known_topics(snapshot, before, settle_cycles).items()
            if topic != before.topics.get(name)
        },
        found={at: last for at, last in present.items() if at not in known},
        seen={
            **{at: last for at, last in present.items() if at in known and last != known[at]},
            **_back_in_doubt(snapshot, known, present),
        },
        absent=tuple(at for at, last in missing.items() if last.absent_since_ms is None),
        forgotten=tuple(
            at
            for at, last in missing.items()
            if is_forgotten(policies[at.topic], last, snapshot.taken_at_ms)
        ),
    )


def _present(
    snapshot: Snapshot, known: Mapping[GroupOnTopic, LastCommits]
) -> dict[GroupOnTopic, LastCommits]:
    """What is to be remembered of the groups that have a commit on a topic."""
    offsets: dict[tuple[int, int], dict[int, int]] = {}
    columns = (snapshot.commits[name].to_pylist() for name in snapshot.commits.column_names)
    for group_id, partition_id, offset in zip(*columns, strict=True):
        reading = snapshot.partitions[partition_id]
        on_topic = offsets.setdefault((group_id, reading.topic), {})
        if offset is not None:
            on_topic[reading.partition] = offset
    log_starts = {
        (reading.topic, reading.partition): reading.log_start_offset
        for reading in snapshot.partitions
    }
    present = {}
    for (group_id, topic_id), now in offsets.items():
        group = snapshot.groups[group_id]
        at = GroupOnTopic(group.group_id, snapshot.topics[topic_id].name)
        last = known.get(at, LastCommits(group.kind, {}))
        before = last.offsets
        kept = {
            partition: _kept(offset, before.get(partition), log_starts[topic_id, partition])
            for partition, offset in now.items()
        }
        present[at] = LastCommits(
            group.kind,
            {**before, **kept},
            moved_at_ms=_moved_at_ms(last, kept, snapshot.taken_at_ms),
        )
    return present


def _moved_at_ms(before: LastCommits, kept: Mapping[int, int], now_ms: int) -> dict[int, int]:
    """When each commit was first seen where it is kept."""
    return {
        **before.moved_at_ms,
        **{
            partition: now_ms
            for partition, offset in kept.items()
            if offset != before.offsets.get(partition) or partition not in before.moved_at_ms
        },
    }


def _kept(offset: int, before: int | None, log_start: int | None) -> int:
    """The commit of now, unless the group went back to where its records are gone.

    That must stay visible for as long as it lasts, so the higher commit stays remembered.
    """
    if before is None or log_start is None or offset >= min(before, log_start):
        return offset
    return before


def _back_in_doubt(
    snapshot: Snapshot,
    known: Mapping[GroupOnTopic, LastCommits],
    present: Mapping[GroupOnTopic, LastCommits],
) -> dict[GroupOnTopic, LastCommits]:
    """Groups that were absent and are listed now, but can't be read: their absence ends here, or
    a later one would seem to have begun back then."""
    failed = _failed(snapshot)
    return {
        at: replace(last, absent_since_ms=None)
        for at, last in known.items()
        if at not in present and last.absent_since_ms is not None and at.group_id in failed
    }


def _missing(
    snapshot: Snapshot,
    known: Mapping[GroupOnTopic, LastCommits],
    present: Mapping[GroupOnTopic, LastCommits],
) -> dict[GroupOnTopic, LastCommits]:
    """Remembered groups that have no commit any more, if the reading is able to say so."""
    if not snapshot.complete:
        return {}
    readable = {topic.name for topic in snapshot.topics if topic.failure is None}
    failed = _failed(snapshot)
    return {
        at: last
        for at, last in known.items()
        if at not in present and at.topic in readable and at.group_id not in failed
    }


def _failed(snapshot: Snapshot) -> set[str]:
    return {group.group_id for group in snapshot.groups if group.failure is not None}
