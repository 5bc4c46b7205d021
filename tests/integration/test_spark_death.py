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

import psutil
import pytest
from pyspark import SparkContext, StatusTracker

from retentiond.decide import plan
from retentiond.decide.plan import decide
from retentiond.errors import SparkUnavailable
from retentiond.model import PlanRow
from retentiond.spark.session import SparkSessions
from tests.support import oracle
from tests.support.brokers.spark_processes import in_a_process
from tests.support.builders.guard_readings import healthy
from tests.support.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200), pytest.mark.thorough("kills")]


def jvms() -> list[psutil.Process]:
    """This process's JVMs, zombies included."""
    return [each for each in psutil.Process().children(recursive=True) if "java" in name(each)]


def name(process: psutil.Process) -> str:
    """Empty for a process that ended while the others were listed."""
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


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
    kinds = sorted(
        re.sub(r"spark-\w+\.locked", "spark", os.readlink(file).split("[")[0])  # a name at random
        for file in files
        if os.path.lexists(file)
    )
    return kinds, sorted(re.sub(r"\d+", "", each.name) for each in threading.enumerate())


def survive_deaths_between_plans() -> list[list[PlanRow]]:
    """Spark's own files are in a folder of the scenario's, which has to be empty at its end."""
    tempfile.tempdir = os.getcwd()
    sessions = SparkSessions("local[2]", {})
    planned = [rows(sessions)]
    assert list(Path().glob("**/blockmgr-*"))
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


def test_a_jvm_killed_during_a_plan_fails_that_plan_alone(tmp_path: Path) -> None:
    (sentence, planned), stderr = in_a_process(tmp_path, survive_a_death_during_a_plan)

    assert sentence == "Spark's JVM ended with exit code -9; the next cycle starts another"
    assert planned == oracle.plan(healthy().snapshot())
    assert stderr == ""


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


def ports_of_plans() -> tuple[set[int], int]:
    """The ports that Spark's JVM opens for plans alone, and how often was looked at them."""
    sessions = SparkSessions("local[2]", {})
    rows(sessions)
    (jvm,) = jvms()
    before = listening(jvm)
    opened: set[int] = set()
    looks = 0
    planning = threading.Thread(target=lambda: [rows(sessions) for _ in range(20)])
    planning.start()
    while planning.is_alive():
        opened |= listening(jvm) - before
        looks += 1
    sessions.stop()
    return opened, looks


def listening(process: psutil.Process) -> set[int]:
    """The ports at which it waits for connections."""
    found = process.net_connections("tcp")
    return {each.laddr.port for each in found if each.status == psutil.CONN_LISTEN}


def test_no_plan_opens_a_port_that_takes_the_first_client_that_comes(tmp_path: Path) -> None:
    (opened, looks), _ = in_a_process(tmp_path, ports_of_plans)

    assert opened == set()
    assert looks > 20


def test_no_setting_of_spark_stands_in_a_command_line(tmp_path: Path) -> None:
    (seen, looks, arrived), stderr = in_a_process(tmp_path, plan_with_secrets)

    assert seen == set()
    assert looks > 10
    assert arrived[0] == "as it is"
    assert arrived[1:4] == [SECRET, 'a \\b "#c', SECRET]
    assert 600 < int(arrived[4] or 0) <= 700
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
    assert refused == ["Spark was stopped meanwhile"]
    assert jvms() == []
    return took, jvm.pid


def test_a_stop_does_not_wait_for_a_session_that_is_being_made(tmp_path: Path) -> None:
    (took, jvm), stderr = in_a_process(tmp_path, stop_while_it_starts)

    assert took < 4
    assert not psutil.pid_exists(jvm)
    assert stderr == ""


def interrupt_a_question() -> tuple[list[str], list[str]]:
    """The JVM ends for two at once, for whoever interrupts and for the one that waits for the
    answer: the first that is to remove the socket of Spark's accumulators waits for the other."""
    sessions = SparkSessions("local[2]", {})
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
    assert jvms() == []
    return said, arrived


def test_an_interrupt_and_the_question_end_the_jvm_once(tmp_path: Path) -> None:
    (said, arrived), stderr = in_a_process(tmp_path, interrupt_a_question)

    assert said == ["Spark was stopped meanwhile"]
    assert len(arrived) == 1
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
