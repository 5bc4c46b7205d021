"""The JVM dies: the plan at hand fails in one sentence, and the next has a new JVM."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from pyspark import SparkContext, StatusTracker

from retentiond.decide import plan
from retentiond.decide.plan import decide
from retentiond.errors import SparkUnavailable
from retentiond.model import PlanRow
from retentiond.spark.session import SparkSessions
from tests.support import oracle
from tests.support.brokers.spark_processes import in_a_process, jvms
from tests.support.builders.guard_readings import healthy
from tests.support.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200), pytest.mark.thorough("kills")]


def kill_jvm() -> None:
    """Returns when it is dead, and leaves it to its parent to be waited for: that is tested."""
    (jvm,) = jvms()
    jvm.kill()
    eventually(jvm.status, lambda status: status == psutil.STATUS_ZOMBIE)


def rows(sessions: SparkSessions) -> list[PlanRow]:
    return [replace(row, detail=None) for row in decide(sessions, healthy().snapshot())]


class Held(NamedTuple):
    """The kinds of open files, and the threads, of a process."""

    files: list[str]
    threads: list[str]


def held() -> Held:
    """By this process."""
    gc.collect()
    files = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    kinds = sorted(
        re.sub(r"spark-\w+\.locked", "spark", os.readlink(file).split("[")[0])  # a name at random
        for file in files
        if os.path.lexists(file)
    )
    return Held(kinds, sorted(re.sub(r"\d+", "", each.name) for each in threading.enumerate()))


class Lived(NamedTuple):
    """What a process has lived through whose JVMs died one after another.

    ``ports``: those that Spark's JVM opened for plans alone; ``looks``: how often was looked at
    them. ``planned``: before any death, after one between two plans, and after one amid a plan,
    which ``sentence`` told. ``held``: before that last death, and after it. ``interrupted``: what
    the question heard whose JVM an interrupt ended; ``ended_by``: the threads that ended it.
    """

    ports: set[int]
    looks: int
    planned: list[list[PlanRow]]
    sentence: str
    held: tuple[Held, Held]
    interrupted: list[str]
    ended_by: list[str]


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    """One process and three JVMs for all the deaths, as a start takes seconds."""
    found, stderr = in_a_process(tmp_path_factory.mktemp("deaths"), survive_deaths)
    assert stderr == ""
    return found


def survive_deaths() -> Lived:
    """Spark's own files are in a folder of the scenario's, which has to be empty at its end."""
    tempfile.tempdir = os.getcwd()
    sessions = SparkSessions("local[2]", {})
    planned = [rows(sessions)]
    assert list(Path().glob("**/blockmgr-*"))
    ports, looks = ports_of_plans(sessions)
    kill_jvm()
    planned.append(rows(sessions))  # what is made once, and kept, is made now
    before = held()
    sentence = die_during_a_plan(sessions)
    planned.append(rows(sessions))
    after = held()
    assert len(jvms()) == 1
    interrupted, ended_by = interrupt_a_question(sessions)
    sessions.stop()
    assert jvms() == []
    return Lived(ports, looks, planned, sentence, (before, after), interrupted, ended_by)


def ports_of_plans(sessions: SparkSessions) -> tuple[set[int], int]:
    (jvm,) = jvms()
    before = listening(jvm)
    opened: set[int] = set()
    looks = 0
    planning = threading.Thread(target=lambda: [rows(sessions) for _ in range(20)])
    planning.start()
    while planning.is_alive():
        opened |= listening(jvm) - before
        looks += 1
    planning.join()
    return opened, looks


def listening(process: psutil.Process) -> set[int]:
    """The ports at which it waits for connections."""
    found = process.net_connections("tcp")
    return {each.laddr.port for each in found if each.status == psutil.CONN_LISTEN}


def die_during_a_plan(sessions: SparkSessions) -> str:
    """The plan is one that never ends, and the JVM dies once its job runs."""
    honest: Callable[..., object] = plan.judged_partitions
    killers: list[threading.Thread] = []

    def endless(counted: object, *_: object) -> object:
        with_jobs = SparkContext._active_spark_context.statusTracker()  # type: ignore[union-attr]  # it is there
        killers.append(threading.Thread(target=kill_at_work, args=(with_jobs,)))
        killers[0].start()
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
    killers[0].join()
    return str(caught.value)


def interrupt_a_question(sessions: SparkSessions) -> tuple[list[str], list[str]]:
    """The JVM ends for two at once, for whoever interrupts and for the one that waits for the
    answer: the first that is to remove the socket of Spark's accumulators waits for the other."""
    exists, both = os.path.exists, threading.Barrier(2)
    arrived: list[str] = []
    said: list[str] = []
    trackers: list[StatusTracker] = []

    def exists_for_both(path: str) -> bool:
        found = exists(path)
        if path == address:
            arrived.append(threading.current_thread().name)
            with contextlib.suppress(threading.BrokenBarrierError):
                both.wait(3)
        return found

    def ask() -> None:
        try:
            with sessions.use() as session:
                trackers.append(session.sparkContext.statusTracker())
                session.range(10**15).selectExpr("sum(id % 7)").collect()
        except SparkUnavailable as error:
            said.append(str(error))

    question = threading.Thread(target=ask)
    question.start()
    (tracker,) = eventually(lambda: trackers)
    eventually(tracker.getActiveJobsIds)
    address = SparkContext._active_spark_context._accumulatorServer.server_address  # type: ignore[union-attr]  # it is there
    os.path.exists = exists_for_both  # type: ignore[assignment]  # as above
    sessions.interrupt()
    question.join()
    os.path.exists = exists
    assert jvms() == []
    return said, arrived


