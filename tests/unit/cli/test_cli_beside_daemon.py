"""``explain`` and ``groups`` beside a daemon, over a real socket: who answers, what is said."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from retentiond.background import in_background
from retentiond.cli import explain as explain_command
from retentiond.cli.output.beside_daemon import ANSWERS
from retentiond.clock import now_ms
from retentiond.config import Config, load
from retentiond.config.fingerprint import fingerprint
from retentiond.history.entries import FinishedCycle
from retentiond.model import DeletionOutcome, Outcome, TopicPartition
from retentiond.state import operator_actions
from retentiond.state.operator_actions import Pause, action_now, record_action, write_pause
from retentiond.state.state import open_state
from retentiond.tell import last_cycle, local_socket, logs
from retentiond.tell.explained_evidence import ExplainedPlan, partitions_at
from retentiond.tell.explanation import explained
from retentiond.tell.last_cycle import Answering
from retentiond.tell.local_socket import FOLDER, NAME, NoAnswer, ask
from retentiond.tell.web import DaemonStatus
from tests.support.builders.explained_plans import evidence, remember
from tests.support.builders.gather_worlds import HOUR_MS, healthy
from tests.support.fakes import FakeCluster
from tests.unit.cli.conftest import CONFIG, Command

EXPLAIN = ("explain", "orders", "--config", "retentiond.yaml")


@pytest.fixture
def loaded(config: Path) -> Config:
    loaded = load(config)
    with open_state(loaded.state_dir):
        pass  # a cycle has begun the audit log
    return loaded


@pytest.fixture
def planned(loaded: Config) -> ExplainedPlan:
    """By the daemon's last cycle, 42 s ago."""
    kafka = healthy()
    remember(kafka, loaded.state_dir, loaded)
    found = evidence(kafka, loaded.state_dir, loaded)
    plan = replace(found.report.plan, planned_at_ms=now_ms() - 42_000)
    return replace(found, report=replace(found.report, plan=plan))


@pytest.fixture
def status(planned: ExplainedPlan) -> DaemonStatus:
    made = DaemonStatus(300_000)
    made.publish(planned.report)
    return made


@contextmanager
def running(
    status: DaemonStatus, config: Config, planned: ExplainedPlan | None
) -> Iterator[Answering]:
    made = Answering(status, config.state_dir, ANSWERS)
    made.start()
    if planned is not None:
        plan, snapshot = planned.report.plan, planned.snapshot
        finished = FinishedCycle(plan, planned.report.outcomes, "ok", snapshot, took_ms=42_000)
        made.see(config, planned.report, finished)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def daemon(status: DaemonStatus, loaded: Config, planned: ExplainedPlan) -> Iterator[Answering]:
    with running(status, loaded, planned) as made:
        yield made


