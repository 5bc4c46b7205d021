"""A configuration and the one that it is to replace, as ``check --against`` compares them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.unit.config.files import written

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Command

KAFKA = "kafka: {bootstrap.servers: localhost:9092}\n"

ENABLED = "retention.commitoffset.enable: true"

HOURS = "retention.commitoffset.hours"

Changes = list[dict[str, Any]]


class Files:
    """A configuration and the one that it is to replace."""

    def __init__(self, folder: Path, command: Command) -> None:
        self._folder, self._command = folder, command

    def write(self, name: str, text: str, **teams: str) -> Path:
        path = written(self._folder / name, "", **teams)
        path.write_text(text)
        return path

    def changes(self, old: str, new: str, *options: str) -> Changes:
        """From a file with these topics to one with those."""
        before = self.write("old", f"{KAFKA}topics: [{old}]\n")
        after = self.write("new", f"{KAFKA}topics: [{new}]\n")
        return self.found(before, after, *options)

    def found(self, before: Path, after: Path, *options: str) -> Changes:
        done = self._command(
            "check", "--config", after, "--against", before, "--output", "json", *options
        )
        assert (done.code, done.err) == (0, "")
        found: Changes = json.loads(done.out)["changes"]
        return found


def told(changes: Changes) -> list[tuple[Any, ...]]:
    return [(each["setting"], each["before"], each["after"], each["effect"]) for each in changes]
