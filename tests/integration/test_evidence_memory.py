"""Groups that vanish, while what remembers them is killed, runs out of disk or is damaged.

Each topic has ten records. A fast group has read all of them, a slow one three; once the slow one
is gone from the cluster, only the memory keeps the other seven.
"""

from __future__ import annotations

import itertools
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from retentiond.clock import Uptime, now_ms
from retentiond.config import Config
from retentiond.config.config import Schedule
from retentiond.errors import StateError
from retentiond.model import Outcome, Reason
from retentiond.spark.session import SparkSessions
from retentiond.state.groups_file import NAME
from retentiond.state.groups_lookup import recall
from tests.contract.real import RealDriver
from tests.faults.held import Held, log_start
from tests.support.brokers.command import consumed, settings, write
from tests.support.brokers.cycles import (
    Retentiond,
    Told,
    arrange_deletion,
    deleted_up_to,
    row_of,
    told,
)
from tests.support.command_here import run_here
from tests.support.tiers import OwnKafka
from tests.support.waiting import eventually

DAY_MS = 24 * 60 * 60 * 1000

pytestmark = [pytest.mark.broker, pytest.mark.spark]


class Stage:
    """A topic, its two groups, and a retentiond whose configuration is in its folder too."""

    def __init__(self, driver: RealDriver, spark: SparkSessions, folder: Path, topic: str) -> None:
        self.driver = driver
        self.topic = topic
        self.fast, self.slow = f"fast-{topic}", f"slow-{topic}"
        self.folder = folder
        self.retentiond = Retentiond(driver.kafka, spark, folder, topic)
        servers = driver.broker.bootstrap_servers
        document = settings(servers, folder / "state", dry_run=False, topics=[consumed(topic)])
        write(folder / "retentiond.yaml", document)
        self.make_topic()
        self.commit(self.fast, 10)
        self.commit(self.slow, 3)

    def make_topic(self) -> None:
        self.driver.create_topic(self.topic)
        self.driver.produce(self.topic, [self.driver.now_ms] * 10)

    def wait_for_vanished(self, duration: str) -> None:
        policy = consumed(self.topic, groups={"forget_vanished_after": duration})
        document = settings(
            "not used here:9092", self.folder / "state", dry_run=False, topics=[policy]
        )
        self.retentiond.config = Config.model_validate(document)

    def commit(self, group: str, offset: int) -> None:
        self.driver.commit(group, {(self.topic, 0): offset})

    @property
    def log_start(self) -> int:
        return log_start(self.driver.broker, self.topic)

    @property
    def told(self) -> Told:
        """In one more cycle."""
        return told(self.retentiond.cycle(), self.topic)

    @property
    def waits_for_the_slow_group(self) -> Told:
        sentence = f"group {self.slow} once committed here and has no commit any more"
        return Told("hold", "group_vanished", sentence)


@pytest.fixture(scope="module", autouse=True)
def expiring(
    own_kafka: OwnKafka, spark: SparkSessions, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """On a broker that keeps commits for a minute, the least that it can be told: the minute
    passes while the other tests run."""
    config = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "200"}
    with own_kafka(config=config) as kafka, closing(RealDriver(kafka)) as driver:
        made = Stage(driver, spark, tmp_path_factory.mktemp("expiring"), "expiring")
        arrange_deletion(made.retentiond, made.topic, 3)
        yield made


@pytest.fixture
def stage(driver: RealDriver, spark: SparkSessions, tmp_path: Path, topic_name: str) -> Stage:
    """What the slow group has read is deleted and it is known."""
    made = Stage(driver, spark, tmp_path, topic_name)
    arrange_deletion(made.retentiond, topic_name, 3)
    return made


