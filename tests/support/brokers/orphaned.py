"""Three brokers of which one misses a change: what it had is then somewhere else, or gone."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonPartition

from devkit.embedded import EmbeddedKafka, Node
from tests.contract.real import RealDriver
from tests.support.brokers.command import Done
from tests.support.command_here import run_here
from tests.support.waiting import eventually

TIMEOUT_S = 30.0

DAY_MS = 86_400_000

RECORDS = 5

STAYS, COMES_BACK, THIRD = 1, 2, 3
"""The brokers by their ids."""


class Orphaned:
    """``state_dir`` is the command's. Each call has its clients: none waits for a dead one."""

    def __init__(self, kafka: EmbeddedKafka, folder: Path) -> None:
        self.kafka = kafka
        self.folder = folder
        self.state_dir = folder / "state"
        self.driver = RealDriver(kafka)

    def close(self) -> None:
        self.driver.close()

    @property
    def node(self) -> Node:
        """The broker that goes down and comes back."""
        return self._node(COMES_BACK)

    @property
    def log_dir(self) -> Path:
        (log_dir,) = self.node.log_dirs
        return log_dir

    def folders(self) -> dict[str, Path]:
        """On its disk: by ``topic-partition`` and suffix, without the unique part of a name."""
        found = {}
        for entry in self.log_dir.iterdir():
            if entry.is_dir():
                name, _, unique = entry.name.partition(".")
                found[name + unique[32:]] = entry
        return found

    def create_topic(
        self, name: str, age_ms: int, brokers: Sequence[int] = (STAYS, COMES_BACK)
    ) -> str:
        """One partition there, with records of that age, which Kafka's own retention spares."""
        self.kafka.create_topic(name, 1, {"retention.ms": "-1"}, replication_factor=1)
        self.move(name, brokers)
        self.await_in_sync(name, brokers)
        self.driver.produce(name, [self.driver.now_ms - age_ms] * RECORDS)
        return name

    def move(self, topic: str, brokers: Sequence[int] | None) -> None:
        """None: a move under way is given up."""
        with closing(KafkaAdminClient(bootstrap_servers=self._node(STAYS).internal_server)) as kp:
            at = PythonPartition(topic, 0)
            answer = kp.alter_partition_reassignments({at: brokers and list(brokers)})
            assert answer[at] is None, answer

    def delete_topic(self, name: str) -> None:
        admin = self.admin()
        admin.delete_topics([name])[name].result(TIMEOUT_S)
        eventually(lambda: name not in admin.list_topics(timeout=TIMEOUT_S).topics)

    def await_in_sync(self, topic: str, brokers: Collection[int]) -> None:
        admin = self.admin()

        def in_sync() -> bool:
            found = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
            return bool(found) and set(found[0].isrs) == set(found[0].replicas) == set(brokers)

        eventually(in_sync)

    def admin(self) -> AdminClient:
        """Of the broker that stays."""
        return AdminClient({"bootstrap.servers": self._node(STAYS).internal_server, "log_level": 0})

    def orphans(self, *arguments: object) -> Done:
        return run_here("orphans", *self.options(), *arguments, cwd=self.folder)

    def look(self, *arguments: object, code: int = 0) -> dict[str, Any]:
        """The command's JSON."""
        done = self.orphans("--output", "json", *arguments)
        assert (done.code, done.err) == (code, ""), done
        found: dict[str, Any] = json.loads(done.out)
        return found

    def options(self) -> tuple[object, ...]:
        return (
            *("--bootstrap-server", self._node(STAYS).bootstrap_server),
            *("--log-dir", self.log_dir, "--state-dir", self.state_dir),
        )

    def _node(self, broker: int) -> Node:
        return next(node for node in self.kafka.nodes if node.node_id == broker)
