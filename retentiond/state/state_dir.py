"""The files of ``state_dir``: how they are opened and written, and how one daemon at a time locks
them.

Invariant: two processes never work on the same state. The lock is the kernel's (flock): it ends
with the process, however that ends, so nobody has to remove a stale lock. The text of the lock file
only names the holder. The file is never removed: a removed name could be locked twice.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import pwd
import socket
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from retentiond.errors import StateError

BUSY_MS = 5000  # how long to wait while another process writes to a database


def open_regular(path: str | Path, flags: int, mode: int = 0o666) -> int:
    """Opens a file for `open`, whose ``opener`` this is. It never waits, as for the other end of a
    pipe. Raises `OSError`, also for a pipe, a device, a socket or a folder."""
    fd = os.open(path, flags | os.O_NONBLOCK, mode)
    kind = stat.S_IFMT(os.fstat(fd).st_mode)
    if kind == stat.S_IFREG:
        return fd
    os.close(fd)
    if kind == stat.S_IFDIR:
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(errno.EINVAL, f"{Path(path).name} is no regular file")


def is_there(path: Path) -> bool:
    """Raises `OSError` if that can't be known, as of a file in another user's folder. What
    `Path.exists` does then depends on Python's version."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def read_regular(path: Path) -> bytes:
    """Raises `OSError`, see `open_regular`."""
    with open(path, "rb", opener=open_regular) as file:
        return file.read()


class DatabaseFiles:
    """The files of an open database, its write-ahead log included. If one is removed or replaced,
    everything that is written to it is lost when the process ends."""

    def __init__(self, connection: sqlite3.Connection, path: Path, *beside: Path) -> None:
        """``beside``: other files to watch, if they exist. Raises `OSError` and `sqlite3.Error`."""
        connection.execute("PRAGMA user_version").fetchall()  # opens the write-ahead log
        watched = (*_parts(path), *beside)
        self._identities = {file: _identity(file) for file in watched if file.exists()}

    def lost(self) -> Path | None:
        """A file that was removed or replaced since it was opened, or None."""
        for file, identity in self._identities.items():
            try:
                if _identity(file) != identity:
                    return file
            except OSError:
                return file
        return None


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


NOT_SUPPORTED = frozenset(
    (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL)
)
"""What a file system answers that can't do a thing at all."""


@contextmanager
def needed(feature: str, folder: Path) -> Iterator[None]:
    """Raises `StateError` if the folder's file system can't do what the block does."""
    try:
        yield
    except OSError as error:
        if error.errno not in NOT_SUPPORTED:
            raise
        raise lacking(feature, folder, error.strerror) from error


def lacking(feature: str, folder: Path, why: object) -> StateError:
    return StateError(
        f"state_dir {folder} can't be used: its file system has no {feature} ({why}); choose a "
        "state_dir on a local disk, or on a file system with hard links, locks, shared memory and "
        "fsync"
    )


WAL = "shared memory or locks for SQLite's write-ahead log"

_WITHOUT_WAL = {
    *("SQLITE_PROTOCOL", "SQLITE_IOERR_LOCK", "SQLITE_IOERR_RDLOCK"),
    *("SQLITE_IOERR_SHMOPEN", "SQLITE_IOERR_SHMMAP", "SQLITE_IOERR_SHMLOCK"),
}


def say_remedy(error: Exception, path: Path) -> str:
    """What to do about an error of the database ``path``."""
    if getattr(error, "sqlite_errorname", None) in _WITHOUT_WAL:
        return f"choose a state_dir on a file system with {WAL}"
    return say_denied(path) or "check free space and write permission in state_dir"


def say_denied(path: Path) -> str | None:
    """Which file of a database this user may not use, whose it is, and what to do. None if this
    user may use them all. SQLite itself says only that it can't open the file."""
    if not os.path.isdir(path.parent):  # it raises nothing
        return None
    for part in (path.parent, *_parts(path)):
        access = os.R_OK | os.W_OK | (os.X_OK if part == path.parent else 0)
        with suppress(OSError):
            status = part.stat()
            if os.access(part, access, effective_ids=True):
                continue
            if os.statvfs(part).f_flag & os.ST_RDONLY:
                return f"{part} is on a file system that is mounted read-only; mount it for writing"
            owner, user = _user_name(status.st_uid), _user_name(os.geteuid())
            if owner == user:
                return (
                    f"{part} may not be read or written by its own user; run `chmod u+rwX {part}`"
                )
            chown = f"chown {user}" if part != path.parent else f"chown -R {user}"
            return (
                f"{part} belongs to user {owner}, and retentiond runs as {user}; run it as "
                f"{owner}, or let it own that (`{chown} {part}`)"
            )
    return None