@pytest.mark.parametrize("when", ["before", "while", "after"])
def test_a_daemon_that_is_killed_as_it_sees_a_group_gone_waits_for_it_when_it_is_back(
    stage: Stage, when: str
) -> None:
    being = "being " if when == "while" else ""
    stage.driver.delete_group(stage.slow)
    step = f"{when} the groups are {being}remembered"
    with Held(step, "run", "--once", cwd=stage.folder) as process:
        process.await_step()
        process.kill()
    assert stage.told == stage.waits_for_the_slow_group
    assert stage.log_start == 3


FULL_BEFORE = {
    "before the groups are remembered": [],
    "before the cycle's beginning is recorded": [],
    "while the intents are being written": [],
    "before the outcomes are written": [None],
}
"""From which step of a cycle on no file can grow, and what the audit log has of the deletion."""


@pytest.mark.parametrize("step", FULL_BEFORE)
def test_on_a_full_disk_nothing_goes_that_is_not_written_down_and_no_group_is_forgotten(
    stage: Stage, step: str
) -> None:
    stage.commit(stage.slow, 5)
    known = len(stage.retentiond.audit)
    with Held(step, "run", "--once", cwd=stage.folder) as process:
        process.await_step()
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, 0))
        process.release()
        assert process.wait(60) == 1
    left = [each.outcome for each in stage.retentiond.audit[known:]]
    assert left == FULL_BEFORE[step]
    assert stage.log_start == (5 if left else 3)

    stage.retentiond.settle()
    stage.retentiond.cycle()
    (deletion,) = stage.retentiond.audit[known:]
    assert (deletion.row.cutoff, deletion.outcome) == (5, Outcome.DELETED)
    stage.driver.delete_group(stage.slow)
    assert stage.told == stage.waits_for_the_slow_group
    assert stage.log_start == 5


