"""The last 30 days by the hour, at hand for whoever must not wait: the status page.

What stands in the table is read once: what is new after each entry, and older days, the newest
first, as soon as there is time for them. In memory is a sum for each hour and each of its
`MOST_NAMES` largest topics and groups, and one for all the others together.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from retentiond.errors import HistoryUnavailable
from retentiond.formatting import HOUR_MS
from retentiond.history.entries import day_of
from retentiond.history.schema import RowKind
from retentiond.history.table import HistoryTable, quoted
from retentiond.model import Outcome, Reason

MOST_HOURS = 31 * 24

FOREVER = -1
"""How long Kafka itself would have kept what was deleted, where nothing limits that."""

MOST_NAMES = 50
"""How many topics and groups of an hour have a figure of their own."""

Values: TypeAlias = Sequence[float | None]
"""One for each stretch; None where no entry stands."""


class TimeRange(NamedTuple):
    """A time until now, in equal stretches."""

    word: str
    name: str
    hours: int
    stretch_h: int

    def times(self, now_ms: int) -> tuple[int, ...]:
        """When each stretch begins; ``now_ms`` is in the last one."""
        width_ms = self.stretch_h * HOUR_MS
        last_ms = now_ms // width_ms * width_ms
        count = self.hours // self.stretch_h
        return tuple(last_ms - width_ms * before for before in reversed(range(count)))


SPANS = (
    TimeRange("24h", "24 hours", 24, 1),
    TimeRange("7d", "7 days", 7 * 24, 2),
    TimeRange("30d", "30 days", 30 * 24, 6),
)


@dataclass(frozen=True, slots=True)
class Recent:
    """Figures of the stretches that begin at ``times``, in epoch milliseconds.

    ``bytes_by_topic`` (of all replicas' disks) and ``lag_by_group`` (records that a group has
    not read where it is the one that binds) are means over the entries, as far as they are known;
    under None stand the smaller ones together. ``deleted``: records. ``saved_byte_ms``: bytes that
    deletions of the last 31 days have freed, times how long Kafka itself would have kept them in
    these stretches. It is an estimate, and rather too much: records that were older than the
    consumed retention when they went would have gone sooner. None: nothing was deleted whose size
    is known.
    """

    times: tuple[int, ...]
    bytes_by_topic: Mapping[str | None, Values]
    lag_by_group: Mapping[str | None, Values]
    deleted: Sequence[int | None]
    saved_byte_ms: int | None = None

    @property
    def total_deleted(self) -> int:
        return sum(each or 0 for each in self.deleted)

    @property
    def unknown(self) -> tuple[bool, ...]:
        """Whether a stretch has no entry; one for each."""
        return tuple(each is None for each in self.deleted)


@dataclass(slots=True)
class _Sums:
    """Over the entries of an hour, or of a stretch."""

    entries: int = 0
    deleted: int = 0
    freed: Counter[int] = field(default_factory=Counter)
    """Bytes, by how long Kafka itself would have kept them."""
    sizes: Counter[str | None] = field(default_factory=Counter)
    lags: Counter[str | None] = field(default_factory=Counter)

    def add(self, figure: str, name: str | None, amount: int) -> None:
        if figure == "entries":
            self.entries += amount
        elif figure == "deleted":
            self.deleted += amount
        elif figure == "freed":
            if name is not None:
                self.freed[int(name)] += amount
        else:
            (self.sizes if figure == "size" else self.lags)[name] += amount

    def add_all(self, other: _Sums) -> None:
        self.entries += other.entries
        self.deleted += other.deleted
        self.sizes.update(other.sizes)
        self.lags.update(other.lags)


class Hourly:
    """Written by the thread that writes the history, read by any."""

    def __init__(self) -> None:
        self.problem: str | None = None
        """Why a part of it is missing, in a sentence."""
        self.version = 0
        """Another one as soon as it tells something else."""
        self._damage: str | None = None  # what is left out of what was read
        self._lock = threading.Lock()
        self._hours: dict[int, _Sums] = {}
        self._of: tuple[str, str] | None = None  # place and cluster
        self._first = self._last = 0  # entries: the last one of the days, and of all
        self._days: list[str] = []  # that are not read yet, the newest first
        self._ended = threading.Event()

    @property
    def is_empty(self) -> bool:
        return not self._hours

    @property
    def is_reading(self) -> bool:
        """Whether older days are yet to come."""
        return bool(self._days)

    def follow(
        self,
        table: HistoryTable,
        cluster_id: str,
        at_ms: int,
        is_needed: Callable[[], bool] = lambda: False,
    ) -> None:
        """Reads what is new in the table, and the days before. ``at_ms``: of the last entry.

        Days wait for the next time where the thread ``is_needed`` for something else; one that
        can't be read is tried again then, after the others."""
        try:
            self._follow(table, cluster_id, at_ms, is_needed)
            self._damage = table.damage or self._damage
            self.problem = self._damage
        except HistoryUnavailable as error:
            self.problem = str(error)
        except Exception as error:  # noqa: BLE001 - whoever writes the history goes on
            what = f"the history can't be read ({type(error).__name__}: {error})"
            self.problem = f"{what}; please report this"

    def end(self) -> None:
        """No further day is read."""
        self._ended.set()

    def recent(self, span: TimeRange, now_ms: int) -> Recent:
        times = span.times(now_ms)
        with self._lock:
            stretches = [self._sum(at_ms, span.stretch_h) for at_ms in times]
            saved = self._saved_byte_ms(times[0], now_ms)
        return Recent(
            times,
            _means([(each.entries, each.sizes) for each in stretches]),
            _means([(each.entries, each.lags) for each in stretches]),
            tuple(each.deleted if each.entries else None for each in stretches),
            saved,
        )

    def _saved_byte_ms(self, since_ms: int, until_ms: int) -> int | None:
        """By the middle of each hour."""
        saved, is_known = 0, False
        for hour, sums in self._hours.items():
            at_ms = min(hour * HOUR_MS + HOUR_MS // 2, until_ms)
            for kept_ms, freed_bytes in sums.freed.items():
                is_known = True
                end_ms = until_ms if kept_ms == FOREVER else min(at_ms + kept_ms, until_ms)
                saved += freed_bytes * max(0, end_ms - max(at_ms, since_ms))
        return saved if is_known else None

    def _sum(self, at_ms: int, hours: int) -> _Sums:
        sums = _Sums()
        for hour in range(at_ms // HOUR_MS, at_ms // HOUR_MS + hours):
            if hour in self._hours:
                sums.add_all(self._hours[hour])
        return sums

    def _follow(
        self, table: HistoryTable, cluster_id: str, at_ms: int, is_needed: Callable[[], bool]
    ) -> None:
        last, mine = table.last_entry(cluster_id), f"cluster_id = {quoted(cluster_id)}"
        if self._of != (table.place, cluster_id):
            self._begin(table, cluster_id, at_ms)
            self._first = last
        elif last > self._last:
            self._read(table, f"{mine} AND entry > {self._last} AND entry <= {last}")
        self._last = last
        while self._days and not self._ended.is_set() and not is_needed():
            day, began = self._days.pop(0), time.monotonic()
            try:
                self._read(table, f"{mine} AND day = {quoted(day)} AND entry <= {self._first}")
            except HistoryUnavailable:
                self._days.append(day)
                raise
            self._ended.wait(time.monotonic() - began)  # half of the time is for others

    def _begin(self, table: HistoryTable, cluster_id: str, at_ms: int) -> None:
        since = day_of(at_ms - SPANS[-1].hours * HOUR_MS)
        days = {each.day for each in table.files(cluster_id, since_day=since)}
        with self._lock:
            self._hours.clear()
        self._of = table.place, cluster_id
        self._damage = None
        self._days = sorted(days, reverse=True)

    def _read(self, table: HistoryTable, where: str) -> None:
        found = table.query(_query(where))
        with self._lock:
            for at_ms, figure, name, amount in _rows(found):
                self._hours.setdefault(at_ms // HOUR_MS, _Sums()).add(figure, name, amount)
            for hour in sorted(self._hours)[:-MOST_HOURS]:
                del self._hours[hour]
            self.version += 1


def _query(where: str) -> str:
    """Grain: hour, figure, name. Columns: those, and amount: bigint."""
    hour, start = "date_trunc('hour', at) AS hour", "log_start_offset"
    lag = f"high_watermark - greatest({start}, coalesce(min_committed_offset, {start}))"
    parts = (
        f"SELECT {hour}, 'size' AS figure, topic AS name, sum(size_bytes) AS amount"
        f" FROM history WHERE {where} AND kind = '{RowKind.PARTITION}' GROUP BY 1, 3",
        f"SELECT {hour}, 'lag', binding_group, sum(greatest({lag}, 0))"
        f" FROM history WHERE {where} AND kind = '{RowKind.PARTITION}'"
        f" AND binding_group IS NOT NULL AND {start} IS NOT NULL"
        # What a hold of the guard names is not the group whose commit is the smallest.
        f" AND reason IS DISTINCT FROM '{Reason.EVIDENCE_CHANGED}' GROUP BY 1, 3",
        f"SELECT {hour}, 'deleted', '', sum(records) FROM history WHERE {where}"
        f" AND kind = '{RowKind.DELETION}' AND outcome = '{Outcome.DELETED.value}' GROUP BY 1",
        # Of a deletion's records, by the partition's row of the same entry.
        "SELECT date_trunc('hour', d.at), 'freed', CAST(CASE WHEN p.forced_retention_ms IS"
        f" NULL THEN {FOREVER} ELSE greatest(0, p.forced_retention_ms -"
        " coalesce(p.consumed_retention_ms, 0)) END AS varchar),"
        " CAST(sum(d.records * CAST(p.size_bytes AS double)"
        " / (p.high_watermark - p.log_start_offset)) AS bigint)"
        f" FROM (SELECT * FROM history WHERE {where} AND kind = '{RowKind.DELETION}'"
        f" AND outcome = '{Outcome.DELETED.value}') d JOIN (SELECT * FROM history WHERE {where}"
        f" AND kind = '{RowKind.PARTITION}' AND high_watermark > log_start_offset) p"
        " ON d.entry = p.entry AND d.topic = p.topic AND d.partition = p.partition GROUP BY 1, 3",
        f"SELECT {hour}, 'entries', '', count(*) FROM history WHERE {where}"
        f" AND kind = '{RowKind.CYCLE}' GROUP BY 1",
    )
    return (
        f"WITH figures AS ({' UNION ALL '.join(parts)}), placed AS (SELECT *, row_number()"
        " OVER (PARTITION BY hour, figure ORDER BY amount DESC, name) AS place"
        " FROM figures WHERE amount > 0) SELECT hour, figure,"
        f" CASE WHEN place <= {MOST_NAMES} THEN name END AS name, sum(amount) AS amount"
        " FROM placed GROUP BY 1, 2, 3"
    )


def _rows(found: pa.Table) -> Iterator[tuple[int, str, str | None, int]]:
    hours = found["hour"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    columns = (hours, *(found[name] for name in ("figure", "name", "amount")))
    return zip(*(each.to_pylist() for each in columns), strict=True)


def _means(
    stretches: Sequence[tuple[int, Mapping[str | None, int]]],
) -> dict[str | None, list[float | None]]:
    """Means by name over each stretch's entries; what an entry doesn't name is 0 in it."""
    names = dict.fromkeys(name for _, sums in stretches for name in sums)
    return {
        name: [sums.get(name, 0) / entries if entries else None for entries, sums in stretches]
        for name in names
    }
