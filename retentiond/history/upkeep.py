"""The upkeep of the table: merges the files of a day into one sorted file, drops old days, and
removes replaced files.

deltalake's own optimize has three faults here. It compacts a day as a whole, although daemons of
several clusters may share the table: a file of two clusters could neither be left out nor dropped
for one of them. It fails at a damaged file. And it doesn't sort, although questions about the past
skip most of a sorted day; its z-order makes a day four times as large as sorting does. Nor can a
day be overwritten with a stream of sorted rows: deltalake's writer doesn't keep their order, and it
waits for ever for a query that runs meanwhile if there is a single core.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from retentiond.config.config import History
from retentiond.errors import HistoryUnavailable
from retentiond.formatting import HOUR_MS
from retentiond.history.entries import day_of
from retentiond.history.place import shown
from retentiond.history.schema import COLUMNS, ENTRY_COLUMNS, FILE_SCHEMA, RowKind
from retentiond.history.table import HistoryFile, HistoryTable, quoted

SLICE_ROWS = 256 * 1024  # are sorted at a time

SMALL_FILES = 24
"""Today's files of a single entry are merged once there are so many."""

READERS_GRACE_H = 1  # a replaced file stays for those who read it

MERGE_TIMEOUT_S = 1800.0


Merge: TypeAlias = Callable[[HistoryTable, str, Sequence[HistoryFile]], None]


class _Postponed(NamedTuple):
    """A day that is not merged before ``until_ms``, in monotonic time."""

    until_ms: int
    error: HistoryUnavailable | None = None


class HistoryUpkeep:
    """Looks after the files of one cluster after an entry. Only one thread uses it."""

    def __init__(self, merge: Merge) -> None:
        self._merge = merge
        self._next_look_ms = 0
        self._place: str | None = None
        self._postponed: dict[str, _Postponed] = {}  # by day, in that place

    @property
    def problem(self) -> HistoryUnavailable | None:
        errors = (postponed.error for _, postponed in sorted(self._postponed.items()))
        return next(filter(None, errors), None)

    def look_after(
        self,
        table: HistoryTable,
        cluster_id: str,
        settings: History,
        at_ms: int,
        elapsed_ms: int,
    ) -> None:
        """Merges and drops files, and looks for damaged ones. ``at_ms``: the last entry's time in
        epoch milliseconds. ``elapsed_ms``: monotonic time. A day that fails is tried again after an
        hour; other days don't wait for it. Raises `HistoryUnavailable`."""
        if elapsed_ms >= self._next_look_ms:
            self._next_look_ms = elapsed_ms + HOUR_MS
            table.check_sizes()
            drop_old_days(table, cluster_id, settings, at_ms)
            table.vacuum(READERS_GRACE_H)
        self._postponed = {
            day: postponed
            for day, postponed in self._postponed.items()
            if elapsed_ms < postponed.until_ms and table.place == self._place
        }
        self._place = table.place
        candidates = [file for file in table.files(cluster_id) if file.day not in self._postponed]
        if files := to_merge(candidates, day_of(at_ms)):
            day, until_ms = files[0].day, elapsed_ms + HOUR_MS
            self._postponed[day] = _Postponed(until_ms)
            try:
                self._merge(table, cluster_id, files)
            except HistoryUnavailable as error:
                self._postponed[day] = _Postponed(until_ms, error)
                raise
            table.refresh()
            # If all files but one turn out to be damaged, nothing has changed.
            if not set(files) & set(table.files(cluster_id, since_day=day, until_day=day)):
                del self._postponed[day]


def to_merge(files: Sequence[HistoryFile], today: str) -> list[HistoryFile]:
    """The files of the first past day that has more than one. If there is no such day, the small
    files of today, once there are many."""
    by_day: defaultdict[str, list[HistoryFile]] = defaultdict(list)
    for file in files:
        by_day[file.day].append(file)
    for day, of_day in sorted(by_day.items()):
        if day != today and len(of_day) > 1:
            return of_day
    small = [file for file in by_day[today] if file.first_entry == file.last_entry]
    return small if len(small) >= SMALL_FILES else []


def drop_old_days(table: HistoryTable, cluster_id: str, settings: History, at_ms: int) -> None:
    """Drops the days that are older than ``keep``, and then the oldest days until the rest fits
    into ``max_bytes``. The last entry's day stays."""
    files = [*table.files(cluster_id), *table.damaged_files(cluster_id)]
    bytes_of: Counter[str] = Counter()
    for file in files:
        bytes_of[file.day] += file.size_bytes
    first = day_of(at_ms - settings.keep_ms)
    kept = sorted(day for day in bytes_of if day >= first)
    if settings.max_bytes is not None:
        while len(kept) > 1 and sum(bytes_of[day] for day in kept) > settings.max_bytes:
            kept.remove(next(day for day in kept if day != day_of(at_ms)))
    gone = bytes_of.keys() - set(kept) - {day_of(at_ms)}
    if gone:
        table.drop(gone, cluster_id)


