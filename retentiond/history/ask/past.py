"""The history of one cluster over a time: its entries, and the time that certainly passed between
them.

Invariant: entries are ordered by their number, never by their time, because clocks go back. A
record counts as old only if it certainly was, so a clock that jumps makes nothing older.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from retentiond.errors import HistoryUnavailable, UsageError
from retentiond.fields import NUMBER, TIME, described, document_of, figure, rows_of, said
from retentiond.formatting import DAY_MS, say_name
from retentiond.history.entries import day_of
from retentiond.history.place import errors_explained, is_remote
from retentiond.history.schema import RowKind
from retentiond.history.table import HistoryFile, HistoryTable, quoted

GAP_INTERVALS = 3
"""An entry stands for the time until the next one, if that is at most so many usual intervals."""

TEXT_COLUMNS = dict.fromkeys(("cluster_id", "topic", "topic_id"), pa.string())

HOW_TO_BEGIN = "the daemon (retentiond run) writes it while history.enabled is true"


class EntryRow(NamedTuple):
    entry: int
    at_ms: int
    complete: bool
    dry_run: bool
    observed_ms: int | None
    is_whole: bool
    read_ms: int = 0


class Moment(NamedTuple):
    """An entry in the timeline: the ``number``-th, ``elapsed_ms`` after the first.

    ``weight_ms``: the time for which it stands. None if it lies outside the period and only tells
    what existed then.
    """

    number: int
    entry: EntryRow
    elapsed_ms: int
    weight_ms: int | None


class AskedCluster(NamedTuple):
    """The cluster that the question is about. ``origin``: what names it, as in
    ``that of --cluster``."""

    cluster_id: str
    origin: str


@described
class Gap:
    """A time without entries."""

    from_ms: int = said(TIME, "the last entry before, or the beginning of the time")
    until_ms: int = said(TIME, "the next entry, or the end of the time")


@described
class Timeline:
    """The entries of a period. ``usual_ms``: the median interval between entries; 0 if there is
    only one entry."""

    moments: tuple[Moment, ...]
    since_ms: int = said(TIME, "the beginning of the time that was asked about")
    until_ms: int = said(TIME, "its end")
    usual_ms: int

    @figure(NUMBER, "how many entries it has", name="entries")
    def entry_count(self) -> int:
        return len(self.period)

    gaps: tuple[Gap, ...] = said(rows_of(Gap), "the times without entries")

    @cached_property
    def period(self) -> tuple[Moment, ...]:
        return tuple(moment for moment in self.moments if moment.weight_ms is not None)

    @cached_property
    def next_whole(self) -> Sequence[int]:
        """For each moment, the number of the next whole entry's moment; one past the last if there
        is none."""
        following, reversed_numbers = len(self.moments), []
        for moment in reversed(self.moments):
            reversed_numbers.append(following)
            if moment.entry.is_whole:
                following = moment.number
        return reversed_numbers[::-1]

    @property
    def observed_ms(self) -> int:
        period = self.period
        return period[-1].elapsed_ms - period[0].elapsed_ms if period else 0

    @property
    def longest_read_ms(self) -> int:
        """By how much a record may be younger than the entry that has it."""
        return max(moment.entry.read_ms for moment in self.moments)

    @property
    def scale(self) -> int:
        """The factor of time in `order`: more than there are moments."""
        return len(self.moments) + 1

    def order(self, moment: Moment) -> int:
        """A number to sort by. It is strictly increasing. ``a`` certainly lies ``ms`` or more
        before ``b`` if and only if ``order(a) <= order(b) - ms * scale`` and ``a`` does not come
        after ``b``.
        """
        return moment.elapsed_ms * self.scale + moment.number

    def number(self, order: int) -> int:
        return order % self.scale


class EntrySelection(NamedTuple):
    """A topic's rows from one entry to another, both included."""

    topic: str
    first_entry: int
    last_entry: int


