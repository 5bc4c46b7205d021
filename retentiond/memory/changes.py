"""What a cycle has seen that is not yet remembered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from retentiond.config import TopicPolicy
from retentiond.memory.known_readers import KnownReaders
from retentiond.memory.present import (
    TopicsByReader,
    present_readers,
    reader_at,
    stale_by_reader,
    with_numbers,
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

DROP_AFTER_MS = 24 * 60 * 60 * 1000
"""For how long a topic must have been observed to be gone before nothing is kept of it. One that is
back sooner finds all that was known, also under another id: a team that recreates its topic."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What state keeps of a reading of that cluster, in the order in which it applies.

    ``void_topics`` were recreated, and lose the commits that were known, but nobody who reads them;
    ``topics`` replace what was remembered; so do ``found``, which were not remembered, and
    ``seen``, which were, if nobody has released them meanwhile; ``absent`` are missing for the
    first time, at ``now_ms``, and ``still_absent`` for ``observed_ms`` more; ``forgotten`` are
    missing for longer than their policy waits. ``gone_ms``: for how long topics are gone, that
    were remembered, and nobody waits for them; ``back`` are there again, or awaited, or nobody
    can tell; of ``dropped`` nothing is kept.

    ``is_complete``: the reading was. ``agreed``: by topic, how many complete readings in a row,
    this one included, had the same groups; that is for the decision.
    """

    cluster_id: str
    now_ms: int
    is_complete: bool
    observed_ms: int
    agreed: Mapping[str, int]
    void_topics: tuple[str, ...]
    topics: Mapping[str, KnownTopic]
    found: Mapping[GroupOnTopic, RememberedReader]
    seen: Mapping[GroupOnTopic, RememberedReader]
    absent: tuple[GroupOnTopic, ...]
    still_absent: tuple[GroupOnTopic, ...]
    forgotten: tuple[GroupOnTopic, ...]
    gone_ms: Mapping[str, int]
    back: tuple[str, ...]
    dropped: tuple[str, ...]

    def __bool__(self) -> bool:
        return any(
            (self.void_topics, self.topics, self.found, self.seen, self.absent, self.still_absent,
             self.forgotten, self.gone_ms, self.back, self.dropped)
        )  # fmt: skip

    @property
    def is_about_time(self) -> bool:
        """Whether something waits for time to pass."""
        return bool(self.absent or self.still_absent or self.gone_ms)


def changes(
    snapshot: Snapshot, before: Remembered, settle_cycles: int, observed_ms: int = 0
) -> Changes:
    """From what was remembered to what is to be.

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
    others = [before.readers.at[at] for at in np.flatnonzero(~unchanged).tolist()]
    not_unchanged = {at: known[at] for at in others}
    topics = known_topics(snapshot, before, settle_cycles)
    policies = {topic.name: topic.policy for topic in snapshot.topics if topic.failure is None}
    missing = _missing_readers(snapshot, not_unchanged, present)
    gone_ms = _gone_ms(snapshot, before, observed_ms)
    return Changes(
        cluster_id=snapshot.cluster_id,
        now_ms=snapshot.taken_at_ms,
        is_complete=snapshot.complete,
        observed_ms=observed_ms,
        agreed={name: topic.agreed for name, topic in topics.items()},
        void_topics=tuple(sorted(void)),
        topics={name: topic for name, topic in topics.items() if topic != before.topics.get(name)},
        found={at: last for at, last in present.items() if at not in known},
        seen={
            **{at: last for at, last in present.items() if at in known and last != known[at]},
            **_back_in_doubt(snapshot, not_unchanged, present),
        },
        absent=tuple(at for at, last in missing.items() if last.absent_since_ms is None),
        still_absent=tuple(at for at, last in missing.items() if last.absent_since_ms is not None),
        forgotten=tuple(
            at for at, last in missing.items() if is_forgotten(policies[at.topic], last)
        ),
        gone_ms={name: ms for name, ms in gone_ms.items() if ms < DROP_AFTER_MS},
        back=tuple(sorted(before.gone_ms.keys() - _gone_topics(snapshot))),
        dropped=tuple(sorted(name for name, ms in gone_ms.items() if ms >= DROP_AFTER_MS)),
    )


