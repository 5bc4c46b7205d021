"""The real daemon, as an operator runs it: a process of its own with ``config/demo.yaml``."""

import http.client
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from devkit.embedded.ports import LOOPBACK, PortReservations
from devkit.embedded.processes import Spawner

CONFIG = Path(__file__).resolve().parents[3] / "config" / "demo.yaml"
COMMAND = Path(sys.executable).with_name("retentiond")

ANSWER_SECONDS = 2.0
COMMAND_SECONDS = 120
STOP_SECONDS = 10.0
"""How long SIGTERM may take: what retentiond promises."""


class CommandError(Exception):
    """A command of retentiond's failed."""


class Daemon:
    """``retentiond run``. Its state and its log are in ``folder``; it ends with the block, or
    with this process."""

    def __init__(self, bootstrap_servers: str, folder: Path) -> None:
        self.log_file = folder / "retentiond.log"
        self._ports = PortReservations()
        self._port = self._ports.take()
        self._spawner = Spawner()
        self._process: subprocess.Popen[bytes] | None = None
        self._told = False  # to end
        self._variables = {
            "RETENTIOND_DEMO_BOOTSTRAP": bootstrap_servers,
            "RETENTIOND_DEMO_STATE": str(folder / "state"),
            "RETENTIOND_DEMO_PORT": str(self._port),
        }

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._port}"

    @property
    def died(self) -> int | None:
        """Its exit code, if it has ended without having been told to."""
        return None if self._process is None or self._told else self._process.poll()

    def start(self) -> None:
        variables = [f"{name}={value}" for name, value in self._variables.items()]
        command = ["env", *variables, str(COMMAND), "run", "--config", str(CONFIG)]
        self._process = self._spawner.spawn(command, self.log_file)

    def plan(self) -> dict[str, Any] | None:
        """The last cycle's plan, as /api/plan gives it; None while there is none."""
        connection = http.client.HTTPConnection(LOOPBACK, self._port, timeout=ANSWER_SECONDS)
        try:
            connection.request("GET", "/api/plan")
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        plan: dict[str, Any] | None = json.loads(body) if response.status == 200 else None
        return plan

    def stop(self) -> tuple[float, int] | None:
        """SIGTERM: seconds until it had ended, and its exit code; None when it didn't run.

        SIGKILL when it takes more than twice the promised time.
        """
        if self._process is None or self._process.poll() is not None:
            return None
        self._told = True
        started = time.monotonic()
        self._process.terminate()
        try:
            code = self._process.wait(2 * STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        return time.monotonic() - started, code

    def deletions(self) -> list[dict[str, Any]]:
        """The audit log, by ``retentiond audit``. Raises CommandError."""
        deletions: list[dict[str, Any]] = json.loads(self.told("audit", "--output", "json"))
        return deletions

    def told(self, command: str, *options: str, width: str = "120") -> str:
        """What a command prints that works on the state alone. Raises CommandError."""
        done = subprocess.run(
            [str(COMMAND), command, "--config", str(CONFIG), *options],
            env={**os.environ, **self._variables, "COLUMNS": width},
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise CommandError(f"retentiond {command} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def last_words(self, lines: int = 15) -> str:
        """The end of its log."""
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> "Daemon":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.stop()
        finally:
            self._spawner.close()
            self._ports.close()
