"""Awaits a condition: no test sleeps and hopes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 3
"""So many times as long as a test thinks it needs: a busy machine is no failure."""


def eventually(
    ask: Callable[[], T], expected: Callable[[T], object] = bool, *, timeout_s: float = 30
) -> T:
    """The first answer that ``expected`` accepts. Raises AssertionError with the last one."""
    deadline = time.monotonic() + PATIENCE * timeout_s
    while not expected(answer := ask()):
        if time.monotonic() > deadline:
            within = f"not within {PATIENCE * timeout_s:g} s"
            raise AssertionError(f"{within}; the last answer was {answer!r}")
        time.sleep(0.02)
    return answer
