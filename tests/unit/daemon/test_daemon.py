"""The daemon around its cycles: failures, back-off, log lines, and the end."""

from __future__ import annotations

import queue
import signal
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from retentiond.clock import Stopped
from retentiond.errors import (
    KafkaUnavailable,
    OtherCluster,
    SparkUnavailable,
    StateError,
    StateOfOtherCluster,
    StateReplaced,
)
from retentiond.model import DeletionOutcome, Outcome, Reason
from retentiond.state.operator_actions import Pause, remove_pause, write_pause
from retentiond.state.state import KeptFile, LastComplete
from retentiond.tell import logs
from retentiond.tell.metrics.registry import Metrics
from retentiond.tell.report import CycleReport, figures
from retentiond.tell.web import STUCK_S
from tests.support.builders.daemons import Bench, Step, live, settings
from tests.support.builders.reports import outcome, report, row
from tests.support.certificates import Authority
from tests.support.waiting import eventually
from tests.unit.config.files import HASH


def failing(error: Exception) -> Step:
    def cycle() -> CycleReport:
        raise error

    return cycle


def under_way(bench: Bench, go_on: Callable[[], object]) -> threading.Thread:
    """A cycle that has begun, and deletes once that has returned."""
    started = threading.Event()

    def cycle() -> CycleReport:
        started.set()
        assert go_on()
        return report([row("orders")], [outcome("orders")])

    thread = threading.Thread(target=bench.tick, args=[cycle])
    thread.start()
    assert started.wait(60)
    return thread


NO_KAFKA = failing(KafkaUnavailable("kafka:9092 can't be asked"))


def test_the_first_line_says_what_runs_and_its_interval() -> None:
    bench = live(config=settings(schedule={"interval": "90s"}))
    assert bench.scheduler.interval_s == 90
    assert bench.engines[0].warmed_up  # Spark, before it is needed
    (line,) = bench.events(logs.STARTED)
    assert line.pop("port") > 0
    assert line.keys() >= {"version", "spark_version", "librdkafka_version"}
    assert (
        line.items()
        >= {
            "log_level": "info",
            "bootstrap_servers": "localhost:9092",
            "interval_seconds": 90.0,
            "dry_run": True,
            "state_dir": "/nowhere",
        }.items()
    )


def test_a_cycle_is_one_line_with_its_figures() -> None:
    done = report([row("orders")], [outcome("orders")])
    bench = live(lambda bench: bench.tick(lambda: done))
    assert bench.events(logs.CYCLE) == [
        {"event": "retentiond.cycle", "log_level": "info", **figures(done)}
    ]


def test_a_cycle_whose_evidence_is_in_doubt_is_a_warning_each_time() -> None:
    doubtful = report([row("orders")], problems=("Kafka hides groups from this principal",))

    def two_cycles(bench: Bench) -> None:
        for _ in range(2):
            bench.tick(lambda: doubtful)

    warning = {"event": "retentiond.cycle", "log_level": "warning", **figures(doubtful)}
    assert live(two_cycles).events(logs.CYCLE) == [warning, warning]


@pytest.mark.parametrize(
    ("failure", "is_shown_whole"), [(StateError("the disk is full"), False), (ValueError(), True)]
)
def test_a_cycle_that_failed_after_it_had_deleted_is_an_error(
    failure: Exception, is_shown_whole: bool
) -> None:
    failed = replace(report([row("orders")], [outcome("orders")]), failure=failure)
    (line,) = live(lambda bench: bench.tick(lambda: failed)).events(logs.CYCLE)
    assert (line["log_level"], line["result"], line["records_deleted"]) == ("error", "failed", 90)
    assert (line["exc_info"] is failure) is is_shown_whole


