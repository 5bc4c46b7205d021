"""Brokers at rest, as between a daemon's cycles.

A broker that is asked nothing goes on fetching, checking its logs and talking to the controller,
and the more partitions it has, the more. DeleteRecords is answered before the leader epochs of
its partitions are on disk: the broker goes on writing, a file for each partition. A request that
comes right after waits for that, and one that comes minutes later, as a daemon's does, does not.
"""

import time

import psutil

from devkit.embedded import EmbeddedKafka

WINDOW_S = 0.2

IDLE_WRITES = 20
"""In a window, at most: the controller writes now and then, whatever is asked."""

TIMEOUT_S = 600.0
"""Ten million commits are cleaned for minutes."""


def await_rest(kafka: EmbeddedKafka) -> None:
    """Returns when no broker writes any more than one that is asked nothing.

    Raises TimeoutError when they go on.
    """
    processes = [psutil.Process(node.pid) for node in kafka.nodes]
    give_up_at = time.monotonic() + TIMEOUT_S
    before = [process.io_counters().write_count for process in processes]
    while time.monotonic() < give_up_at:
        time.sleep(WINDOW_S)
        after = [process.io_counters().write_count for process in processes]
        if all(now - then <= IDLE_WRITES for now, then in zip(after, before, strict=True)):
            return
        before = after
    raise TimeoutError(f"the broker has been writing for longer than {TIMEOUT_S:g} s")
