"""The history of one cluster over a time: its entries, and how much time surely passed between
them.

Invariant: entries are ordered by their number, never by their time, because clocks go back. A
record counts as old only when it surely was, so a clock that jumped makes nothing older.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from retentiond.errors import HistoryUnavailable, UsageError
from retentiond.formatting import say_name
from retentiond.history.entries import day_of
from retentiond.history.place import errors_explained, is_remote
from retentiond.history.schema import RowKind
from retentiond.history.table import HistoryFile, HistoryTable, quoted

GAP_INTERVALS = 3
"""An entry stands for what follows it, up to so many times the usual interval."""

DAY_MS = 86_400_000

TEXT_COLUMNS = dict.fromkeys(("cluster_id", "topic", "topic_id"), pa.string())

HOW_TO_BEGIN = "the daemon (retentiond run) writes it while history.enabled is true"


class EntryRow(NamedTuple):
    """An entry as its row of kind ``cycle`` tells it."""

    entry: int
    at_ms: int
    complete: bool
    dry_run: bool
    observed_ms: int | None
    is_whole: bool
    read_ms: int = 0


class Moment(NamedTuple):
    """An entry in its place: the ``number``-th of the timeline, ``elapsed_ms`` after the first.

    ``weight_ms``: the time that it stands for; None where it lies before or after the period, and
    only tells what was there at that time.
    """

    number: int
    entry: EntryRow
    elapsed_ms: int
    weight_ms: int | None


class AskedCluster(NamedTuple):
    """``origin``: what says that it is this one, as in ``that of --cluster``."""

    cluster_id: str
    origin: str


class Gap(NamedTuple):
    """A time without entries."""

    from_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """``usual_ms``: the interval between entries, as a median; 0 where there is but one."""

    moments: tuple[Moment, ...]
    since_ms: int
    until_ms: int
    usual_ms: int
    gaps: tuple[Gap, ...]

    @property
    def period(self) -> tuple[Moment, ...]:
        """The moments within the period that is asked about."""
        return tuple(each for each in self.moments if each.weight_ms is not None)

    @property
    def observed_ms(self) -> int:
        """How much time was observed from the period's first entry to its last."""
        period = self.period
        return period[-1].elapsed_ms - period[0].elapsed_ms if period else 0

    @property
    def longest_read_ms(self) -> int:
        """A record that stands in an entry may be so much younger than that."""
        return max(each.entry.read_ms for each in self.moments)

    @property
    def scale(self) -> int:
        """More than there are moments; see `order`."""
        return len(self.moments) + 1

    def order(self, moment: Moment) -> int:
        """One number to sort by: strictly increasing, and ``a`` surely lies ``ms`` or more before
        ``b`` just where ``order(a) <= order(b) - ms * scale`` and ``a`` does not come after ``b``.
        """
        return moment.elapsed_ms * self.scale + moment.number

    def number(self, order: int) -> int:
        """The number of the moment with that `order`."""
        return order % self.scale


class EntrySelection(NamedTuple):
    """A topic's rows from one entry to another, both included."""

    topic: str
    first_entry: int
    last_entry: int


@dataclass(frozen=True, slots=True)
class Past:
    """``other_clusters``: ids of those whose entries stand in the same table, and are left out.
    ``topic_ids``: grain topic, topic_id; columns: those, as strings, and first_entry: long.
    ``is_local``: Spark itself can read the files."""

    table: HistoryTable
    files: tuple[HistoryFile, ...]
    cluster_id: str
    other_clusters: tuple[str, ...]
    timeline: Timeline
    topic_ids: pa.Table
    is_local: bool

    @property
    def row_count(self) -> int:
        """How many rows of all kinds the files of that time have. Files that somebody else has
        written are left out."""
        return sum(each.rows or 0 for each in self.files)

    def query(self, sql: str) -> pa.Table:
        """What is small, in a tenth of the time that Spark takes for it. ``{within}`` stands for:
        of this cluster, and this time."""
        entries = [each.entry for each in self.timeline.moments]
        days = [day_of(each.at_ms) for each in entries]
        within = (
            f"cluster_id = {quoted(self.cluster_id)} "
            f"AND day BETWEEN {quoted(min(days))} AND {quoted(max(days))} "
            f"AND entry BETWEEN {entries[0].entry} AND {entries[-1].entry}"
        )
        return _queried(self.table, sql.replace("{within}", within))

    def commits_at(self, topic: str, first: Moment, last: Moment) -> EntrySelection:
        """What tells all commits on the topic that are in force from one moment to another: from
        the last entry before in which all of them stand."""
        before = self.timeline.moments[: first.number + 1]
        begin = next((each for each in reversed(before) if each.entry.is_whole), before[0])
        return EntrySelection(topic, begin.entry.entry, last.entry.entry)


