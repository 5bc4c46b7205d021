"""The JVM dies: the plan at hand fails in one sentence, and the next has a new JVM."""

from __future__ import annotations

import gc
import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from pyspark import SparkContext

from retentiond.errors import SparkUnavailable
from retentiond.model import PlanRow
from retentiond.plan import plan
from retentiond.plan.plan import decide
from retentiond.plan.session import SparkSessions
from tests import oracle
from tests.integration.spark_processes import in_a_process
from tests.unit.act.readings import healthy
from tests.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def jvms() -> list[psutil.Process]:
    """This process's JVMs, zombies included."""
    return [each for each in psutil.Process().children(recursive=True) if "java" in each.name()]


def kill_jvm() -> None:
    """Returns when it is dead, and leaves it to its parent to be waited for: that is tested."""
    (jvm,) = jvms()
    jvm.kill()
    eventually(jvm.status, lambda status: status == psutil.STATUS_ZOMBIE)


def rows(sessions: SparkSessions) -> list[PlanRow]:
    return [replace(row, detail=None) for row in decide(sessions, healthy().snapshot())]


def held() -> tuple[list[str], list[str]]:
    """The kinds of open files, and the threads, of this process."""
    gc.collect()
    files = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    kinds = sorted(os.readlink(file).split("[")[0] for file in files if os.path.lexists(file))
    return kinds, sorted(re.sub(r"\d+", "", each.name) for each in threading.enumerate())


def survive_deaths_between_plans() -> list[list[PlanRow]]:
    sessions = SparkSessions("local[2]", {})
    planned = [rows(sessions)]
    kill_jvm()
    planned.append(rows(sessions))  # what is made once, and kept, is made now
    before = held()
    for _ in range(3):
        kill_jvm()
        planned.append(rows(sessions))
        assert len(jvms()) == 1
    after = held()
    assert after == before, (before, after)
    sessions.stop()
    assert jvms() == []
    return planned


def test_a_jvm_killed_between_plans_is_replaced_and_nothing_leaks(tmp_path: Path) -> None:
    expected = oracle.plan(healthy().snapshot())

    assert in_a_process(tmp_path, survive_deaths_between_plans) == ([expected] * 5, "")


def survive_a_death_during_a_plan() -> tuple[str, list[PlanRow]]:
    """The plan is one that never ends, and the JVM dies once its job runs."""
    sessions = SparkSessions("local[2]", {})
    honest: Callable[..., object] = plan.judged_partitions

    def endless(counted: object, *_: object) -> object:
        with_jobs = SparkContext._active_spark_context.statusTracker()  # type: ignore[union-attr]  # it is there
        threading.Thread(target=kill_at_work, args=(with_jobs,)).start()
        session = counted.sparkSession  # type: ignore[attr-defined]  # a DataFrame
        return session.range(10**15).selectExpr("sum(id % 7)")

    def kill_at_work(tracker: object) -> None:
        eventually(tracker.getActiveJobsIds)  # type: ignore[attr-defined]  # a StatusTracker
        (jvm,) = jvms()
        jvm.kill()  # and the plan waits for it

    plan.judged_partitions = endless  # type: ignore[assignment]  # this process is the scenario's own
    with pytest.raises(SparkUnavailable) as caught:
        decide(sessions, healthy().snapshot())
    plan.judged_partitions = honest  # type: ignore[assignment]  # as above
    planned = rows(sessions)
    sessions.stop()
    assert jvms() == []
    return str(caught.value), planned


def test_a_jvm_killed_during_a_plan_fails_that_plan_alone(tmp_path: Path) -> None:
    (sentence, planned), stderr = in_a_process(tmp_path, survive_a_death_during_a_plan)

    assert sentence == "Spark's JVM ended with exit code -9; the next cycle starts another"
    assert planned == oracle.plan(healthy().snapshot())
    assert stderr == ""


def stop_while_it_starts() -> tuple[float, int]:
    """Seconds that the stop took, and the JVM that was on its way."""
    sessions = SparkSessions("local[2]", {})
    refused: list[str] = []

    def start() -> None:
        with pytest.raises(SparkUnavailable) as caught:
            sessions.start()
        refused.append(str(caught.value))

    starting = threading.Thread(target=start)
    starting.start()
    (jvm,) = eventually(jvms)
    started = time.monotonic()
    sessions.stop()
    took = time.monotonic() - started
    starting.join()
    assert refused == ["Spark was stopped while it started"]
    assert jvms() == []
    return took, jvm.pid


def test_a_stop_does_not_wait_for_a_session_that_is_being_made(tmp_path: Path) -> None:
    (took, jvm), stderr = in_a_process(tmp_path, stop_while_it_starts)

    assert took < 4
    assert not psutil.pid_exists(jvm)
    assert stderr == ""


def start_without_java() -> str:
    os.environ.pop("JAVA_HOME", None)
    os.environ["PATH"] = "/nowhere"
    sessions = SparkSessions("local[2]", {})
    with pytest.raises(SparkUnavailable) as caught:
        decide(sessions, healthy().snapshot())
    sessions.stop()
    return str(caught.value)


def test_without_java_there_is_one_sentence_that_says_so(tmp_path: Path) -> None:
    sentence, stderr = in_a_process(tmp_path, start_without_java)

    assert "Java 17 or newer" in sentence
    assert "\n" not in sentence
    assert stderr == ""
