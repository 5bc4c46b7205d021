"""The files of ``state_dir``: how they are opened and written, and that one daemon at a time has
them.

Invariant: two processes never work on the same state. The lock is the kernel's (flock), so it
ends with the process, however that ends, and no stale lock needs to be cleared by hand. The
file's text only names the holder. It is never removed: a removed name could be locked twice.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import os
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from retentiond.errors import StateError

BUSY_MS = 5000
"""How long a database is waited for that another process is just working on."""


class DatabaseFiles:
    """Which files an open database is written to, its log among them. What is written to one that
    was removed or replaced is gone with the process."""

    def __init__(self, connection: sqlite3.Connection, path: Path, *beside: Path) -> None:
        """``beside``: files that matter as much, where they are there. Raises `OSError` and
        `sqlite3.Error`."""
        connection.execute("PRAGMA user_version").fetchall()  # opens the log
        parts = (path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm")))
        self._files = {name: _identity(name) for name in (*parts, *beside) if name.exists()}

    def lost(self) -> Path | None:
        """One of them that is not there any more, or another one; None: all are as they were."""
        for name, known in self._files.items():
            try:
                if _identity(name) != known:
                    return name
            except OSError:
                return name
        return None


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Connects to a file that exists. Raises `sqlite3.Error`."""
    uri = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}"
    connection = sqlite3.connect(
        uri, uri=True, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def version_of(connection: sqlite3.Connection) -> int:
    """The schema's; 0 where there is none."""
    ((version,),) = connection.execute("PRAGMA user_version").fetchall()
    return int(version)


@contextmanager
def created(path: Path, schema: str, version: int) -> Iterator[sqlite3.Connection]:
    """A new file, to be filled in the block, for its owner's eyes only.

    It is built beside its place and appears there as a whole and after the block. A file that
    another process has put there meanwhile stays, and this one is dropped. Raises `OSError` and
    `sqlite3.Error`.
    """
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.new")
    unfinished.unlink(missing_ok=True)
    os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        connection = sqlite3.connect(unfinished, isolation_level=None)
        try:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # before there is anything in it
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.executescript(f"BEGIN; {schema} PRAGMA user_version = {version}; COMMIT;")
            yield connection
        finally:
            connection.close()
        with contextlib.suppress(FileExistsError):
            os.link(unfinished, path)
    finally:
        unfinished.unlink()
    sync(path.parent)


def usable_bytes(state_dir: Path) -> float:
    """What may still be written on its disk; NaN where that can't be told."""
    try:
        space = os.statvfs(state_dir)
    except OSError:
        return math.nan
    return float(space.f_bavail * space.f_frsize)


def write_json(path: Path, document: object, consequence: str) -> None:
    """Makes the directory (mode 0700) if there is none. Raises `StateError`, whose sentence ends
    with the ``consequence``."""
    unfinished = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with unfinished.open("w", encoding="utf-8") as file:
            json.dump(document, file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        sync(path.parent)
    except OSError as error:
        raise StateError(f"{path} can't be written ({error.strerror}){consequence}") from error


def remove(path: Path, consequence: str) -> None:
    """Whether it is there or not. Raises as `write_json`."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StateError(f"{path} can't be removed ({error.strerror}){consequence}") from error


def sync(directory: Path) -> None:
    """What was made, renamed or removed in it is so on disk. Raises OSError."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


LOCK_NAME = "lock"


class StateLock:
    """Holds ``state_dir`` while entered; makes the directory (mode 0700) if there is none.

    ``acquire`` raises `StateError` when another process holds it, or when the directory can't
    be made or written to.
    """

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._fd: int | None = None

    def acquire(self) -> None:
        fd = _open(self._state_dir)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(fd)
            os.close(fd)
            raise StateError(
                f"{self._state_dir} is already in use by {holder}; "
                "stop it or choose another state_dir"
            ) from None
        except OSError as exc:
            os.close(fd)
            raise StateError(
                f"{self._state_dir} can't be locked ({exc.strerror}); "
                "choose a state_dir on a file system with file locks"
            ) from exc
        # Not inheritable (PEP 446): a JVM that outlives the daemon doesn't keep the lock.
        self._fd = fd
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
        except OSError as exc:
            with contextlib.suppress(OSError):
                self.release()
            raise _not_writable(self._state_dir, exc) from exc

    def release(self) -> None:
        if self._fd is not None:
            fd, self._fd = self._fd, None
            try:
                os.ftruncate(fd, 0)
            finally:
                os.close(fd)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


def holder_of(state_dir: Path) -> str | None:
    """Who holds that directory now; None: nobody, as far as this user can see.

    The lock itself is tried, for a moment and shared: the file's text outlives a killed holder.
    """
    try:
        fd = os.open(state_dir / LOCK_NAME, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _holder(fd)
    finally:
        os.close(fd)
    return None


def _open(state_dir: Path) -> int:
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(state_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as exc:
        raise _not_writable(state_dir, exc) from exc


def _not_writable(state_dir: Path, error: OSError) -> StateError:
    remedy = (
        "free space on its disk"
        if error.errno in (errno.ENOSPC, errno.EDQUOT)
        else "make it a directory that retentiond's user may write to"
    )
    return StateError(
        f"state_dir {state_dir} can't be written to ({error.strerror}); {remedy}, or choose "
        "another state_dir"
    )


def _holder(fd: int) -> str:
    words = os.pread(fd, 1024, 0).decode(errors="replace").split()
    if len(words) != 2:  # it has locked the file and not yet written its name
        return "another retentiond"
    pid, host = words
    return f"retentiond with pid {pid} on {host}"
