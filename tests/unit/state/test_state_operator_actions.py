"""The pause as a file: whatever is there pauses, and only its absence does not."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from retentiond.errors import StateError
from retentiond.state.operator_actions import (
    NO_REASON,
    PAUSE_NAME,
    Pause,
    read_pause,
    remove_pause,
    write_pause,
)
from tests.support.processes import run_python

FULL = Pause("why", "2026-01-01T00:00:00Z", "ada")


@pytest.mark.parametrize("pause", [FULL, Pause("why"), Pause("why", by="ada")])
def test_a_pause_comes_back_as_it_was_written(tmp_path: Path, pause: Pause) -> None:
    write_pause(tmp_path, pause)
    assert read_pause(tmp_path) == pause


def test_without_the_file_or_the_directory_nothing_is_paused(tmp_path: Path) -> None:
    assert read_pause(tmp_path) is None
    assert read_pause(tmp_path / "nowhere") is None
    (tmp_path / "file").touch()
    assert read_pause(tmp_path / "file") is None


def test_it_says_in_words_since_when_and_by_whom() -> None:
    assert str(FULL) == "paused since 2026-01-01T00:00:00Z by ada: why"
    assert str(Pause("why")) == "paused: why"


def test_what_somebody_gave_as_a_reason_moves_no_terminal() -> None:
    assert str(Pause("a\x1b[2J b\n\nc", by="\x07ada")) == "paused by \ufffdada: a\ufffd[2J b c"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", NO_REASON),
        (b" \n", NO_REASON),
        (b"upgrade of broker 3\n", "upgrade of broker 3"),
        (b"two\nlines", "two lines"),
        (b"17", "17"),
        (b"null", "null"),
        (b'"text"', '"text"'),
        (b"[]", "[]"),
        (b'{"reason": "why"}', '{"reason": "why"}'),
        (b'{"reason": "", "since": null, "by": null}', NO_REASON),
        (b'{"reason": 5, "since": null, "by": null}', "5"),
        (b"Z\xfcrich", "Z\ufffdrich"),
        (b"[" * 100_000, "[" * 100_000),
    ],
)
def test_a_file_that_was_written_by_hand_pauses(tmp_path: Path, text: bytes, reason: str) -> None:
    (tmp_path / PAUSE_NAME).write_bytes(text)
    assert read_pause(tmp_path) == Pause(reason)


def test_a_folder_in_its_place_pauses(tmp_path: Path) -> None:
    (tmp_path / PAUSE_NAME).mkdir()
    assert read_pause(tmp_path) == Pause(f"{tmp_path / PAUSE_NAME} can't be read (Is a directory)")


@pytest.mark.parametrize("target", ["nowhere", PAUSE_NAME])
def test_a_link_to_nowhere_pauses(tmp_path: Path, target: str) -> None:
    (tmp_path / PAUSE_NAME).symlink_to(tmp_path / target)
    assert "can't be read" in str(read_pause(tmp_path))


def test_a_file_that_may_not_be_read_pauses(tmp_path: Path) -> None:
    """As another user: root may read everything."""
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from retentiond.state.operator_actions import read_pause\n"
        "directory = os.open(sys.argv[1], os.O_RDONLY)\n"
        "os.chdir(directory)\n"
        "if os.getuid() == 0:\n"
        "    os.setuid(65534)\n"
        "print(read_pause(Path('.')))\n"
    )
    tmp_path.chmod(0o755)
    write_pause(tmp_path, FULL)
    (tmp_path / PAUSE_NAME).chmod(0)
    assert run_python(program, tmp_path).stdout == (
        "paused: paused can't be read (Permission denied)\n"
    )


def test_resuming_removes_the_file_and_may_be_done_twice(tmp_path: Path) -> None:
    write_pause(tmp_path, FULL)
    remove_pause(tmp_path)
    remove_pause(tmp_path)
    assert read_pause(tmp_path) is None
    assert os.listdir(tmp_path) == []


def test_a_folder_in_its_place_is_not_removed_and_stays_paused(tmp_path: Path) -> None:
    (tmp_path / PAUSE_NAME).mkdir()
    with pytest.raises(StateError, match=r"can't be removed \(.*\), so it stays paused"):
        remove_pause(tmp_path)
    assert read_pause(tmp_path) is not None


def test_a_directory_that_is_made_for_it_is_for_its_owner_alone(tmp_path: Path) -> None:
    write_pause(tmp_path / "var" / "state", FULL)
    assert stat.S_IMODE((tmp_path / "var" / "state").stat().st_mode) == 0o700
