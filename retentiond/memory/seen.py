"""What a reading shows of the readers, beside what is remembered of them.

Each commit of the reading is put beside the remembered one of the same group and partition. Then
each rule is a line on whole columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from retentiond.gather.assemble import positions_of
from retentiond.memory.readers import (
    KINDS,
    NOBODY,
    Commits,
    GroupOnTopic,
    Readers,
    RememberedReader,
    flags,
    keys_of,
)
from retentiond.memory.remembered import group_and_topic
from retentiond.snapshot import (
    ABSENT,
    NOWHERE,
    VANISHED,
    Flags,
    Integers,
    Snapshot,
    current,
    distinct,
    keys_of_commits,
    rows_among,
    where,
)


class Rows(NamedTuple):
    """Where the rows of `Readers` stand in a reading: the positions of their groups and topics, and
    both as one number (`group_and_topic`); `NOWHERE` where one is not there."""

    groups: Integers
    topics: Integers
    pairs: Integers

    @classmethod
    def of(cls, readers: Readers, snapshot: Snapshot) -> Rows:
        groups = readers.readers_in([(each.name, each.is_external) for each in snapshot.groups])
        topics = readers.topics_in([topic.name for topic in snapshot.topics])
        is_there = (groups != NOWHERE) & (topics != NOWHERE)
        pairs = np.where(is_there, groups * len(snapshot.topics) + topics, NOWHERE)
        return cls(groups, topics, pairs)


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
    pairs = group_and_topic(snapshot, now)
    others = readers_of_other_topics(snapshot)
    others_at = readers.rows_of(keys_of(others))
    present = distinct(np.append(distinct(pairs), may_read(snapshot)))
    is_present = np.isin(rows.pairs, present)
    is_present[others_at[others_at != NOWHERE]] = True
    new_pairs = present[~np.isin(present, rows.pairs)]
    unknown = [at for at, row in zip(others, others_at.tolist(), strict=True) if row == NOWHERE]

    # A reader is renewed if a commit of it is, if it is of another kind, or if its absence ends.
    kinds_now = np.array([*(KINDS.index(group.kind) for group in snapshot.groups), NOWHERE])
    kinds = np.where(is_present, kinds_now[rows.groups], readers.kinds)
    is_renewed = is_present & (readers.is_absent | (kinds != readers.kinds))
    # One that is listed and can't be read, or has no commit, is no longer absent: otherwise a
    # later absence would seem to have begun with this one.
    is_void = by_topic(snapshot, [topic.recreated for topic in snapshot.topics])[rows.topics]
    has_commits = readers.has_commits & ~is_void
    is_doubtful = failed(snapshot)[rows.groups] | (listed(snapshot)[rows.groups] & ~has_commits)
    is_renewed |= readers.is_absent & ~is_present & is_doubtful

    # Of millions of commits most stand where they stood: the others are looked at more closely.
    may_be_news = _may_be_news(now) | np.isin(pairs, rows.pairs[readers.has_stale_commits])
    is_meant = is_renewed | np.isin(rows.pairs, pairs[may_be_news])
    of_new, renewed = _news(
        snapshot,
        where(now, may_be_news),
        readers.where(is_meant),
        Rows(*(each[is_meant] for each in rows)),
        new_pairs,
        kinds=kinds[is_meant],
        is_renewed=is_renewed[is_meant],
    )
    new = NOBODY.with_rows(_new(snapshot, new_pairs, of_new))
    return Seen(new.with_rows(_waiting(snapshot, unknown)), renewed, is_present)


def _may_be_news(commits: pa.Table) -> Flags:
    """Which commits (`COMMIT_SCHEMA`) may have moved since they were remembered, or may be older
    than their log."""
    stands = pc.and_(
        pc.equal(commits["offset"], commits["remembered_offset"]),
        pc.is_valid(commits["moved_at_ms"]),
    )
    return ~flags(pc.fill_null(stands, False)) | flags(commits["is_stale"])


def _news(
    snapshot: Snapshot,
    now: pa.Table,
    readers: Readers,
    rows: Rows,
    new_pairs: Integers,
    *,
    kinds: Integers,
    is_renewed: Flags,
) -> tuple[Commits, Readers]:
    """The commits of new readers, by their places in ``new_pairs``; and those of the ``readers``
    that are renewed or have news, with these ``kinds``. ``now``: what the reading shows of both."""
    pairs = group_and_topic(snapshot, now)
    is_void = by_topic(snapshot, [topic.recreated for topic in snapshot.topics])[rows.topics]
    known = readers.commits.where(~is_void[readers.commits.owners])
    count = len(snapshot.partitions)
    position = positions_of(rows.topics[known.owners], known.partitions, snapshot.partitions)
    group = rows.groups[known.owners]
    is_there = (position != NOWHERE) & (group != NOWHERE)
    keys = keys_of_commits(now, count)
    at = rows_among(keys, np.where(is_there, group * count + position, NOWHERE))
    is_known = at != NOWHERE
    offset = now["offset"].fill_null(NOWHERE).to_numpy()
    before = np.append(known.offsets, NOWHERE)[at]
    moved_before_ms = np.append(known.moved_at_ms, NOWHERE)[at]
    starts = [each.log_start_offset for each in snapshot.partitions]
    log_start = np.array([NOWHERE if start is None else start for start in starts], np.int64)
    partition = now["partition_id"].to_numpy()

    # The commit counts, unless the group went back to records that are gone. As long as this
    # lasts, the higher one stays remembered, so that a later cycle sees it too.
    kept = np.where(offset < np.minimum(before, log_start[partition]), before, offset)
    # A commit stands at its offset since the reading that first showed it there.
    has_moved = (kept != before) | (moved_before_ms == NOWHERE)
    moved_at_ms = np.where(has_moved, snapshot.taken_at_ms, moved_before_ms)
    # A commit proves nothing until it moves, if it may be older than the log.
    is_stale = flags(now["is_stale"])
    has_changed = has_moved | (is_stale != np.append(known.is_stale, False)[at])
    is_news = has_changed & (offset != NOWHERE)

    is_renewed[known.owners[at[is_news & is_known]]] = True
    is_added = is_news & ~is_known
    owners = rows_among(pairs[is_added], rows.pairs)
    is_renewed[owners[owners != NOWHERE]] = True
    after = known._replace(
        offsets=_written(known.offsets, at, kept, is_news & is_known),
        moved_at_ms=_written(known.moved_at_ms, at, moved_at_ms, is_news & is_known),
        is_stale=_written(known.is_stale, at, is_stale, is_news & is_known),
    )
    numbers = np.array([each.partition for each in snapshot.partitions], np.int64)
    added = Commits(
        owners,
        numbers[partition[is_added]],
        kept[is_added],
        moved_at_ms[is_added],
        is_stale[is_added],
    )
    is_of_new = owners == NOWHERE
    of_new = added.where(is_of_new)
    of_new = of_new._replace(owners=np.searchsorted(new_pairs, pairs[is_added][is_of_new]))
    renewed = np.flatnonzero(is_renewed)
    return of_new, _renewed(readers, renewed, kinds, after, added.where(~is_of_new))


def _written(column: Any, at: Integers, values: Any, where: Flags) -> Any:
    """A copy of the column with these values at their places."""
    if not where.any():
        return column
    changed = column.copy()
    changed[at[where]] = values[where]
    return changed


def _new(snapshot: Snapshot, pairs: Integers, commits: Commits) -> Readers:
    """The readers of these pairs of group and topic. ``commits``: by their place among them."""
    group, topic = np.divmod(pairs, max(1, len(snapshot.topics)))
    groups = snapshot.groups
    names = {
        "topic": pa.array((each.name for each in snapshot.topics), pa.string()),
        "group": pa.array((each.name for each in groups), pa.string()),
        "is_external": pa.array((each.is_external for each in groups), pa.bool_()),
        "kind": pa.array((each.kind.value for each in groups), pa.string()),
    }
    columns = {
        name: values.take(pa.array(topic if name == "topic" else group))
        for name, values in names.items()
    }
    columns["seen_at_ms"] = pa.array(np.full(len(pairs), snapshot.taken_at_ms))
    return Readers.of_columns({**columns, **_not_absent(len(pairs))}, commits.ascending())


def _waiting(snapshot: Snapshot, readers: Iterable[GroupOnTopic]) -> Readers:
    """Readers of topics that are not in the reading."""
    kinds = {each.name: each.kind for each in snapshot.groups if not each.is_external}
    return Readers.of(
        {
            at: RememberedReader(kinds[at.group_id], {}, seen_at_ms=snapshot.taken_at_ms)
            for at in readers
        }
    )


def _renewed(
    readers: Readers, rows: Integers, kinds: Integers, commits: Commits, added: Commits
) -> Readers:
    """These rows, with the ``kinds`` and ``commits`` of all rows and the ``added`` commits."""
    place = np.full(len(readers), NOWHERE)
    place[rows] = np.arange(len(rows))
    commits = commits.where(place[commits.owners] != NOWHERE)
    if len(added.owners):
        commits = commits.and_also(added).ascending()
    at = pa.array(rows)
    columns = {
        name: readers.column(name).take(at)
        for name in ("topic", "group", "is_external", "seen_at_ms")
    }
    names = pa.array((kind.value for kind in KINDS), pa.string())
    columns["kind"] = names.take(pa.array(kinds[rows]))
    return Readers.of_columns(
        {**columns, **_not_absent(len(rows))}, commits._replace(owners=place[commits.owners])
    )


def _not_absent(count: int) -> dict[str, pa.Array]:
    return {
        "absent_since_ms": pa.nulls(count, pa.int64()),
        "absent_ms": pa.array(np.zeros(count, np.int64)),
    }


def may_read(snapshot: Snapshot) -> Integers:
    """The pairs of group and topic (`group_and_topic`) of `Snapshot.readers`."""
    topics = len(snapshot.topics)
    return np.array([each.group * topics + each.topic for each in snapshot.readers], np.int64)


def readers_of_other_topics(snapshot: Snapshot) -> list[GroupOnTopic]:
    return [
        GroupOnTopic(group, topic)
        for group, topics in snapshot.other_topics.items()
        for topic in topics
    ]


def by_topic(snapshot: Snapshot, are: Sequence[bool]) -> Flags:
    """Flags of topics, to be taken by their positions; `NOWHERE` takes the last: False."""
    return np.array([*are, False], np.bool_)


def failed(snapshot: Snapshot) -> Flags:
    """Which groups can't be read, by position; and False, for `NOWHERE`."""
    are = [group.failure is not None or group.problem is not None for group in snapshot.groups]
    return np.array([*are, False], np.bool_)


def listed(snapshot: Snapshot) -> Flags:
    """Which readers exist by this reading, by position; and False, for `NOWHERE`."""
    are = [group.state not in (VANISHED, ABSENT) for group in snapshot.groups]
    return np.array([*are, False], np.bool_)
