"""The partition folders of a log directory: only looked at, never followed, never changed."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from retentiond.errors import UsageError
from retentiond.orphans.name import Name, parse

PASSED_OVER = frozenset({"__cluster_metadata-0", "remote-log-index-cache"})
"""Kafka's own: KRaft's metadata log, and the cache of tiered storage. They are never touched."""

METADATA = "partition.metadata"

_METADATA_FORM = re.compile(r"version: 0\ntopic_id: ([A-Za-z0-9_-]{22})\n?")

LARGEST_METADATA = 1024
"""Bytes. Kafka's own file has less than 50."""


@dataclass(frozen=True, slots=True)
class Folder:
    """``log_dir`` is a real path. Device and inode tell it from a later one with its name.

    ``topic_id``: of its ``partition.metadata``, base64 as Kafka prints it; None where it has none.
    """

    log_dir: Path
    name: str
    means: Name
    device: int
    inode: int
    topic_id: str | None

    @property
    def path(self) -> Path:
        return self.log_dir / self.name


@dataclass(frozen=True, slots=True)
class Stranger:
    """A folder that isn't understood, and is therefore left alone."""

    log_dir: Path
    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Listing:
    folders: tuple[Folder, ...]
    strangers: tuple[Stranger, ...]


def list_folders(log_dir: Path) -> Listing:
    """By name. Raises `UsageError` when the directory can't be read."""
    folders: list[Folder] = []
    strangers: list[Stranger] = []
    try:
        device = log_dir.stat().st_dev
        with os.scandir(log_dir) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                match _understood(log_dir, entry, device):
                    case Folder() as folder:
                        folders.append(folder)
                    case str() as why:
                        strangers.append(Stranger(log_dir, entry.name, why))
    except OSError as error:
        raise UsageError(
            f"{log_dir} can't be read ({error.strerror}); run as Kafka's user"
        ) from error
    return Listing(tuple(folders), tuple(strangers))


def _understood(log_dir: Path, entry: os.DirEntry[str], device: int) -> Folder | str | None:
    """The folder, why it isn't understood, or None for what isn't looked at."""
    if entry.name in PASSED_OVER:
        return None
    if entry.is_symlink():
        return "it is a symbolic link" if entry.is_dir() else None
    if not entry.is_dir(follow_symlinks=False):
        return None
    name = parse(entry.name)
    if name is None:
        return "its name is no partition's"
    try:
        found = entry.stat(follow_symlinks=False)
        if found.st_dev != device:
            return "it is another file system"
        topic_id = _topic_id(log_dir / entry.name / METADATA)
    except FileNotFoundError:  # deleted or renamed meanwhile
        return None
    except (OSError, ValueError):
        return f"its {METADATA} can't be read"
    return Folder(log_dir, entry.name, name, found.st_dev, found.st_ino, topic_id)


def _topic_id(path: Path) -> str | None:
    """None: there is no such file. Raises OSError, or ValueError for what Kafka hasn't written."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ValueError("no regular file")
        text = file.read(LARGEST_METADATA).decode("ascii")
    form = _METADATA_FORM.fullmatch(text)
    if form is None:
        raise ValueError("not Kafka's form")
    return form[1]
