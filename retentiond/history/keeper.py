"""Writes the history beside the cycles.

Invariants: a cycle is never delayed, failed or changed by it; one entry is written at a time; what
an entry that could not be written would have told stands in the next one; and whatever goes wrong
is told once for as long as the same thing is wrong.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

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
"""A cycle that begins so much early is not left out."""

MOST_DELETIONS = 500_000
"""How many deletions' outcomes wait for an entry that can be written; the oldest go first."""

END_S = 0.2
"""How long it may take to notice that a merge was ended."""

TRIES = 2
"""Another process may have written at the same time."""


@dataclass(frozen=True, slots=True)
class Status:
    """``bytes``: of this cluster's entries. ``written_at``: in epoch seconds. None: not known.
    ``problem``: why the last entry, or the care for older ones, failed, in a sentence."""

    bytes: int | None = None
    written_at: float | None = None
    failures: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Written:
    """The last entry of this process. ``at_ms``: when its cycle began, since the host booted."""

    place: str
    cluster_id: str
    entry: int
    day: str
    at_ms: int
    known: RecordedState


class _Tried(NamedTuple):
    """An entry of which nobody knows whether it was written; it has so many deletions."""

    written: _Written
    deletions: int


@dataclass(frozen=True, slots=True)
class _Waiting:
    """The last cycle's, and when it began, in milliseconds since the host booted."""

    seen: FinishedCycle
    at_ms: int


