"""Waits until something is so."""

import time
from collections.abc import Callable


def came_true(
    condition: Callable[[], bool], timeout_seconds: float, poll_seconds: float = 0.1
) -> bool:
    """Whether it was so within that time."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(poll_seconds)
    return True
