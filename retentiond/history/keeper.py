"""Writes the history beside the cycles.

Invariants:

- The history never delays, fails or changes a cycle.
- One entry is written at a time.
- If an entry can't be written, the next one has its contents, too.
- A problem is reported once for as long as it lasts.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from retentiond.clock import uptime
from retentiond.config.config import Config
from retentiond.errors import HistoryUnavailable
from retentiond.history import upkeep
from retentiond.history.entries import (
    Deletion,
    FinishedCycle,
    RecordedState,
    day_of,
    deletions_of,
    recorded_state,
    rows_of,
)
from retentiond.history.hourly import Hourly
from retentiond.history.table import HistoryTable

TOLERANCE_MS = 5_000
"""A cycle that begins so much too early still counts as due."""

MOST_DELETIONS = 500_000
"""How many deletions may wait for an entry that can be written; the oldest are dropped first."""

END_S = 0.2
"""How long the thread may take to notice that its merge was ended."""

ATTEMPTS = 2
"""How often to try to append: another process may write at the same time."""


@dataclass(frozen=True, slots=True)
class HistoryStatus:
    """The state of the history. ``bytes``: the size of this cluster's entries. ``written_at``: in
    epoch seconds. None if not known. ``problem``: a sentence that says why the last entry, or the
    upkeep of older ones, failed."""

    bytes: int | None = None
    written_at: float | None = None
    failures: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _WrittenEntry:
    """An entry of this process. ``at_ms``: when its cycle began, in uptime."""

    place: str
    cluster_id: str
    entry: int
    day: str
    at_ms: int
    state: RecordedState


@dataclass(frozen=True, slots=True)
class _WaitingCycle:
    """The last cycle, and when it began, in uptime."""

    seen: FinishedCycle
    at_ms: int


class HistoryKeeper:
    """Writes this process's history. ``tell`` is called with every new problem, and with None once
    an entry could be written again. ``elapsed_ms``: monotonic time."""

    def __init__(
        self,
        config: Config,
        tell: Callable[[HistoryUnavailable | None], None] = lambda _: None,
        *,
        elapsed_ms: Callable[[], int] = lambda: uptime().ms,
        date: Callable[[], float] = time.time,
        merge: upkeep.Merge | None = None,
    ) -> None:
        self.config = config
        self.hourly: Hourly | None = None  # of the table of the last entry
        self.status = HistoryStatus()  # replaced as a whole
        self._tell = tell
        self._elapsed_ms = elapsed_ms
        self._date = date
        self._lock = threading.Lock()
        self._waiting: _WaitingCycle | None = None
        self._deletions: deque[Deletion] = deque(maxlen=MOST_DELETIONS)
        self._last: _WrittenEntry | None = None
        self._reported_kind: str | None = None  # of the problem that was reported last
        self._thread: threading.Thread | None = None
        self._merging = upkeep.MergeApart()
        self._upkeep = upkeep.HistoryUpkeep(merge or self._merging)
        self._cluster_id: str | None = None  # the cluster of the deletions
        self._uncertain: tuple[_WrittenEntry, int] | None = None
        """An entry that may have been written or not, with the number of its deletions."""
        self._damaged: dict[str, str] = {}  # all that `HistoryTable.damaged` had so far
        self._damage: str | None = None

    @property
    def problem(self) -> str | None:
        return self.status.problem if self.config.history.enabled else None

    @property
    def shown(self) -> HistoryStatus:
        """What the metrics show. Without a history, nobody waits for its next entry."""
        return self.status if self.config.history.enabled else replace(self.status, written_at=None)

    def see(self, seen: FinishedCycle) -> None:
        """Notes a finished cycle. The cycle's own thread calls it, so it writes nothing."""
        if not self.config.history.enabled:
            return
        try:
            deletions = deletions_of(seen)
            with self._lock:
                if seen.plan.cluster_id != self._cluster_id:
                    self._deletions.clear()
                self._cluster_id = seen.plan.cluster_id
                self._deletions.extend(deletions)
                self._waiting = _WaitingCycle(seen, self._elapsed_ms() - seen.took_ms)
        except Exception as error:  # noqa: BLE001 - the history must not fail a cycle
            self._failed(_bug(error))

    def keep(self) -> None:
        """Starts a thread that writes an entry, if one is due and none is being written."""
        if self._thread is not None and self._thread.is_alive():
            return
        if self._waiting is None or not self.config.history.enabled or not self._is_due():
            return
        thread = threading.Thread(target=self._keep, name="history", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the host allows no more threads
            self._failed(_bug(error))
        else:
            self._thread = thread

    def finish(self, timeout_s: float) -> bool:
        """Waits until no entry is being written, and returns whether that is so. A merge that takes
        longer is ended; its files stay as they were."""
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        self._merging.end()
        self._thread.join(END_S)
        has_read = self.hourly is None or self.hourly.end(END_S)
        return has_read and not self._thread.is_alive()

    def _is_due(self) -> bool:
        waiting, last = self._waiting, self._last
        if last is None or waiting is None:
            return True
        interval_ms = self.config.history.interval_ms
        passed_ms = waiting.at_ms - last.at_ms
        return passed_ms >= interval_ms - min(TOLERANCE_MS, interval_ms // 10)

    def _keep(self) -> None:
        try:
            self._write()
        except HistoryUnavailable as error:
            self._failed(error)
        except BaseException as error:  # noqa: BLE001 - nothing may end the thread in silence
            self._failed(_bug(error))
        else:
            self._succeeded()

    def _write(self) -> None:
        waiting, config = self._waiting, self.config
        if waiting is None:
            return
        plan = waiting.seen.plan
        table = HistoryTable.open_or_create(config.history_path)
        if self._last is None or self._last.place == table.place:
            table.damaged |= self._damaged
        self._settle(table)
        for attempt in range(ATTEMPTS):
            try:
                self._append(table, waiting)
                break
            except HistoryUnavailable as error:
                if error.kind != "conflict" or attempt + 1 == ATTEMPTS:
                    raise
                self._uncertain = None
                table.refresh()
        self.status = replace(self.status, written_at=self._date())
        hourly, source = self.hourly, (table.place, plan.cluster_id)
        if hourly is None or (hourly.place, hourly.cluster_id) != source:
            self.hourly = Hourly(*source)
        else:
            hourly.is_behind = True
        try:
            self._upkeep.look_after(
                table, plan.cluster_id, config.history, plan.planned_at_ms, waiting.at_ms
            )
        finally:
            size = sum(file.size_bytes for file in table.files(plan.cluster_id))
            self.status = replace(self.status, bytes=size)
            self._damaged, self._damage = table.damaged, table.damage

    def _append(self, table: HistoryTable, waiting: _WaitingCycle) -> None:
        with self._lock:
            deletions = list(self._deletions)
        seen, plan = waiting.seen, waiting.seen.plan
        now, day = recorded_state(seen.snapshot), day_of(plan.planned_at_ms)
        entry = table.last_entry(plan.cluster_id) + 1
        last = self._continued(table, plan.cluster_id, day)
        rows = rows_of(
            seen,
            now,
            last.state if last else None,
            entry=entry,
            deletions=deletions,
            observed_ms=self._observed_ms(table, waiting, plan.cluster_id),
        )
        written = _WrittenEntry(table.place, plan.cluster_id, entry, day, waiting.at_ms, now)
        self._uncertain = written, len(deletions)
        table.append(plan.cluster_id, entry, rows)
        self._settle(table)
        with self._lock:
            if self._waiting is waiting:
                self._waiting = None

    def _settle(self, table: HistoryTable) -> None:
        """Checks whether the last entry is in the table: an object store may have taken it although
        its answer got lost."""
        uncertain, self._uncertain = self._uncertain, None
        if uncertain is None:
            return
        written, deletions = uncertain
        if written.place != table.place or table.last_entry(written.cluster_id) != written.entry:
            return
        self._last = written
        with self._lock:
            for _ in range(min(deletions, len(self._deletions))):
                self._deletions.popleft()

    def _continued(self, table: HistoryTable, cluster_id: str, day: str) -> _WrittenEntry | None:
        """The entry that the next one continues; None if the next one has to be whole."""
        last = self._last
        now = (table.place, cluster_id, day)
        if last is None or (last.place, last.cluster_id, last.day) != now:
            return None
        return last if table.last_entry(cluster_id) == last.entry else None

    def _observed_ms(
        self, table: HistoryTable, waiting: _WaitingCycle, cluster_id: str
    ) -> int | None:
        """The time since this process's last entry; None if another process has added one since."""
        last = self._last
        if last is None or last.cluster_id != cluster_id:
            return None
        is_followed = last.place == table.place and table.last_entry(cluster_id) != last.entry
        return None if is_followed else waiting.at_ms - last.at_ms

    def _failed(self, error: HistoryUnavailable) -> None:
        self.status = replace(self.status, failures=self.status.failures + 1)
        self._report(error)

    def _succeeded(self) -> None:
        """Notes that an entry was written. Files of older entries may be damaged, or wait for
        another try to merge them."""
        lasting = (
            HistoryUnavailable(self._damage, kind="damaged file")
            if self._damage
            else self._upkeep.problem
        )
        self._report(lasting)

    def _report(self, problem: HistoryUnavailable | None) -> None:
        self.status = replace(self.status, problem=str(problem) if problem else None)
        kind = problem.kind if problem else None
        if kind != self._reported_kind:
            self._tell(problem)
        self._reported_kind = kind


def _bug(error: BaseException) -> HistoryUnavailable:
    problem = f"the history can't be written ({type(error).__name__}: {error})"
    return HistoryUnavailable(f"{problem}; please report this", kind="bug")
