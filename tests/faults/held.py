"""Runs of the real command that are stopped in a known step: see `tests.faults.hold_at`."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from unittest import mock

from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import OffsetSpec

from devkit.embedded import EmbeddedKafka
from tests.faults.hold_at import live
from tests.support.brokers.command import Process
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]

PATH = f"{ROOT}:{ROOT / 'scripts'}"

FORKS = multiprocessing.get_context("forkserver")
"""Lives are forked from a process that has imported everything; a new Python takes seconds."""

FORKS.set_forkserver_preload(["tests.faults.hold_at"])


PLAIN = [
    sys.executable,
    "-c",
    "from retentiond.cli.main import main\n"
    "from tests.faults.plain_plan import without_spark\n"
    "with without_spark(): main()",
]
"""``retentiond`` in a process of its own, without Spark. It finds the tests `on_the_path`."""


def on_the_path() -> AbstractContextManager[object]:
    """A process that is started meanwhile imports what this one does: `PLAIN`, and the one that
    forks, which the first life starts."""
    return mock.patch.dict(os.environ, {"PYTHONPATH": PATH})


class _Fork:
    """As `subprocess.Popen`, what `Process` needs of it."""

    def __init__(self, life: ForkServerProcess) -> None:
        self._life = life
        self.pid = life.pid or 0

    def poll(self) -> int | None:
        return self._life.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._life.join(timeout)
        if (code := self._life.exitcode) is None:
            raise subprocess.TimeoutExpired("retentiond", timeout or 0.0)
        return code

    def kill(self) -> None:
        self._life.kill()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


class Held(Process):
    """The command, without Spark, up to a step; it goes on once it is released."""

    def __init__(self, step: str, *arguments: object, cwd: Path) -> None:
        self._step = step
        self._flags = cwd / f"flags-{len(list(cwd.glob('flags-*')))}"
        self._flags.mkdir()
        super().__init__(*arguments, cwd=cwd)

    def _started(
        self, arguments: Sequence[str], cwd: Path, log_file: Path, _environment: Mapping[str, str]
    ) -> _Fork:
        with on_the_path():
            life = FORKS.Process(
                target=live, args=(self._step, self._flags, [*arguments], cwd, log_file)
            )
            life.start()
        return _Fork(life)

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
