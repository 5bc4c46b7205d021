"""How a reading asks: as much at once as its proofs allow, since brokers may be far away, or one
thing after the other."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

WORKERS = 8
"""More than a reading has under way: some of its tasks wait for others."""


def at_once() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(WORKERS, thread_name_prefix="gather")


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
