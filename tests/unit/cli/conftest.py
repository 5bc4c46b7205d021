"""The command line in this process: its real entry point, without the 2 s of a new Python."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from retentiond.cli.past.options import answered
from retentiond.cycle import CycleEnd
from retentiond.history.ask import rows
from retentiond.model import DeletionOutcome
from retentiond.tell.report import CycleReport
from tests.support.brokers.command import Done
from tests.support.builders.histories import World
from tests.support.command_here import SETTINGS_OF_A_TERMINAL, exit_code, logging_kept
from tests.support.golden import Golden
from tests.support.shared_spark import of_question
from tests.unit.cli.reviewed_files import Files

CONFIG = """\
kafka:
  bootstrap.servers: localhost:9092
topics:
  - name: orders
    retention.commitoffset.enable: true
    retention.commitoffset.minutes: 30
"""


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
    for name in SETTINGS_OF_A_TERMINAL:
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: object) -> Done:
        capsys.readouterr()
        code = exit_code(*arguments)
        return Done(code, *capsys.readouterr())

    with logging_kept():
        yield run


@pytest.fixture
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the terminal that runs the tests is heeded."""
    for name in (*SETTINGS_OF_A_TERMINAL, "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


def on_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on stdout is a terminal of 80 columns without colours."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)


class KeptAnswer:
    """In place of `retentiond.cli.past.answered` in a command: what it answers first is its
    answer to whoever asks after that, so that one question does for all forms of output."""

    def __init__(self) -> None:
        self._answers: list[Any] = []

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if not self._answers:
            self._answers.append(answered(*arguments, **named))
        return self._answers[0]

    def change(self, changed: Callable[[Any], Any]) -> None:
        """From now on it is this."""
        self._answers[0] = changed(self._answers[0])


class Transcript:
    """Commands and what they printed, as a terminal shows it."""

    def __init__(self, command: Command, golden: Golden) -> None:
        self._command = command
        self._golden = golden
        self.text = ""

    def __call__(self, *arguments: object) -> Done:
        done = self._command(*arguments)
        self.text += f"$ {shlex.join(['retentiond', *map(str, arguments)])}\n"
        self.text += done.out
        if done.err:
            self.text += f"--- stderr\n{done.err}"
        self.text += f"--- exit code {done.code}\n\n"
        return done

    def refused(self, *arguments: object) -> None:
        """Ends with 2 and a sentence, and prints no result."""
        done = self._command(*arguments)
        assert (done.code, done.out) == (2, ""), done
        self.text += f"$ {shlex.join(['retentiond', *map(str, arguments)])}\n{done.err}"

    def check(self, name: str) -> None:
        self._golden(name, self.text)


@pytest.fixture
def transcript(command: Command, golden: Golden) -> Transcript:
    """Runs commands; ``check`` compares all of it with a golden file."""
    return Transcript(command, golden)


@pytest.fixture(autouse=True)
def one_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions about the past share the worker's session, because a new JVM is slow."""
    monkeypatch.setattr(rows, "sessions_for", of_question)


@pytest.fixture
def files(tmp_path: Path, command: Command) -> Files:
    return Files(tmp_path, command)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """With a state_dir of its own."""
    path = tmp_path / "retentiond.yaml"
    path.write_text(f"state_dir: {tmp_path / 'state'}\n{CONFIG}")
    return path


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(CONFIG)
    return path
