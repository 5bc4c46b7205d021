"""The remembered readers as a table: a row for each reader and topic, its commits as lists.

Rules work on whole columns. A list column is a flat array and the rows' lengths, so that neither
readers nor commits become objects; `Readers.by_name` makes some for those who show them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from retentiond.model import GroupKind
from retentiond.snapshot import NOWHERE, Flags, Integers, positions_of_names, where

READERS = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        pa.field("is_external", pa.bool_(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("seen_at_ms", pa.int64()),
        pa.field("absent_since_ms", pa.int64()),
        pa.field("absent_ms", pa.int64(), nullable=False),
        pa.field("partitions", pa.list_(pa.int32()), nullable=False),  # ascending
        pa.field("offsets", pa.list_(pa.int64()), nullable=False),
        pa.field("moved_at_ms", pa.list_(pa.int64()), nullable=False),  # null: not known
        pa.field("is_stale", pa.list_(pa.bool_()), nullable=False),
    ]
)
"""A reader of one topic, as `RememberedReader` says it. Sorted by `Readers.keys`."""

_OF_READER = READERS.names[:7]
"""The columns without its commits."""

KINDS = (*GroupKind,)

_SEPARATOR = "\0"
"""No topic has it in its name. So keys are unique, and the rows of a topic stand together."""


class ReaderName(NamedTuple):
    """A reader's name. A group of Kafka and an external reader of the same name are two readers."""

    group_id: str
    is_external: bool = False


class GroupOnTopic(NamedTuple):
    group_id: str
    topic: str
    is_external: bool = False

    @property
    def reader(self) -> ReaderName:
        return ReaderName(self.group_id, self.is_external)

    @property
    def key(self) -> str:
        return _SEPARATOR.join((self.topic, self.group_id, str(int(self.is_external))))


@dataclass(frozen=True, slots=True)
class RememberedReader:
    """A reader of one topic, with its last known committed offsets by partition. A reader that was
    only seen as a member has none, nor has one whose commits were on an earlier topic of that name.

    - ``absent_since_ms``: when a complete listing first had no trace of the reader on the topic;
      None while it has one. A reader without commits is absent only if its group isn't listed.
    - ``absent_ms``: how much of its absence was observed, cycle by cycle, in monotonic time.
    - ``moved_at_ms``: by partition, when the commit was first seen at its present offset.
    - ``seen_at_ms``: when the reader was first seen to read the topic.
    - ``stale``: the partitions whose commit may be older than the log, until it moves
      (`COMMIT_SCHEMA`).
    """

    kind: GroupKind
    offsets: Mapping[int, int]
    absent_since_ms: int | None = None
    moved_at_ms: Mapping[int, int] = field(default_factory=dict)
    absent_ms: int = 0
    seen_at_ms: int | None = None
    stale: frozenset[int] = frozenset()


class Commits(NamedTuple):
    """Remembered commits as columns: the row of the commit's reader, its partition, its offset,
    when it was first seen there (`NOWHERE` if that is not known), and whether it may be older than
    the log."""

    owners: Integers
    partitions: Integers
    offsets: Integers
    moved_at_ms: Integers
    is_stale: Flags

    def where(self, mask: Flags) -> Commits:
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def take(self, rows: Integers) -> Commits:
        owners, partitions, offsets, moved_at_ms, is_stale = self
        return Commits(
            owners[rows], partitions[rows], offsets[rows], moved_at_ms[rows], is_stale[rows]
        )

    def with_values(self, rows: Integers, others: Commits, mask: Flags) -> Commits:
        """With what the others are that the mask means, each in its row."""
        if not mask.any():
            return self
        rows, others = rows[mask], others.where(mask)
        offsets, moved_at_ms = self.offsets.copy(), self.moved_at_ms.copy()
        is_stale = self.is_stale.copy()
        offsets[rows], moved_at_ms[rows] = others.offsets, others.moved_at_ms
        is_stale[rows] = others.is_stale
        return self._replace(offsets=offsets, moved_at_ms=moved_at_ms, is_stale=is_stale)

    def and_also(self, others: Commits) -> Commits:
        """Ascending by owner and partition."""
        if not len(others.owners):
            return self
        both = Commits(
            np.append(self.owners, others.owners),
            np.append(self.partitions, others.partitions),
            np.append(self.offsets, others.offsets),
            np.append(self.moved_at_ms, others.moved_at_ms),
            np.append(self.is_stale, others.is_stale),
        )
        return both.take(np.lexsort((both.partitions, both.owners)))


