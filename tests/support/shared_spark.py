"""The worker's one Spark session, in place of those that commands and questions would start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any
from unittest import mock

from pyspark.sql import SparkSession

from retentiond.config import Spark
from retentiond.daemon import engine
from retentiond.history.ask import rows
from retentiond.history.ask.rows import LARGE_JOBS, QUESTION_TIMEOUT_S
from retentiond.spark.session import SparkSessions


@cache
def worker_session() -> SparkSessions:
    """It starts when it is used, and waits for an answer as long as a busy machine takes."""
    return SparkSessions("local[2]", {}, timeout_s=QUESTION_TIMEOUT_S)


def end_worker_session() -> None:
    if worker_session.cache_info().currsize:
        worker_session().stop()


class SharedSpark:
    """No command ends it. It has these settings while it is used, and its own again afterwards;
    what a session is started with stays as it is. A command that is refused starts none."""

    timeout_s = QUESTION_TIMEOUT_S

    def __init__(self, conf: Mapping[str, str]) -> None:
        self._conf = conf

    def __getattr__(self, _name: str) -> Callable[[], None]:
        """Its start and its ends."""
        return lambda: None

    @contextmanager
    def use(self) -> Iterator[SparkSession]:
        with worker_session().use() as session:
            before = {name: session.conf.get(name, None) for name in self._conf}
            for name, value in self._conf.items():
                session.conf.set(name, value)
            try:
                yield session
            finally:
                for name, old in before.items():
                    if old is None:
                        session.conf.unset(name)
                    else:
                        session.conf.set(name, old)


def of_question(settings: Spark) -> Any:
    """In place of `retentiond.history.ask.rows.sessions_for`."""
    return SharedSpark({**LARGE_JOBS, **settings.conf})


@contextmanager
def one_session() -> Iterator[None]:
    """Commands of this process use the worker's session meanwhile."""
    with ExitStack() as replaced:
        plans = mock.patch.object(engine, "SparkSessions", return_value=SharedSpark({}))
        replaced.enter_context(plans)
        replaced.enter_context(mock.patch.object(rows, "sessions_for", of_question))
        yield
