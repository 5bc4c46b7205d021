"""That evidence and request belong together, on real brokers: the same cluster, the same topic, the
same policy, and no time to speak of in between.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devkit.embedded import EmbeddedKafka
from devkit.forwarder import Forwarder
from retentiond.errors import OtherCluster, StateError
from retentiond.formatting import DAY_MS
from retentiond.gather.groups import STANDSTILL_S
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.interface import LOOK_TO_REQUEST
from retentiond.kafka.settings.properties import translate
from retentiond.model import Outcome
from retentiond.state.audit_records import read_deletions
from retentiond.tell.report import CycleReport
from tests.contract.real import RealDriver
from tests.faults.held import Held, log_start
from tests.support.brokers.command import configure
from tests.support.brokers.cycles import Retentiond
from tests.support.command_here import run_here

pytestmark = pytest.mark.broker

RECORDS, COMMITTED = 10, 7


@dataclass
class Clusters:
    """``a`` is the one that retentiond works on; the same address may lead to ``b``, too."""

    a: RealDriver
    b: RealDriver
    forwarder: Forwarder

    def make(self, topic: str) -> None:
        """The same topic on both. On ``a`` a group has read seven of ten records; on ``b`` nobody
        has read any, and a group is listed there, too."""
        for driver in (self.a, self.b):
            driver.filled_topic(topic)
        self.a.commit(f"readers-of-{topic}", {(topic, 0): COMMITTED})
        self.b.commit(f"readers-of-{topic}", {(topic, 0): 0})
        self.fail_back()

    def fail_over(self, *, cut: bool = True) -> None:
        self.forwarder.target = self.b.broker.bootstrap_servers
        if cut:
            self.forwarder.cut()

    def fail_back(self) -> None:
        self.forwarder.target = self.a.broker.bootstrap_servers
        self.forwarder.cut()

    def ids(self) -> tuple[str, str]:
        return self.a.broker.cluster_id, self.b.broker.cluster_id


@pytest.fixture(scope="module")
def clusters() -> Iterator[Clusters]:
    """Each of one broker, to whose advertised address the forwarder leads, or not."""
    with ExitStack() as stack:
        forwarder = stack.enter_context(closing(Forwarder()))
        at = {"CLIENT": [forwarder.port]}
        brokers = [stack.enter_context(EmbeddedKafka(advertised_ports=at)) for _ in range(2)]
        a, b = (
            stack.enter_context(closing(RealDriver(broker, broker.internal_servers)))
            for broker in brokers
        )
        yield Clusters(a, b, forwarder)


class Work(Retentiond):
    """Of one process, whose clients stay."""

    def __init__(self, servers: str, folder: Path, topic: str) -> None:
        self.seconds: dict[str, list[float]] = {}
        self.kafka = KafkaCluster(translate({"bootstrap.servers": servers}), self._observe)
        super().__init__(self.kafka, folder, topic)

    def before(self, method: str, happens: Callable[[], object]) -> None:
        """Once, right before the next call of that method of the port."""
        original = getattr(self.kafka, method)

        def called(*args: Any, **named: Any) -> Any:
            setattr(self.kafka, method, original)
            happens()
            return original(*args, **named)

        setattr(self.kafka, method, called)

    def outcome(self, report: CycleReport) -> tuple[Outcome, str | None]:
        (outcome,) = report.outcomes.values()
        return outcome.outcome, outcome.error

    def _observe(self, api: str, _result: str, seconds: float) -> None:
        self.seconds.setdefault(api, []).append(seconds)


@pytest.fixture
def work(clusters: Clusters, topic_name: str, tmp_path: Path) -> Iterator[Work]:
    clusters.make(topic_name)
    work = Work(clusters.forwarder.address, tmp_path, topic_name)
    with closing(work.kafka):
        yield work


def untouched(clusters: Clusters, topic: str) -> None:
    for driver in (clusters.a, clusters.b):
        assert log_start(driver.broker, topic) == 0


# Two clusters


def test_where_nothing_is_amiss_the_records_go(
    work: Work, clusters: Clusters, topic_name: str
) -> None:
    report = work.cycle()

    assert (report.result, report.records_deleted) == ("ok", COMMITTED)
    assert log_start(clusters.a.broker, topic_name) == COMMITTED
    assert log_start(clusters.b.broker, topic_name) == 0
    (gap_s,) = work.seconds[LOOK_TO_REQUEST]
    assert 0 < gap_s < 1


@pytest.mark.parametrize(
    ("cut", "call"), [(True, "look_before_deleting"), (True, "get_ready"), (False, "get_ready")]
)
def test_when_the_address_leads_to_another_cluster_before_the_request_nothing_is_deleted(
    work: Work, clusters: Clusters, topic_name: str, cut: bool, call: str
) -> None:
    work.before(call, lambda: clusters.fail_over(cut=cut))

    with pytest.raises(OtherCluster) as told:
        work.cycle()

    assert all(each in str(told.value) for each in clusters.ids())
    untouched(clusters, topic_name)
    outcomes = {each.outcome for each in read_deletions(work.config.state_dir)}
    assert outcomes <= {Outcome.NOT_ATTEMPTED}


def test_a_connection_that_was_proven_goes_on_to_serve_when_its_address_leads_elsewhere(
    work: Work, clusters: Clusters, topic_name: str
) -> None:
    work.before("look_before_deleting", lambda: clusters.fail_over(cut=False))

    assert work.cycle().records_deleted == COMMITTED
    assert log_start(clusters.b.broker, topic_name) == 0


@pytest.mark.parametrize("reading", ["describe_topics", "list_groups", "offsets", "commits"])
def test_when_the_address_fails_over_within_a_reading_nothing_is_deleted_ever_after(
    work: Work, clusters: Clusters, topic_name: str, reading: str
) -> None:
    work.before(reading, clusters.fail_over)

    with pytest.raises(OtherCluster):
        work.cycle()
    clusters.fail_back()
    with pytest.raises(OtherCluster):
        work.cycle()

    untouched(clusters, topic_name)


def test_with_bootstrap_servers_of_two_clusters_the_commits_of_one_never_delete_from_the_other(
    clusters: Clusters, topic_name: str, tmp_path: Path
) -> None:
    clusters.make(topic_name)
    servers = ",".join(driver.broker.internal_servers for driver in (clusters.a, clusters.b))
    told = 0
    for number in range(8):
        work = Work(servers, tmp_path / str(number), topic_name)
        with closing(work.kafka):
            try:
                work.cycle()
            except OtherCluster:
                told += 1

    assert told  # each of four clients picks one: once in eight times all pick the same
    assert log_start(clusters.b.broker, topic_name) == 0


def test_a_daemon_whose_address_fails_over_says_so_and_deletes_nothing_until_it_is_restarted(
    clusters: Clusters, topic_name: str, tmp_path: Path
) -> None:
    clusters.make(topic_name)
    configure(tmp_path, clusters.forwarder.address, topic_name, dry_run=False)

    with Held("nowhere", "run", cwd=tmp_path) as daemon:
        daemon.await_events("retentiond.cycle")
        assert log_start(clusters.a.broker, topic_name) == COMMITTED
        clusters.fail_over()
        (failed,) = daemon.await_events("retentiond.cycle_failed")[-1:]
        assert all(each in failed["error"] for each in clusters.ids())
        clusters.a.commit(f"readers-of-{topic_name}", {(topic_name, 0): RECORDS})
        clusters.fail_back()
        ready = daemon.get("/readyz")
        assert ready.status_code == 503
        assert all(each in ready.text for each in clusters.ids())
        assert "Stopped" in daemon.get("/").text
        assert 'retentiond_cycles_total{result="failed"}' in daemon.get("/metrics").text

    assert log_start(clusters.a.broker, topic_name) == COMMITTED
    assert log_start(clusters.b.broker, topic_name) == 0


# The topic's id


def test_a_topic_recreated_between_the_guard_and_the_request_keeps_its_records(
    work: Work, clusters: Clusters, topic_name: str
) -> None:
    def recreate() -> None:
        clusters.a.delete_topic(topic_name)
        clusters.a.filled_topic(topic_name)

    work.before("look_before_deleting", recreate)

    report = work.cycle()

    outcome, error = work.outcome(report)
    assert outcome is Outcome.NOT_ATTEMPTED
    assert "right before the request it is" in (error or "")
    assert report.result == "incomplete"
    assert log_start(clusters.a.broker, topic_name) == 0


def test_the_commits_of_the_second_reading_are_asked_for_after_its_wait(work: Work) -> None:
    listed: list[float] = []
    asked: list[float] = []
    list_groups, commits = work.kafka.list_groups, work.kafka.commits

    def listing() -> Any:
        found = list_groups()
        listed.append(time.monotonic())
        return found

    def asking(groups: Any) -> Any:
        asked.append(time.monotonic())
        return commits(groups)

    work.kafka.list_groups = listing  # type: ignore[method-assign]  # watched
    work.kafka.commits = asking  # type: ignore[assignment, method-assign]  # watched
    work.cycle()

    assert len(asked) == 2
    assert asked[1] - listed[1] >= STANDSTILL_S


# Time


@pytest.mark.parametrize("step", ["after the intents are written", "before the request"])
def test_a_process_that_stood_still_before_its_request_does_not_send_it(
    clusters: Clusters, topic_name: str, tmp_path: Path, step: str
) -> None:
    clusters.make(topic_name)
    configure(tmp_path, clusters.forwarder.address, topic_name, dry_run=False)

    with Held(step, "run", "--once", cwd=tmp_path) as once:
        once.await_step()
        once.signal(signal.SIGSTOP)
        clusters.a.commit(f"readers-of-{topic_name}", {(topic_name, 0): 0})  # it goes back
        time.sleep(5.2)  # what the process must notice is that so much time has passed
        once.signal(signal.SIGCONT)
        once.release()
        assert once.wait(60) == 1
        (cycle,) = once.events("retentiond.cycle")

    assert (cycle["result"], cycle["deletions"]) == ("incomplete", {"not_attempted": 1})
    assert len(cycle["undone"]) == 1
    untouched(clusters, topic_name)


# What is in force


def test_what_a_reload_forbids_is_not_requested_by_the_cycle_under_way(
    clusters: Clusters, topic_name: str, tmp_path: Path
) -> None:
    clusters.make(topic_name)
    configure(tmp_path, clusters.forwarder.address, topic_name, dry_run=False)

    with Held("after the intents are written", "run", cwd=tmp_path) as daemon:
        daemon.await_step()
        configure(tmp_path, clusters.forwarder.address, topic_name)
        daemon.signal(signal.SIGHUP)
        daemon.await_events("retentiond.config_reloaded")
        daemon.release()
        (cycle,) = daemon.await_events("retentiond.cycle")[:1]

    assert (cycle["result"], cycle["deletions"]) == ("incomplete", {"not_attempted": 1})
    assert "another configuration has come into force" in cycle["undone"][0]
    untouched(clusters, topic_name)


def test_a_pause_that_comes_while_the_intents_are_written_is_heeded(
    clusters: Clusters, topic_name: str, tmp_path: Path
) -> None:
    clusters.make(topic_name)
    configure(tmp_path, clusters.forwarder.address, topic_name, dry_run=False)

    with Held("after the intents are written", "run", "--once", cwd=tmp_path) as once:
        once.await_step()
        (tmp_path / "state" / "paused").touch()
        once.release()
        assert once.wait(60) == 1

    untouched(clusters, topic_name)


# The audit log


@pytest.mark.parametrize("name", ["audit.db", "audit.db-wal", "lock"])
def test_when_a_file_of_the_audit_log_is_gone_nothing_is_deleted(
    work: Work, clusters: Clusters, topic_name: str, name: str
) -> None:
    work.before("list_groups", lambda: None)
    work.before("cluster_time", (work.config.state_dir / name).unlink)

    with pytest.raises(StateError, match=name):
        work.cycle()

    untouched(clusters, topic_name)


def test_a_daemon_whose_audit_log_is_removed_deletes_nothing_more_and_says_why(
    clusters: Clusters, topic_name: str, tmp_path: Path
) -> None:
    clusters.make(topic_name)
    configure(tmp_path, clusters.forwarder.address, topic_name, dry_run=False)

    with Held("before the guard", "run", cwd=tmp_path) as daemon:
        daemon.await_step()
        (tmp_path / "state" / "audit.db").unlink()
        daemon.release()
        (failed,) = daemon.await_events("retentiond.cycle_failed")
        assert "audit.db was removed or replaced" in failed["error"]

    untouched(clusters, topic_name)


# By hand


def test_delete_records_says_that_two_clusters_answer(
    clusters: Clusters, topic_name: str, tmp_path: Path
) -> None:
    """On ``a`` the records are old, on ``b`` they are new: whichever is asked, those stay."""
    for driver, age_ms in ((clusters.a, DAY_MS), (clusters.b, 0)):
        driver.create_topic(topic_name)
        driver.produce(topic_name, [driver.now_ms - age_ms] * 10)
    servers = ",".join(driver.broker.internal_servers for driver in (clusters.a, clusters.b))
    before = [log_start(driver.broker, topic_name) for driver in (clusters.a, clusters.b)]
    for _ in range(3):
        done = run_here(
            *("delete-records", "--bootstrap-server", servers, "--state-dir", tmp_path / "state"),
            *("--older-than", "1h", "--topic", topic_name, "--yes"),
            cwd=tmp_path,
        )
        assert done.code in (0, 1), done.err

    assert before == [0, 0]
    assert log_start(clusters.b.broker, topic_name) == 0
