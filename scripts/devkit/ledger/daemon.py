"""The real daemon, as an operator runs it: it can be killed, started again, and misled."""

import json
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from devkit.daemon_process import CommandError, DaemonProcess
from devkit.ledger.record import now_ms
from devkit.ledger.scenario import (
    BELOW_FREE,
    RELAXED,
    RELAXED_MS,
    TOPICS,
    UNTIL_FREE,
    VISITED,
)
from devkit.waiting import came_true

SHIM = Path(__file__).with_name("shim")
POLL_SECONDS = 0.1
AUDIT_NAME = "audit.db"
DELETIONS = "SELECT id FROM deletions WHERE id > ? ORDER BY id"
OPEN_INTENT = "SELECT id FROM deletions WHERE unsettled = 1 AND outcome IS NULL LIMIT 1"

FORGET_AFTER = "2h"  # of observed time: none of the bench's plays takes as long


def settings(servers: str, state_dir: Path) -> dict[str, Any]:
    """Deletes for real, every second, whatever is consumed, or has been for a while."""
    return {
        "kafka": {"bootstrap.servers": servers},
        "schedule": {"interval": "1s"},
        "dry_run": False,
        "state_dir": str(state_dir),
        "http": {"host": "127.0.0.1", "port": 0},
        "spark": {"master": "local[1]"},
        "disk_pressure": {"below_free": f"{BELOW_FREE:.0%}", "until_free": f"{UNTIL_FREE:.0%}"},
        "topics": [
            {
                "name": topic.name,
                "retention.commitoffset.enable": True,
                "retention.commitoffset.ms": RELAXED_MS if topic in RELAXED else 0,
                "retention.commitoffset.pressure.ms": 0,
                **({"groups": {"forget_vanished_after": FORGET_AFTER}} if topic == VISITED else {}),
            }
            for topic in TOPICS
        ],
    }


class Daemon(DaemonProcess):
    """It can be killed, started again, and misled; its state directory and its log outlive it.

    ``on_cycle`` is called with the moment in which it told of a cycle that was well.
    ``first_seen`` says when each entry of its audit log was there first, by the bench's clock: it
    was not in the first moment, and was in the second.
    """

    def __init__(
        self,
        servers: str,
        folder: Path,
        on_cycle: Callable[[float], None],
    ) -> None:
        self._clock = folder / "clock"
        variables = {
            "PYTHONPATH": str(SHIM),
            "LEDGER_CLOCK_FILE": str(self._clock),
            "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1",  # it starts often, the cores are few
        }
        super().__init__(folder, folder / "retentiond.yaml", of_its_own=variables)
        self.events: Counter[str] = Counter()
        self.first_seen: dict[int, tuple[float, float]] = {}
        self._on_cycle = on_cycle
        self._read_up_to = 0
        self._looked_ms = now_ms()
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="daemon-watcher", daemon=True)
        self._lock = threading.Lock()
        self.believe(servers)

    def believe(self, servers: str) -> None:
        """From its next start on it is told that its cluster is there."""
        self.config.write_text(json.dumps(settings(servers, self.state_dir), indent=2))

    def set_clock(self, seconds: float) -> None:
        """Its wall clock goes wrong by that, at once; a negative number is behind."""
        new = self._clock.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self._clock)

    def start(self) -> None:
        """With a clock that can be set."""
        super().start()
        if not self._watcher.is_alive():
            self._watcher.start()

    def forget(self, group: str) -> bool:
        """As an operator does; whether it was done."""
        try:
            self.told("groups", "forget", group, "--yes")
        except CommandError:
            return False
        return True

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End whatever is left."""
        super().close()
        self._closed.set()
        if self._watcher.is_alive():
            self._watcher.join()

    @property
    def complete_cycles(self) -> int:
        """Of all its lives so far."""
        return self.events["cycles ok"]

    def await_cycles(
        self, count: int, timeout_seconds: float, *, of_any_kind: bool = False
    ) -> bool:
        """Whether so many more complete cycles came in time, or cycles ``of_any_kind``."""
        results = ("ok", "incomplete", "failed") if of_any_kind else ("ok",)

        def made() -> int:
            return sum(self.events[f"cycles {result}"] for result in results)

        wanted = made() + count
        came_true(lambda: made() >= wanted or self.died is not None, timeout_seconds)
        return made() >= wanted

    def await_intent(self, timeout_seconds: float) -> bool:
        """Whether it was caught in the midst of a deletion: intended, and not answered yet."""
        with closing(self._audit_log()) as connection:
            return came_true(
                lambda: connection.execute(OPEN_INTENT).fetchone() is not None,
                timeout_seconds,
                poll_seconds=0.002,
            )

    def look(self) -> None:
        """Take in what it has logged since, and what is new in its audit log."""
        with self._lock:
            self._look_at_log()
            self._look_at_deletions()

    def _watch(self) -> None:
        while not self._closed.wait(POLL_SECONDS):
            self.look()

    def _look_at_log(self) -> None:
        if not self.log_file.exists():
            return
        with self.log_file.open("rb") as log:
            log.seek(self._read_up_to)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self._read_up_to += len(line)
                self._count(line)

    def _look_at_deletions(self) -> None:
        if not (self.state_dir / AUDIT_NAME).exists():
            return
        last = max(self.first_seen, default=0)
        before_ms, looking_ms = self._looked_ms, now_ms()
        try:
            with closing(self._audit_log()) as connection:
                found = connection.execute(DELETIONS, (last,)).fetchall()
        except sqlite3.OperationalError:  # it is being made
            return
        self.first_seen |= {number: (before_ms, now_ms()) for (number,) in found}
        self._looked_ms = looking_ms

    def _audit_log(self) -> sqlite3.Connection:
        return sqlite3.connect(f"file:{self.state_dir / AUDIT_NAME}?mode=ro", uri=True)

    def _count(self, line: bytes) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            self.events["lines that are no JSON"] += 1
            return
        name = said["event"].removeprefix("retentiond.")
        if name == "cycle":
            self.events[f"cycles {said['result']}"] += 1
            self.events["cycles under pressure"] += bool(said.get("under_pressure"))
            if said["result"] == "ok":
                self._on_cycle(now_ms())
        else:
            self.events[name] += 1
