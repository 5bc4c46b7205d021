"""The state lock: one holder, named in the refusal, and gone with its process."""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from retentiond.errors import StateError
from retentiond.state.state_dir import state_lock
from tests.support.processes import ROOT, run_python


@contextmanager
def holder(state_dir: Path, then: str = "print('held')") -> Iterator[tuple[int, str]]:
    """A process that holds the lock: its pid, and the line that it printed ``then``.

    It is killed (SIGKILL) in the end.
    """
    program = textwrap.dedent(
        f"""
        import subprocess, sys
        from pathlib import Path
        from retentiond.state.state_dir import state_lock

        with state_lock(Path(sys.argv[1])):
            {then}
            sys.stdout.flush()
            sys.stdin.read()
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(state_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.pid, process.stdout.readline().strip()
        finally:
            process.kill()
            process.wait()


def take(state_dir: Path) -> None:
    """Takes the lock, and lets it go."""
    with state_lock(state_dir):
        pass


def test_a_second_daemon_is_refused_with_the_first_ones_pid_and_host(tmp_path: Path) -> None:
    with holder(tmp_path) as (pid, _), pytest.raises(StateError) as refused:
        take(tmp_path)

    assert str(refused.value) == (
        f"{tmp_path} is already in use by retentiond with pid {pid} on "
        f"{socket.gethostname()}; stop it or choose another state_dir"
    )


def test_the_lock_ends_when_its_process_is_killed(tmp_path: Path) -> None:
    with holder(tmp_path) as (_, printed):
        assert printed == "held"

    take(tmp_path)


def test_a_child_that_outlives_its_daemon_does_not_keep_the_lock(tmp_path: Path) -> None:
    # With pipes of its own, so that nothing here waits for its end.
    spawn = "print(subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL).pid)"
    with holder(tmp_path, spawn) as (_, printed):
        child = int(printed)

    try:
        os.kill(child, 0)  # it lives
        with state_lock(tmp_path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)


def test_the_lock_can_be_taken_again_after_it_was_released(tmp_path: Path) -> None:
    take(tmp_path)
    with state_lock(tmp_path):
        text = (tmp_path / "lock").read_text()

    assert text == f"{os.getpid()} {socket.gethostname()}\n"
    assert (tmp_path / "lock").read_text() == ""


def test_two_locks_in_one_process_exclude_each_other(tmp_path: Path) -> None:
    with state_lock(tmp_path), pytest.raises(StateError, match="is already in use by"):
        take(tmp_path)


def test_the_lock_is_released_when_the_work_raises(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), state_lock(tmp_path):
        raise RuntimeError

    take(tmp_path)


def test_a_holder_that_has_not_written_its_name_yet_is_called_another_retentiond(
    tmp_path: Path,
) -> None:
    with state_lock(tmp_path):
        (tmp_path / "lock").write_text("")

        with pytest.raises(StateError, match="is already in use by another retentiond; stop it"):
            take(tmp_path)


def test_a_missing_state_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    state_dir = tmp_path / "var" / "retentiond"

    with state_lock(state_dir):
        assert stat.S_IMODE(state_dir.stat().st_mode) == 0o700


def test_an_existing_state_directory_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)

    with state_lock(tmp_path):
        assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o750


def test_a_file_in_the_place_of_the_state_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")

    with pytest.raises(StateError, match=r"can't be written to \(.*\); make it a directory"):
        take(tmp_path / "state")


def test_a_state_directory_that_may_not_be_written_to_is_an_error() -> None:
    """As another user: root may write everywhere."""
    program = """
    import os, sys
    from pathlib import Path
    from retentiond.errors import StateError
    from retentiond.state.state_dir import state_lock

    if os.getuid() == 0:
        os.setuid(65534)
    try:
        with state_lock(Path(sys.argv[1])):
            pass
    except StateError as error:
        print(error)
    """
    with TemporaryDirectory() as state_dir:
        Path(state_dir).chmod(0o555)
        result = run_python(program, state_dir)

    assert re.fullmatch(
        re.escape(f"state_dir {state_dir} can't be written to (Permission denied); ")
        + "make it a directory that retentiond's user may write to, or choose another state_dir\n",
        result.stdout,
    )


def test_a_file_system_without_locks_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(fd: int, operation: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)

    with pytest.raises(StateError, match=r"can't be locked \(No locks available\)"):
        take(tmp_path)


def test_a_full_disk_is_a_sentence_and_leaves_the_directory_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StateError, match=r"\(No space left on device\); free space on its disk"):
        take(tmp_path)
    monkeypatch.undo()

    take(tmp_path)


def test_a_disk_that_has_become_read_only_does_not_keep_it_from_being_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*_: int) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with state_lock(tmp_path):
        monkeypatch.setattr(os, "ftruncate", read_only)
    monkeypatch.undo()
    with state_lock(tmp_path):
        pass
