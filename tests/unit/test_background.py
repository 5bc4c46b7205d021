"""Work in a thread that nobody has to wait for."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from retentiond.background import in_background

LONG_S = 30.0


def test_whoever_waits_gets_the_result() -> None:
    done = in_background(threading.current_thread, "work")
    worker = done.result(LONG_S)
    assert (worker.name, worker.daemon) == ("work", True)


def test_whoever_waits_no_longer_goes_on_without_it() -> None:
    released = threading.Event()
    done = in_background(lambda: released.wait(LONG_S), "work")
    with pytest.raises(TimeoutError):
        done.result(0.01)
    released.set()
    assert done.result(LONG_S)


def test_whoever_waits_gets_the_error_and_nothing_keeps_it() -> None:
    """It may hold sockets, and Python rarely looks for cycles."""

    class Broken(Exception):
        pass

    def fails() -> None:
        raise Broken

    gc.collect()
    gc.disable()
    try:
        done = in_background(fails, "work")
        error = weakref.ref(done.exception(LONG_S))
        assert isinstance(error(), Broken)
        for thread in threading.enumerate():
            if thread.name == "work":
                thread.join(LONG_S)
        del done
        assert error() is None
    finally:
        gc.enable()