@pytest.mark.long
def test_a_cycle_that_failed_after_it_had_deleted_is_tried_again_soon() -> None:
    deleted = report([row("orders")], [outcome("orders")])

    def play(bench: Bench) -> None:
        failed = replace(deleted, failure=StateError("the disk is full"))
        assert bench.retry_delay_s(lambda: failed) == 1
        assert bench.retry_delay_s(lambda: failed) == 2
        bench.tick(lambda: deleted)
        other = replace(deleted, failure=OtherCluster("two clusters\x1b answer"))
        bench.tick(lambda: other)
        assert "two clusters\ufffd answer" in bench.get("/readyz").text

    bench = live(play)
    assert [line["tries"] for line in bench.events(logs.CYCLE_RECOVERED)] == [2]


def test_a_cycle_without_trouble_is_all_that_is_said() -> None:
    bench = live(lambda bench: bench.tick())
    assert [line["event"] for line in bench.log if line["event"] != logs.STARTED] == [
        logs.CYCLE,
        logs.STOPPING,
        logs.STOPPED,
    ]


def test_a_deletion_that_failed_or_may_have_is_a_warning_of_its_own() -> None:
    rows = [row("orders", number) for number in range(3)]
    outcomes = [
        outcome("orders", 0),
        outcome("orders", 1, Outcome.FAILED),
        outcome("orders", 2, Outcome.UNKNOWN),
    ]
    bench = live(lambda bench: bench.tick(lambda: report(rows, outcomes)))
    assert bench.events(logs.DELETION_FAILED) + bench.events(logs.DELETION_UNCLEAR) == [
        {
            "event": event,
            "log_level": "warning",
            "topic": "orders",
            "partition": partition,
            "outcome": what,
            "error": f"why it is {what}",
        }
        for partition, what, event in (
            (1, "failed", "retentiond.deletion_failed"),
            (2, "unknown", "retentiond.deletion_unclear"),
        )
    ]


def test_what_an_earlier_run_left_open_is_said_when_it_is_settled() -> None:
    def play(bench: Bench) -> None:
        bench.engines[0].settled = (DeletionOutcome("orders", 1, Outcome.DELETED, 100),)
        bench.tick()
        bench.tick()

    assert live(play).events(logs.DELETION_SETTLED) == [
        {
            "event": "retentiond.deletion_settled",
            "log_level": "info",
            "topic": "orders",
            "partition": 1,
            "outcome": "deleted",
            "error": None,
        }
    ]


SUCCESS = None


@pytest.mark.parametrize(
    ("interval", "cycles", "delays"),
    [
        ("60s", [NO_KAFKA] * 9, [1, 2, 4, 8, 16, 32, 60, 60, 60]),
        ("3s", [NO_KAFKA] * 4, [1, 2, 3, 3]),
        ("60s", [NO_KAFKA, NO_KAFKA, NO_KAFKA, SUCCESS, NO_KAFKA], [1, 2, 4, 1]),
    ],
    ids=["ever later", "never later than the interval", "from the shortest after a success"],
)
def test_after_a_failure_the_next_try_comes_soon(
    interval: str, cycles: list[Step | None], delays: list[float]
) -> None:
    found: list[float] = []

    def play(bench: Bench) -> None:
        for cycle in cycles:
            if cycle is SUCCESS:
                bench.tick(report)
            else:
                found.append(bench.retry_delay_s(cycle))

    live(play, settings(schedule={"interval": interval}))
    assert found == delays


def test_a_success_does_not_hurry_the_next_cycle() -> None:
    def play(bench: Bench) -> None:
        bench.scheduler.next_run_time = None
        bench.tick()
        assert bench.scheduler.next_run_time is None

    live(play)


def test_weeks_of_failures_are_survived_and_said_once() -> None:
    def play(bench: Bench) -> None:
        for _ in range(1500):
            bench.tick(NO_KAFKA)
        assert bench.retry_delay_s(NO_KAFKA) == 60

    assert live(play).events(logs.CYCLE_FAILED) == [
        {
            "event": "retentiond.cycle_failed",
            "log_level": "error",
            "error": "kafka:9092 can't be asked",
            "exc_info": False,
        }
    ]


