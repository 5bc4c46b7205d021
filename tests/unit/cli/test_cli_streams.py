"""Every command on whatever stdout and stderr it gets: one sentence, and the right code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from retentiond.cli.output.streams import settled
from retentiond.state.operator_actions import Pause, write_pause

CONFIG = """\
kafka: {bootstrap.servers: 'localhost:1'}
topics:
  - pattern: 'größe-.*'
    retention.commitoffset.enable: true
    groups: {required: [zürich → ∞]}
"""


class Healthy(NamedTuple):
    """How it ends on a terminal that lacks nothing, and whether it prints a result there."""

    code: int
    prints: bool = False


COMMANDS = {
    "--help": Healthy(0, prints=True),
    "chek": Healthy(2),
    "check": Healthy(0, prints=True),
    "-c none.yaml check": Healthy(2),
    "audit --output csv": Healthy(2),
    "groups": Healthy(0, prints=True),
    "groups --output json": Healthy(0, prints=True),
    "groups forget zürich": Healthy(2),
    "pause für-Zoë…": Healthy(0, prints=True),
    "resume": Healthy(0, prints=True),
    "plan": Healthy(1),
    "explain größe": Healthy(2),
    "doctor": Healthy(1, prints=True),
    "delete-records --bootstrap-server localhost:1 --offset-json-file none": Healthy(2),
    "orphans --bootstrap-server localhost:1 --log-dir none": Healthy(2),
    "report": Healthy(2),
}

MANY_PROCESSES = pytest.mark.thorough("a process for each command")

PLAIN = {"LANG": "C", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


REDIRECTIONS = (">&-", "2>&-", ">&- 2>&-", "<&-", ">/dev/full", "2>/dev/full")


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "retentiond.yaml").write_text(
        f"state_dir: {tmp_path / 'state'}\n{CONFIG}", encoding="utf-8"
    )
    (tmp_path / "state").mkdir()
    write_pause(tmp_path / "state", Pause("für Zoë…"))
    return tmp_path


def ran(
    folder: Path, line: str, redirections: str = "", environment: Mapping[str, str] | None = None
) -> Ran:
    """In a shell, as an operator has it."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m retentiond {line} {redirections}"],
        cwd=folder,
        env={**kept, "LANG": "C.UTF-8", **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=120,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@MANY_PROCESSES
@pytest.mark.long
@pytest.mark.parametrize("line", COMMANDS)
def test_in_a_plain_locale_every_command_ends_as_elsewhere(folder: Path, line: str) -> None:
    done = ran(folder, line, environment=PLAIN)
    assert "Traceback" not in done.err
    assert done.code == COMMANDS[line].code, done
    assert bool(done.out) == COMMANDS[line].prints, done
    assert done.out or done.err


LOST = "retentiond: the result can't be written to stdout"


@MANY_PROCESSES
@pytest.mark.long
@pytest.mark.parametrize("line", COMMANDS)
def test_a_full_disk_below_the_result_is_told_in_one_sentence(folder: Path, line: str) -> None:
    assert_told(ran(folder, line, ">/dev/full"), line, is_lost=COMMANDS[line].prints)


@MANY_PROCESSES
@pytest.mark.long
@pytest.mark.parametrize("redirections", REDIRECTIONS)
@pytest.mark.parametrize("line", ["--version", "check", "groups --output json", "chek", "resume"])
def test_a_stream_that_takes_nothing_costs_a_sentence_and_no_more(
    folder: Path, line: str, redirections: str
) -> None:
    of = COMMANDS.get(line, Healthy(0, prints=True))
    done = ran(folder, line, redirections)
    is_lost = of.prints and redirections.startswith(">")
    assert_told(done, line, is_lost=is_lost, is_heard="2>" not in redirections)
    if line == "resume":
        assert not (folder / "state" / "paused").exists()


def assert_told(done: Ran, line: str, *, is_lost: bool, is_heard: bool = True) -> None:
    healthy = COMMANDS.get(line, Healthy(0, prints=True)).code
    assert "Traceback" not in done.err
    assert done.code == (healthy or 1 if is_lost else healthy), done
    assert done.err.count(LOST) == (is_lost and is_heard), done


def test_letters_are_shown_by_their_numbers(folder: Path) -> None:
    done = ran(folder, "check", environment={"PYTHONIOENCODING": "ascii"})
    assert "topics matching gr\\xf6\\xdfe-.*: " in done.out
    assert "z\\xfcrich \\u2192 \\u221e must have committed" in done.out


@pytest.mark.parametrize("columns", ["0", "1", "20"])
def test_a_table_has_all_its_columns_however_narrow_a_terminal_is(
    folder: Path, columns: str
) -> None:
    done = ran(folder, "groups", environment={"COLUMNS": columns})
    heading = "GROUP KIND TOPICS WITHOUT COMMIT REMEMBERED VANISHED SINCE"
    assert done.out.splitlines()[0].split() == heading.split()


def test_a_state_file_never_gets_the_descriptor_of_a_closed_stdout(folder: Path) -> None:
    """Else what a child prints, a JVM for one, stands in the audit log."""
    shown = "import os; print([os.readlink(f'/proc/self/fd/{n}') for n in (0, 1, 2)], file=log)"
    script = (
        "from retentiond.cli.output.streams import any_streams\n"
        "with any_streams(), open('log', 'w') as log:\n"
        f"    {shown}\n"
    )
    done = subprocess.run(
        ["sh", "-c", f'{sys.executable} -c "$1" <&- >&- 2>&-', "sh", script],
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0
    assert (folder / "log").read_text() == f"{['/dev/null'] * 3}\n"


def test_a_code_that_says_more_than_done_stays(capsys: pytest.CaptureFixture[str]) -> None:
    assert [settled(code) for code in (0, 1, 2, 3, 130)] == [0, 1, 2, 3, 130]
    assert capsys.readouterr().err == ""
