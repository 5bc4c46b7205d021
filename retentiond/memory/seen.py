"""What a reading shows of the readers, beside what is remembered of them.

Whoever is remembered or shown for the first time is a row of one table. Each commit of the reading
is put beside the remembered one of the same row and partition. Then each rule is a line on whole
columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from retentiond.memory.readers import (
    KINDS,
    NOBODY,
    Commits,
    GroupOnTopic,
    Readers,
    flags,
    keys_of,
    not_absent,
)
from retentiond.memory.remembered import Rows
from retentiond.snapshot import (
    NOWHERE,
    Flags,
    Integers,
    Snapshot,
    current,
    distinct,
    numbered,
    pairs_of,
    rows_among,
    values_at,
    where,
)


class Seen(NamedTuple):
    """``new``: readers that were not remembered. ``renewed``: remembered ones that the reading
    shows otherwise than they are remembered. ``is_present``: whether it shows a reader, for each
    remembered one."""

    new: Readers
    renewed: Readers
    is_present: Flags


def seen(snapshot: Snapshot, readers: Readers, rows: Rows) -> Seen:
    """``rows``: where the ``readers`` stand in the reading. What the reading has beside its commits
    (`COMMIT_SCHEMA`) was remembered of these readers, or nothing."""
    now = current(snapshot.commits)
    pairs = pairs_of(snapshot, now)
    shown = distinct(np.append(distinct(pairs), numbered(snapshot, snapshot.readers)))
    others = [
        GroupOnTopic(group, topic)
        for group, topics in snapshot.other_topics.items()
        for topic in topics
    ]
    newcomers = _newcomers(
        snapshot,
        shown[rows_among(shown, rows.pairs) == NOWHERE],
        [others[at] for at in np.flatnonzero(readers.rows_of(keys_of(others)) == NOWHERE).tolist()],
    )
    everybody = readers.followed_by(newcomers)
    if len(newcomers):
        rows = Rows.of(everybody, snapshot)
    is_present = rows_among(rows.pairs, shown) != NOWHERE
    is_present[everybody.rows_of(keys_of(others))] = True

    # A reader is told of if it is new, if a commit of it is, if it is of another kind, or if its
    # absence ends.
    kinds_now = np.array([KINDS.index(group.kind) for group in snapshot.groups], np.int64)
    kinds = np.where(is_present, values_at(kinds_now, rows.groups, NOWHERE), everybody.kinds)
    is_told = np.arange(len(everybody)) >= len(readers)
    is_told |= is_present & (everybody.is_absent | (kinds != everybody.kinds))
    # One that is listed and can't be read, or has no commit, is no longer absent: otherwise a
    # later absence would seem to have begun with this one.
    is_void = rows.of_topics(topic.recreated for topic in snapshot.topics)
    has_commits = everybody.has_commits & ~is_void
    is_doubtful = failed(snapshot, rows) | (listed(snapshot, rows) & ~has_commits)
    is_told |= everybody.is_absent & ~is_present & is_doubtful

    owners = rows_among(pairs, rows.pairs)
    commits, is_told = _commits(snapshot, now, owners, everybody, is_void=is_void, is_told=is_told)
    told = np.flatnonzero(is_told)
    found = everybody.present(told, kinds[told], commits)
    is_new = told >= len(readers)
    return Seen(
        NOBODY.with_rows(found.where(is_new)), found.where(~is_new), is_present[: len(readers)]
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
    known = readers.commits
    known = known.where((is_meant & ~is_void)[known.owners])
    partition = now["partition_id"].to_numpy()
    number = np.array([each.partition for each in snapshot.partitions], np.int32)[partition]
    width = 1 + max(int(each.max(initial=0)) for each in (number, known.partitions))
    at = rows_among(owners * width + number, known.owners * width + known.partitions)
    offset = now["offset"].fill_null(NOWHERE).to_numpy()
    before = values_at(known.offsets, at, NOWHERE)
    moved_before_ms = values_at(known.moved_at_ms, at, NOWHERE)
    starts = [each.log_start_offset for each in snapshot.partitions]
    log_start = np.array([NOWHERE if start is None else start for start in starts], np.int64)

    # The commit counts, unless the group went back to records that are gone. As long as this
    # lasts, the higher one stays remembered, so that a later cycle sees it too.
    kept = np.where(offset < np.minimum(before, log_start[partition]), before, offset)
    # A commit stands at its offset since the reading that first showed it there.
    has_moved = (kept != before) | (moved_before_ms == NOWHERE)
    moved_at_ms = np.where(has_moved, snapshot.taken_at_ms, moved_before_ms)
    # A commit proves nothing until it moves, if it may be older than the log.
    is_stale = flags(now["is_stale"])
    has_changed = has_moved | (is_stale != values_at(known.is_stale, at, False))
    is_news = has_changed & (offset != NOWHERE)
    is_told = is_told.copy()
    is_told[owners[is_news]] = True

    shown = Commits(owners, number, kept, moved_at_ms, is_stale)
    is_known = at != NOWHERE
    after = known.with_values(at, shown, is_news & is_known).and_also(
        shown.where(is_news & ~is_known)
    )
    return after, is_told


def _newcomers(snapshot: Snapshot, pairs: Integers, others: Sequence[GroupOnTopic]) -> Readers:
    """The readers of these pairs of group and topic (`pairs_of`), and of topics that are not in the
    reading. Without their commits, and in this order."""
    group, topic = np.divmod(pairs, max(1, len(snapshot.topics)))
    groups = snapshot.groups
    position = {each.name: at for at, each in enumerate(groups) if not each.is_external}
    group = np.append(group, np.array([position[other.group_id] for other in others], np.int64))
    names = pa.array((each.name for each in snapshot.topics), pa.string()).take(pa.array(topic))
    of_others = pa.array((other.topic for other in others), pa.string())
    columns = {
        "group": pa.array((each.name for each in groups), pa.string()),
        "is_external": pa.array((each.is_external for each in groups), pa.bool_()),
        "kind": pa.array((each.kind.value for each in groups), pa.string()),
    }
    at = pa.array(group)
    return Readers.of_columns(
        {
            "topic": pa.concat_arrays([names, of_others]),
            **{name: values.take(at) for name, values in columns.items()},
            "seen_at_ms": pa.array(np.full(len(group), snapshot.taken_at_ms)),
            **not_absent(len(group)),
        },
        NOBODY.commits,
    )


def failed(snapshot: Snapshot, rows: Rows) -> Flags:
    """Whose group can't be read."""
    return rows.of_groups(
        group.failure is not None or group.problem is not None for group in snapshot.groups
    )


def listed(snapshot: Snapshot, rows: Rows) -> Flags:
    """Who exists by this reading."""
    return rows.of_groups(group.is_listed for group in snapshot.groups)
