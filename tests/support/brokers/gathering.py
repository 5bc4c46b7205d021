"""Gathers from real brokers; what came of it is looked into as in a world in memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from retentiond.config import Config
from retentiond.gather.gather import gather
from retentiond.kafka.interface import Kafka
from retentiond.snapshot import Snapshot
from tests.support.builders.gather_worlds import config, entry


def policy(*topics: str, minutes: int = 60) -> Config:
    """Each of the topics enabled with that consumed retention."""
    return config(*(entry(topic, minutes) for topic in topics))


def sleep_until(instant: float) -> None:
    time.sleep(max(0.0, instant - time.monotonic()))


def snapshot(kafka: Kafka, config: Config) -> Snapshot:
    return gather(kafka, config, time.time_ns() // 1_000_000, wait_until=sleep_until)


class Interrupted:
    """A cluster on which something happens once, right before the first call of ``api``."""

    def __init__(self, kafka: Kafka, api: str, happens: Callable[[], object]) -> None:
        self._kafka = kafka
        self._api = api
        self._happens: Callable[[], object] | None = happens

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._kafka, name)

        def interrupted(*args: Any, **kwargs: Any) -> Any:
            happens = self._happens
            if name == self._api and happens is not None:
                self._happens = None
                happens()
            return call(*args, **kwargs)

        return interrupted
