"""What a reading shows of the readers, beside what is remembered of them.

Whoever is remembered or shown for the first time is a row of one table. Each commit of the reading
is put beside the remembered one of the same row and partition. Then each rule is a line on whole
columns.
"""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from retentiond.memory.readers import (
    KINDS,
    NOBODY,
    Commits,
    Readers,
    flags,
    joined_keys,
    not_absent,
    positions_in,
)
from retentiond.memory.remembered import Rows
from retentiond.snapshot import (
    NOWHERE,
    Flags,
    GroupCondition,
    Integers,
    Snapshot,
    current,
    distinct,
    known_or,
    numbered,
    pairs_of,
    rows_among,
    values_at,
    where,
)


class Seen(NamedTuple):
    """``new``: readers that were not remembered. ``renewed``: remembered ones that the reading
    shows otherwise than they are remembered. ``is_missing``: for each remembered one, whether the
    reading lacks it; only a complete one proves that."""

    new: Readers
    renewed: Readers
    is_missing: Flags


class Others(NamedTuple):
    """Groups that read topics that are not in the reading (`Snapshot.other_topics`): the names of
    both, as columns."""

    groups: pa.Array
    topics: pa.Array

    @classmethod
    def of(cls, snapshot: Snapshot) -> Others:
        topics = [*snapshot.other_topics.values()]
        owners = np.repeat(np.arange(len(topics)), [len(of_group) for of_group in topics])
        groups = pa.array([*snapshot.other_topics], pa.string()).take(pa.array(owners))
        return cls(groups, pa.array(chain.from_iterable(topics), pa.string()))

    @property
    def keys(self) -> pa.Array:
        """As of `Readers.keys`."""
        return joined_keys(self.topics, self.groups, "0")

    def where(self, mask: Flags) -> Others:
        return Others(self.groups.filter(pa.array(mask)), self.topics.filter(pa.array(mask)))


def seen(snapshot: Snapshot, readers: Readers, rows: Rows, others: Others) -> Seen:
    """``rows``: where the ``readers`` stand in the reading. What the reading has beside its commits
    (`COMMIT_SCHEMA`) was remembered of these readers, or nothing."""
    now = current(snapshot.commits)
    pairs = pairs_of(snapshot, now)
    shown = distinct(np.append(distinct(pairs), numbered(snapshot, snapshot.readers)))
    new_pairs = shown[rows_among(shown, rows.pairs) == NOWHERE]
    new_others = others.where(readers.rows_of(others.keys) == NOWHERE)
    newcomers = _newcomers(snapshot, new_pairs, new_others)
    everybody = readers.followed_by(newcomers)
    if len(newcomers):
        rows = Rows.of(everybody, snapshot)
    is_present = rows_among(rows.pairs, shown) != NOWHERE
    is_present[everybody.rows_of(others.keys)] = True

    # A reader is told of if it is new, if a commit of it is, if it is of another kind, or if its
    # absence ends.
    kinds_now = np.array([KINDS.index(group.kind) for group in snapshot.groups], np.int64)
    kinds = np.where(is_present, values_at(kinds_now, rows.groups, NOWHERE), everybody.kinds)
    is_told = np.arange(len(everybody)) >= len(readers)
    is_told |= is_present & (everybody.is_absent | (kinds != everybody.kinds))
    # One that is not shown is missing if its topic and group can be read, and it has lost its
    # commits, or never had one and is no longer listed. One that is listed and can't be read, or
    # has no commit, is no longer absent: otherwise a later absence would seem to have begun with
    # this one.
    is_void = rows.of_topics(topic.recreated for topic in snapshot.topics)
    has_commits = everybody.has_commits & ~is_void
    has_failed = rows.of_groups(
        group.condition is GroupCondition.UNREADABLE for group in snapshot.groups
    )
    is_listed = rows.of_groups(group.is_listed for group in snapshot.groups)
    is_doubtful = has_failed | (is_listed & ~has_commits)
    is_told |= everybody.is_absent & ~is_present & is_doubtful
    can_be_read = rows.of_topics(topic.failure is None for topic in snapshot.topics)
    is_missing = can_be_read & ~is_present & ~is_doubtful

    owners = rows_among(pairs, rows.pairs)
    commits, is_told = _commits(snapshot, now, owners, everybody, is_void=is_void, is_told=is_told)
    told = np.flatnonzero(is_told)
    present = everybody.present(told, kinds[told], commits)
    is_new = told >= len(readers)
    return Seen(
        NOBODY.with_rows(present.where(is_new)), present.where(~is_new), is_missing[: len(readers)]
    )


