"""README's shell function for the container, with a docker that runs the command beside it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

DOCKER = """#!{python}
import json, os, subprocess, sys

arguments = sys.argv[1:]
with open({log!r}, "w") as log:
    json.dump({{"arguments": arguments}}, log)
environment = dict(os.environ)
environment.pop("RETENTIOND_CONFIG", None)
environment["RETENTIOND_REQUIRE_YES"] = "1"
assert arguments.pop(0) == "run"
workdir = "/"
while arguments[0].startswith("-"):
    option = arguments.pop(0)
    if option in ("--rm", "-it"):
        continue
    value = arguments.pop(0)
    if option == "--workdir":
        workdir = value
    if option == "--env":
        name, _, text = value.partition("=")
        environment[name] = text
assert arguments.pop(0) == "retentiond"
environment["HOME"] = {home!r}
command = [{retentiond!r}, *arguments]
sys.exit(subprocess.run(command, cwd=workdir, env=environment).returncode)
"""


def function() -> str:
    (found,) = re.findall(
        r"^    (retentiond\(\) \{$.*?^    \})$",
        (ROOT / "README.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    return str(found)


class Shell:
    """Somebody's shell with the function, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work here"
        self.log = folder / "docker.json"
        bin_folder = folder / "bin"
        for each in (self.folder, bin_folder):
            each.mkdir()
        docker = bin_folder / "docker"
        docker.write_text(
            DOCKER.format(
                python=sys.executable,
                log=str(self.log),
                home=str(folder),
                retentiond=str(Path(sys.executable).with_name("retentiond")),
            )
        )
        docker.chmod(0o755)
        self._environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}

    def _script(self, command: str) -> list[str]:
        return ["bash", "-c", f"{function()}\n{command}"]

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._script(command),
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def options(self) -> list[str]:
        """What docker was told."""
        text = self.log.read_text()
        return list(re.findall(r'"([^"]*)"', text))


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_relative_files_are_those_of_the_working_directory(shell: Shell) -> None:
    done = shell.run("retentiond check --example > retentiond.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    done = shell.run("retentiond check --no-secrets")
    assert (done.returncode, done.stderr) == (0, "")
    assert "retentiond.yaml is valid." in done.stdout
    done = shell.run("retentiond check --no-secrets --against retentiond.yaml")
    assert (done.returncode, done.stdout) == (0, "Nothing changes.\n")
    options = shell.options()
    assert f"{shell.folder}:{shell.folder}" in options
    assert f"{os.getuid()}:0" in options, "group 0 may write the state, and files belong to you"


def test_without_a_terminal_a_file_of_offsets_deletes_nothing_unasked(shell: Shell) -> None:
    (shell.folder / "o.json").write_text(
        '{"partitions": [{"topic": "orders", "partition": 0, "offset": 1}]}'
    )
    command = "retentiond delete-records --bootstrap-server localhost:1 --offset-json-file o.json"
    done = shell.run(command)
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no terminal to ask on" in done.stderr
    assert shlex.split(command)[1:] == shell.options()[-5:]
