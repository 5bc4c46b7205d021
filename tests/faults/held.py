"""Runs of the real command that are stopped in a known step: see `tests.faults.hold_at`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import OffsetSpec

from devkit.embedded import EmbeddedKafka
from tests.support.brokers.command import Process
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]

ENVIRONMENT = {"PYTHONPATH": f"{ROOT}:{ROOT / 'scripts'}", "PLAIN_PLAN": "1"}


def held_command(step: str, folder: Path) -> Sequence[str]:
    """The command that waits in that step, in place of ``retentiond``."""
    return [sys.executable, "-m", "tests.faults.hold_at", step, str(folder)]


class Held(Process):
    """The command, without Spark, up to a step; it goes on once it is released."""

    def __init__(self, step: str, *arguments: object, cwd: Path) -> None:
        self._flags = cwd / f"flags-{len(list(cwd.glob('flags-*')))}"
        self._flags.mkdir()
        command = held_command(step, self._flags)
        super().__init__(*arguments, cwd=cwd, command=command, environment=ENVIRONMENT)

    def await_step(self) -> None:
        """Returns when it has got there."""

        def reached() -> bool:
            if not self.running:
                raise AssertionError(f"it ended before: {self.said}")
            return (self._flags / "reached").exists()

        eventually(reached, timeout_s=60)

    def release(self) -> None:
        (self._flags / "released").touch()


NO_LEADER = (
    KafkaError._NOENT,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,  # it leads again, and the client believes in the time before
    KafkaError.UNKNOWN_LEADER_EPOCH,  # the client knows of an election, and the new leader not yet
)


def log_start_if_led(kafka: EmbeddedKafka, topic: str) -> int | None:
    """None while nobody leads, as right after the broker stood still."""
    try:
        return log_start(kafka, topic)
    except KafkaException as error:
        if error.args[0].code() in NO_LEADER:
            return None
        raise


def log_start(kafka: EmbeddedKafka, topic: str, partition: int = 0) -> int:
    """The broker's own answer."""
    at = ConfluentPartition(topic, partition)
    admin = kafka.admin()  # by a name of its own: without it the client ends, and answers nothing
    answer = admin.list_offsets(
        {at: OffsetSpec.earliest()}, isolation_level=IsolationLevel.READ_UNCOMMITTED
    )
    return int(answer[at].result(30).offset)
