"""How Spark's JVM starts: without Java, with a stop meanwhile, with secrets that nobody sees."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import psutil
import pytest

from retentiond.decide.plan import decide
from retentiond.errors import SparkUnavailable
from retentiond.spark.session import SparkSessions
from tests.support.brokers.spark_processes import in_a_process, jvms
from tests.support.builders.guard_readings import healthy
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.spark,
    pytest.mark.thorough("Spark sessions of their own"),
    pytest.mark.timeout(1200),
]

SECRET = "hunter2-wherever-it-may-be"


def command_lines_with(secret: str) -> set[str]:
    """Of all processes of this host."""
    found = set()
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            text = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if secret in text:
                found.add(text)
    return found


def plan_with_secrets() -> tuple[set[str], int, list[str | None]]:
    """Command lines that were seen to hold one, how often was looked while Spark started, and the
    settings as they have arrived."""
    odd = f" {SECRET} é=:#!\\n\t'\" "
    sessions = SparkSessions(
        "local[2]",
        {
            "spark.retentiond.password": odd,
            "spark.driver.extraJavaOptions": f"-Dpassword={SECRET} '-Dother=a \\b \"#c'",
            "spark.driver.defaultJavaOptions": f"-Dfirst={SECRET}",
            "spark.driver.memory": "700m",
        },
    )
    seen: set[str] = set()
    looks = 0
    starting = threading.Thread(target=sessions.start)
    starting.start()
    while starting.is_alive():
        seen |= command_lines_with(SECRET)
        looks += bool(jvms())
    seen |= command_lines_with(SECRET)
    with sessions.use() as session:
        java = session._jvm.java.lang  # type: ignore[union-attr]  # py4j has no types
        arrived = [
            session.conf.get("spark.retentiond.password"),
            *map(java.System.getProperty, ("password", "other", "first")),
            str(java.Runtime.getRuntime().maxMemory() // 2**20),
        ]
    sessions.stop()
    left = [str(each) for each in Path(tempfile.gettempdir()).glob("retentiond-spark-*/settings")]
    assert not any(SECRET in Path(each).read_text() for each in left)
    return seen, looks, [arrived[0] == odd and "as it is", *arrived[1:]]


class Started(NamedTuple):
    """What starts and attempts at them have shown: without Java, with a stop meanwhile, and with
    secrets among the settings.

    ``stop_s``: seconds that the stop took; ``stopped``: the JVM that was on its way. ``shown``:
    command lines that were seen to hold a secret; ``looks``: how often was looked; ``arrived``:
    those settings as the JVM has them.
    """

    without_java: str
    stop_s: float
    stopped: int
    refused: list[str]
    shown: set[str]
    looks: int
    arrived: list[str | None]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Started:
    found, stderr = in_a_process(tmp_path_factory.mktemp("starts"), start_in_three_ways)
    assert stderr == ""
    return found


def start_in_three_ways() -> Started:
    return Started(start_without_java(), *stop_while_it_starts(), *plan_with_secrets())


def start_without_java() -> str:
    with mock.patch.dict(os.environ, {"PATH": "/nowhere"}):
        os.environ.pop("JAVA_HOME", None)
        sessions = SparkSessions("local[2]", {})
        with pytest.raises(SparkUnavailable) as caught:
            decide(sessions, healthy().snapshot())
        sessions.stop()
    return str(caught.value)


def stop_while_it_starts() -> tuple[float, int, list[str]]:
    """Its JVM is on its way."""
    sessions = SparkSessions("local[2]", {})
    refused: list[str] = []

    def start() -> None:
        with pytest.raises(SparkUnavailable) as caught:
            sessions.start()
        refused.append(str(caught.value))

    starting = threading.Thread(target=start)
    starting.start()
    (jvm,) = eventually(jvms)
    began = time.monotonic()
    sessions.stop()
    took = time.monotonic() - began
    starting.join()
    assert jvms() == []
    return took, jvm.pid, refused


def test_without_java_there_is_one_sentence_that_says_so(started: Started) -> None:
    assert "Java 17 or newer" in started.without_java
    assert "\n" not in started.without_java


def test_a_stop_does_not_wait_for_a_session_that_is_being_made(started: Started) -> None:
    assert started.refused == ["Spark was stopped meanwhile"]
    assert started.stop_s < 4
    assert not psutil.pid_exists(started.stopped)


def test_no_setting_of_spark_stands_in_a_command_line(started: Started) -> None:
    assert started.shown == set()
    assert started.looks > 10
    assert started.arrived[0] == "as it is"
    assert started.arrived[1:4] == [SECRET, 'a \\b "#c', SECRET]
    assert 600 < int(started.arrived[4] or 0) <= 700