def _user_name(uid: int) -> str:
    """The number of a user without a name, as in a container."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _parts(path: Path) -> tuple[Path, ...]:
    """A database's file, and those of its write-ahead log."""
    return (path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm")))


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """The file must exist. Raises `sqlite3.Error`."""
    for part in _parts(path):
        # SQLite would wait for a pipe's other end. `os.path` raises nothing.
        if os.path.exists(part) and not os.path.isfile(part):
            raise sqlite3.OperationalError(f"{part} is no regular file")
    uri = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}"
    connection = sqlite3.connect(
        uri, uri=True, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def version_of(connection: sqlite3.Connection) -> int:
    """0 if the database has no schema."""
    ((version,),) = connection.execute("PRAGMA user_version").fetchall()
    return int(version)


@contextmanager
def created(path: Path, schema: str, version: int) -> Iterator[sqlite3.Connection]:
    """Creates a database that only its owner may read. The block may fill it.

    It is built under another name, and gets its own name after the block, as a whole. If another
    process has created a file of that name meanwhile, that file stays, and this one is dropped.
    Raises `OSError` and `sqlite3.Error`.
    """
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.new")
    unfinished.unlink(missing_ok=True)
    os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        connection = sqlite3.connect(unfinished, isolation_level=None)
        try:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # needs an empty database
            ((mode,),) = connection.execute("PRAGMA journal_mode = WAL").fetchall()
            if mode != "wal":  # SQLite says no more than that
                raise lacking(WAL, path.parent, f"its journal is {mode}")
            connection.execute("PRAGMA synchronous = FULL")
            connection.executescript(f"BEGIN; {schema} PRAGMA user_version = {version}; COMMIT;")
            yield connection
        finally:
            connection.close()
        with suppress(FileExistsError), needed("hard links", path.parent):
            os.link(unfinished, path)
    finally:
        unfinished.unlink()
    sync(path.parent)


def usable_bytes(state_dir: Path) -> float:
    """NaN if it is not known."""
    try:
        space = os.statvfs(state_dir)
    except OSError:
        return math.nan
    return float(space.f_bavail * space.f_frsize)


def atomic_write(path: Path, content: bytes, consequence: str) -> None:
    """Replaces the file as a whole, on disk. Creates the directory (mode 0700) if there is none.
    Raises `StateError`, whose sentence ends with the ``consequence``."""
    unfinished = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(unfinished, "wb", opener=open_regular) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        sync(path.parent)
    except OSError as error:
        why = say_denied(path) or error.strerror
        raise StateError(f"{path} can't be written ({why}){consequence}") from error


def sync(directory: Path) -> None:
    """Writes to disk which files were created, renamed and removed in a directory. Raises
    OSError and `StateError`."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with needed("fsync of folders", directory):
            os.fsync(fd)
    finally:
        os.close(fd)


LOCK_NAME = "lock"


@contextmanager
def state_lock(state_dir: Path) -> Iterator[None]:
    """Holds ``state_dir`` for the block. Creates the directory (mode 0700) if there is none. Raises
    `StateError` if another process holds it, or if it can't be created or written to."""
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Not inheritable (PEP 446): a JVM that outlives the daemon holds nothing.
        fd = open_regular(state_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as exc:
        raise not_writable(state_dir, exc) from exc
    try:
        _lock(fd, state_dir)
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
        except OSError as exc:
            raise not_writable(state_dir, exc) from exc
        try:
            yield
        finally:
            with suppress(OSError):  # information only: the lock itself ends with the descriptor
                os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def holder_of(state_dir: Path) -> str | None:
    """The process that holds the directory now; None if none does, as far as this user can see, or
    if the file system has no locks.

    It tries the lock itself, shared and for a moment, because the file's text outlives a killed
    holder.
    """
    try:
        fd = open_regular(state_dir / LOCK_NAME, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(fd)
    except OSError:
        return None
    finally:
        os.close(fd)
    return None


def _lock(fd: int, state_dir: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StateError(
            f"{state_dir} is already in use by {_holder(fd)}; stop it or choose another state_dir"
        ) from None
    except OSError as exc:
        raise StateError(
            f"{state_dir} can't be locked ({exc.strerror}); "
            "choose a state_dir on a file system with file locks"
        ) from exc


def not_writable(state_dir: Path, error: OSError) -> StateError:
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
    if len(words) != 2:  # the holder has not yet written its name
        return "another retentiond"
    pid, host = words
    return f"retentiond with pid {pid} on {host}"
