"""Cycles on the real scheduler: at once, every interval, never two at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from retentiond.daemon.engine import EveryInterval, background_scheduler

INTERVAL_S = 0.05


@contextmanager
def scheduled(cycle: Any, first: datetime, interval_s: float = INTERVAL_S) -> Iterator[None]:
    scheduler = background_scheduler()
    trigger = EveryInterval(timedelta(seconds=interval_s))
    scheduler.add_job(cycle, trigger, next_run_time=first, id="cycle")
    scheduler.start()
    try:
        yield
    finally:
        scheduler.shutdown(wait=True)


def test_the_first_cycle_runs_at_once_and_the_next_ones_follow() -> None:
    ran = threading.Semaphore(0)
    with scheduled(ran.release, datetime.now(UTC)):
        for _ in range(3):
            assert ran.acquire(timeout=60)


def test_a_cycle_that_overruns_is_not_doubled_and_missed_ones_are_not_made_up_for() -> None:
    running = threading.Lock()
    doubled = threading.Event()
    enough = threading.Event()
    starts: list[float] = []

    def cycle() -> None:
        if not running.acquire(blocking=False):
            doubled.set()
            return
        starts.append(time.time())
        if len(starts) == 1:
            time.sleep(INTERVAL_S * 5.5)  # the cycle's own work: longer than five intervals
        if len(starts) == 6:
            enough.set()
        running.release()

    first = datetime.now(UTC)
    with scheduled(cycle, first):
        assert enough.wait(60)
    assert not doubled.is_set()
    intervals = [(start - first.timestamp()) / INTERVAL_S for start in starts[:6]]
    due = (0, 6, 7, 8, 9, 10)
    assert all(spent >= least for spent, least in zip(intervals, due, strict=True)), intervals


def test_a_cycle_that_starts_late_is_run_and_not_dropped() -> None:
    ran = threading.Event()
    with scheduled(ran.set, datetime.now(UTC) - timedelta(hours=1), interval_s=7200):
        assert ran.wait(60)


def test_a_clock_that_is_set_by_centuries_takes_one_step() -> None:
    """Whoever steps through them all takes all memory, and holds the scheduler's lock."""
    due, later = datetime(2026, 11, 25, tzinfo=UTC), timedelta(days=365 * 174)
    every = EveryInterval(timedelta(seconds=2))
    assert every.get_next_fire_time(due, due + later) == due + later + timedelta(seconds=2)
    assert every.get_next_fire_time(due, due + timedelta(seconds=3)) == due + timedelta(seconds=4)
    assert every.get_next_fire_time(due, due - later) == due + timedelta(seconds=2)


def test_a_cycle_that_is_due_since_centuries_runs_once_at_once() -> None:
    ran = threading.Semaphore(0)
    with scheduled(ran.release, datetime.now(UTC) - timedelta(days=365 * 174), interval_s=60):
        assert ran.acquire(timeout=10)
        assert not ran.acquire(timeout=0.2)