class HistoryKeeper:
    """One for each process. ``tell`` is called with each problem that is new, and with None once
    an entry could be written again. ``elapsed_ms``: a clock that nobody sets. ``hourly`` follows
    what stands in the table."""

    def __init__(
        self,
        config: Config,
        tell: Callable[[HistoryUnavailable | None], None] = lambda _: None,
        *,
        elapsed_ms: Callable[[], int] = lambda: uptime().ms,
        date: Callable[[], float] = time.time,
        merge: upkeep.Merge | None = None,
        hourly: Hourly | None = None,
    ) -> None:
        self.config = config
        self.hourly = hourly
        self.status = Status()  # replaced as a whole
        self._tell = tell
        self._elapsed_ms = elapsed_ms
        self._date = date
        self._lock = threading.Lock()
        self._waiting: _Waiting | None = None
        self._deletions: deque[Deletion] = deque(maxlen=MOST_DELETIONS)
        self._last: _Written | None = None
        self._kind: str | None = None  # of the problem that was told last
        self._thread: threading.Thread | None = None
        self._merging = upkeep.MergeApart()
        self._upkeep = upkeep.HistoryUpkeep(merge or self._merging)
        self._cluster_id: str | None = None  # that the deletions belong to
        self._unsure: _Tried | None = None
        self._damaged: dict[str, str] = {}  # as `HistoryTable.damaged`, that this process has met
        self._damage: str | None = None

    @property
    def problem(self) -> str | None:
        """What is wrong now, in a sentence."""
        return self.status.problem if self.config.history.enabled else None

    def see(self, seen: FinishedCycle) -> None:
        """What a cycle leaves, by its own thread: it only takes note."""
        if not self.config.history.enabled:
            return
        try:
            self._take_note(seen)
        except Exception as error:  # noqa: BLE001 - no cycle may fail of it
            self._failed(_bug(error))

    def _take_note(self, seen: FinishedCycle) -> None:
        deletions = deletions_of(seen)
        with self._lock:
            if seen.plan.cluster_id != self._cluster_id:
                self._deletions.clear()
            self._cluster_id = seen.plan.cluster_id
            self._deletions.extend(deletions)
            self._waiting = _Waiting(seen, self._elapsed_ms() - seen.took_ms)

    def keep(self) -> None:
        """Begins to write an entry if one is due; nothing while another one is being written."""
        if self._thread is not None and self._thread.is_alive():
            return
        if self._waiting is None or not self.config.history.enabled or not self._is_due():
            return
        thread = threading.Thread(target=self._keep, name="history", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the host allows no more of them
            self._failed(_bug(error))
        else:
            self._thread = thread

    def finish(self, patience_s: float) -> bool:
        """Whether no entry is being written any more, after so long at most. Files that are being
        merged then stay as they were."""
        if self._thread is None:
            return True
        self._thread.join(patience_s)
        self._merging.end()
        if self.hourly is not None:
            self.hourly.end()
        self._thread.join(END_S)
        return not self._thread.is_alive()

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
        except Exception as error:  # noqa: BLE001 - a bug must not end it in silence
            self._failed(_bug(error))
        else:
            self._went_well()

    def _write(self) -> None:
        waiting, config = self._waiting, self.config
        if waiting is None:
            return
        plan = waiting.seen.plan
        table = HistoryTable.open_or_create(config.history_path)
        if self._last is None or self._last.place == table.place:
            table.damaged |= self._damaged
        self._settle(table)
        for tried in range(TRIES):
            try:
                self._append(table, waiting)
                break
            except HistoryUnavailable as error:
                if error.kind != "conflict" or tried + 1 == TRIES:
                    raise
                self._unsure = None
                table.refresh()
        self.status = replace(self.status, written_at=self._date())
        if self.hourly is not None:
            self.hourly.follow(
                table, plan.cluster_id, plan.planned_at_ms, lambda: self._waiting is not None
            )
        try:
            self._upkeep.look_after(
                table, plan.cluster_id, config.history, plan.planned_at_ms, waiting.at_ms
            )
        finally:
            size = sum(each.size_bytes for each in table.files(plan.cluster_id))
            self.status = replace(self.status, bytes=size)
            self._damaged, self._damage = table.damaged, table.damage

    def _append(self, table: HistoryTable, waiting: _Waiting) -> None:
        with self._lock:
            deletions = list(self._deletions)
        seen, plan = waiting.seen, waiting.seen.plan
        now, day = recorded_state(seen.snapshot), day_of(plan.planned_at_ms)
        entry = table.last_entry(plan.cluster_id) + 1
        last = self._continued(table, plan.cluster_id, day)
        rows = rows_of(
            seen,
            now,
            last.known if last else None,
            entry=entry,
            deletions=deletions,
            observed_ms=self._observed_ms(waiting, plan.cluster_id),
        )
        written = _Written(table.place, plan.cluster_id, entry, day, waiting.at_ms, now)
        self._unsure = _Tried(written, len(deletions))
        table.append(plan.cluster_id, entry, rows)
        self._settle(table)
        with self._lock:
            if self._waiting is waiting:
                self._waiting = None

    def _settle(self, table: HistoryTable) -> None:
        """Takes note of the last entry if it stands in the table: an object store may have taken
        it although no answer came."""
        tried, self._unsure = self._unsure, None
        if tried is None or tried.written.place != table.place:
            return
        if table.last_entry(tried.written.cluster_id) != tried.written.entry:
            return
        self._last = tried.written
        with self._lock:
            for _ in range(min(tried.deletions, len(self._deletions))):
                self._deletions.popleft()

    def _continued(self, table: HistoryTable, cluster_id: str, day: str) -> _Written | None:
        """The entry that the next one goes on from; None: the next one is to be whole."""
        last = self._last
        if last is None or (last.place, last.cluster_id, last.day) != (
            table.place,
            cluster_id,
            day,
        ):
            return None
        return last if table.last_entry(cluster_id) == last.entry else None

    def _observed_ms(self, waiting: _Waiting, cluster_id: str) -> int | None:
        if self._last is None or self._last.cluster_id != cluster_id:
            return None
        return waiting.at_ms - self._last.at_ms

    def _failed(self, error: HistoryUnavailable) -> None:
        self.status = replace(self.status, failures=self.status.failures + 1, problem=str(error))
        if error.kind != self._kind:
            self._tell(error)
        self._kind = error.kind

    def _went_well(self) -> None:
        """An entry was written, also where an older one is damaged."""
        self.status = replace(self.status, problem=self._damage)
        kind = None if self._damage is None else "damaged file"
        if kind != self._kind:
            self._tell(
                HistoryUnavailable(self._damage, kind=kind) if self._damage and kind else None
            )
        self._kind = kind


def _bug(error: Exception) -> HistoryUnavailable:
    what = f"the history can't be written ({type(error).__name__}: {error})"
    return HistoryUnavailable(f"{what}; please report this", kind="bug")
