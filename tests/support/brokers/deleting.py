"""``retentiond delete-records`` as an operator calls it, and the log starts that it leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from retentiond.kafka.interface import OffsetBound
from retentiond.model import TopicPartition
from tests.contract.real import RealDriver
from tests.support.brokers.command import Done, run

TOOL = "org.apache.kafka.tools.DeleteRecordsCommand"

RECORDS = 10
"""In each partition."""


class Bench:
    """One broker, one folder, one state directory; the offsets file is written for each call."""

    def __init__(self, driver: RealDriver, folder: Path) -> None:
        self.driver = driver
        self.folder = folder
        self.state_dir = folder / "state"
        self.servers = driver.broker.bootstrap_servers

    def topic(self, name: str, partitions: int = 1, **config: str) -> str:
        """Ten records in each partition."""
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        self.driver.create_topic(name, partitions, dotted)
        for partition in range(partitions):
            self.driver.produce(name, [self.driver.now_ms] * RECORDS, partition)
        return name

    def file(self, *entries: tuple[str, int, int], text: str | None = None) -> Path:
        file = self.folder / "offsets.json"
        partitions = [{"topic": t, "partition": p, "offset": o} for t, p, o in entries]
        file.write_text(text or json.dumps({"version": 1, "partitions": partitions}))
        return file

    def run(self, *arguments: object) -> Done:
        named = ("--bootstrap-server", self.servers, "--state-dir", self.state_dir)
        return run("delete-records", *named, *arguments, cwd=self.folder)

    def delete(self, *entries: tuple[str, int, int]) -> Done:
        return self.run("--offset-json-file", self.file(*entries))

    def rows(self, *arguments: object) -> tuple[Done, list[dict[str, Any]]]:
        done = self.run("--output", "json", *arguments)
        return done, json.loads(done.out)["partitions"]

    def log_starts(self, name: str, partitions: int = 1) -> list[object]:
        asked = [TopicPartition(name, each) for each in range(partitions)]
        found = self.driver.kafka.offsets(asked, OffsetBound.LOG_START)
        return [found[at] for at in asked]