@dataclass(frozen=True, eq=False)  # without slots, because of the cached properties
class Readers:
    """``table``: `READERS`, in one chunk. It never changes."""

    table: pa.Table

    @classmethod
    def of_columns(cls, columns: Mapping[str, pa.Array], commits: Commits) -> Self:
        """``columns``: those without lists. ``commits``: ascending by owner and partition."""
        count = len(columns["topic"])
        ends = np.cumsum(np.bincount(commits.owners, minlength=count))
        bounds = pa.array(np.append(0, ends), pa.int32())
        is_dated = commits.moved_at_ms != NOWHERE
        flat = {
            "partitions": pa.array(commits.partitions, pa.int32()),
            "offsets": pa.array(commits.offsets, pa.int64()),
            "moved_at_ms": pa.array(commits.moved_at_ms, pa.int64(), mask=~is_dated),
            "is_stale": pa.array(commits.is_stale, pa.bool_()),
        }
        lists = {name: pa.ListArray.from_arrays(bounds, values) for name, values in flat.items()}
        arrays = {**columns, **lists}
        return cls(pa.Table.from_arrays([arrays[name] for name in READERS.names], schema=READERS))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Readers) and bool(self.table.equals(other.table))

    __hash__ = None  # type: ignore[assignment]  # as of every mapping

    def column(self, name: str) -> pa.Array:
        return self.table[name].combine_chunks()

    @cached_property
    def keys(self) -> pa.Array:
        """`GroupOnTopic.key` of each row."""
        is_external = pc.if_else(self.column("is_external"), "1", "0")
        return joined_keys(self.column("topic"), self.column("group"), is_external)

    def rows_of(self, keys: pa.Array) -> Integers:
        """The row of each key; `NOWHERE` if there is none."""
        return positions_in(keys, self.keys)

    @property
    def commits(self) -> Commits:
        """Made anew each time: for as long as a cycle takes, they would be a second copy."""
        lists = self.column("partitions")
        owners = np.repeat(np.arange(len(self)), pc.list_value_length(lists).to_numpy())
        moved_at_ms = pc.list_flatten(self.column("moved_at_ms")).fill_null(NOWHERE)
        return Commits(
            owners,
            pc.list_flatten(lists).to_numpy(),
            numbers(pc.list_flatten(self.column("offsets"))),
            numbers(moved_at_ms),
            flags(pc.list_flatten(self.column("is_stale"))),
        )

    @cached_property
    def has_commits(self) -> Flags:
        return numbers(pc.list_value_length(self.column("partitions"))) > 0

    @cached_property
    def has_stale_commits(self) -> Flags:
        has_some, commits = np.zeros(len(self), np.bool_), self.commits
        has_some[commits.owners[commits.is_stale]] = True
        return has_some

    @cached_property
    def is_absent(self) -> Flags:
        return flags(self.column("absent_since_ms").is_valid())

    @cached_property
    def absent_ms(self) -> Integers:
        return numbers(self.column("absent_ms"))

    @cached_property
    def kinds(self) -> Integers:
        """Positions in `KINDS`."""
        return positions_in(self.column("kind"), pa.array(kind.value for kind in KINDS))

    @cached_property
    def _names(self) -> tuple[list[ReaderName], Integers]:
        """The distinct readers, and which of them each row's is."""
        groups = self.column("group").dictionary_encode()
        is_external = flags(self.column("is_external"))
        codes = numbers(groups.indices) * 2 + is_external
        distinct, reader_of = np.unique(codes, return_inverse=True)
        names = groups.dictionary.to_pylist()
        return [ReaderName(names[key // 2], key % 2 == 1) for key in distinct.tolist()], reader_of

    @property
    def reader_of(self) -> Integers:
        """For each row, the position of its reader in ``names``."""
        return self._names[1]

    @property
    def names(self) -> Sequence[ReaderName]:
        return self._names[0]

    def topics_in(self, topics: Sequence[str]) -> Integers:
        """For each row, the position of its topic in ``topics``; `NOWHERE` if it is not there."""
        return positions_in(self.column("topic"), pa.array(topics, pa.string()))

    def readers_in(self, readers: Sequence[tuple[str, bool]]) -> Integers:
        """For each row, the position of its reader among those; `NOWHERE` if it is not there."""
        return positions_of_names(self.names, readers)[self.reader_of]

    def kinds_by_name(self, of: Flags) -> dict[ReaderName, GroupKind]:
        """The kind of each reader in the rows ``of``. If the rows of a reader differ, the last
        one counts."""
        kinds = np.full(len(self.names), NOWHERE)
        kinds[self.reader_of[of]] = self.kinds[of]
        named = zip(self.names, kinds.tolist(), strict=True)
        return {name: KINDS[kind] for name, kind in named if kind != NOWHERE}

    @cached_property
    def _parts(self) -> Mapping[str, slice]:
        """The rows of each topic."""
        runs = pc.run_end_encode(self.column("topic"))
        begin, parts = 0, {}
        for topic, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            parts[topic] = slice(begin, end)
            begin = end
        return parts

    @property
    def topics(self) -> Set[str]:
        return self._parts.keys()

    def about(self, topics: Iterable[str]) -> Readers:
        """The readers of these topics alone. It costs nothing for a single one."""
        parts = [self._parts[topic] for topic in sorted({*topics} & self._parts.keys())]
        tables = [self.table.slice(rows.start, rows.stop - rows.start) for rows in parts]
        return Readers(pa.concat_tables(tables).combine_chunks()) if tables else NOBODY

    def are(self, group_id: str, is_external: bool | None = None) -> Flags:
        """Which rows are of that name. ``is_external`` None: of the group, and of the external
        reader."""
        is_meant = flags(pc.equal(self.column("group"), pa.scalar(group_id, pa.string())))
        if is_external is not None:
            is_meant &= flags(self.column("is_external")) == is_external
        return is_meant

    def are_on(self, topics: Collection[str]) -> Flags:
        value_set = pa.array(topics, pa.string())
        return flags(pc.is_in(self.column("topic"), value_set=value_set))

    def where(self, mask: Flags) -> Readers:
        return self if mask.all() else Readers(where(self.table, mask).combine_chunks())

    def followed_by(self, others: Readers) -> Readers:
        """Not sorted: the others come last."""
        if not len(others):
            return self
        return Readers(pa.concat_tables([self.table, others.table]).combine_chunks())

    def present(self, rows: Integers, kinds: Integers, commits: Commits) -> Readers:
        """These rows, no longer absent, with these ``kinds`` and those of the ``commits`` that are
        theirs."""
        place = np.full(len(self), NOWHERE)
        place[rows] = np.arange(len(rows))
        commits = commits._replace(owners=place[commits.owners])
        names = pa.array((kind.value for kind in KINDS), pa.string())
        columns = {
            **{name: self.column(name).take(pa.array(rows)) for name in _OF_READER},
            "kind": names.take(pa.array(kinds)),
            **not_absent(len(rows)),
        }
        return Readers.of_columns(columns, commits.where(commits.owners != NOWHERE))

    def with_rows(self, rows: Readers) -> Readers:
        """With the other's rows, also in place of its own."""
        at = self.rows_of(rows.keys)
        is_known = at != NOWHERE
        if len(rows) == len(self) and np.array_equal(at, np.arange(len(self))):
            return rows  # mostly all of them have moved
        order = np.arange(len(self))
        order[at[is_known]] = len(self) + np.flatnonzero(is_known)
        joined = pa.concat_tables([self.table, rows.table]).combine_chunks()
        if not is_known.all():
            order = np.append(order, len(self) + np.flatnonzero(~is_known))
            keys = pa.concat_arrays([self.keys, rows.keys]).take(pa.array(order))
            order = order[pc.sort_indices(keys).to_numpy()]
        return Readers(joined.take(pa.array(order)).combine_chunks())

    def without_commits(self, of: Flags) -> Readers:
        """The rows ``of`` lose their commits: such readers stay known although the topic that they
        read is gone."""
        columns = {name: self.column(name) for name in _OF_READER}
        return Readers.of_columns(columns, self.commits.where(~of[self.commits.owners]))

    def with_column(self, name: str, values: pa.Array) -> Readers:
        at = READERS.get_field_index(name)
        return Readers(self.table.set_column(at, READERS.field(name), values))

    def by_name(self) -> dict[GroupOnTopic, RememberedReader]:
        return {GroupOnTopic(row["group"], row["topic"], row["is_external"]): _reader(row)
                for row in self.table.to_pylist()}  # fmt: skip


def _reader(row: Mapping[str, Any]) -> RememberedReader:
    partitions = row["partitions"]
    times = zip(partitions, row["moved_at_ms"], strict=True)
    return RememberedReader(
        GroupKind(row["kind"]),
        dict(zip(partitions, row["offsets"], strict=True)),
        row["absent_since_ms"],
        {at: moved_ms for at, moved_ms in times if moved_ms is not None},
        row["absent_ms"],
        row["seen_at_ms"],
        frozenset(at for at, stale in zip(partitions, row["is_stale"], strict=True) if stale),
    )


def not_absent(count: int) -> dict[str, pa.Array]:
    """The columns of readers that are not absent."""
    return {
        "absent_since_ms": pa.nulls(count, pa.int64()),
        "absent_ms": pa.array(np.zeros(count, np.int64)),
    }


NOBODY = Readers(pa.Table.from_batches([], READERS))  # `empty_table` would import pandas


def joined_keys(topics: pa.Array, groups: pa.Array, is_external: pa.Array | str) -> pa.Array:
    """`GroupOnTopic.key` of columns. ``is_external``: 1 or 0."""
    return pc.binary_join_element_wise(topics, groups, is_external, _SEPARATOR)


def positions_in(values: pa.Array, among: pa.Array) -> Integers:
    """The position of each value ``among`` others; `NOWHERE` if it is not there."""
    if not len(values):  # else a table of all the others would be made
        return np.empty(0, np.int64)
    return numbers(pc.index_in(values, value_set=among).fill_null(NOWHERE))


def numbers(values: pa.Array) -> Integers:
    return np.asarray(values.to_numpy(), np.int64)


def flags(values: pa.Array) -> Flags:
    return np.asarray(values.to_numpy(zero_copy_only=False), np.bool_)
