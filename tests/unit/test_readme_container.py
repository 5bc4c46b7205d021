"""README's shell function for the container, with a docker that tells what it was asked to do."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def function() -> str:
    (found,) = re.findall(
        r"^    (retentiond\(\) \{$.*?^    \})$", README.read_text(), re.MULTILINE | re.DOTALL
    )
    return str(found)


@pytest.mark.parametrize(
    "arguments",
    [["check", "--example"], ["delete-records", "--offset-json-file", "my o.json"]],
)
def test_the_container_works_in_the_working_directory_as_its_user(
    arguments: list[str], tmp_path: Path
) -> None:
    """Relative files are those of the user, whom the files belong to; group 0 may write the state.
    Without a terminal docker gives none, and nothing is deleted unasked."""
    (folder := tmp_path / "work here").mkdir()
    (docker := tmp_path / "docker").write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    docker.chmod(0o755)
    told = subprocess.run(
        ["bash", "-c", f'{function()}\nretentiond "$@"', "bash", *arguments],
        cwd=folder,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert told[0] == "run"
    assert told[-len(arguments) - 1 :] == ["retentiond", *arguments]
    assert f"{folder}:{folder}" in told
    assert told[told.index("--workdir") + 1] == str(folder)
    assert "RETENTIOND_CONFIG=retentiond.yaml" in told
    assert f"{os.getuid()}:0" in told
    assert not {"-it", "-t", "--tty"} & {*told}