@dataclass(frozen=True, slots=True)
class Past:
    """The past that a question is about.

    - ``other_clusters``: the ids of other clusters in the same table, which are left out.
    - ``topic_ids``: grain topic, topic_id; columns: the grain, as strings, and first_entry: long.
    - ``is_local``: whether Spark itself can read the files.
    """

    table: HistoryTable
    files: tuple[HistoryFile, ...]
    cluster_id: str
    other_clusters: tuple[str, ...]
    timeline: Timeline
    topic_ids: pa.Table
    is_local: bool

    def document(self) -> dict[str, Any]:
        return {"cluster_id": self.cluster_id, **document_of(self.timeline)}

    @property
    def row_count(self) -> int:
        """Of the files of this time, as far as it is known."""
        return sum(file.rows or 0 for file in self.files)

    def query(self, sql: str) -> pa.Table:
        """A small result, in a tenth of the time that Spark takes. ``{within}`` stands for the
        condition that a row is of this cluster and this time."""
        entries = [moment.entry for moment in self.timeline.moments]
        days = [day_of(entry.at_ms) for entry in entries]
        within = (
            f"cluster_id = {quoted(self.cluster_id)} "
            f"AND day BETWEEN {quoted(min(days))} AND {quoted(max(days))} "
            f"AND entry BETWEEN {entries[0].entry} AND {entries[-1].entry}"
        )
        return _queried(self.table, sql.replace("{within}", within))

    def commits_at(self, topic: str, first: Moment, last: Moment) -> EntrySelection:
        """The entries that tell all commits on the topic in force from one moment to another: they
        begin with the last whole entry before."""
        before = self.timeline.moments[: first.number + 1]
        begin = next((moment for moment in reversed(before) if moment.entry.is_whole), before[0])
        return EntrySelection(topic, begin.entry.entry, last.entry.entry)


def history_at(place: str | Path) -> HistoryTable:
    """Opens the history. Raises `UsageError` if there is none, and `HistoryUnavailable` if it can't
    be read."""
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
    """The past of this period, and of ``lookback_ms`` before it. ``asked``: the cluster; by default
    the only one in the table. ``master``: Spark's. ``options``: the command's options that choose
    the period.

    Raises `UsageError` if there are no entries, and `HistoryUnavailable` if they can't be read.
    """
    days = [day_of(max(0, time_ms)) for time_ms in (since_ms - lookback_ms - DAY_MS, until_ms)]
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
        (file.first_entry, file.last_entry)
        for file in table.damaged_files(cluster_id)
        if file.first_entry is not None and file.last_entry is not None
    ]
    of_time = timeline(own, since_ms, until_ms, lookback_ms, lost)
    if not of_time.period:
        raise UsageError(
            f"the history in {table.place} has no entry of that time; its newest is of "
            f"{_time(own[-1].at_ms):%Y-%m-%d %H:%M} UTC: choose another {options}"
        )
    first, last = of_time.moments[0].entry.entry, of_time.moments[-1].entry.entry
    topic_ids = _queried(
        table,
        "SELECT topic, topic_id, min(entry) AS first_entry FROM history "
        f"WHERE {_of(RowKind.PARTITION, *days)} AND cluster_id = {quoted(cluster_id or '')} "
        f"AND entry BETWEEN {first} AND {last} GROUP BY topic, topic_id",
    )
    files = table.files(since_day=days[0], until_day=days[1])
    return Past(
        table,
        tuple(file for file in files if file.cluster_id in (None, cluster_id)),
        cluster_id or "",
        others,
        of_time,
        topic_ids,
        is_local=master.startswith("local") and not is_remote(table.place),
    )


def _cluster(
    table: HistoryTable, recorded: Collection[str], asked: AskedCluster | None
) -> tuple[str | None, tuple[str, ...]]:
    """The cluster that the question is about (None if the table has no entries), and the other
    clusters in the table. Raises `UsageError` if it isn't clear which cluster is meant, or if the
    table doesn't have it."""
    clusters = sorted(recorded)
    if asked is None and len(clusters) > 1:
        raise UsageError(
            f"the history in {table.place} is that of {len(clusters)} clusters, and nothing says "
            f"which one is meant: give --cluster with one of {', '.join(map(say_name, clusters))}"
        )
    if asked is not None and clusters and asked.cluster_id not in recorded:
        raise UsageError(
            f"the history in {table.place} has no entry of cluster {say_name(asked.cluster_id)} "
            f"({asked.origin}), only of {', '.join(map(say_name, clusters))}: give --cluster with "
            "one of these, or correct history.path or state_dir"
        )
    chosen = asked.cluster_id if asked is not None else next(iter(clusters), None)
    return chosen, tuple(cluster for cluster in clusters if cluster != chosen)


def read_entries(rows: pa.Table) -> list[EntryRow]:
    """The entries in ``rows`` of kind ``cycle``, of one cluster."""
    at_us = rows["at"].cast(pa.int64()).to_pylist()
    return sorted(
        EntryRow(
            row["entry"],
            at // 1000,
            bool(row["complete"]),
            bool(row["dry_run"]),
            row["observed_ms"],
            bool(row["is_whole"]),
            row["read_ms"] or 0,
        )
        for row, at in zip(rows.drop_columns("at").to_pylist(), at_us, strict=True)
    )