def history_at(place: str | Path) -> HistoryTable:
    """Raises `UsageError` where there is none, `HistoryUnavailable` where it can't be read."""
    try:
        return HistoryTable.open(place)
    except HistoryUnavailable as error:
        if error.kind == "missing":
            raise UsageError(f"{error}: {HOW_TO_BEGIN}") from error
        raise


def open_past(  # noqa: PLR0917
    table: HistoryTable,
    master: str,
    since_ms: int,
    until_ms: int,
    lookback_ms: int = 0,
    options: str = "--since",
    asked: AskedCluster | None = None,
) -> Past:
    """What the history says of that period, of the cluster that is ``asked`` for, or else of the
    only one that the table knows; and what ``lookback_ms`` before it says. ``master``: where Spark
    works. ``options``: those that say which period it is.

    Raises `UsageError` where there is nothing, `HistoryUnavailable` where it can't be read.
    """
    days = [day_of(max(0, each)) for each in (since_ms - lookback_ms - DAY_MS, until_ms)]
    cycles = _cycles(table, *days)
    cluster_id, others = _cluster(
        table, table.clusters() | set(cycles["cluster_id"].to_pylist()), asked
    )
    cycles = cycles.filter(pc.equal(cycles["cluster_id"], pa.scalar(cluster_id, pa.string())))
    within = cycles.filter(pc.less_equal(cycles["at"], pa.scalar(_time(until_ms))))
    if not within.num_rows:
        raise UsageError(
            f"the history in {table.place} has no entry of that time: {HOW_TO_BEGIN}, or choose "
            f"another {options}"
        )
    own = read_entries(within)
    lost = [
        (each.first_entry, each.last_entry)
        for each in table.damaged_files(cluster_id)
        if each.first_entry is not None and each.last_entry is not None
    ]
    found = timeline(own, since_ms, until_ms, lookback_ms, lost)
    if not found.period:
        raise UsageError(
            f"the history in {table.place} has no entry of that time; its newest is of "
            f"{_time(own[-1].at_ms):%Y-%m-%d %H:%M} UTC: choose another {options}"
        )
    first, last = found.moments[0].entry.entry, found.moments[-1].entry.entry
    topic_ids = _queried(
        table,
        "SELECT topic, topic_id, min(entry) AS first_entry FROM history "
        f"WHERE {_of(RowKind.PARTITION, *days)} AND cluster_id = {quoted(cluster_id or '')} "
        f"AND entry BETWEEN {first} AND {last} GROUP BY topic, topic_id",
    )
    files = table.files(since_day=days[0], until_day=days[1])
    return Past(
        table,
        tuple(each for each in files if each.cluster_id in (None, cluster_id)),
        cluster_id or "",
        others,
        found,
        topic_ids,
        is_local=master.startswith("local") and not is_remote(table.place),
    )


def _cluster(
    table: HistoryTable, known: Collection[str], asked: AskedCluster | None
) -> tuple[str | None, tuple[str, ...]]:
    """Whose entries are asked for, and the other clusters that the table has entries of; None where
    it has none at all. Raises `UsageError` rather than to answer for another cluster."""
    every = sorted(known)
    if asked is None and len(every) > 1:
        raise UsageError(
            f"the history in {table.place} is that of {len(every)} clusters, and nothing says "
            f"which one is meant: give --cluster with one of {', '.join(map(say_name, every))}"
        )
    if asked is not None and every and asked.cluster_id not in known:
        raise UsageError(
            f"the history in {table.place} has no entry of cluster {say_name(asked.cluster_id)} "
            f"({asked.origin}), only of {', '.join(map(say_name, every))}: give --cluster with one "
            "of these, or correct history.path or state_dir"
        )
    mine = asked.cluster_id if asked is not None else next(iter(every), None)
    return mine, tuple(each for each in every if each != mine)


def read_entries(rows: pa.Table) -> list[EntryRow]:
    """``rows`` of kind ``cycle``, of one cluster."""
    columns = ("entry", "at", "complete", "dry_run", "observed_ms", "is_whole", "read_ms")
    found = zip(*(_values(rows, name) for name in columns), strict=True)
    return sorted(
        EntryRow(entry, at, bool(complete), bool(dry_run), observed, bool(is_whole), read or 0)
        for entry, at, complete, dry_run, observed, is_whole, read in found
    )


