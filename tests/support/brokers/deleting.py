"""``retentiond delete-records`` as an operator calls it, and the log starts that it leaves."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from devkit.witness.words import BY_HAND
from retentiond.kafka.interface import OffsetBound
from retentiond.model import TopicPartition
from tests.contract.real import RealDriver
from tests.support.brokers.command import RETENTIOND, Done
from tests.support.command_here import run_here
from tests.support.witnessed import CONFIGURED

TOOL = "org.apache.kafka.tools.DeleteRecordsCommand"

RECORDS = 10
"""In each partition of a filled topic."""

TIMEOUT_S = 60

ASKS = "[y/N]: "


class Bench:
    """One broker, one folder, one state directory; the offsets file is written for each call."""

    def __init__(self, driver: RealDriver, folder: Path) -> None:
        CONFIGURED.append(BY_HAND)
        self.driver = driver
        self.folder = folder
        self.state_dir = folder / "state"
        self.servers = driver.broker.bootstrap_servers

    def file(self, *entries: tuple[str, int, int], text: str | None = None) -> Path:
        file = self.folder / "offsets.json"
        partitions = [{"topic": t, "partition": p, "offset": o} for t, p, o in entries]
        file.write_text(text or json.dumps({"version": 1, "partitions": partitions}))
        return file

    def run(self, *arguments: object) -> Done:
        return run_here(*self._named(arguments), cwd=self.folder)

    def _named(self, arguments: Sequence[object]) -> list[object]:
        servers = ("--bootstrap-server", self.servers)
        return ["delete-records", *servers, "--state-dir", self.state_dir, *arguments]

    def on_a_terminal(
        self,
        *arguments: object,
        answers: Sequence[str],
        meanwhile: Callable[[], object] = lambda: None,
    ) -> tuple[int, str]:
        """The exit code and all that the terminal showed. An answer is typed once it is asked;
        ``meanwhile`` happens while the first question stands."""
        ours, its = pty.openpty()
        with subprocess.Popen(
            [*RETENTIOND, *map(str, self._named(arguments))],
            cwd=self.folder,
            stdin=its,
            stdout=its,
            stderr=its,
        ) as process:
            os.close(its)
            shown, answered = "", 0
            while select.select([ours], [], [], TIMEOUT_S)[0]:
                try:
                    read = os.read(ours, 4096).decode()
                except OSError:  # Linux's end of a terminal that nobody else holds
                    break
                shown += read
                if answered < min(len(answers), shown.count(ASKS)):
                    if not answered:
                        meanwhile()
                    os.write(ours, f"{answers[answered]}\n".encode())
                    answered += 1
            os.close(ours)
            return process.wait(TIMEOUT_S), shown

    def delete(self, *entries: tuple[str, int, int]) -> Done:
        return self.run("--offset-json-file", self.file(*entries))

    def rows(self, *arguments: object) -> tuple[Done, list[dict[str, Any]]]:
        done = self.run("--output", "json", *arguments)
        return done, json.loads(done.out)["partitions"]

    def log_starts(self, name: str, partitions: int = 1) -> list[object]:
        asked = [TopicPartition(name, each) for each in range(partitions)]
        found = self.driver.kafka.offsets(asked, OffsetBound.LOG_START)
        return [found[at] for at in asked]