def _may_be_news(commits: pa.Table) -> Flags:
    """Which commits (`COMMIT_SCHEMA`) may have moved since they were remembered, or may be older
    than their log."""
    stands = pc.and_(
        pc.equal(commits["offset"], commits["remembered_offset"]),
        pc.is_valid(commits["moved_at_ms"]),
    )
    return ~flags(pc.fill_null(stands, False)) | flags(commits["is_stale"])


def _commits(
    snapshot: Snapshot,
    now: pa.Table,
    owners: Integers,
    readers: Readers,
    *,
    is_void: Flags,
    is_told: Flags,
) -> tuple[Commits, Flags]:
    """The commits of all readers that are told of, as they are from this reading on, and who that
    is: those of ``is_told``, and whose commit is news. ``owners``: the row of the reader, for each
    commit of the reading ``now``. ``is_void``: whose remembered commits count no longer."""
    # Of millions of commits most stand where they stood: the others are looked at more closely.
    may_be_news = _may_be_news(now) | readers.has_stale_commits[owners]
    now, owners = where(now, may_be_news), owners[may_be_news]
    is_meant = is_told.copy()
    is_meant[owners] = True
    last = readers.commits
    last = last.where((is_meant & ~is_void)[last.owners])
    partition = now["partition_id"].to_numpy()
    number = np.array([reading.partition for reading in snapshot.partitions], np.int32)[partition]
    width = 1 + max(int(numbers.max(initial=0)) for numbers in (number, last.partitions))
    at = rows_among(owners * width + number, last.owners * width + last.partitions)
    offset = now["offset"].fill_null(NOWHERE).to_numpy()
    before = values_at(last.offsets, at, NOWHERE)
    moved_before_ms = values_at(last.moved_at_ms, at, NOWHERE)
    log_start = known_or(NOWHERE, [reading.log_start_offset for reading in snapshot.partitions])

    # The commit counts, unless the group went back to records that are gone. As long as this
    # lasts, the higher one stays remembered, so that a later cycle sees it too.
    shown_offset = np.where(offset < np.minimum(before, log_start[partition]), before, offset)
    # A commit stands at its offset since the reading that first showed it there.
    has_moved = (shown_offset != before) | (moved_before_ms == NOWHERE)
    moved_at_ms = np.where(has_moved, snapshot.taken_at_ms, moved_before_ms)
    # A commit proves nothing until it moves, if it may be older than the log.
    is_stale = flags(now["is_stale"])
    has_changed = has_moved | (is_stale != values_at(last.is_stale, at, False))
    is_news = has_changed & (offset != NOWHERE)
    is_told = is_told.copy()
    is_told[owners[is_news]] = True

    shown = Commits(owners, number, shown_offset, moved_at_ms, is_stale)
    is_known = at != NOWHERE
    after = last.with_values(at, shown, is_news & is_known).and_also(
        shown.where(is_news & ~is_known)
    )
    return after, is_told


def _newcomers(snapshot: Snapshot, pairs: Integers, others: Others) -> Readers:
    """The readers of these pairs of group and topic (`pairs_of`), and the others; in this order,
    without their commits."""
    group, topic = np.divmod(pairs, max(1, len(snapshot.topics)))
    groups = snapshot.groups
    of_kafka = pa.array(
        (None if reading.is_external else reading.name for reading in groups), pa.string()
    )
    at = pa.array(np.append(group, positions_in(others.groups, of_kafka)))
    topics = pa.array((reading.name for reading in snapshot.topics), pa.string())
    columns = {
        "topic": pa.concat_arrays([topics.take(pa.array(topic)), others.topics]),
        "group": pa.array((reading.name for reading in groups), pa.string()).take(at),
        "is_external": pa.array((reading.is_external for reading in groups), pa.bool_()).take(at),
        "kind": pa.array((reading.kind.value for reading in groups), pa.string()).take(at),
        "seen_at_ms": pa.array(np.full(len(at), snapshot.taken_at_ms)),
    }
    return Readers.of_columns({**columns, **not_absent(len(at))}, NOBODY.commits)