def lose_the_temporary_files() -> list[int]:
    sessions = SparkSessions("local[1]", {})
    answers = [counted(sessions)]
    shutil.rmtree(tempfile.gettempdir())
    with contextlib.suppress(SparkUnavailable):  # of this one they were Spark's own
        counted(sessions)
    for jvm in jvms():
        jvm.kill()
        eventually(jvm.status, lambda status: status == psutil.STATUS_ZOMBIE)
    answers.append(counted(sessions))
    sessions.stop()
    return answers


def counted(sessions: SparkSessions) -> int:
    with sessions.use() as session:
        return session.range(3).count()


def test_a_removed_tmpdir_costs_one_plan_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    answers, _ = in_a_process(tmp_path, lose_the_temporary_files)
    assert answers == [3, 3]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_jvm_killed_between_plans_is_replaced(lived: Lived) -> None:
    assert lived.planned[:2] == [oracle.plan(healthy().snapshot())] * 2


def test_a_jvm_killed_during_a_plan_fails_that_plan_alone(lived: Lived) -> None:
    assert lived.sentence == "Spark's JVM ended with exit code -9; the next cycle starts another"
    assert lived.planned[2] == oracle.plan(healthy().snapshot())


def test_a_death_leaks_no_file_and_no_thread(lived: Lived) -> None:
    before, after = lived.held
    assert after == before


def test_no_plan_opens_a_port_that_takes_the_first_client_that_comes(lived: Lived) -> None:
    assert lived.ports == set()
    assert lived.looks > 20


def test_an_interrupt_and_the_question_end_the_jvm_once(lived: Lived) -> None:
    assert lived.interrupted == ["Spark was stopped meanwhile"]
    assert len(lived.ended_by) == 1


def stop_the_jvm() -> psutil.Process:
    """As a debugger does it, or a frozen cgroup: it lives, and answers nothing. One that is just
    starting is a script of Spark's as yet."""
    (jvm,) = eventually(psutil.Process().children)
    jvm.suspend()
    return jvm


def outlive_stopped_jvms() -> tuple[list[str], list[PlanRow], list[bool]]:
    """One that stops in the midst of a plan, one between two, and one that is just starting. One
    that there is time to replace costs no plan."""
    sessions = SparkSessions("local[2]", {}, timeout_s=6)
    honest: Callable[..., object] = plan.judged_partitions
    stopped: list[psutil.Process] = []

    def stops(*arguments: object) -> object:
        stopped.append(stop_the_jvm())
        return honest(*arguments)

    def sentence() -> str:
        began = time.monotonic()
        with pytest.raises(SparkUnavailable) as caught:
            decide(sessions, healthy().snapshot())
        assert time.monotonic() - began < 6 + 10
        assert jvms() == []
        return str(caught.value)

    def plan_once() -> list[PlanRow]:
        sessions.timeout_s = 120
        planned = rows(sessions)
        sessions.timeout_s = 6
        return planned

    plan_once()
    plan.judged_partitions = stops  # type: ignore[assignment]  # this process is the scenario's own
    sentences = [sentence()]
    plan.judged_partitions = honest  # type: ignore[assignment]  # as above
    plan_once()
    stopped.append(stop_the_jvm())
    sentences.append(sentence())
    starting = threading.Thread(target=lambda: stopped.append(stop_the_jvm()))
    starting.start()
    sentences.append(sentence())
    starting.join()
    plan_once()
    stopped.append(stop_the_jvm())
    planned = plan_once()
    before_the_end = stop_the_jvm()
    sessions.stop()
    gone = [not each.is_running() for each in (*stopped, before_the_end)]
    return sentences, planned, gone


def test_a_jvm_that_answers_nothing_is_replaced_in_time(tmp_path: Path) -> None:
    (sentences, planned, gone), stderr = in_a_process(tmp_path, outlive_stopped_jvms)

    given_up = (
        "Spark has not answered within 6 s (spark.timeout), so it was given up; the next cycle "
        "starts another session"
    )
    assert stderr == ""
    assert sentences == [given_up] * 3
    assert planned == oracle.plan(healthy().snapshot())
    assert gone == [True] * 5
