"""The command line in this process: its real entry point, without the 2 s of a new Python."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import structlog

from retentiond.cli.main import main
from retentiond.config import Spark
from retentiond.cycle import CycleEnd
from retentiond.history.ask import rows
from retentiond.model import DeletionOutcome
from retentiond.spark.session import SparkSessions
from retentiond.tell import logs
from retentiond.tell.report import CycleReport
from tests.support.builders.histories import World
from tests.unit.cli.reviewed_files import Files

CONFIG = """\
kafka:
  bootstrap.servers: localhost:9092
topics:
  - name: orders
    retention.commitoffset.enable: true
    retention.commitoffset.minutes: 30
"""


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


Command = Callable[..., Done]


class OneCycle:
    """In place of the engine."""

    def __init__(self, of: CycleReport) -> None:
        self.run_cycle = lambda _state: CycleEnd(of, World().seen())
        self.reconcile: Callable[..., tuple[DeletionOutcome, ...]] = lambda _state: ()

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_: None


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Command]:
    """Runs ``retentiond`` with these arguments, in an empty folder and a bare environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("RETENTIOND_CONFIG", "COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    levels = {name: logging.getLogger(name).level for name in logs.NOISY}

    def run(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["retentiond", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        captured = capsys.readouterr()
        return Done(code if isinstance(code, int) else int(code is not None), *captured)

    yield run
    structlog.reset_defaults()
    root.setLevel(level)
    root.handlers[:] = handlers
    for name, old in levels.items():
        logging.getLogger(name).setLevel(old)


class LastingSpark:
    """A session that no question ends."""

    def __init__(self, sessions: SparkSessions) -> None:
        self.use = sessions.use

    def begin(self) -> None:
        pass

    def stop(self) -> None:
        pass


@pytest.fixture(scope="session")
def lasting_spark() -> Iterator[LastingSpark]:
    sessions = rows.sessions_for(Spark())
    yield LastingSpark(sessions)
    sessions.stop()


@pytest.fixture(autouse=True)
def one_spark(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions about the past share a session, because a new JVM is slow. The questions of
    test_cli_past_clusters.py start and end their own, as users' do."""
    if request.node.get_closest_marker("spark"):
        spark = request.getfixturevalue("lasting_spark")
        monkeypatch.setattr(rows, "sessions_for", lambda _: spark)


@pytest.fixture
def files(tmp_path: Path, command: Command) -> Files:
    return Files(tmp_path, command)


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(CONFIG)
    return path
