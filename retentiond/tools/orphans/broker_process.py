"""To which broker log directories belong, and which of their files it has open.

Paths can't tell which files are open: in a container, the broker may see its directories under
other names. So the broker's process must be visible and readable. It is the process that holds
Kafka's lock on the log directory.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from retentiond.errors import UsageError
from retentiond.fields import NUMBER, TEXT, described, said
from retentiond.kafka.settings import java_properties

META_PROPERTIES = "meta.properties"

_CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]+")

BROKER_KEYS = ("node.id", "broker.id")
"""The id's name in KRaft, and its name before."""


@described
class BrokerLogDirs:
    """Log directories of one broker, perhaps not all of them. ``log_dirs`` are real paths."""

    broker: int = said(NUMBER, "the broker's id")
    cluster_id: str = said(TEXT, "the cluster's id")
    log_dirs: tuple[Path, ...]


def identify(given: Sequence[Path]) -> BrokerLogDirs:
    """The broker of these directories. Raises `UsageError` unless all of them exist and belong to
    one broker."""
    log_dirs = _resolve(given)
    owners = {log_dir: _owner(log_dir) for log_dir in log_dirs}
    (broker, cluster_id) = owners[log_dirs[0]]
    for log_dir, owner in owners.items():
        if owner != (broker, cluster_id):
            raise UsageError(
                f"{log_dirs[0]} is broker {broker}'s of cluster {cluster_id}, and {log_dir} "
                f"broker {owner[0]}'s of {owner[1]}; run the command once for each broker"
            )
    return BrokerLogDirs(broker, cluster_id, log_dirs)


def _resolve(log_dirs: Iterable[Path]) -> tuple[Path, ...]:
    """The directories' real paths, without duplicates: a log directory may be a symbolic link.

    Raises `UsageError` for a path that is no directory.
    """
    resolved: dict[Path, None] = {}
    for log_dir in log_dirs:
        try:
            real = log_dir.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise UsageError(f"--log-dir {log_dir} is not there; name one of log.dirs") from error
        if not real.is_dir():
            raise UsageError(f"--log-dir {log_dir} is no directory; name one of log.dirs")
        resolved[real] = None
    return tuple(resolved)


def _owner(log_dir: Path) -> tuple[int, str]:
    """The ids of the directory's broker and cluster."""
    path = log_dir / META_PROPERTIES
    try:
        properties = java_properties.read(path)
    except FileNotFoundError as error:
        raise UsageError(
            f"{path} is not there, so {log_dir} is no log directory of a broker; "
            "name one of log.dirs"
        ) from error
    except OSError as error:
        raise UsageError(f"{path} can't be read ({error.strerror}); run as Kafka's user") from error
    except ValueError as error:
        raise UsageError(f"{path} can't be read ({error}); is it a broker's?") from error
    broker = next((properties[key] for key in BROKER_KEYS if key in properties), "")
    cluster_id = properties.get("cluster.id", "")
    if not (broker.isascii() and broker.isdecimal() and _CLUSTER_ID.fullmatch(cluster_id)):
        raise UsageError(f"{path} lacks the broker's id or the cluster's; is it a broker's?")
    return int(broker), cluster_id


PROC = Path("/proc")

LOCK_FILE = ".lock"
"""The file in a log directory that a running broker locks."""

_FLOCK = struct.Struct("@hhqqi4x")
"""Linux's ``struct flock``: type, whence, start, length, pid of the holder."""


class OpenFilesUnknown(Exception):
    """The broker's open files are not known; ``str()`` says why and what to do."""


@contextmanager
def broker_of(log_dir: Path) -> Iterator[int | None]:
    """The broker's process; None if no broker works on the directory. Then the lock is held, so
    that none can start.

    Raises `OpenFilesUnknown`.
    """
    try:
        fd = _open_lock(log_dir)
    except OSError as error:
        raise _unopened(log_dir, error) from error
    try:
        yield _lock(fd, log_dir)
    finally:
        os.close(fd)  # releases the lock, too


def running_broker(log_dir: Path) -> int | None:
    """The broker's process, found without locking: the broker may start or stop at any moment."""
    try:
        fd = os.open(log_dir / LOCK_FILE, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unopened(log_dir, error) from error
    try:
        return _holder(fd, log_dir)
    finally:
        os.close(fd)


def _unopened(log_dir: Path, error: OSError) -> OpenFilesUnknown:
    return OpenFilesUnknown(
        f"{log_dir / LOCK_FILE} can't be opened ({error.strerror}); run as Kafka's user"
    )


def _open_lock(log_dir: Path) -> int:
    """Opens the lock file. Kafka removes it when it stops, so it may have to be created, with
    Kafka's user as its owner."""
    path = log_dir / LOCK_FILE
    try:
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            owner = log_dir.stat()
            os.fchown(fd, owner.st_uid, owner.st_gid)
        except OSError:
            os.unlink(path)
            os.close(fd)
            raise
        return fd


def _holder(fd: int, log_dir: Path) -> int | None:
    query = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, query))
    if kind == fcntl.F_UNLCK:
        return None
    if pid <= 0:
        raise OpenFilesUnknown(
            f"the process that works on {log_dir} is not in sight; "
            "run in the broker's process namespace"
        )
    return int(pid)


BROKER_CHANGES = "the broker starts or stops at this moment; try again"


def _lock(fd: int, log_dir: Path) -> int | None:
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        pid = _holder(fd, log_dir)
        if pid is None:
            raise OpenFilesUnknown(BROKER_CHANGES) from None
        return pid
    try:
        is_in_place = os.path.samestat(os.fstat(fd), os.stat(log_dir / LOCK_FILE))
    except OSError:
        is_in_place = False
    if not is_in_place:
        raise OpenFilesUnknown(BROKER_CHANGES)
    return None


class OpenFiles:
    """Which process has a file open, by (device, inode), or mapped, by inode.

    A mapped file is known by its inode alone, because some file systems show another device there.
    """

    def __init__(self) -> None:
        self._by_file: dict[tuple[int, int], int] = {}
        self._by_mapped_inode: dict[int, int] = {}

    def add(self, pid: int) -> None:
        """The files of a process, unless one that was added before has them. Raises OSError."""
        folder = PROC / str(pid) / "fd"
        for descriptor in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                status = os.stat(folder / descriptor)
                self._by_file.setdefault((status.st_dev, status.st_ino), pid)
        for line in (PROC / str(pid) / "maps").read_text(errors="replace").splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) > 5 and fields[4] != "0":
                self._by_mapped_inode.setdefault(int(fields[4]), pid)

    def opener(self, files: Collection[tuple[int, int]]) -> int | None:
        """A process that has one of these files, given by (device, inode), open; None if none
        has."""
        for device, inode in files:
            pid = self._by_file.get((device, inode), self._by_mapped_inode.get(inode))
            if pid is not None:
                return pid
        return None


def open_files(broker: int | None) -> OpenFiles:
    """The open files of all processes but this one; of several processes with a file, the broker
    counts. Files of other users' processes may be unreadable, but not the broker's. Raises
    `OpenFilesUnknown`."""
    files = OpenFiles()
    if broker is not None:
        try:
            files.add(broker)
        except OSError as error:
            raise OpenFilesUnknown(
                f"the open files of the broker (pid {broker}) can't be read ({error.strerror}); "
                "run as its user or as root"
            ) from error
    for entry in os.listdir(PROC):
        if entry.isdecimal() and int(entry) not in (os.getpid(), broker):
            with contextlib.suppress(OSError):
                files.add(int(entry))
    return files