def truncated(whole: bytes) -> bytes:
    return whole[: len(whole) // 2]


def overwritten(whole: bytes) -> bytes:
    return whole[:4096] + b"\xa5" * (len(whole) - 4096)


@pytest.mark.parametrize("damaged", [truncated, overwritten])
def test_a_memory_that_is_damaged_holds_everything_until_an_operator_accepts_it(
    stage: Stage, damaged: Callable[[bytes], bytes]
) -> None:
    stage.driver.delete_group(stage.slow)
    file = stage.folder / "state" / NAME
    file.write_bytes(damaged(file.read_bytes()))
    first, second = stage.told, stage.told
    assert first == second
    assert (first.verdict, first.reason) == ("hold", "group_list_incomplete")
    (aside,) = file.parent.glob(f"{NAME}.damaged-*Z")
    for said in ("the remembered groups were damaged", str(aside)):
        assert said in (first.sentence or "")
    assert stage.log_start == 3

    accepted = run_here("groups", "accept", "--yes", cwd=stage.folder)
    assert accepted.code == 0, accepted.err
    assert deleted_up_to(stage.retentiond.cycle(), stage.topic) == 10  # the operator's word


@pytest.mark.parametrize("behind_ms", [40 * DAY_MS, -40 * DAY_MS])
def test_a_clock_that_was_wrong_once_does_not_shorten_the_wait_for_a_group(
    stage: Stage, behind_ms: int
) -> None:
    """Only in the cycle that first misses the group, and in the one before."""
    stage.wait_for_vanished("30d")
    wrong = stage.retentiond.cycle(now=lambda: now_ms() - behind_ms)
    assert told(wrong, stage.topic).reason == "not_consumed"
    stage.driver.delete_group(stage.slow)
    wrong = stage.retentiond.cycle(now=lambda: now_ms() - behind_ms)
    assert told(wrong, stage.topic) == stage.waits_for_the_slow_group
    for _ in range(2):
        assert stage.told == stage.waits_for_the_slow_group
    assert stage.log_start == 3


def test_a_group_is_forgotten_when_it_was_observed_to_be_gone_for_long_enough(
    stage: Stage,
) -> None:
    stage.wait_for_vanished("2s")
    stage.driver.delete_group(stage.slow)
    begun = time.monotonic()
    assert stage.told == stage.waits_for_the_slow_group
    eventually(lambda: deleted_up_to(stage.retentiond.cycle(), stage.topic) == 10)
    assert time.monotonic() - begun >= 2


def test_the_state_of_another_cluster_is_refused_and_left_as_it_is(
    stage: Stage, expiring: Stage
) -> None:
    """The other cluster has a topic of that name too, where nobody waits for the slow group."""
    stage.driver.delete_group(stage.slow)
    assert stage.told == stage.waits_for_the_slow_group
    other = expiring.driver
    other.create_topic(stage.topic)
    other.produce(stage.topic, [other.now_ms] * 10)
    other.commit(stage.fast, {(stage.topic, 0): 10})
    files = {each: each.read_bytes() for each in (stage.folder / "state").glob("*.db")}

    refused = (
        f"belongs to cluster {stage.driver.broker.cluster_id}, and kafka.bootstrap.servers lead "
        f"to cluster {other.broker.cluster_id}"
    )
    with pytest.raises(StateError, match=refused):
        stage.retentiond.cycle(kafka=other.kafka)
    document = settings(
        other.broker.bootstrap_servers,
        stage.folder / "state",
        dry_run=False,
        topics=[consumed(stage.topic)],
    )
    write(stage.folder / "other.yaml", document)
    done = run_here("plan", "--config", "other.yaml", cwd=stage.folder)
    assert done.code != 0
    assert refused in done.err
    assert {each: each.read_bytes() for each in files} == files
    assert log_start(other.broker, stage.topic) == 0

    assert stage.told == stage.waits_for_the_slow_group
    assert stage.log_start == 3


def test_a_topic_that_is_gone_leaves_the_memory_after_a_day_and_not_before(stage: Stage) -> None:
    """And what is back in time finds its readers waited for."""
    stage.retentiond.config = stage.retentiond.config.model_copy(
        update={"schedule": Schedule.model_validate({"interval": "1h"})}
    )

    hours_up = itertools.count()

    def uptime() -> Uptime:
        return Uptime("a-boot", next(hours_up) * 3_600_000)

    def later(hours: int) -> set[str]:
        """The topics that are remembered after so many hourly cycles."""
        for _ in range(hours):
            stage.retentiond.cycle(uptime=uptime)
        known = recall(stage.retentiond.config.state_dir)
        return {each.topic for each in known.commits} | {*known.topics}

    stage.driver.delete_topic(stage.topic)
    assert later(23) == {stage.topic}
    stage.driver.create_topic(stage.topic)
    with closing(RealDriver(stage.driver.broker)) as fresh:  # the other one's producer missed it
        fresh.produce(stage.topic, [fresh.now_ms] * 10)
    stage.commit(stage.fast, 10)
    assert later(2) == {stage.topic}
    row = row_of(stage.retentiond.cycle(), stage.topic)
    assert row.binding_group == stage.slow
    # Kafka removes a group that has lost its last commit some time later.
    assert row.reason in (Reason.GROUP_VANISHED, Reason.GROUP_WITHOUT_COMMIT)

    stage.driver.delete_topic(stage.topic)
    assert later(24) == {stage.topic}
    assert later(2) == set()


def test_commits_that_the_broker_lets_expire_after_a_minute_are_waited_for(
    expiring: Stage,
) -> None:
    """And taken as they are when the group commits again."""

    def listed() -> set[str]:
        return {each.group_id for each in expiring.driver.kafka.list_groups()}

    eventually(lambda: expiring.slow not in listed(), timeout_s=90)
    expiring.commit(expiring.fast, 10)
    for _ in range(2):
        assert expiring.told == expiring.waits_for_the_slow_group
    assert expiring.log_start == 3

    expiring.commit(expiring.slow, 4)
    assert deleted_up_to(expiring.retentiond.cycle(), expiring.topic) == expiring.log_start == 4
