"""A topic that is recreated while an answer of its broker is on its way to retentiond."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kafka.protocol.api_key import ApiKey

from devkit.embedded import EmbeddedKafka
from retentiond.formatting import DAY_MS
from tests.contract.real import RealDriver, connect
from tests.faults.held import log_start
from tests.support.brokers.cycles import Retentiond
from tests.support.brokers.late_answers import LateAnswers
from tests.support.command_here import run_here

pytestmark = pytest.mark.broker

COMMITTED, NEW_RECORDS = 7, 45


def nothing() -> None: ...


@dataclass
class Moments:
    """Something happens while the answer of that ``number`` is on its way, among those to requests
    of one kind."""

    driver: RealDriver
    servers: str = ""
    keys: list[int] = field(default_factory=list)
    """Of all requests that were answered since the last `at`."""
    happened_at: int = 0
    """How many of them were answered before it happened."""
    _waited_for: tuple[int, int] = (-1, -1)
    _happens: Callable[[], object] = nothing
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def at(self, key: int, number: int, happens: Callable[[], object]) -> None:
        self.keys, self.happened_at = [], 0
        self._waited_for, self._happens = (key, number), happens

    def before(self, key: int) -> None:
        with self._lock:
            self.keys.append(key)
            if (key, self.keys.count(key) - 1) == self._waited_for:
                self.happened_at = len(self.keys)
                self._happens()

    def was_before_the_ids(self) -> bool:
        """Whether it happened, and before the last answer of a deletion, which has the topics' ids.
        How often the clients ask for metadata differs."""
        if not self.happened_at:
            return False
        later = self.keys[self.happened_at :]
        return ApiKey.Metadata.value in later[: later.index(ApiKey.DeleteRecords.value)]

    def fill(self, topic: str) -> None:
        now_ms = self.driver.now_ms
        self.driver.create_topic(topic)
        self.driver.produce(topic, [now_ms - DAY_MS] * COMMITTED + [now_ms] * 3)
        self.driver.commit(f"readers-of-{topic}", {(topic, 0): COMMITTED})

    def recreate(self, topic: str) -> None:
        self.driver.delete_topic(topic)
        self.driver.create_topic(topic)
        self.driver.produce(topic, [self.driver.now_ms] * NEW_RECORDS)


@pytest.fixture
def moments(own_kafka: type[EmbeddedKafka]) -> Iterator[Moments]:
    with ExitStack() as stack:
        answers = stack.enter_context(closing(LateAnswers()))
        broker = stack.enter_context(own_kafka(advertised_ports={"CLIENT": [answers.port]}))
        answers.target = broker.bootstrap_servers
        driver = stack.enter_context(closing(RealDriver(broker, broker.internal_servers)))
        made = Moments(driver, answers.address)
        answers.before = made.before
        yield made


def by_cycle(servers: str, topic: str, folder: Path) -> None:
    with closing(connect(servers)) as kafka:
        Retentiond(kafka, folder, topic).cycle()


def by_hand(servers: str, topic: str, folder: Path) -> None:
    run_here(
        *("delete-records", "--bootstrap-server", servers, "--state-dir", folder / "state"),
        *("--topic", topic, "--older-than", "1h", "--yes"),
        cwd=folder,
    )


@pytest.mark.parametrize("delete", [by_cycle, by_hand])
@pytest.mark.parametrize("kind", [ApiKey.ListOffsets, ApiKey.Metadata], ids=lambda kind: kind.name)
def test_a_topic_that_is_recreated_at_any_moment_keeps_its_records(
    moments: Moments,
    topic_name: str,
    tmp_path: Path,
    delete: Callable[[str, str, Path], None],
    kind: ApiKey,
) -> None:
    moments.fill(topic_name)
    moments.at(kind.value, -1, nothing)
    delete(moments.servers, topic_name, tmp_path)
    assert log_start(moments.driver.broker, topic_name) == COMMITTED
    before_request = moments.keys[: moments.keys.index(ApiKey.DeleteRecords.value)]
    assert before_request[-2:] == [ApiKey.Metadata.value] * 2  # the cluster, and the ids

    assert before_request.count(kind.value) > (2 if delete is by_cycle else 0)
    lost = []
    for number in range(before_request.count(kind.value)):
        topic, folder = f"{topic_name}-{number}", tmp_path / str(number)
        folder.mkdir()
        moments.fill(topic)
        moments.at(kind.value, number, lambda: moments.recreate(topic))  # noqa: B023 - called before the next
        delete(moments.servers, topic, folder)
        if log_start(moments.driver.broker, topic) != 0 and moments.was_before_the_ids():
            lost.append((number, moments.keys))
    assert lost == []
