"""The JVM's folder for temporary files, and what became of those whose process was killed.

The process holds the kernel's lock on its folder until it ends, whatever its end. So a folder that
can be locked belongs to nobody any more. A folder gets its name only when it is locked; a lock also
keeps systemd from tidying it away.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path

PREFIX, SUFFIX = "retentiond-spark-", ".locked"
"""Folders of other programs, and of a retentiond that locked none, have other names."""

NEW_FOLDER_PREFIX = "retentiond-new-"


class JvmFolder:
    """A new one, after those of dead processes are gone. Raises OSError."""

    def __init__(self) -> None:
        parent = _parent()
        _remove_abandoned(parent)
        made = Path(tempfile.mkdtemp(prefix=NEW_FOLDER_PREFIX, dir=parent))
        self.path = parent / f"{PREFIX}{made.name.removeprefix(NEW_FOLDER_PREFIX)}{SUFFIX}"
        self._lock: int | None = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with contextlib.suppress(OSError):  # a file system without locks: none is tidied there
                fcntl.flock(self._lock, fcntl.LOCK_EX)
            made.rename(self.path)
        except BaseException:
            self.remove()
            shutil.rmtree(made, ignore_errors=True)
            raise

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def _parent() -> Path:
    """Python's folder for temporary files. It may be gone since it was chosen: then it is made
    again, or another one is chosen."""
    chosen = Path(tempfile.gettempdir())
    if not chosen.is_dir():
        with contextlib.suppress(OSError):
            chosen.mkdir(0o700, parents=True)
            return chosen
        tempfile.tempdir = None
        chosen = Path(tempfile.gettempdir())
    return chosen


def _remove_abandoned(parent: Path) -> None:
    with contextlib.suppress(OSError):
        for found in parent.glob(f"{PREFIX}*{SUFFIX}"):
            with contextlib.suppress(OSError):  # another process was quicker
                folder = os.open(found, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    status = os.fstat(folder)
                    is_own = status.st_uid == os.geteuid()
                    if is_own and stat.S_IMODE(status.st_mode) == 0o700:
                        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        shutil.rmtree(found, ignore_errors=True)
                finally:
                    os.close(folder)
