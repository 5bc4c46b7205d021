"""What time it is, how much of it has passed, and waits that a stop cuts short.

The age of records goes by the earlier of the host's time and the cluster's. A clock that is ahead
makes records look older than they are; one that is behind only keeps them longer. So of two clocks
the earlier one is a bound that neither can spoil. What has to wait for time to pass goes by a clock
that nobody sets: the difference of two dates says nothing where a clock was set between them.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

from retentiond.model import Failure


class Stop(Protocol):
    """Set when the process is to end; `threading.Event` is one."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float) -> bool: ...


class Stopped(Exception):
    """The process is asked to end; nothing was left half done."""


def now_ms() -> int:
    """The host's time, epoch milliseconds."""
    return time.time_ns() // 1_000_000


class Time(NamedTuple):
    """``now_ms``: epoch milliseconds. ``problems``: why it can't be relied on, a sentence each."""

    now_ms: int
    problems: tuple[str, ...] = ()


def earlier_time(host_ms: int, cluster_ms: int | Failure | None) -> Time:
    """The host's time alone where the cluster does not tell its own (Kafka before 3.3)."""
    if isinstance(cluster_ms, Failure):
        return Time(host_ms, (f"the cluster's clock could not be read ({cluster_ms})",))
    return Time(host_ms if cluster_ms is None else min(host_ms, cluster_ms))


_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def seconds_since_boot() -> float:
    """What the age of evidence is told by. It goes on while the host sleeps, when `time.monotonic`
    stands still."""
    return time.clock_gettime(_SINCE_BOOT)


class Uptime(NamedTuple):
    """A moment: ``ms`` since the host booted, asleep or not.

    ``boot_id`` names the boot. Two moments of one boot tell how much time has passed between them,
    also across restarts of a process; two boots tell nothing.
    """

    boot_id: str
    ms: int


def uptime() -> Uptime:
    return Uptime(_boot_id(), time.clock_gettime_ns(_SINCE_BOOT) // 1_000_000)


def elapsed_ms(since: Uptime | None, now: Uptime) -> int:
    """How much time has certainly passed; 0 where that can't be told."""
    if since is None or since.boot_id != now.boot_id:
        return 0
    return max(0, now.ms - since.ms)


@cache
def _boot_id() -> str:
    """Linux tells it. Elsewhere no other process is known to share this one's clock."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"process-{uuid.uuid4().hex}"


class ClockChanges:
    """Notices when somebody has set the host's clock, against one that goes on evenly."""

    def __init__(self, date: Callable[[], float], even: Callable[[], float]) -> None:
        self._date = date
        self._even = even
        self._apart_s = date() - even()

    def ahead_s(self) -> float:
        """By how much the clock was set in all; negative is back. Less than a second counts
        as 0."""
        ahead_s = self._date() - self._even() - self._apart_s
        return 0 if abs(ahead_s) < 1 else ahead_s

    def set_by_s(self) -> float:
        """By how much the clock was set since the last call, as `ahead_s` tells it."""
        ahead_s = self.ahead_s()
        self._apart_s += ahead_s
        return ahead_s


@dataclass(slots=True)
class StepTimes:
    """In the order in which they were walked."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - started