def known_readers(first: Snapshot, before: Remembered) -> TopicsByReader:
    """Who needs no second reading to be remembered: the plan's has shown it, or an earlier one."""
    topics: defaultdict[ReaderName, set[str]] = defaultdict(set)
    for group_id, topic, is_external in before.commits:
        topics[ReaderName(group_id, is_external)].add(topic)
    for at in _seen(first, before.readers):
        topics[at.reader].add(at.topic)
    for group_id, names in first.other_topics.items():
        topics[ReaderName(group_id)] |= names
    return topics


class NewlySeen(NamedTuple):
    """What only a reading of the guard's has shown: ``found`` are readers; ``stale`` are commits by
    partition that are older than their log."""

    found: Mapping[GroupOnTopic, RememberedReader]
    stale: Mapping[GroupOnTopic, Mapping[int, int]]
    now_ms: int


def newly_seen(second: Snapshot, known: TopicsByReader, before: Remembered) -> NewlySeen:
    """Readers of whatever topic who are neither ``known`` nor found by an earlier reading of the
    guard's, which is in ``before``; and what is not known of the commits as they stand. Whoever an
    operator has released since the cycle began is no new reader, although the reading may still
    show it."""
    found = present_readers(second, {}, NOTHING.readers, known).readers
    return NewlySeen(
        {at: last for at, last in found.items() if at not in before.commits},
        {
            at: offsets
            for at, offsets in stale_by_reader(second).items()
            if (last := before.commits.get(at)) is None
            or not offsets.items() <= last.stale_offsets().items()
        },
        second.taken_at_ms,
    )


def with_stale(last: RememberedReader, offsets: Mapping[int, int], now_ms: int) -> RememberedReader:
    """With commits that are older than their log, by partition."""
    seen = with_numbers(last, offsets, now_ms)
    return replace(seen, stale=last.stale | offsets.keys())


def _seen(snapshot: Snapshot, known: KnownReaders) -> set[GroupOnTopic]:
    """Who has a commit on one of its topics, or may read it, and is not known."""
    width = len(snapshot.topics)
    may_read = np.array([each.group * width + each.topic for each in snapshot.readers], np.int64)
    pairs = unique_runs(np.append(group_and_topic(snapshot, snapshot.commits), may_read))
    news = np.setdiff1d(pairs, known.pairs(snapshot)).tolist()
    return {reader_at(snapshot, *divmod(pair, width)) for pair in news}


def _gone_ms(snapshot: Snapshot, before: Remembered, observed_ms: int) -> dict[str, int]:
    """For how long each of `_gone_topics` is gone; only what a complete reading says counts."""
    if not snapshot.complete:
        return {}
    return {
        name: before.gone_ms[name] + observed_ms if name in before.gone_ms else 0
        for name in _gone_topics(snapshot)
    }


def _gone_topics(snapshot: Snapshot) -> frozenset[str]:
    """Topics that are gone, and that no group waits for."""
    return snapshot.gone_topics.difference(*snapshot.other_topics.values())


def _back_in_doubt(
    snapshot: Snapshot,
    known: Mapping[GroupOnTopic, RememberedReader],
    present: Mapping[GroupOnTopic, RememberedReader],
) -> dict[GroupOnTopic, RememberedReader]:
    """Groups that were absent and are listed now, but can't be read, or have no commit: their
    absence ends here, or a later one would seem to have begun back then."""
    failed, listed = _failed(snapshot), _listed(snapshot)
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
    """Remembered groups that have no commit any more, or never had one and are not there any more,
    if the reading is able to say so."""
    if not snapshot.complete:
        return {}
    readable = {topic.name for topic in snapshot.topics if topic.failure is None}
    failed, listed = _failed(snapshot), _listed(snapshot)
    named = {
        GroupOnTopic(reader.name, topic.name, is_external=True)
        for topic in snapshot.topics
        if isinstance(topic.policy, TopicPolicy)
        for reader in topic.policy.external_readers  # a group may have its name just now
    }
    return {
        at: last
        for at, last in known.items()
        if at not in present
        and at not in named
        and at.topic in readable
        and at.reader not in failed
        and (last.offsets or at.reader not in listed)
    }


def _listed(snapshot: Snapshot) -> set[ReaderName]:
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
        if group.failure is not None
    }
