"""Who has files of a folder open: the kernel's word, by device and inode.

A path would not do: the broker may see its directories under other names, in a container of its
own. What matters is the broker, so its process must be in sight and readable; a broker's process
is the one that holds Kafka's lock on the log directory.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

PROC = Path("/proc")

LOCK = ".lock"
"""Kafka's: each log directory has one while the broker runs, locked by it."""

_FLOCK = struct.Struct("@hhqqi4x")
"""Linux's ``struct flock``: type, whence, start, length, pid of the holder."""


class Unseen(Exception):
    """It can't be told whether the broker has something open; ``str()`` says why and what to do."""


@contextmanager
def broker_of(log_dir: Path) -> Iterator[int | None]:
    """The process that works on the directory; None: there is none, and none can start meanwhile.

    Raises `Unseen`.
    """
    try:
        fd = _open_lock(log_dir)
    except OSError as error:
        raise Unseen(
            f"{log_dir / LOCK} can't be opened ({error.strerror}); run as Kafka's user"
        ) from error
    try:
        yield _lock(fd, log_dir)
    finally:
        os.close(fd)  # which releases it


def _open_lock(log_dir: Path) -> int:
    """Kafka removes the file when it stops, so it may have to be made, for Kafka's user to open."""
    path = log_dir / LOCK
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


def _lock(fd: int, log_dir: Path) -> int | None:
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))
        if kind == fcntl.F_UNLCK or pid <= 0:
            raise Unseen(
                f"the process that works on {log_dir} is not in sight; "
                "run in the broker's process namespace"
            ) from None
        return int(pid)
    try:
        is_in_place = os.path.samestat(os.fstat(fd), os.stat(log_dir / LOCK))
    except OSError:
        is_in_place = False
    if not is_in_place:
        raise Unseen("the broker starts or stops at this moment; try again")
    return None


def opener(inodes: Collection[tuple[int, int]], broker: int | None) -> int | None:
    """A process that has one of these files open or mapped, the broker first; None: none has.

    ``inodes`` are (device, inode). Processes of other users may be out of sight, but not the
    broker. Raises `Unseen`.
    """
    wanted = frozenset(inodes)
    if broker is not None and _has_open(broker, wanted, must_see=True):
        return broker
    own = os.getpid()
    for entry in os.listdir(PROC):
        if entry.isdecimal() and int(entry) not in (own, broker):
            with contextlib.suppress(OSError):
                if _has_open(int(entry), wanted, must_see=False):
                    return int(entry)
    return None


def _has_open(pid: int, wanted: frozenset[tuple[int, int]], *, must_see: bool) -> bool:
    folder = PROC / str(pid)
    try:
        descriptors = os.listdir(folder / "fd")
        maps = (folder / "maps").read_text(errors="replace")
    except OSError as error:
        if must_see:
            raise Unseen(
                f"the open files of the broker (pid {pid}) can't be read ({error.strerror}); "
                "run as its user or as root"
            ) from error
        raise
    return _has_descriptor(folder, descriptors, wanted) or _has_mapped(maps, wanted)


def _has_descriptor(
    folder: Path, descriptors: Collection[str], wanted: frozenset[tuple[int, int]]
) -> bool:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):  # closed meanwhile
            found = os.stat(folder / "fd" / descriptor)
            if (found.st_dev, found.st_ino) in wanted:
                return True
    return False


def _has_mapped(maps: str, wanted: frozenset[tuple[int, int]]) -> bool:
    """By the inode alone: some file systems show another device here."""
    inodes = {str(inode) for _, inode in wanted}
    return any(
        len(fields) > 5 and fields[4] in inodes
        for fields in (line.split(maxsplit=5) for line in maps.splitlines())
    )