NO_ANSWER, NO_SPARK = KafkaUnavailable("no answer"), SparkUnavailable("no Spark")
NO_JAVA, BAD_SETTING = SparkUnavailable("no Java"), SparkUnavailable("bad setting")
EXPIRED, REFUSED = (KafkaUnavailable(f"it is {kind}", kind=kind) for kind in ("expired", "refused"))
SILENT, SLOWER = KafkaUnavailable("silent for 3 s"), KafkaUnavailable("silent for 4 s")
NONE = None


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        # Another class of failure.
        (
            [NO_ANSWER, NO_ANSWER, NO_SPARK, NO_SPARK, NO_ANSWER],
            [("no answer", None), ("no Spark", 1), ("no answer", 1)],
        ),
        # Another cause, though it is the same class.
        ([EXPIRED, EXPIRED, REFUSED, REFUSED], [("it is expired", None), ("it is refused", 1)]),
        # Each reason of one class, with the count of those before.
        (
            [NO_SPARK, NO_JAVA, NO_JAVA, NO_JAVA, BAD_SETTING],
            [("no Spark", None), ("no Java", None), ("bad setting", 2)],
        ),
        # Reasons that take turns are said once, and one that stays again.
        (
            [NO_ANSWER, SILENT, NO_ANSWER, SLOWER, NO_ANSWER, NO_ANSWER, NO_ANSWER, EXPIRED],
            [("no answer", None), ("silent for 3 s", None), ("no answer", 3), ("it is expired", 1)],
        ),
        # After a recovery.
        ([NO_ANSWER, NONE, NO_ANSWER], [("no answer", None), ("no answer", None)]),
    ],
)
def test_another_failure_is_said_and_shown_by_readiness(
    failures: list[Exception | None], said: list[tuple[str, int | None]]
) -> None:
    def play(bench: Bench) -> None:
        for failure in failures:
            bench.tick(report if failure is NONE else failing(failure))
            if NONE not in failures:
                assert bench.get("/readyz").text == f"no complete cycle yet; {failure}\n"

    found = live(play).events(logs.CYCLE_FAILED)
    assert [(line["error"], line.get("failures_before")) for line in found] == said


def test_recovery_is_said_once_with_the_number_of_tries() -> None:
    def play(bench: Bench) -> None:
        for cycle in (NO_KAFKA, NO_KAFKA, report, report):
            bench.tick(cycle)

    assert live(play).events(logs.CYCLE_RECOVERED) == [
        {"event": "retentiond.cycle_recovered", "log_level": "info", "tries": 2}
    ]


def test_an_unexpected_exception_does_not_end_the_daemon_and_is_shown_whole() -> None:
    def play(bench: Bench) -> None:
        bench.tick(failing(ZeroDivisionError("a bug")))
        bench.tick(report)

    bench = live(play)
    (line,) = bench.events(logs.CYCLE_FAILED)
    assert (line["error"], line["exc_info"]) == ("a bug", True)
    assert len(bench.events(logs.CYCLE)) == 1