class Slice(NamedTuple):
    """Rows that are sorted together: of one kind, from one topic and partition to another, both
    included; None for a kind without topics."""

    kind: str
    first: tuple[str, int] | None
    last: tuple[str, int] | None

    @property
    def sql(self) -> str:
        kind = f"kind = {quoted(self.kind)}"
        if self.first is None or self.last is None:
            return kind
        (first, low), (last, high) = self.first, self.last
        # The plain bounds come first, because they allow row groups to be skipped.
        return (
            f"{kind} AND topic >= {quoted(first)} AND topic <= {quoted(last)}"
            f" AND (topic > {quoted(first)} OR coalesce(partition, 0) >= {low})"
            f" AND (topic < {quoted(last)} OR coalesce(partition, 0) <= {high})"
        )


class MergeApart:
    """Merges files in a process of its own, so that the daemon gets the memory back and doesn't
    wait for an object store."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __call__(self, table: HistoryTable, cluster_id: str, files: Sequence[HistoryFile]) -> None:
        first, last = files[0].first_entry or 0, max(file.last_entry or 0 for file in files)
        command = [sys.executable, "-P", "-m", __name__, table.place, cluster_id]
        try:
            done = self._run([*command, files[0].day, str(first), str(last)])
        except OSError as error:
            raise _not_merged(table, error) from error
        if done.returncode:
            why = done.stderr.strip().splitlines()[-1:] or ["it was ended"]
            raise _not_merged(table, why[0])
        table.damaged |= json.loads(done.stdout or "{}")

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run`, but `end` can end it."""
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as self._process:
            try:
                printed = self._process.communicate(timeout=MERGE_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                printed = self._process.communicate()
        return subprocess.CompletedProcess(command, self._process.returncode, *printed)

    def end(self) -> None:
        """Ends a merge. Nothing is lost: the files stay as they were."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()


def _not_merged(table: HistoryTable, why: object) -> HistoryUnavailable:
    return HistoryUnavailable(
        f"a day of the history in {table.place} can't be put together: {shown(why)}", kind="merge"
    )


def merge(table: HistoryTable, cluster_id: str, files: Sequence[HistoryFile]) -> None:
    """Replaces files of a day by one sorted file. Only some row groups at a time are in memory."""
    where = (
        f"day = {quoted(files[0].day)} AND cluster_id = {quoted(cluster_id)}"
        f" AND entry >= {min(file.first_entry or 0 for file in files)}"
        f" AND entry <= {max(file.last_entry or 0 for file in files)}"
    )
    table.replace(cluster_id, files, _sorted_rows(table, where))


def _sorted_rows(table: HistoryTable, where: str) -> Iterator[pa.Table]:
    """The rows, some row groups at a time, sorted by kind, topic, partition, group and entry."""
    for part in list(_slices(table, where)):
        of_kind = COLUMNS[RowKind(part.kind)]
        columns = ", ".join(f'"{name}"' for name in (*ENTRY_COLUMNS, *of_kind))
        order = [f'"{name}"' for name in ("topic", "partition", "group") if name in of_kind]
        rows = table.query(
            f"SELECT {columns} FROM history WHERE {where} AND {part.sql}"
            f" ORDER BY {', '.join([*order, 'entry'])}"
        )
        yield pa.Table.from_arrays(
            [
                rows[field.name].cast(field.type)
                if field.name in rows.column_names
                else pa.nulls(rows.num_rows, field.type)
                for field in FILE_SCHEMA
            ],
            schema=FILE_SCHEMA,
        )


def _slices(table: HistoryTable, where: str) -> Iterator[Slice]:
    counts = table.query(
        "SELECT kind, topic, coalesce(partition, 0) AS partition, count(*) AS rows FROM history"
        f" WHERE {where} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    )
    kind, first, last, slice_rows = None, None, None, 0
    columns = (counts[name].to_pylist() for name in counts.column_names)
    for row_kind, topic, partition, rows in zip(*columns, strict=True):
        at = None if topic is None else (topic, partition)
        is_full = slice_rows + rows > SLICE_ROWS
        if kind is not None and (row_kind != kind or at is None or is_full):
            yield Slice(kind, first, last)
            kind = None
        if kind is None:
            kind, first, slice_rows = row_kind, at, 0
        last, slice_rows = at, slice_rows + rows
    if kind is not None:
        yield Slice(kind, first, last)


def main(place: str, cluster_id: str, day: str, first: str, last: str) -> None:
    """The process that `MergeApart` starts."""
    os.nice(10)
    with suppress(OSError):  # if memory is short, the kernel ends this process first
        Path("/proc/self/oom_score_adj").write_text("1000")
    table = HistoryTable.open(place)

    def files() -> list[HistoryFile]:
        return [
            file
            for file in table.files(cluster_id, since_day=day, until_day=day)
            if int(first) <= (file.first_entry or 0) <= int(last)
        ]

    while len(sound := files()) > 1:
        try:
            merge(table, cluster_id, sound)
            break
        except HistoryUnavailable:
            if files() == sound:  # no file has turned out to be damaged
                raise
    print(json.dumps(table.damaged))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except HistoryUnavailable as error:
        sys.exit(str(error))