@pytest.fixture
def readings(planned: ExplainedPlan, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The topics for which the cluster was read, in place of which is the same plan."""
    asked: list[str] = []

    def read(topic: str, partition: int | None, *_: object, **__: object) -> object:
        asked.append(topic)
        at = partitions_at(planned.snapshot, topic, partition)
        return planned.report, explained(planned, topic, [each.partition for each in at])

    monkeypatch.setattr(explain_command, "_explained", read)
    return asked


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize("place", ["orders", "orders:1"])
def test_the_daemon_answers_as_a_reading_would_and_says_how_old_that_is(
    command: Command, readings: list[str], place: str
) -> None:
    arguments = ("explain", place, "--config", "retentiond.yaml")
    told, document = command(*arguments), command(*arguments, "--output", "json")
    assert readings == []
    anew, document_anew = (
        command(*arguments, "--fresh"),
        command(*arguments, "--fresh", "--output", "json"),
    )
    assert readings == ["orders", "orders"]
    head, blank, *rest = told.out.splitlines(keepends=True)
    assert head.startswith("As the daemon saw it 42 seconds ago. --fresh reads anew")
    assert (blank, "".join(rest), told.err, told.code) == ("\n", anew.out, "", 0)
    by_daemon, by_reading = document.plan, document_anew.plan
    assert by_daemon.pop("answered_by") == "daemon"
    assert 42_000 <= by_daemon.pop("age_ms") < 60_000
    assert (by_reading.pop("answered_by"), by_reading.pop("age_ms")) == ("reading", 0)
    for partition in by_daemon.get("partitions", [by_daemon]):
        assert partition.pop("outcome") == "not_attempted"
        assert (partition.pop("low_watermark"), partition.pop("error")) == (None, None)
    assert by_daemon == by_reading


def test_what_the_daemon_has_deleted_since_is_said(
    command: Command, status: DaemonStatus, loaded: Config, planned: ExplainedPlan
) -> None:
    at = TopicPartition("orders", 0)
    gone = {at: DeletionOutcome(*at, Outcome.DELETED, low_watermark=3)}
    deleted = replace(planned, report=replace(planned.report, outcomes=gone))
    with running(status, loaded, deleted):
        assert "ago, before its requests (1 deleted)." in command(*EXPLAIN).out
        first, second = command(*EXPLAIN, "--output", "json").plan["partitions"]
    assert (first["outcome"], first["low_watermark"]) == ("deleted", 3)
    assert second["outcome"] == "not_attempted"


def test_a_terminal_of_the_command_counts_and_not_the_daemon_s(
    command: Command, daemon: Answering, readings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"FORCE_COLOR": "1", "COLUMNS": "70", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    told, anew = command(*EXPLAIN), command(*EXPLAIN, "--fresh")
    assert "\x1b[1m" in told.out
    assert told.out.endswith(anew.out)
    assert len(readings) == 1


@pytest.mark.usefixtures("daemon")
def test_what_no_policy_enables_is_refused_as_without_a_daemon(command: Command) -> None:
    assert command("explain", "clicks", "--config", "retentiond.yaml").code == 2


@pytest.mark.usefixtures("daemon")
def test_what_the_last_cycle_does_not_know_is_left_to_a_reading(
    command: Command, readings: list[str]
) -> None:
    done = command("explain", "orders:7", "--config", "retentiond.yaml")
    assert readings == ["orders"]
    assert (done.code, done.out) == (2, "")
    assert done.err == "retentiond: topic orders has no partition 7, only 0 to 1\n"


def paused(_status: DaemonStatus, loaded: Config) -> None:
    write_pause(loaded.state_dir, Pause("a look"))


def forgotten(_status: DaemonStatus, loaded: Config) -> None:
    record_action(loaded.state_dir, action_now("forget", "billing", ""))


def failed(status: DaemonStatus, _loaded: Config) -> None:
    status.problem = "no broker answers"


def stuck(status: DaemonStatus, _loaded: Config) -> None:
    status.clock = lambda: time.monotonic() - 3600
    status.heartbeat(at_work=True)
    status.clock = time.monotonic


def changed(_status: DaemonStatus, loaded: Config) -> None:
    file = loaded.state_dir.parent / "retentiond.yaml"
    file.write_text(file.read_text().replace("minutes: 30", "minutes: 31"))


@pytest.mark.usefixtures("daemon", "readings")
@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (paused, "an operator has done something since its last plan"),
        (forgotten, "an operator has done something since its last plan"),
        (failed, "its last cycle failed (no broker answers)"),
        (stuck, "its cycles are stuck (the cycle under way has given no sign for 3600 s)"),
        (changed, "its last plan was made by another configuration, or by another version"),
    ],
)
def test_where_a_reading_could_tell_something_else_the_cluster_is_read_and_that_is_said(
    command: Command,
    status: DaemonStatus,
    loaded: Config,
    happens: Callable[[DaemonStatus, Config], None],
    why: str,
) -> None:
    happens(status, loaded)
    done = command(*EXPLAIN, "--output", "json")
    assert done.plan["answered_by"] == "reading"
    assert done.err == (
        f"retentiond: the cluster is read anew, because the daemon gives no answer: {why}\n"
    )


@pytest.mark.usefixtures("daemon")
def test_what_was_done_after_the_clock_was_set_back_counts_too(
    command: Command, readings: list[str], loaded: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (last_cycle, operator_actions):
        monkeypatch.setattr(module, "now_ms", lambda: now_ms() - HOUR_MS)
    record_action(loaded.state_dir, action_now("forget", "billing", ""))
    assert "an operator has done something" in command(*EXPLAIN).err
    assert readings == ["orders"]


def test_before_the_first_plan_the_cluster_is_read(
    command: Command, readings: list[str], loaded: Config
) -> None:
    with running(DaemonStatus(300_000), loaded, None):
        assert command(*EXPLAIN).err.endswith("gives no answer: it has no plan yet\n")
    assert readings == ["orders"]


def test_a_daemon_that_was_killed_leaves_a_socket_that_nobody_answers_and_the_next_one_replaces(
    command: Command,
    readings: list[str],
    status: DaemonStatus,
    loaded: Config,
    planned: ExplainedPlan,
) -> None:
    local_socket.listen(loaded.state_dir).close()
    assert (loaded.state_dir / FOLDER / NAME).is_socket()
    assert command(*EXPLAIN).err == ""
    assert readings == ["orders"]
    with running(status, loaded, planned):
        assert command(*EXPLAIN).out.startswith("As the daemon saw it")
    assert command(*EXPLAIN).err == ""  # it has ended
    assert readings == ["orders", "orders"]


@pytest.mark.parametrize("half_answer", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nAs"])
def test_a_daemon_that_hangs_is_not_waited_for(
    loaded: Config, half_answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_socket, "ANSWER_S", 0.2)
    with closing(local_socket.listen(loaded.state_dir)) as silent:
        began = time.monotonic()
        asked = in_background(lambda: ask(loaded, "explain", {"topic": "orders"}), "ask")
        connection, _ = silent.accept()
        with connection:
            connection.sendall(half_answer)
            with pytest.raises(NoAnswer, match="not answered within"):
                asked.result(10)
        assert time.monotonic() - began < 1


def test_only_its_user_may_open_it_from_its_first_moment(
    loaded: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = os.umask(0)
    folder = loaded.state_dir / FOLDER
    folder.mkdir(mode=0o777)  # as a volume's folders are that Kubernetes gives to a group
    modes: list[int] = []

    class Watched(socket.socket):
        def bind(self, address: object) -> None:
            modes.append(stat.S_IMODE(folder.stat().st_mode))
            super().bind(address)  # type: ignore[arg-type]  # as it came

    monkeypatch.setattr(socket, "socket", Watched)
    try:
        local_socket.listen(loaded.state_dir).close()
    finally:
        os.umask(old)
    assert modes == [0o700]
    assert stat.S_IMODE((folder / NAME).stat().st_mode) & 0o077 == 0


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize("what", ["open", "foreign", "link"])
def test_a_folder_that_is_not_this_user_s_alone_is_not_trusted(
    command: Command,
    readings: list[str],
    loaded: Config,
    what: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = loaded.state_dir / FOLDER
    if what == "open":
        folder.chmod(0o750)
    elif what == "foreign":
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
    else:
        folder.rename(folder.with_name("elsewhere"))
        folder.symlink_to("elsewhere")
    assert command(*EXPLAIN).err == ""
    assert readings == ["orders"]


def test_a_path_that_is_too_long_for_a_socket_does_all_the_same(
    status: DaemonStatus, planned: ExplainedPlan, tmp_path: Path
) -> None:
    deep = tmp_path / ("d" * 120)
    file = tmp_path / "deep.yaml"
    file.write_text(f"state_dir: {deep}\n{CONFIG}")
    config = load(file)
    with open_state(deep), running(status, config, planned):
        about = {"topic": "orders", "partition": "", "output": "table", "width": "80", "colors": ""}
        assert (ask(config, "explain", about) or "").startswith("As the daemon saw it")


def test_without_sockets_the_daemon_goes_on_and_says_so_once(
    command: Command, readings: list[str], status: DaemonStatus, loaded: Config
) -> None:
    (loaded.state_dir / FOLDER).write_text("")
    with structlog.testing.capture_logs() as log, running(status, loaded, None) as made:
        made.stop()
    (line,) = log
    assert (line["event"], line["log_level"]) == (logs.NO_SOCKET, "warning")
    assert line["state_dir"] == str(loaded.state_dir)
    assert command(*EXPLAIN).err == ""
    assert readings == ["orders"]


def test_nothing_of_the_configuration_is_on_the_wire(loaded: Config) -> None:
    """The same question proves it with another text each time."""
    heard: list[bytes] = []
    with closing(local_socket.listen(loaded.state_dir)) as listener:
        for _ in range(2):
            asked = in_background(lambda: ask(loaded, "explain", {}), "ask")
            connection, _ = listener.accept()
            with connection:
                heard.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                assert asked.result(10) is None
    first, second = heard
    assert first != second
    assert b"9092" not in first
    assert fingerprint(loaded).hex().encode() not in first


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """What `groups` asks where no daemon answers; stranger reads no enabled topic."""
    cluster = healthy()
    monkeypatch.setattr("retentiond.kafka.cluster.KafkaCluster", lambda *_: cluster)
    return cluster


@pytest.mark.usefixtures("daemon")
def test_groups_are_told_by_the_daemon_but_for_what_only_a_reading_knows(
    command: Command, cluster: FakeCluster
) -> None:
    asked = ("groups", "--config", "retentiond.yaml", "--output", "json")
    cluster.commit("late", {("orders", 0): 1})  # since the last cycle
    told = {row["group"]: row for row in json.loads(command(*asked).out)}
    anew = {row["group"]: row for row in json.loads(command(*asked, "--fresh").out)}
    assert anew.keys() - told.keys() == {"late"}
    for name, row in told.items():
        assert row.pop("answered_by") == "daemon"
        assert 42_000 <= row.pop("age_ms") < 60_000
        assert (anew[name].pop("answered_by"), anew[name].pop("age_ms")) == ("reading", 0)
        if not row["remembered"]:
            assert (row.pop("topics"), row.pop("without_commit")) == (None, None)
            anew[name] = {key: anew[name][key] for key in row}
        assert row == anew[name]
    assert [name for name, row in told.items() if not row["remembered"]] == [
        "newcomer", "pipeline", "stranger"
    ]  # fmt: skip


@pytest.mark.usefixtures("daemon", "cluster")
def test_a_table_of_groups_says_how_old_it_is_and_what_is_not_known(command: Command) -> None:
    head, _, *rows = command("groups", "--config", "retentiond.yaml").out.splitlines()
    assert head == (
        "As the daemon saw it 42 seconds ago. --fresh asks the cluster, also for the topics of "
        "groups that are not remembered."
    )
    (stranger,) = (line.split() for line in rows if line.startswith("stranger"))
    assert stranger == ["stranger", "classic", "?", "?", "no", "-"]


@pytest.mark.usefixtures("daemon", "cluster")
def test_which_groups_read_a_topic_is_asked_of_the_cluster(command: Command) -> None:
    asked = ("groups", "--config", "retentiond.yaml", "--topic", "secrets", "--output", "json")
    (row,) = json.loads(command(*asked).out)
    assert (row["group"], row["answered_by"]) == ("stranger", "reading")


@pytest.mark.usefixtures("cluster")
def test_groups_that_may_be_incomplete_are_asked_of_the_cluster(
    command: Command, status: DaemonStatus, loaded: Config, planned: ExplainedPlan
) -> None:
    plan = replace(planned.report.plan, problems=("a coordinator is not there",), complete=False)
    doubtful = replace(planned, report=replace(planned.report, plan=plan))
    with running(status, loaded, doubtful):
        rows = json.loads(command("groups", "--config", "retentiond.yaml", "-o", "json").out)
    assert {row["answered_by"] for row in rows} == {"reading"}


ASKS = """\
import sys
from unittest import mock
from retentiond.tell import local_socket
with mock.patch.object(local_socket, "ask", return_value="answered\\n"):
    from retentiond.cli.main import main
    try:
        main()
    except SystemExit as ended:
        assert not ended.code
print(sorted({"pyspark", "py4j", "pyarrow", "starlette", "uvicorn"}.intersection(sys.modules)))
"""


def test_a_command_that_the_daemon_answers_loads_neither_spark_nor_what_reads(config: Path) -> None:
    """Importing it would take longer than the answer."""
    command = [sys.executable, "-c", ASKS, "explain", "orders", "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "answered\n[]\n"