def test_an_unexpected_exception_after_the_cycle_is_shown_whole_and_hurries_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The scheduler would tell nobody."""

    def observe(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    def play(bench: Bench) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(Metrics, "observe_cycle", observe)
            due = bench.scheduler.next_run_time
            bench.tick(report)
            assert bench.scheduler.next_run_time == due
        assert 'retentiond_cycles_total{result="failed"} 1.0' in bench.get("/metrics").text
        bench.tick(report)

    bench = live(play)
    (line,) = bench.events(logs.CYCLE_FAILED)
    assert (line["error"], line["exc_info"]) == ("a bug", True)
    assert len(bench.events(logs.CYCLE)) == 1


def test_a_metric_says_whether_the_daemon_is_ready() -> None:
    def play(bench: Bench) -> None:
        assert "\nretentiond_ready 0.0\n" in bench.get("/metrics").text
        bench.tick(report)
        assert "\nretentiond_ready 1.0\n" in bench.get("/metrics").text
        bench.later_s = 181
        assert "\nretentiond_ready 0.0\n" in bench.get("/metrics").text

    live(play)


def test_readiness_tells_a_pause_of_now_and_none_that_has_ended(tmp_path: Path) -> None:
    def play(bench: Bench) -> None:
        bench.tick()
        assert bench.get("/readyz").text == "ready\n"
        write_pause(tmp_path, Pause("incident 4711"))
        assert bench.get("/readyz").text == "ready; paused: incident 4711\n"
        bench.tick(lambda: report(paused="paused: incident 4711"))
        remove_pause(tmp_path)
        assert bench.get("/readyz").text == "ready\n"

    live(play, settings(tmp_path))


def test_metrics_tell_a_pause_while_no_cycle_has_a_plan(tmp_path: Path) -> None:
    def shown(bench: Bench) -> str:
        lines = bench.get("/metrics").text.splitlines()
        return next(each for each in lines if each.startswith("retentiond_paused "))

    def play(bench: Bench) -> None:
        assert shown(bench) == "retentiond_paused 1.0"
        bench.tick(NO_KAFKA)
        assert shown(bench) == "retentiond_paused 1.0"
        remove_pause(tmp_path)
        bench.tick(NO_KAFKA)
        assert shown(bench) == "retentiond_paused 0.0"

        def paused_meanwhile() -> CycleReport:
            write_pause(tmp_path, Pause("incident 4711"))
            return report()

        bench.tick(paused_meanwhile)
        assert shown(bench) == "retentiond_paused 1.0"

    write_pause(tmp_path, Pause("incident 4711"))
    live(play, settings(tmp_path))


def test_a_restart_does_not_forget_the_last_complete_cycle(tmp_path: Path) -> None:
    def figures(bench: Bench) -> dict[str, str]:
        lines = bench.get("/metrics").text.splitlines()
        return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))

    last = "retentiond_last_complete_cycle_timestamp_seconds"
    KeptFile(tmp_path).keep(last_complete=LastComplete("cluster-a", 1_500))
    before_s = time.time()

    def play(bench: Bench) -> None:
        known = 'retentiond_cluster_info{cluster_id="cluster-a",kafka_cluster="orders"}'
        shown = figures(bench)
        assert (shown[last], shown[known]) == ("1.5", "1.0")
        assert shown["retentiond_schedule_interval_seconds"] == "60.0"
        assert shown["retentiond_dry_run"] == "1.0"
        assert before_s <= float(shown["retentiond_started_timestamp_seconds"]) <= time.time()
        assert shown["retentiond_ready"] == "0.0"
        bench.tick(failing(StateOfOtherCluster("state_dir belongs to another cluster")))
        shown = figures(bench)
        assert shown[last] == "0.0"
        assert known.replace("cluster-a", "") in shown

    live(play, settings(tmp_path, metrics={"cluster": "orders"}))


def test_a_hold_goes_on_after_a_restart(tmp_path: Path) -> None:
    held = report([row("orders", 0, Reason.NO_GROUP)])
    shown: list[float] = []

    def play(bench: Bench) -> None:
        for _ in range(2):
            bench.later_s += 600
            bench.tick(lambda: held)
        text = bench.get("/metrics").text
        name = 'retentiond_topic_held_seconds{reason="no_group",topic="orders"} '
        (line,) = (line for line in text.splitlines() if line.startswith(name))
        shown.append(float(line.removeprefix(name)))

    for _ in range(2):
        live(play, settings(tmp_path))
    assert shown[0] == pytest.approx(600, abs=60)
    assert shown[1] == pytest.approx(1800, abs=120)


def test_once_the_files_of_the_state_are_back_nobody_says_that_nothing_is_deleted() -> None:
    gone = "groups.db was removed, so nothing is deleted"

    def play(bench: Bench) -> None:
        bench.tick(failing(StateReplaced(gone)))
        assert bench.get("/readyz").text == f"{gone}\n"
        assert gone in bench.get("/").text
        bench.tick(report)
        assert (bench.get("/readyz").status_code, bench.get("/readyz").text) == (200, "ready\n")
        assert gone not in bench.get("/").text

    live(play)


@pytest.mark.parametrize("set_by_s", [-7200, 7200])
def test_cycles_go_on_in_their_interval_when_the_clock_is_set(set_by_s: float) -> None:
    def play(bench: Bench) -> None:
        bench.tick(report)
        due = datetime.now(UTC) + timedelta(seconds=30)
        bench.scheduler.next_run_time = due
        bench.clock_ahead_s = set_by_s
        eventually(lambda: bench.scheduler.next_run_time != due)
        # This process's own clock, which was not set, bounds it by an interval from now.
        latest = datetime.now(UTC) + timedelta(seconds=60)
        assert bench.scheduler.next_run_time is not None
        assert bench.scheduler.next_run_time <= min(latest, due + timedelta(seconds=set_by_s + 1))
        assert bench.get("/readyz").status_code == 200

    bench = live(play)
    (told,) = bench.events(logs.CLOCK_SET)
    assert told["seconds"] == set_by_s


def test_a_cycle_that_hangs_is_seen_at_healthz() -> None:
    def play(bench: Bench) -> None:
        go_on = threading.Event()
        cycle = under_way(bench, lambda: go_on.wait(60))
        assert bench.get("/healthz").status_code == 200
        bench.later_s = STUCK_S + 2 * 120 + 1
        answer = bench.get("/healthz")
        assert answer.status_code == 503
        assert answer.text.startswith("the cycle under way has given no sign for 54")
        go_on.set()
        cycle.join()
        assert bench.get("/healthz").status_code == 200

    live(play)


def test_the_last_plan_is_served_while_cycles_fail() -> None:
    def play(bench: Bench) -> None:
        assert bench.get("/api/plan").status_code == 503
        bench.tick(lambda: report([row("orders")]))
        bench.tick(NO_KAFKA)
        assert bench.get("/api/plan").json()["partitions"][0]["topic"] == "orders"

    live(play)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_both_signals_end_it_and_release_what_it_holds(number: signal.Signals) -> None:
    bench = live(end=number)
    assert bench.finished
    assert (bench.engines[0].closed, bench.engines[0].abandoned) == (True, False)
    assert [line["signal"] for line in bench.events(logs.STOPPING)] == [number.name]
    assert [line["abandoned_a_cycle"] for line in bench.events(logs.STOPPED)] == [False]
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{bench.port}/healthz")


def test_a_signal_that_comes_right_before_the_wait_is_heard_soon_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The handler runs only once the wait is over, so one without an end would last for ever."""
    waits: list[float] = []

    class Deaf(queue.SimpleQueue[int]):
        def get(self, block: bool = True, timeout: float | None = None) -> int:
            assert timeout is not None
            waits.append(timeout)
            if len(waits) == 1:
                raise queue.Empty
            return super().get(block, timeout)

    monkeypatch.setattr("retentiond.daemon.daemon.queue.SimpleQueue", Deaf)
    assert live().finished
    assert len(waits) > 1
    assert max(waits) <= 1


