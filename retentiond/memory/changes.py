"""What a reading adds to the memory of earlier cycles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from retentiond.formatting import DAY_MS
from retentiond.memory.readers import Readers, flags
from retentiond.memory.remembered import (
    KnownTopic,
    Remembered,
    Rows,
    are_forgotten,
    gone_ms,
    gone_topics,
    known_topics,
)
from retentiond.memory.seen import Others, seen
from retentiond.snapshot import NOWHERE, Flags, Snapshot, current, pairs_of, rows_among, where

DROP_AFTER_MS = DAY_MS
"""For how long a topic must have been observed to be gone before all memory of it is dropped. If
it comes back sooner, even with another id (a team recreates it), its readers are still known."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes that a reading makes to the memory of its cluster, in the order in which they
    apply:

    - ``void_topics`` were recreated. Their known commits are dropped; their readers stay known.
    - ``topics`` replace the remembered topics of the same name.
    - ``new`` readers were not remembered.
    - ``renewed`` readers replace remembered ones, unless an operator has released them meanwhile.
    - ``absent`` readers are missing for the first time, at ``now_ms``. They and those that follow
      are keys (`GroupOnTopic.key`).
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
    new: Readers
    renewed: Readers
    absent: pa.Array
    still_absent: pa.Array
    forgotten: pa.Array
    gone_ms: Mapping[str, int]
    not_gone: tuple[str, ...]
    dropped_topics: tuple[str, ...]

    def __bool__(self) -> bool:
        return any(
            map(len, (self.void_topics, self.topics, self.new, self.renewed, self.absent,
                      self.still_absent, self.forgotten, self.gone_ms, self.not_gone,
                      self.dropped_topics))
        )  # fmt: skip

    @property
    def counts_time(self) -> bool:
        """Whether a reader is absent or a topic is gone, so that the observed time counts."""
        return any(map(len, (self.absent, self.still_absent, self.gone_ms)))

    def applied(self, readers: Readers) -> Readers:
        if self.void_topics:
            readers = readers.without_commits(readers.are_on(self.void_topics))
        readers = written(readers, self.new, self.renewed)
        if len(self.absent) or len(self.still_absent):
            is_absent, is_still_absent = (
                pc.is_in(readers.keys, value_set=keys) for keys in (self.absent, self.still_absent)
            )
            since_ms, ms = readers.column("absent_since_ms"), readers.column("absent_ms")
            since_ms = pc.if_else(is_absent, pa.scalar(self.now_ms, pa.int64()), since_ms)
            more_ms = pc.if_else(is_still_absent, pc.add(ms, self.observed_ms), ms)
            ms = pc.if_else(is_absent, pa.scalar(0, pa.int64()), more_ms)
            readers = readers.with_column("absent_since_ms", since_ms).with_column("absent_ms", ms)
        if len(self.forgotten) or self.dropped_topics:
            is_forgotten = flags(pc.is_in(readers.keys, value_set=self.forgotten))
            readers = readers.where(~(is_forgotten | readers.are_on(self.dropped_topics)))
        return readers


def written(readers: Readers, new: Readers, renewed: Readers) -> Readers:
    """The readers with the ``new`` ones, and with those of the ``renewed`` that they have: an
    operator may have released the others a moment ago."""
    if len(new):
        readers = readers.with_rows(new)
    if not len(renewed):
        return readers
    is_there = readers.rows_of(renewed.keys) != NOWHERE
    return readers.with_rows(renewed.where(is_there)) if is_there.any() else readers


def changes(
    snapshot: Snapshot, before: Remembered, settle_cycles: int, observed_ms: int = 0
) -> Changes:
    """What this reading changes in the memory ``before``.

    ``observed_ms``: how much time has certainly passed since the last complete reading.
    """
    readers = before.readers
    rows = Rows.of(readers, snapshot)
    now = seen(snapshot, readers, rows, Others.of(snapshot))
    topics = known_topics(snapshot, before, settle_cycles)
    # Only a complete reading proves it. Of an external reader only one in which every policy file
    # could be read.
    is_missing = now.is_missing & snapshot.complete
    if not snapshot.knows_external:
        is_missing &= ~flags(readers.column("is_external"))
    is_forgotten = are_forgotten(readers, rows.topics, snapshot.topics)
    gone = gone_ms(snapshot, before, observed_ms)

    def keys(are: Flags) -> pa.Array:
        return readers.keys.filter(pa.array(are))

    return Changes(
        cluster_id=snapshot.cluster_id,
        now_ms=snapshot.taken_at_ms,
        is_complete=snapshot.complete,
        observed_ms=observed_ms,
        agreed={name: topic.agreed for name, topic in topics.items()},
        void_topics=tuple(sorted(topic.name for topic in snapshot.topics if topic.recreated)),
        topics={name: topic for name, topic in topics.items() if topic != before.topics.get(name)},
        new=now.new,
        renewed=now.renewed,
        absent=keys(is_missing & ~readers.is_absent),
        still_absent=keys(is_missing & readers.is_absent),
        forgotten=keys(is_missing & is_forgotten),
        gone_ms={name: ms for name, ms in gone.items() if ms < DROP_AFTER_MS},
        not_gone=tuple(sorted(before.gone_ms.keys() - gone_topics(snapshot))),
        dropped_topics=tuple(sorted(name for name, ms in gone.items() if ms >= DROP_AFTER_MS)),
    )


def newly_seen(
    second: Snapshot, shown: Readers, before: Readers, now: Readers
) -> tuple[Readers, Readers]:
    """What the guard's reading ``second`` adds to the readers that are remembered ``now``: new
    ones, and those with commits that may be older than their log, with these commits.

    New is who was neither ``shown`` as new by the plan's reading nor remembered ``before`` (by the
    earlier cycles, and by this cycle's earlier readings of the guard). So one that an operator has
    released since then is no new one, although the reading may still show it.
    """
    here = now.about(topic.name for topic in second.topics)
    rows = Rows.of(here, second)
    commits = current(second.commits)
    is_new = rows_among(pairs_of(second, commits), rows.pairs) == NOWHERE
    is_told = flags(commits["is_stale"]) | is_new
    # What is remembered of an earlier topic of the name is the next cycle's to drop.
    topics = tuple(replace(topic, recreated=False) for topic in second.topics)
    told = replace(second, commits=where(commits, is_told), topics=topics)
    others = Others.of(second)
    newcomers = seen(told, here, rows, others.where(_are_unknown(others.keys, shown, before)))
    return newcomers.new.where(_are_unknown(newcomers.new.keys, shown, before)), newcomers.renewed


def _are_unknown(keys: pa.Array, shown: Readers, before: Readers) -> Flags:
    is_unknown: Flags = shown.rows_of(keys) == NOWHERE
    is_unknown &= before.rows_of(keys) == NOWHERE
    return is_unknown