def timeline(
    entries: Sequence[EntryRow],
    since_ms: int,
    until_ms: int,
    lookback_ms: int = 0,
    lost: Collection[tuple[int, int]] = (),
) -> Timeline:
    """The entries of the period, those of ``lookback_ms`` before it, and those back to a whole
    entry if there is one. ``lost``: the first and the last entry of damaged files."""
    steps = [
        max(0, later.at_ms - sooner.at_ms) if later.observed_ms is None else later.observed_ms
        for sooner, later in pairwise(entries)
    ]
    within = [since_ms <= entry.at_ms <= until_ms for entry in entries]
    if True not in within:
        return Timeline((), since_ms, until_ms, 0, (Gap(since_ms, until_ms),))
    first, last = within.index(True), len(within) - 1 - within[::-1].index(True)
    usual_ms = int(median(filter(None, steps[first:last]))) if any(steps[first:last]) else 0
    begin, before_ms = first, 0
    while begin and before_ms < lookback_ms:
        begin -= 1
        before_ms += steps[begin]
    begin = next((at for at in range(begin, -1, -1) if entries[at].is_whole), begin)
    elapsed_ms, moments = 0, []
    for at in range(begin, last + 1):
        weight = _weight(steps[at] if at < last else usual_ms, usual_ms) if within[at] else None
        moments.append(Moment(at - begin, entries[at], elapsed_ms, weight))
        elapsed_ms += steps[at] if at < last else 0
    before = entries[first].entry - 1
    is_lost = (
        entries[first - 1].entry < before if first else _among(before, lost),
        _among(entries[last].entry + 1, lost),
    )
    of_period = entries[first : last + 1]
    gaps = tuple(_gaps(of_period, steps[first:last], since_ms, until_ms, usual_ms, is_lost))
    return Timeline(tuple(moments), since_ms, until_ms, usual_ms, gaps)


def _weight(step: int, usual_ms: int) -> int:
    """The time for which an entry stands. If no time is known to have passed at all, all entries
    count alike."""
    if not usual_ms:
        return 1
    return step if step <= GAP_INTERVALS * usual_ms else usual_ms


def _among(entry: int, lost: Iterable[tuple[int, int]]) -> bool:
    return any(first <= entry <= last for first, last in lost)


def _gaps(  # noqa: PLR0917
    entries: Sequence[EntryRow],
    steps: Sequence[int],
    since_ms: int,
    until_ms: int,
    usual_ms: int,
    is_lost: tuple[bool, bool],
) -> Iterator[Gap]:
    """The times without entries. ``is_lost``: whether entries are missing before the first one and
    after the last one. Entries are numbered without gaps, so a missing number is a lost entry."""
    lost_before, lost_after = is_lost
    if lost_before or entries[0].at_ms - since_ms > GAP_INTERVALS * usual_ms:
        yield Gap(since_ms, entries[0].at_ms)
    for (sooner, later), step in zip(pairwise(entries), steps, strict=True):
        if step > GAP_INTERVALS * usual_ms or later.entry - sooner.entry > 1:
            yield Gap(sooner.at_ms, later.at_ms)
    if lost_after or until_ms - entries[-1].at_ms > GAP_INTERVALS * usual_ms:
        yield Gap(entries[-1].at_ms, until_ms)


def _cycles(table: HistoryTable, since_day: str, until_day: str) -> pa.Table:
    columns = ["entry", "at", "cluster_id", "complete", "dry_run"]
    columns += ["observed_ms", "read_ms", "is_whole"]
    where = _of(RowKind.CYCLE, since_day, until_day)
    return _queried(table, f"SELECT {', '.join(columns)} FROM history WHERE {where}")


def _of(kind: RowKind, since_day: str, until_day: str) -> str:
    days = f"{quoted(since_day)} AND {quoted(until_day)}"
    return f"kind = {quoted(kind.value)} AND day BETWEEN {days}"


def _queried(table: HistoryTable, sql: str) -> pa.Table:
    rows = table.query(sql)
    with errors_explained(table.place):
        types = {"at": pa.timestamp("us", "UTC"), **TEXT_COLUMNS}
        return rows.cast(
            pa.schema([(field.name, types.get(field.name, field.type)) for field in rows.schema])
        )


def _time(epoch_ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=max(0, epoch_ms))
