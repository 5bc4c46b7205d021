"""Work that may hang, in a thread that keeps neither the caller nor the process waiting.

An executor's threads would not do: Python waits for them when the process ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


def in_background(work: Callable[[], Result], name: str) -> Future[Result]:
    """Starts the work; ``name`` is the thread's."""
    future: Future[Result] = Future()
    threading.Thread(target=_run, args=(future, work), name=name, daemon=True).start()
    return future


def _run(future: Future[Result], work: Callable[[], Result]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
        future.set_exception(error)
        del future  # or the error's frames and the future would keep each other
