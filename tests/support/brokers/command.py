"""The command as an operator has it: another process, its exit code, stdout and stderr."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import httpx
import psutil

from tests.support.waiting import PATIENCE, eventually
from tests.support.witnessed import CONFIGURED

RETENTIOND = [str(Path(sys.executable).with_name("retentiond"))]

COMMAND_TIMEOUT_S = 300.0

SPARK = {"master": "local[1]"}

Document = dict[str, Any]


def settings(bootstrap_servers: str, state_dir: Path, **changes: Any) -> Document:
    """What a configuration file holds: one topic, a second between cycles, any free port."""
    return {
        "kafka": {"bootstrap.servers": bootstrap_servers},
        "schedule": {"interval": "1s"},
        "state_dir": str(state_dir),
        "http": {"host": "127.0.0.1", "port": 0},
        "spark": SPARK,
        "dry_run": True,
        "topics": [consumed("orders")],
        **changes,
    }


def consumed(topic: str, **rules: Any) -> Document:
    """An entry of ``topics``: records go as soon as they are consumed."""
    return {
        "name": topic,
        "retention.commitoffset.enable": True,
        "retention.commitoffset.ms": 0,
        **rules,
    }


def matching(pattern: str, **rules: Any) -> Document:
    """As `consumed`, about the topics whose names match."""
    entry = consumed("", **rules)
    del entry["name"]
    return {"pattern": pattern, **entry}


def configure(folder: Path, servers: str, *topics: str | Document, **changes: Any) -> Path:
    """Writes the `settings` of ``folder / "state"`` to its ``retentiond.yaml``."""
    if topics:
        changes["topics"] = entries(topics)
    return write(folder / "retentiond.yaml", settings(servers, folder / "state") | changes)


def entries(topics: Iterable[str | Document]) -> list[Document]:
    return [consumed(topic) if isinstance(topic, str) else topic for topic in topics]


def write(file: Path, document: Document) -> Path:
    """As JSON, which is YAML too."""
    if "topics" in document:  # else it is none that the witness judges by
        CONFIGURED.append(document)
    file.write_text(json.dumps(document, indent=2))
    return file


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def plan(self) -> Document:
        """stdout, which holds one JSON object and nothing else."""
        document: Document = json.loads(self.out)
        return document

    @property
    def audit(self) -> list[Document]:
        """stdout of ``audit --output json``."""
        deletions: list[Document] = json.loads(self.out)
        return deletions

    @property
    def log(self) -> list[Document]:
        """stderr, which holds one JSON object a line and nothing else."""
        return [json.loads(line) for line in self.err.splitlines()]


def run(
    *arguments: object,
    cwd: Path,
    command: Sequence[str] = RETENTIOND,
    environment: Mapping[str, str] | None = None,
) -> Done:
    """Runs it to its end in a folder of its own."""
    done = subprocess.run(
        [*command, *map(str, arguments)],
        cwd=cwd,
        env=_environment(environment or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


SET_CLOCK = """
import datetime, os, time

def ahead_s(file=os.environ["CLOCK_AHEAD"], read=open):
    with read(file) as text:
        return float(text.read() or 0)

date, date_ns = time.time, time.time_ns
time.time = lambda: date() + ahead_s()
time.time_ns = lambda: date_ns() + int(ahead_s() * 1e9)

class Shifted(datetime.datetime):
    __slots__ = ()

    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(seconds=ahead_s())

datetime.datetime = Shifted
"""
"""`sitecustomize` of a process whose host's clock a test sets."""


class HostClock:
    """Of processes that have its ``environment``: what is monotonic stays as it is."""

    def __init__(self, folder: Path) -> None:
        shim = folder / "shim"
        shim.mkdir()
        (shim / "sitecustomize.py").write_text(SET_CLOCK)
        self._ahead = folder / "clock"
        self.environment = {"PYTHONPATH": str(shim), "CLOCK_AHEAD": str(self._ahead)}
        self.set(0)

    def set(self, ahead_s: float) -> None:
        self._ahead.write_text(str(ahead_s))


