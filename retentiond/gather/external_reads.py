"""The positions of all external readers, read beside the cluster, and not waited for too long.

A reader whose place is slow, or hangs, holds its own topics and no others. So each position is
read by a thread of its own, which takes no other reading's turn, and one that is not there in time
is a `Failure`. The thread ends when its place answers or times out. It keeps no process from
ending.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from threading import Lock

from retentiond.background import in_background
from retentiond.config import ExternalReader
from retentiond.gather.external_positions import MOST_SECONDS, Position, read_external
from retentiond.kafka.interface import Kafka
from retentiond.model import Failure
from retentiond.snapshot import EXTERNAL_READER

FOR_A_PLAN_S = MOST_SECONDS + 5.0
"""An address is given up before that; a mount that hangs never answers."""

FOR_THE_GUARD_S = 2.0
"""Its reading grows old meanwhile, for all topics: a request goes out 5 s after it began, or not
at all."""

MOST_UNDER_WAY = 3
"""Readings of one position, so that a mount that hangs doesn't take a thread each cycle."""

_lock = Lock()
_under_way: Counter[ExternalReader] = Counter()


def start_reading(
    readers: Collection[ExternalReader], now_ms: int, kafka: Kafka, *, most_seconds: float
) -> Callable[[], dict[ExternalReader, Position]]:
    """What it returns waits for the positions, ``most_seconds`` from now on."""
    give_up_at = time.monotonic() + most_seconds
    begun = {reader: _begin(reader, now_ms, kafka) for reader in readers}

    def positions() -> dict[ExternalReader, Position]:
        return {
            reader: _awaited(reading, give_up_at, most_seconds) for reader, reading in begun.items()
        }

    return positions


def _begin(reader: ExternalReader, now_ms: int, kafka: Kafka) -> Future[Position]:
    with _lock:
        if _under_way[reader] >= MOST_UNDER_WAY:
            position: Future[Position] = Future()
            position.set_result(
                Failure(EXTERNAL_READER, "earlier readings of its position have not come back yet")
            )
            return position
        _under_way[reader] += 1

    def read() -> Position:
        try:
            return read_external(reader, now_ms, kafka)
        finally:
            with _lock:
                _under_way[reader] -= 1

    return in_background(read, "external reader")


def _awaited(found: Future[Position], give_up_at: float, most_seconds: float) -> Position:
    try:
        return found.result(max(0.0, give_up_at - time.monotonic()))
    except NotInTime:
        return Failure(
            EXTERNAL_READER,
            f"its position was not read within {most_seconds:g} s; other topics don't wait for it",
        )
