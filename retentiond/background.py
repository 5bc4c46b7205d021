"""How work is done beside other work, or in its turn."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")


def in_background(work: Callable[[], Result], name: str) -> Future[Result]:
    """Work that may hang, in a thread that keeps neither the caller nor the process waiting: Python
    waits for an executor's threads when the process ends. ``name`` is the thread's."""
    future: Future[Result] = Future()
    threading.Thread(target=_run, args=(future, work), name=name, daemon=True).start()
    return future


def _run(future: Future[Result], work: Callable[[], Result]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
        future.set_exception(error)
        del future  # or the error's frames and the future would keep each other


def at_once() -> ThreadPoolExecutor:
    """For a reading: more than it has under way, because some of its tasks wait for others."""
    return ThreadPoolExecutor(8, thread_name_prefix="gather")


class _InTurn(Executor):
    """Does what it is given right away."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done = Future[Any]()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - for who asks for the result
            done.set_exception(error)
        return done


IN_TURN = _InTurn()