def test_a_cycle_that_gives_way_to_the_end_is_no_failure() -> None:
    bench = live(lambda bench: bench.tick(failing(Stopped())))
    assert bench.events(logs.CYCLE_FAILED) == []
    assert bench.finished


def test_the_end_waits_for_the_deletion_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def play(bench: Bench) -> None:
        monkeypatch.setattr("retentiond.daemon.daemon.READING_CYCLE_END_S", 0.0)
        bench.engines[0].deleting = True
        stopping = threading.Event()
        under_way(bench, lambda: stopping.wait(60))
        bench.scheduler.on_shutdown = stopping.set

    bench = live(play)
    assert bench.finished
    assert [line["event"] for line in bench.log][-2:] == [logs.CYCLE, logs.STOPPED]
    assert bench.events(logs.CYCLE)[0]["records_deleted"] == 90


@pytest.mark.parametrize(
    ("deleting", "wait"), [(False, "READING_CYCLE_END_S"), (True, "DELETING_CYCLE_END_S")]
)
def test_a_cycle_that_does_not_end_is_abandoned_in_time(
    monkeypatch: pytest.MonkeyPatch, deleting: bool, wait: str
) -> None:
    waits = {"READING_CYCLE_END_S": 0.05, "DELETING_CYCLE_END_S": 60.0, wait: 0.05}
    for name, seconds in waits.items():
        monkeypatch.setattr(f"retentiond.daemon.daemon.{name}", seconds)
    release = threading.Event()
    threads: list[threading.Thread] = []

    def play(bench: Bench) -> None:
        bench.engines[0].deleting = deleting
        threads.append(under_way(bench, release.wait))

    try:
        bench = live(play)
    finally:
        release.set()
    threads[0].join()
    assert not bench.finished
    assert bench.engines[0].abandoned
    assert not bench.engines[0].closed  # its clients are in use
    assert [line["abandoned_a_cycle"] for line in bench.events(logs.STOPPED)] == [True]


