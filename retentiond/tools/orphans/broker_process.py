"""Whose directories these are, and which of their files the broker has open.

A path would not do: the broker may see its directories under other names, in a container of its
own. What matters is the broker, so its process must be in sight and readable; a broker's process
is the one that holds Kafka's lock on the log directory.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from retentiond.errors import UsageError
from retentiond.kafka.settings import java_properties

META_PROPERTIES = "meta.properties"

_CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]+")

BROKER_KEYS = ("node.id", "broker.id")
"""KRaft's name, and that of the time before."""


@dataclass(frozen=True, slots=True)
class BrokerLogDirs:
    """Log directories of one broker: ``log_dirs`` are real paths, not all of them perhaps."""

    broker: int
    cluster_id: str
    log_dirs: tuple[Path, ...]


def identify(named: Sequence[Path]) -> BrokerLogDirs:
    """Raises `UsageError` unless all of them are there and belong to one broker."""
    log_dirs = _resolve(named)
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
    """Where the directories really are, each once; a log directory may be a symbolic link.

    Raises `UsageError` for one that is none.
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
    """The broker's id and the cluster's."""
    path = log_dir / META_PROPERTIES
    try:
        properties = java_properties.parse(
            path.read_text(encoding=java_properties.PROPERTIES_ENCODING)
        )
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
"""Kafka's: each log directory has one while the broker runs, locked by it."""

_FLOCK = struct.Struct("@hhqqi4x")
"""Linux's ``struct flock``: type, whence, start, length, pid of the holder."""


class OpenFilesUnknown(Exception):
    """It can't be told whether the broker has something open; ``str()`` says why and what to do."""


@contextmanager
def broker_of(log_dir: Path) -> Iterator[int | None]:
    """The process that works on the directory; None: there is none, and none can start meanwhile.

    Raises `OpenFilesUnknown`.
    """
    try:
        fd = _open_lock(log_dir)
    except OSError as error:
        raise _unopened(log_dir, error) from error
    try:
        yield _lock(fd, log_dir)
    finally:
        os.close(fd)  # which releases it


def running_broker(log_dir: Path) -> int | None:
    """The broker at work, found without a lock of our own: it may start or end at any moment."""
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
    """Kafka removes the file when it stops, so it may have to be made, for Kafka's user to open."""
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
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))
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


@dataclass(frozen=True, slots=True)
class OpenFiles:
    """Who has which file open, or mapped: a process by (device, inode), and by inode alone.

    What is mapped is known by its inode: some file systems show another device there.
    """

    by_file: Mapping[tuple[int, int], int]
    by_mapped_inode: Mapping[int, int]

    def opener(self, files: Collection[tuple[int, int]]) -> int | None:
        """A process that has one of these, by (device, inode)."""
        for device, inode in files:
            pid = self.by_file.get((device, inode), self.by_mapped_inode.get(inode))
            if pid is not None:
                return pid
        return None


def open_files(broker: int | None) -> OpenFiles:
    """The open files of all processes but this one; what the broker has open counts first.
    Processes of other users may be out of sight, but not the broker. Raises `OpenFilesUnknown`."""
    by_file: dict[tuple[int, int], int] = {}
    by_mapped_inode: dict[int, int] = {}
    if broker is not None:
        try:
            _note(broker, by_file, by_mapped_inode)
        except OSError as error:
            raise OpenFilesUnknown(
                f"the open files of the broker (pid {broker}) can't be read ({error.strerror}); "
                "run as its user or as root"
            ) from error
    for entry in os.listdir(PROC):
        if entry.isdecimal() and int(entry) not in (os.getpid(), broker):
            with contextlib.suppress(OSError):
                _note(int(entry), by_file, by_mapped_inode)
    return OpenFiles(by_file, by_mapped_inode)


def _note(pid: int, by_file: dict[tuple[int, int], int], by_mapped_inode: dict[int, int]) -> None:
    folder = PROC / str(pid) / "fd"
    for descriptor in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found = os.stat(folder / descriptor)
            by_file.setdefault((found.st_dev, found.st_ino), pid)
    for line in (PROC / str(pid) / "maps").read_text(errors="replace").splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) > 5 and fields[4] != "0":
            by_mapped_inode.setdefault(int(fields[4]), pid)