class Started(Protocol):
    """What `Process` needs of a process."""

    pid: int

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def kill(self) -> None: ...

    def send_signal(self, number: int, /) -> None: ...


class Process:
    """One that goes on until it is ended; at the end of the ``with`` block, at the latest."""

    def __init__(
        self,
        *arguments: object,
        cwd: Path,
        command: Sequence[str] = RETENTIOND,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._log_file = cwd / f"stderr-{len(list(cwd.glob('stderr-*')))}.log"
        self._log_file.touch()
        self._command = command
        words = [*map(str, arguments)]
        self._process = self._started(words, cwd, self._log_file, _environment(environment or {}))
        self.seen: set[psutil.Process] = set()

    def _started(
        self, arguments: Sequence[str], cwd: Path, log_file: Path, environment: Mapping[str, str]
    ) -> Started:
        with log_file.open("wb") as stderr:
            return subprocess.Popen(
                [*self._command, *arguments],
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self.children():
            child.kill()
        if self.running:
            self.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def children(self) -> set[psutil.Process]:
        """The processes that it started and that are still there, also after its own end."""
        if self.running:
            self.seen.update(psutil.Process(self.pid).children(recursive=True))
        return {child for child in self.seen if child.is_running() and not _is_zombie(child)}

    def jvm(self) -> psutil.Process:
        """Spark's; awaited."""
        (jvm,) = eventually(
            lambda: {child for child in self.children() if _name(child) == "java"},
            lambda found: len(found) == 1,
        )
        return jvm

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self, timeout_s: float) -> int:
        """Its exit code. Raises ``subprocess.TimeoutExpired`` after `PATIENCE` times as long."""
        return self._process.wait(PATIENCE * timeout_s)

    def kill(self) -> None:
        """SIGKILL for it and for nobody else, waited for."""
        self.children()
        self._process.kill()
        self._process.wait()

    @property
    def said(self) -> str:
        """Its stderr so far."""
        return self._log_file.read_text()

    @property
    def log(self) -> list[Document]:
        """What it has logged; a line that is being written is left out."""
        whole, _, _ = self.said.rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def events(self, name: str) -> list[Document]:
        return [line for line in self.log if line["event"] == name]

    def await_events(self, name: str, count: int = 1, timeout_s: float = 180) -> list[Document]:
        """The events of that name, once there are as many."""

        def found() -> list[Document]:
            if not self.running:
                raise AssertionError(f"it ended: {self.said}")
            return self.events(name)

        return eventually(found, lambda events: len(events) >= count, timeout_s=timeout_s)

    def get(self, path: str, login: tuple[str, str] | None = None) -> httpx.Response:
        """A GET on the port that it said it listens on."""
        port = self.await_events("retentiond.started")[0]["port"]
        return httpx.get(f"http://127.0.0.1:{port}{path}", auth=login)

    def metric(self, series: str) -> float | None:
        """The value of one, named with its labels; None: it is not there."""
        lines = self.get("/metrics").text.splitlines()
        found = [line for line in lines if line.startswith(f"{series} ")]
        return float(found[0].rpartition(" ")[2]) if found else None

    @property
    def failures(self) -> float:
        """The counter of failed cycles."""
        return self.metric('retentiond_cycles_total{result="failed"}') or 0


def _name(process: psutil.Process) -> str | None:
    """None: it has ended meanwhile, as the scripts do that start the JVM."""
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return None


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _environment(changes: Mapping[str, str]) -> dict[str, str]:
    """This process's, without what changes how a terminal or a configuration is looked for."""
    dropped = ("RETENTIOND_CONFIG", "COLUMNS", "NO_COLOR", "FORCE_COLOR")
    return {name: value for name, value in os.environ.items() if name not in dropped} | {**changes}
