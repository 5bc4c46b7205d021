"""Sets the wall clock of the Python process that finds this on its path wrong.

By as many seconds as the file says that ``LEDGER_CLOCK_FILE`` names, from when it is written; the
monotonic clock stays right. Python imports a module of this name at its start. libfaketime is of
no use here: it reaches librdkafka and the JVM, and they stop.
"""

import datetime
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LOOK_SECONDS = 0.1

_true_ns: Callable[[], int] = time.time_ns
_true_clock: Callable[[int], float] = time.clock_gettime
_Datetime = datetime.datetime


class _Offset:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._read_at = -LOOK_SECONDS
        self._ns = 0

    def __call__(self) -> int:
        now = time.monotonic()
        if now - self._read_at >= LOOK_SECONDS:
            self._read_at = now
            text = self._file.read_text() if self._file.exists() else ""
            self._ns = int(float(text or 0) * 1e9)
        return self._ns


_offset_ns = _Offset(Path(os.environ["LEDGER_CLOCK_FILE"]))


def _time_ns() -> int:
    return _true_ns() + _offset_ns()


def _time() -> float:
    return _time_ns() / 1e9


def _clock_gettime(clock: int) -> float:
    return _time() if clock == time.CLOCK_REALTIME else _true_clock(clock)


class _Kind(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _Datetime)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, _Datetime)


class _Shifted(_Datetime, metaclass=_Kind):
    __slots__ = ()  # of the same size, or extension modules warn

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return _Datetime.fromtimestamp(_time(), tz)


time.time_ns = _time_ns
time.time = _time
time.clock_gettime = _clock_gettime
datetime.datetime = _Shifted  # type: ignore[misc] # the point of this module
