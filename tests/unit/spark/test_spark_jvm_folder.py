"""The JVM's folder: whose it is, and what becomes of it when its process is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from retentiond.spark.environment import PREFIX, SUFFIX, JvmFolder


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "tmp"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    return made


HOLD = (
    "from retentiond.spark.environment import JvmFolder; print(JvmFolder().path, flush=True); "
    "input()"
)


def test_a_killed_processs_folder_goes_and_a_living_ones_stays(temporary: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    assert process.stdout
    theirs = Path(process.stdout.readline().strip())
    (theirs / "blocks").mkdir()
    first = JvmFolder()
    assert theirs.is_dir()
    process.kill()
    process.communicate()
    second = JvmFolder()
    assert not theirs.exists()
    assert first.path.is_dir()
    first.remove()
    second.remove()
    assert list(temporary.iterdir()) == []


def test_nothing_goes_that_is_not_certainly_ours(temporary: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(0o700)
    (elsewhere / "file").touch()
    (temporary / f"{PREFIX}link{SUFFIX}").symlink_to(elsewhere)
    (temporary / f"{PREFIX}file{SUFFIX}").touch()
    (temporary / f"{PREFIX}open{SUFFIX}").mkdir(0o755)
    (temporary / f"{PREFIX}older").mkdir(0o700)
    before = set(temporary.iterdir())
    JvmFolder().remove()
    assert set(temporary.iterdir()) == before
    assert (elsewhere / "file").exists()


def test_a_removed_tmpdir_is_made_again(temporary: Path) -> None:
    temporary.rmdir()
    folder = JvmFolder()
    assert folder.path.parent == temporary
    folder.remove()


def test_another_tmpdir_is_chosen_where_it_cant_be_made_again(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary.rmdir()
    temporary.touch()
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setenv("TMPDIR", str(other))
    folder = JvmFolder()
    assert folder.path.parent == other
    folder.remove()
