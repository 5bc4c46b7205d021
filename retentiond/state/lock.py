"""One daemon for each state directory.

Invariant: two processes never work on the same state. The lock is the kernel's (flock), so it
ends with the process, however that ends, and no stale lock needs to be cleared by hand. The
file's text only names the holder. It is never removed: a removed name could be locked twice.
"""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path
from types import TracebackType
from typing import Self

from retentiond.errors import StateError

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
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)

    def release(self) -> None:
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None

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
        raise StateError(
            f"state_dir {state_dir} can't be written to ({exc.strerror}); make it a directory "
            "that retentiond's user may write to, or choose another state_dir"
        ) from exc


def _holder(fd: int) -> str:
    words = os.pread(fd, 1024, 0).decode(errors="replace").split()
    if len(words) != 2:  # it has locked the file and not yet written its name
        return "another retentiond"
    pid, host = words
    return f"retentiond with pid {pid} on {host}"