def _values(rows: pa.Table, name: str) -> Sequence[int | None]:
    column = rows[name]
    if name == "at":
        return [at // 1000 for at in column.cast(pa.int64()).to_pylist()]
    values: list[int | None] = column.to_pylist()
    return values


def timeline(
    every: Sequence[EntryRow],
    since_ms: int,
    until_ms: int,
    lookback_ms: int = 0,
    lost: Collection[tuple[int, int]] = (),
) -> Timeline:
    """The entries of that period, those of ``lookback_ms`` before it, and those back to one in
    which all commits stand, if there is one. ``lost``: from which entry to which one, both
    included, files are damaged."""
    steps = [
        max(0, later.at_ms - sooner.at_ms) if later.observed_ms is None else later.observed_ms
        for sooner, later in pairwise(every)
    ]
    within = [since_ms <= each.at_ms <= until_ms for each in every]
    if True not in within:
        return Timeline((), since_ms, until_ms, 0, (Gap(since_ms, until_ms),))
    first, last = within.index(True), len(within) - 1 - within[::-1].index(True)
    usual_ms = _usual(steps[first:last])
    begin, before_ms = first, 0
    while begin and before_ms < lookback_ms:
        begin -= 1
        before_ms += steps[begin]
    begin = next((at for at in range(begin, -1, -1) if every[at].is_whole), begin)
    elapsed_ms, moments = 0, []
    for at in range(begin, last + 1):
        weight = _weight(steps[at] if at < last else usual_ms, usual_ms) if within[at] else None
        moments.append(Moment(at - begin, every[at], elapsed_ms, weight))
        elapsed_ms += steps[at] if at < last else 0
    before = every[first].entry - 1
    is_lost = (
        every[first - 1].entry < before if first else _among(before, lost),
        _among(every[last].entry + 1, lost),
    )
    known = every[first : last + 1]
    gaps = tuple(_gaps(known, steps[first:last], since_ms, until_ms, usual_ms, is_lost))
    return Timeline(tuple(moments), since_ms, until_ms, usual_ms, gaps)


def _usual(steps: Sequence[int]) -> int:
    known = [step for step in steps if step]
    return int(median(known)) if known else 0


def _weight(step: int, usual_ms: int) -> int:
    """Where no time is known to have passed at all, each entry counts alike."""
    if not usual_ms:
        return 1
    return step if step <= GAP_INTERVALS * usual_ms else usual_ms


def _among(entry: int, lost: Iterable[tuple[int, int]]) -> bool:
    return any(first <= entry <= last for first, last in lost)


def _gaps(  # noqa: PLR0917
    every: Sequence[EntryRow],
    steps: Sequence[int],
    since_ms: int,
    until_ms: int,
    usual_ms: int,
    is_lost: tuple[bool, bool],
) -> Iterator[Gap]:
    """``is_lost``: whether entries are missing before the first one and behind the last. Entries
    are numbered without a break, so a number that is missing is an entry that was lost."""
    before, behind = is_lost
    if before or every[0].at_ms - since_ms > GAP_INTERVALS * usual_ms:
        yield Gap(since_ms, every[0].at_ms)
    for (sooner, later), step in zip(pairwise(every), steps, strict=True):
        if step > GAP_INTERVALS * usual_ms or later.entry - sooner.entry > 1:
            yield Gap(sooner.at_ms, later.at_ms)
    if behind or until_ms - every[-1].at_ms > GAP_INTERVALS * usual_ms:
        yield Gap(every[-1].at_ms, until_ms)


def _cycles(table: HistoryTable, since_day: str, until_day: str) -> pa.Table:
    columns = ["entry", "at", "cluster_id", "complete", "dry_run"]
    columns += ["observed_ms", "read_ms", "is_whole"]
    where = _of(RowKind.CYCLE, since_day, until_day)
    return _queried(table, f"SELECT {', '.join(columns)} FROM history WHERE {where}")


def _of(kind: RowKind, since_day: str, until_day: str) -> str:
    days = f"{quoted(since_day)} AND {quoted(until_day)}"
    return f"kind = {quoted(kind.value)} AND day BETWEEN {days}"


def _queried(table: HistoryTable, sql: str) -> pa.Table:
    """The rows of the query; `TEXT_COLUMNS` and times have the types of `SCHEMA`."""
    rows = table.query(sql)
    with errors_explained(table.place):
        types = {"at": pa.timestamp("us", "UTC"), **TEXT_COLUMNS}
        return rows.cast(
            pa.schema([(each.name, types.get(each.name, each.type)) for each in rows.schema])
        )


def _time(epoch_ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=max(0, epoch_ms))
