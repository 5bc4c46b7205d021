"""retentiond as an operator runs it: a process of its own, and commands beside it."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from devkit.embedded.processes import Spawner

COMMAND = Path(sys.executable).with_name("retentiond")

COMMAND_SECONDS = 120.0


class CommandError(Exception):
    """A command of retentiond's failed."""


class DaemonProcess:
    """``retentiond run``, which may be started again after its end. Its log is in ``folder``, as
    ``state_dir`` is; it ends with this process at the latest.

    ``variables`` are added to the environment, also of commands; those ``of_its_own`` to the
    daemon's alone.
    """

    def __init__(
        self,
        folder: Path,
        config: Path,
        variables: Mapping[str, str] | None = None,
        of_its_own: Mapping[str, str] | None = None,
    ) -> None:
        self.state_dir = folder / "state"
        self.log_file = folder / "retentiond.log"
        self.config = config
        self._variables = dict(variables or {})
        self._of_its_own = dict(of_its_own or {})
        self._spawner = Spawner()
        self._process: subprocess.Popen[bytes] | None = None
        self._told = False  # to end

    @property
    def died(self) -> int | None:
        """Its exit code, if it has ended without having been told to."""
        return None if self._process is None or self._told else self._process.poll()

    def start(self) -> None:
        self._told = False
        every = {**self._variables, **self._of_its_own}
        variables = [f"{name}={value}" for name, value in every.items()]
        command = ["env", *variables, str(COMMAND), "run", "--config", str(self.config)]
        self._process = self._spawner.spawn(command, self.log_file)

    def stop(self, patience_seconds: float) -> tuple[float, int] | None:
        """SIGTERM, and SIGKILL after that time: seconds until it had ended, and its exit code;
        None when it didn't run."""
        if self._process is None or self._process.poll() is not None:
            return None
        self._told = True
        started = time.monotonic()
        self._process.terminate()
        try:
            code = self._process.wait(patience_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        return time.monotonic() - started, code

    def kill(self) -> None:
        """SIGKILL, waited for."""
        process = self.process
        self._told = True
        process.kill()
        process.wait()

    def close(self) -> None:
        """End whatever is left."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        self._spawner.close()

    def told(self, *command: str, width: str = "120") -> str:
        """What a command prints that has the same configuration. Raises CommandError."""
        done = subprocess.run(
            [str(COMMAND), *command, "--config", str(self.config)],
            env={**os.environ, **self._variables, "COLUMNS": width},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            name = command[0]
            raise CommandError(f"retentiond {name} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def last_words(self) -> str:
        """The end of its log."""
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-15:])

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise RuntimeError("the daemon was never started")
        return self._process
