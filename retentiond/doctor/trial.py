"""Starts Spark and has it make one row: slow, so only where it is asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from retentiond.doctor.finding import Finding, Level, ok
from retentiond.errors import SparkUnavailable
from retentiond.plan.session import SparkSessions


def try_spark(master: str, conf: Mapping[str, str], client_version: str) -> Iterator[Finding]:
    """``client_version`` is PySpark's."""
    sessions = SparkSessions(master, conf, once=True)
    began = time.monotonic()
    try:
        with sessions.use() as session:
            version = str(session.version)
            session.range(1).collect()
    except SparkUnavailable as error:
        yield Finding(Level.PROBLEM, "Spark", str(error), "mend spark.master, spark.conf, or Java")
        return
    finally:
        sessions.stop()
    if version != client_version:
        yield Finding(
            Level.WARNING,
            "Spark",
            f"{master} is Spark {version}, and PySpark here is {client_version}",
            "use the same version on both sides",
        )
    yield ok("Spark", f"{master} works; start and first job took {time.monotonic() - began:.0f} s")