def test_the_end_does_not_wait_until_memory_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    giving, release = threading.Event(), threading.Event()

    def release_memory() -> None:
        giving.set()
        release.wait()

    def play(bench: Bench) -> None:
        monkeypatch.setattr("retentiond.garbage_collection.release_memory", release_memory)
        threads.append(threading.Thread(target=bench.tick))
        threads[0].start()
        assert giving.wait(60)

    try:
        bench = live(play)
    finally:
        release.set()
    threads[0].join()
    assert bench.finished
    assert [line["abandoned_a_cycle"] for line in bench.events(logs.STOPPED)] == [False]


def test_a_cycle_that_ends_during_the_end_gives_no_memory_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[bool] = []
    monkeypatch.setattr("retentiond.garbage_collection.release_memory", lambda: given.append(True))

    def play(bench: Bench) -> None:
        stopping = threading.Event()
        under_way(bench, lambda: stopping.wait(60))
        bench.scheduler.on_shutdown = stopping.set

    bench = live(play)
    assert bench.finished
    assert given == []


def test_clients_that_do_not_close_are_left_to_the_end_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("retentiond.daemon.daemon.CLOSE_S", 0.05)
    release = threading.Event()

    def play(bench: Bench) -> None:
        monkeypatch.setattr(bench.engines[0], "close", release.wait)

    try:
        bench = live(play)
    finally:
        release.set()
    assert not bench.finished
    assert [line["abandoned_a_cycle"] for line in bench.events(logs.STOPPED)] == [False]


def test_no_cycle_begins_once_the_end_was_asked_for() -> None:
    bench = live()
    bench.tick()
    assert bench.engines[0].configs_used == []


def test_its_port_is_secured_as_the_configuration_says(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue("daemon")
    http = {
        "host": "127.0.0.1",
        "port": 0,
        "tls": {"certificate": str(issued.certificate), "key": str(issued.key)},
        "basic_auth": {"prometheus": HASH},
    }
    trusting = ssl.create_default_context(cafile=tmp_path / "ca.pem")

    def play(bench: Bench) -> None:
        address = f"https://127.0.0.1:{bench.port}/metrics"
        assert httpx.get(address, verify=trusting).status_code == 401
        login = ("prometheus", "open sesame")
        assert httpx.get(address, verify=trusting, auth=login).status_code == 200

    bench = live(play, settings(http=http))
    assert HASH not in str(bench.log)
