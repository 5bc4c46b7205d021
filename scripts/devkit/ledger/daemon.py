"""The real daemon, as an operator runs it; it can be killed and started again."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from devkit.embedded.processes import Spawner
from devkit.ledger.scenario import Topic
from retentiond.state.schema import AUDIT_NAME

COMMAND = Path(sys.executable).with_name("retentiond")
STOP_SECONDS = 20.0
POLL_SECONDS = 0.1
INTENT_POLL_SECONDS = 0.002
OPEN_INTENT = "SELECT id FROM deletions WHERE unsettled = 1 AND outcome IS NULL LIMIT 1"


def settings(servers: str, state_dir: Path, topics: Sequence[Topic]) -> dict[str, Any]:
    """Deletes for real, every second, whatever is consumed."""
    return {
        "kafka": {"bootstrap.servers": servers},
        "schedule": {"interval": "1s"},
        "dry_run": False,
        "state_dir": str(state_dir),
        "http": {"host": "127.0.0.1", "port": 0},
        "spark": {"master": "local[1]"},
        "topics": [
            {
                "name": topic.name,
                "retention.commitoffset.enable": True,
                "retention.commitoffset.ms": 0,
            }
            for topic in topics
        ],
    }


class Daemon:
    """``retentiond run``; its state directory and its log outlive it."""

    def __init__(self, servers: str, folder: Path, topics: Sequence[Topic]) -> None:
        self.state_dir = folder / "state"
        self.log_file = folder / "retentiond.log"
        self.events: Counter[str] = Counter()
        self._config = folder / "retentiond.yaml"
        self._config.write_text(json.dumps(settings(servers, self.state_dir, topics), indent=2))
        self._spawner = Spawner()
        self._process: subprocess.Popen[bytes] | None = None
        self._ending = False
        self._read_up_to = 0

    def start(self) -> None:
        self._ending = False
        command = [str(COMMAND), "run", "--config", str(self._config)]
        self._process = self._spawner.spawn(command, self.log_file)

    def kill(self) -> None:
        """SIGKILL, waited for."""
        process = self._started()
        self._ending = True
        process.kill()
        process.wait()

    def pause(self) -> None:
        """SIGSTOP."""
        self._started().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._started().send_signal(signal.SIGCONT)

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        process = self._started()
        self._ending = True
        process.terminate()
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def close(self) -> None:
        """End whatever is left."""
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._spawner.close()

    @property
    def died(self) -> int | None:
        """Its exit code, if it has ended by itself."""
        return None if self._process is None or self._ending else self._process.poll()

    @property
    def complete_cycles(self) -> int:
        """Of all its lives so far."""
        self.look()
        return self.events["cycles ok"]

    def await_cycles(self, count: int, timeout_seconds: float) -> bool:
        """Whether so many more complete cycles came in time."""
        wanted = self.complete_cycles + count
        deadline = time.monotonic() + timeout_seconds
        while self.complete_cycles < wanted:
            if time.monotonic() > deadline or self.died is not None:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def await_intent(self, timeout_seconds: float) -> bool:
        """Whether it was caught in the midst of a deletion: intended, and not answered yet."""
        deadline = time.monotonic() + timeout_seconds
        audit_log = f"file:{self.state_dir / AUDIT_NAME}?mode=ro"
        with closing(sqlite3.connect(audit_log, uri=True)) as connection:
            while time.monotonic() < deadline:
                if connection.execute(OPEN_INTENT).fetchone() is not None:
                    return True
                time.sleep(INTENT_POLL_SECONDS)
        return False

    def look(self) -> None:
        """Count what it has logged since."""
        with self.log_file.open("rb") as log:
            log.seek(self._read_up_to)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self._read_up_to += len(line)
                self._count(line)

    def _count(self, line: bytes) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            self.events["lines that are no JSON"] += 1
            return
        name = said["event"].removeprefix("retentiond.")
        if name == "cycle":
            self.events[f"cycles {said['result']}"] += 1
        else:
            self.events[name] += 1

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise RuntimeError("the daemon was never started")
        return self._process
