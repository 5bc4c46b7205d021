"""What a reading adds to the memory of earlier cycles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from retentiond.formatting import DAY_MS
from retentiond.memory.by_partition import ByPartition
from retentiond.memory.known_readers import KnownReaders
from retentiond.memory.present import (
    TopicsByReader,
    present_readers,
    reader_at,
    readers_of_other_topics,
    stale_by_reader,
)
from retentiond.memory.remembered import (
    NOTHING,
    GroupOnTopic,
    KnownTopic,
    ReaderName,
    Remembered,
    RememberedReader,
    group_and_topic,
    is_forgotten,
    known_topics,
    unique_runs,
)
from retentiond.snapshot import ABSENT, VANISHED, Snapshot

DROP_AFTER_MS = DAY_MS
"""For how long a topic must have been observed to be gone before all memory of it is dropped. If
it comes back sooner, even with another id (a team recreates it), its readers are still known."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes that a reading makes to the memory of its cluster, in the order in which they
    apply:

    - ``void_topics`` were recreated. Their known commits are dropped; their readers stay known.
    - ``topics`` replace the remembered topics of the same name.
    - ``new_readers`` were not remembered.
    - ``changed_readers`` replace remembered ones, unless an operator has released them meanwhile.
    - ``absent`` readers are missing for the first time, at ``now_ms``.
    - ``still_absent`` readers are missing for ``observed_ms`` more.
    - ``forgotten`` readers are missing for as long as their policy waits.
    - ``gone_ms``: remembered topics that are gone and that no group waits for, and for how long.
    - ``not_gone`` topics no longer count as gone: they exist again, a group waits for them, or the
      reading can't tell.
    - ``dropped_topics`` were gone for so long that all memory of them is dropped.

    ``is_complete``: whether the reading is complete. ``agreed``: for the decision, by topic, how
    many complete readings in a row, this one included, had the same groups.
    """

    cluster_id: str
    now_ms: int
    is_complete: bool
    observed_ms: int
    agreed: Mapping[str, int]
    void_topics: tuple[str, ...]
    topics: Mapping[str, KnownTopic]
    new_readers: Mapping[GroupOnTopic, RememberedReader]
    changed_readers: Mapping[GroupOnTopic, RememberedReader]
    absent: tuple[GroupOnTopic, ...]
    still_absent: tuple[GroupOnTopic, ...]
    forgotten: tuple[GroupOnTopic, ...]
    gone_ms: Mapping[str, int]
    not_gone: tuple[str, ...]
    dropped_topics: tuple[str, ...]

    def __bool__(self) -> bool:
        return any(
            (self.void_topics, self.topics, self.new_readers, self.changed_readers, self.absent,
             self.still_absent, self.forgotten, self.gone_ms, self.not_gone, self.dropped_topics)
        )  # fmt: skip

    @property
    def counts_time(self) -> bool:
        """Whether a reader is absent or a topic is gone, so that the observed time counts."""
        return bool(self.absent or self.still_absent or self.gone_ms)


def changes(
    snapshot: Snapshot, before: Remembered, settle_cycles: int, observed_ms: int = 0
) -> Changes:
    """What this reading changes in the memory ``before``.

    ``observed_ms``: how much time has certainly passed since the last complete reading.
    """
    void = {topic.name for topic in snapshot.topics if topic.recreated}
    known = (
        before.commits
        if not void
        else {
            at: last.without_commits() if at.topic in void else last
            for at, last in before.commits.items()
        }
    )
    present, unchanged = present_readers(snapshot, known, before.readers)
    to_compare = [before.readers.at[position] for position in np.flatnonzero(~unchanged).tolist()]
    compared = {at: known[at] for at in to_compare}
    topics = known_topics(snapshot, before, settle_cycles)
    policies = {topic.name: topic.policy for topic in snapshot.topics if topic.failure is None}
    missing = _missing_readers(snapshot, compared, present)
    gone_ms = _gone_ms(snapshot, before, observed_ms)
    return Changes(
        cluster_id=snapshot.cluster_id,
        now_ms=snapshot.taken_at_ms,
        is_complete=snapshot.complete,
        observed_ms=observed_ms,
        agreed={name: topic.agreed for name, topic in topics.items()},
        void_topics=tuple(sorted(void)),
        topics={name: topic for name, topic in topics.items() if topic != before.topics.get(name)},
        new_readers={at: last for at, last in present.items() if at not in known},
        changed_readers={
            **{at: last for at, last in present.items() if at in known and last != known[at]},
            **_no_longer_absent(snapshot, compared, present),
        },
        absent=tuple(at for at, last in missing.items() if last.absent_since_ms is None),
        still_absent=tuple(at for at, last in missing.items() if last.absent_since_ms is not None),
        forgotten=tuple(
            at for at, last in missing.items() if is_forgotten(policies[at.topic], last)
        ),
        gone_ms={name: ms for name, ms in gone_ms.items() if ms < DROP_AFTER_MS},
        not_gone=tuple(sorted(before.gone_ms.keys() - _gone_topics(snapshot))),
        dropped_topics=tuple(sorted(name for name, ms in gone_ms.items() if ms >= DROP_AFTER_MS)),
    )


def known_readers(first: Snapshot, before: Remembered) -> TopicsByReader:
    """The readers, by topic, that the plan's reading or an earlier cycle has shown. The guard's
    reading adds nothing about them."""
    topics: defaultdict[ReaderName, set[str]] = defaultdict(set)
    for group_id, topic, is_external in before.commits:
        topics[ReaderName(group_id, is_external)].add(topic)
    for at in _unknown_readers(first, before.readers):
        topics[at.reader].add(at.topic)
    for group_id, names in first.other_topics.items():
        topics[ReaderName(group_id)] |= names
    return topics


class NewlySeen(NamedTuple):
    """What only a reading of the guard has shown: ``new_readers``, and in ``stale``, by partition,
    commits that may be older than their log."""

    new_readers: Mapping[GroupOnTopic, RememberedReader]
    stale: Mapping[GroupOnTopic, Mapping[int, int]]
    now_ms: int


def newly_seen(second: Snapshot, known: TopicsByReader, before: Remembered) -> NewlySeen:
    """What the guard's reading ``second`` adds: readers of any topic that are neither ``known`` nor
    in ``before`` (which includes the guard's earlier readings), and stale commits that are not
    remembered as stale.

    A reader that an operator has released since the cycle began is no new one, although the
    reading may still show it.
    """
    unknown = {
        at
        for at in _unknown_readers(second, before.readers) | readers_of_other_topics(second)
        if at.topic not in known.get(at.reader, ()) and at not in before.commits
    }
    present = present_readers(second, {}, NOTHING.readers).readers if unknown else {}
    return NewlySeen(
        {at: last for at, last in present.items() if at in unknown},
        {
            at: offsets
            for at, offsets in stale_by_reader(second).items()
            if (last := before.commits.get(at)) is None
            or not offsets.items() <= last.stale_offsets().items()
        },
        second.taken_at_ms,
    )


def with_stale(last: RememberedReader, offsets: Mapping[int, int], now_ms: int) -> RememberedReader:
    """The reader with these commits, by partition, which were seen now, marked as stale. Whoever
    has commits is not absent."""
    moved = {
        partition: now_ms
        for partition, offset in offsets.items()
        if offset != last.offsets.get(partition) or partition not in last.moved_at_ms
    }
    return replace(
        last,
        offsets=last.offsets.updated(ByPartition.of(offsets)),
        moved_at_ms=last.moved_at_ms.updated(ByPartition.of(moved)),
        stale=last.stale.union(offsets),
        absent_since_ms=None,
        absent_ms=0,
    )


def _unknown_readers(snapshot: Snapshot, known: KnownReaders) -> set[GroupOnTopic]:
    """Readers that have a commit on a topic, or may read it, and are not ``known``."""
    topics = len(snapshot.topics)
    may_read = np.array([each.group * topics + each.topic for each in snapshot.readers], np.int64)
    pairs = unique_runs(np.append(group_and_topic(snapshot, snapshot.commits), may_read))
    unknown = np.setdiff1d(pairs, known.pairs(snapshot)).tolist()
    return {reader_at(snapshot, *divmod(pair, topics)) for pair in unknown}


def _gone_ms(snapshot: Snapshot, before: Remembered, observed_ms: int) -> dict[str, int]:
    """For how long each of `_gone_topics` is gone. Only a complete reading proves it."""
    if not snapshot.complete:
        return {}
    return {
        name: before.gone_ms[name] + observed_ms if name in before.gone_ms else 0
        for name in _gone_topics(snapshot)
    }


def _gone_topics(snapshot: Snapshot) -> frozenset[str]:
    """Topics that no longer exist and that no group wants to read."""
    return snapshot.gone_topics.difference(*snapshot.other_topics.values())


def _no_longer_absent(
    snapshot: Snapshot,
    known: Mapping[GroupOnTopic, RememberedReader],
    present: Mapping[GroupOnTopic, RememberedReader],
) -> dict[GroupOnTopic, RememberedReader]:
    """Groups that were absent and are listed now, but can't be read or have no commit. Their
    absence ends here; otherwise a later absence would seem to have begun with this one."""
    failed, listed = _failed(snapshot), listed_readers(snapshot)
    return {
        at: replace(last, absent_since_ms=None, absent_ms=0)
        for at, last in known.items()
        if at not in present
        and last.absent_since_ms is not None
        and (at.reader in failed or (not last.offsets and at.reader in listed))
    }


def _missing_readers(
    snapshot: Snapshot,
    known: Mapping[GroupOnTopic, RememberedReader],
    present: Mapping[GroupOnTopic, RememberedReader],
) -> dict[GroupOnTopic, RememberedReader]:
    """Remembered readers that have lost their commits, or never had one and are no longer listed.
    Only a complete reading, in which the topic and the group are readable, proves it."""
    if not snapshot.complete:
        return {}
    readable = {topic.name for topic in snapshot.topics if topic.failure is None}
    failed, listed = _failed(snapshot), listed_readers(snapshot)
    return {
        at: last
        for at, last in known.items()
        if at not in present
        and at.topic in readable
        and at.reader not in failed
        and (last.offsets or at.reader not in listed)
    }


def listed_readers(snapshot: Snapshot) -> set[ReaderName]:
    """The readers that exist by this reading."""
    unlisted = (VANISHED, ABSENT)
    return {
        ReaderName(group.name, group.is_external)
        for group in snapshot.groups
        if group.state not in unlisted
    }


def _failed(snapshot: Snapshot) -> set[ReaderName]:
    return {
        ReaderName(group.name, group.is_external)
        for group in snapshot.groups
        if group.failure is not None or group.problem is not None
    }
