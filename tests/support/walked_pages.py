"""Pages of docs/ as somebody follows them: files to write, and commands with what they print."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.command_here import run_here

DOCS = Path(__file__).resolve().parents[2] / "docs"

BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)

ANYTHING = "…"
"""What stands in a page for what is different each time; on a line of its own, for lines."""


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a ``console`` block, and the lines that the page shows below it."""

    command: str
    shown: tuple[str, ...]


def titled_blocks(page: str) -> dict[str, str]:
    """The text of each block that has a title, by its title."""
    found = BLOCK.findall((DOCS / page).read_text())
    return {title: text for _, title, text in found if title}


def steps(page: str) -> Iterator[Step]:
    for language, _, text in BLOCK.findall((DOCS / page).read_text()):
        if language == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                yield Step(command, tuple(shown.splitlines()))


def is_shown(shown: str, line: str) -> bool:
    """Whether a line is one that the page shows. The width of spaces does not count."""
    parts = map(re.escape, " ".join(shown.split()).split(ANYTHING))
    return re.fullmatch(".*".join(parts), " ".join(line.split())) is not None


def missing(shown: tuple[str, ...], printed: str) -> list[str]:
    """Those lines of the page that were not printed, in its order."""
    lines = iter(printed.splitlines())
    return [
        each for each in shown if each != ANYTHING and not any(is_shown(each, at) for at in lines)
    ]


def take(step: Step, command: str, folder: Path) -> None:
    """Runs a page's command, as it is called here, and checks that it does and shows what the page
    says. What begins with a plain ``retentiond …`` begins in this process, but for the doctor, who
    tries a Spark of its own."""
    first, _, then = command.partition(" && ")
    printed = ""
    if re.fullmatch(r"retentiond (?!doctor)[^|;<>$]+", first):
        here = run_here(*shlex.split(first)[1:], cwd=folder)
        assert here.code == 0, (command, here)
        printed, command = here.out, then
    printed += in_a_shell(command, folder)
    assert missing(step.shown, printed) == [], (step.command, printed)


def in_a_shell(command: str, folder: Path) -> str:
    """What it prints."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout
