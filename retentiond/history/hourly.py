"""The last 30 days by the hour, for the charts of the status page.

Nothing is read before somebody looks. Then each entry is read once, the newest day first. Memory
has a sum for each hour and each of its `MOST_NAMES` largest topics and groups, and one sum for all
the others, because thirty days of a large cluster take minutes to read.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from retentiond.errors import HistoryUnavailable
from retentiond.formatting import DAY_MS, HOUR_MS
from retentiond.history.entries import day_of
from retentiond.history.schema import RowKind
from retentiond.history.table import HistoryTable, quoted
from retentiond.model import Outcome, Reason

MOST_DAYS = 31

WAIT_S = 2.0
"""How long a page waits for entries that nobody has read yet."""

FOREVER = -1
"""Stands for an unlimited time that Kafka itself would have kept deleted records."""

MOST_NAMES = 50
"""How many topics and groups of an hour have a figure of their own."""

Values: TypeAlias = Sequence[float | None]
"""A value for each step of a time range; None for a step without entries."""


class TimeRange(NamedTuple):
    """A time until now, in equal steps (``step_h`` hours)."""

    word: str
    name: str
    hours: int
    step_h: int

    def times(self, now_ms: int) -> tuple[int, ...]:
        """When each step begins. ``now_ms`` lies in the last one."""
        width_ms = self.step_h * HOUR_MS
        last_ms = now_ms // width_ms * width_ms
        count = self.hours // self.step_h
        return tuple(last_ms - width_ms * before for before in reversed(range(count)))


SPANS = (
    TimeRange("24h", "24 hours", 24, 1),
    TimeRange("7d", "7 days", 7 * 24, 2),
    TimeRange("30d", "30 days", 30 * 24, 6),
)


@dataclass(frozen=True, slots=True)
class Recent:
    """Figures of the steps that begin at ``times``, in epoch milliseconds.

    - ``bytes_by_topic`` (on the disks of all replicas), ``lag_by_group`` (records that a group has
      yet to read on the partitions that it binds): means over the entries, as far as they are
      known. The name None has the sum of the smaller ones.
    - ``deleted``: records.
    - ``saved_byte_ms``: the bytes that deletions of the last 31 days have freed, times how long
      Kafka itself would have kept them within these steps. This estimate is rather too high: Kafka
      would have removed records sooner that were older than the consumed retention. None if no
      deletion has a known size.
    """

    times: tuple[int, ...]
    bytes_by_topic: Mapping[str | None, Values]
    lag_by_group: Mapping[str | None, Values]
    deleted: Sequence[int | None]
    saved_byte_ms: int | None = None

    @property
    def total_deleted(self) -> int:
        return sum(records or 0 for records in self.deleted)

    @property
    def unknown(self) -> tuple[bool, ...]:
        return tuple(records is None for records in self.deleted)


Sums: TypeAlias = defaultdict[str, Counter[str | None]]
"""The amounts by figure and name, of `_query`."""


class Hourly:
    """The sums by the hour of a cluster's entries in the table at ``place``. Any thread may ask.

    A thread of its own reads the table, because an object store may take minutes to answer."""

    def __init__(self, place: str, cluster_id: str) -> None:
        self.place, self.cluster_id = place, cluster_id
        self.is_behind = True  # the table may have entries that nobody has read yet
        self.problem: str | None = None  # says why figures are missing
        self.version = 0  # changes whenever the figures change
        self._damage: str | None = None  # says which files were left out
        self._lock = threading.Lock()
        self._hours: dict[int, Sums] = {}
        self._last_read: dict[str, int] = {}  # the last entry that was read of a day
        self._reader: threading.Thread | None = None
        self._ended = threading.Event()

    @property
    def is_empty(self) -> bool:
        return not self._hours

    @property
    def is_reading(self) -> bool:
        return self._reader is not None and self._reader.is_alive()

    def catch_up(self, now_ms: int, wait_s: float = WAIT_S) -> None:
        """Begins to read what is new in the table, and waits for it ``wait_s`` at most."""
        with self._lock:
            if self.is_behind and not self.is_reading and not self._ended.is_set():
                self._reader = threading.Thread(
                    target=self._catch_up, args=(now_ms,), name="recent", daemon=True
                )
                self._reader.start()
            reader = self._reader
        if reader is not None:
            reader.join(wait_s)

    def end(self, timeout_s: float) -> bool:
        """Reads no further day, and returns whether nothing is being read after that time."""
        self._ended.set()
        if self._reader is not None:
            self._reader.join(timeout_s)
        return not self.is_reading

    def recent(self, span: TimeRange, now_ms: int) -> Recent:
        times = span.times(now_ms)
        with self._lock:
            steps = [Sums(Counter) for _ in times]
            for step, at_ms in zip(steps, times, strict=True):
                for hour in range(at_ms // HOUR_MS, at_ms // HOUR_MS + span.step_h):
                    for figure, amounts in self._hours.get(hour, {}).items():
                        step[figure].update(amounts)
            saved = self._saved_byte_ms(times[0], now_ms)
        return Recent(
            times,
            _means(steps, "size"),
            _means(steps, "lag"),
            tuple(step["deleted"][""] if step["entries"] else None for step in steps),
            saved,
        )

    def _saved_byte_ms(self, since_ms: int, until_ms: int) -> int | None:
        """`Recent.saved_byte_ms`. Deletions count from the middle of their hour."""
        saved, is_known = 0, False
        for hour, sums in self._hours.items():
            at_ms = min(hour * HOUR_MS + HOUR_MS // 2, until_ms)
            for kept_ms, freed_bytes in sums["freed"].items():
                if kept_ms is None:
                    continue
                is_known = True
                forever = int(kept_ms) == FOREVER
                end_ms = until_ms if forever else min(at_ms + int(kept_ms), until_ms)
                saved += freed_bytes * max(0, end_ms - max(at_ms, since_ms))
        return saved if is_known else None

    def _catch_up(self, now_ms: int) -> None:
        self.is_behind = False
        try:
            table = HistoryTable.open(self.place)
            problem = self._read_days(table, day_of(now_ms - MOST_DAYS * DAY_MS))
            self._damage = table.damage or self._damage
            self.problem = problem or self._damage
        except HistoryUnavailable as error:
            self.problem = str(error)
        except Exception as error:  # noqa: BLE001 - a thread must not end in silence
            problem = f"the history can't be read ({type(error).__name__}: {error})"
            self.problem = f"{problem}; please report this"

    def _read_days(self, table: HistoryTable, since_day: str) -> str | None:
        """Reads the entries that are new, the newest day first. A day that can't be read keeps no
        other from being read. Returns why one can't be read."""
        last_of: dict[str, int] = {}
        for file in table.files(self.cluster_id, since_day=since_day):
            last_of[file.day] = max(file.last_entry or 0, last_of.get(file.day, 0))
        problem, took_s = None, 0.0
        for day, last in sorted(last_of.items(), reverse=True):
            known = self._last_read.get(day, 0)
            # Half of the time is left to the cycles.
            if last <= known or self._ended.wait(took_s):
                continue
            began = time.monotonic()
            try:
                self._read(
                    table,
                    f"cluster_id = {quoted(self.cluster_id)} AND day = {quoted(day)}"
                    f" AND entry > {known} AND entry <= {last}",
                )
                self._last_read[day] = last
            except HistoryUnavailable as error:
                problem = str(error)
            took_s = time.monotonic() - began
        return problem

    def _read(self, table: HistoryTable, where: str) -> None:
        figures = table.query(_query(where))
        hours = figures["hour"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
        columns = (hours, *(figures[name] for name in ("figure", "name", "amount")))
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        with self._lock:
            for at_ms, figure, name, amount in rows:
                self._hours.setdefault(at_ms // HOUR_MS, Sums(Counter))[figure][name] += amount
            for hour in sorted(self._hours)[: -MOST_DAYS * 24]:
                del self._hours[hour]
            self.version += 1


def _query(where: str) -> str:
    """The query for the sums of some rows. Grain: hour, figure, name. Columns: the grain, and
    amount: bigint. Names are topics (size), groups (lag) and for how many milliseconds Kafka itself
    would have kept freed bytes (freed), null for all beyond `MOST_NAMES`; otherwise empty."""
    hour, start = "date_trunc('hour', at) AS hour", "log_start_offset"
    lag = f"high_watermark - greatest({start}, coalesce(min_committed_offset, {start}))"
    parts = (
        f"SELECT {hour}, 'size' AS figure, topic AS name, sum(size_bytes) AS amount"
        f" FROM history WHERE {where} AND kind = '{RowKind.PARTITION}' GROUP BY 1, 3",
        f"SELECT {hour}, 'lag', binding_group, sum(greatest({lag}, 0))"
        f" FROM history WHERE {where} AND kind = '{RowKind.PARTITION}'"
        f" AND binding_group IS NOT NULL AND {start} IS NOT NULL"
        # A hold of the guard names the group that objects, not the one with the smallest commit.
        f" AND reason IS DISTINCT FROM '{Reason.EVIDENCE_CHANGED}' GROUP BY 1, 3",
        f"SELECT {hour}, 'deleted', '', sum(records) FROM history WHERE {where}"
        f" AND kind = '{RowKind.DELETION}' AND outcome = '{Outcome.DELETED.value}' GROUP BY 1",
        # A deletion's bytes follow from the partition's row of the same entry.
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


def _means(steps: Sequence[Sums], figure: str) -> dict[str | None, list[float | None]]:
    """Means over the entries of each step. A name that an entry lacks counts as 0."""
    names = dict.fromkeys(name for step in steps for name in step[figure])
    return {
        name: [
            step[figure][name] / step["entries"][""] if step["entries"] else None for step in steps
        ]
        for name in names
    }
