"""stdout that nobody reads any more, and one without room; progress on stderr."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from retentiond.cli.delete_records import show
from retentiond.cli.options import Output
from retentiond.cli.output.printing import Printer, progress, while_read
from retentiond.cli.output.streams import Stdout
from retentiond.model import Outcome
from retentiond.tools.delete_records.partitions import Item
from tests.support.builders.reports import outcome, report, row
from tests.unit.cli.conftest import Command, OneCycle


@pytest.fixture
def unread() -> Iterator[int]:
    """The end of a pipe whose other end is closed."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def ran(stdout: Any, *arguments: object) -> tuple[int, str]:
    """Its exit code and its stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "retentiond", *map(str, arguments)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.long
@pytest.mark.parametrize("arguments", [("check",), ("check", "--example"), ("pause", "x"), ("-h",)])
def test_a_reader_that_goes_is_no_failure(
    unread: int, config: Path, arguments: tuple[str, ...]
) -> None:
    assert ran(unread, *(() if "-h" in arguments else ("-c", config)), *arguments) == (0, "")


@pytest.mark.parametrize(("what", "code"), [(Outcome.DELETED, 0), (Outcome.FAILED, 1)])
def test_the_exit_code_of_a_cycle_tells_of_the_cycle(  # noqa: PLR0917
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    config: Path,
    unread: int,
    what: Outcome,
    code: int,
) -> None:
    of = report([row("orders")], [outcome("orders", what=what)])
    monkeypatch.setattr("retentiond.daemon.engine.Engine", lambda *_, **__: OneCycle(of))
    with os.fdopen(os.dup(unread), "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert command("run", "--once", "--config", config).code == code


def test_a_long_list_ends_with_its_reader(unread: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with os.fdopen(os.dup(unread), "w") as stream:
        stdout = Stdout(stream)
        monkeypatch.setattr(sys, "stdout", stdout)
        seen = []
        for each in while_read(range(1000)):
            seen.append(each)
            print("a line of a long list", flush=True)
    assert seen == [0]
    assert stdout.reader_is_gone


@pytest.mark.parametrize(("columns", "width"), [("40", 40), (None, 10_000)])
def test_a_sentence_is_wrapped_between_its_words(
    columns: str | None,
    width: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    no_terminal: None,
) -> None:
    """In a pipe it is one line."""
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    sentence = " ".join(["Twelve letters"] * 20)
    Printer().say(sentence)
    lines = capsys.readouterr().out.splitlines()
    assert " ".join(map(str.rstrip, lines)) == sentence
    assert max(map(len, lines)) <= width
    assert (len(lines) == 1) is (columns is None)


def test_in_a_pipe_long_steps_show_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("reading the cluster"):
        pass
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_long_steps_show_progress_on_stderr(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    with progress("reading the cluster"):
        pass
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "reading the cluster …" in captured.err


def test_the_outcome_of_many_partitions_ends_with_its_reader(
    unread: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was deleted is deleted, so the command ends as it would have."""
    with os.fdopen(os.dup(unread), "w") as stream:
        stdout = Stdout(stream)
        monkeypatch.setattr(sys, "stdout", stdout)
        show([Item("orders", number, 1) for number in range(5000)], Output.TABLE, dry_run=True)
    assert stdout.reader_is_gone
