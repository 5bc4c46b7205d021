"""The partition folders of a log directory: only looked at, never followed, never changed.

``TOPIC-N`` holds a replica. A name with a unique part and a suffix (``TOPIC-N.<32 hex>-stray``) is
a replica that Kafka has put aside (``stray``), the copy of one that moves to another directory
(``future``), or one that the broker is about to delete (``delete``). Kafka cuts the topic of a
stray or deleted one short where the name would be longer than 255 characters. A broker that finds
a folder with any other name does not start.
"""

from __future__ import annotations

import os
import re
import stat
import uuid
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from retentiond.errors import UsageError

KAFKAS_OWN_FOLDERS = frozenset({"__cluster_metadata-0", "remote-log-index-cache"})
"""Kafka's own: KRaft's metadata log, and the cache of tiered storage. They are never touched."""

METADATA = "partition.metadata"

_METADATA_FORM = re.compile(r"version: 0\ntopic_id: ([A-Za-z0-9_-]{22})\n?")

LARGEST_METADATA = 1024
"""Bytes. Kafka's own file has less than 50."""


@dataclass(frozen=True, slots=True)
class PartitionFolder:
    """``log_dir`` is a real path. Device and inode tell it from a later one with its name.

    ``topic_id``: of its ``partition.metadata``, as in `TopicDescription`; None where it has none.
    """

    log_dir: Path
    name: str
    parsed_name: FolderName
    device: int
    inode: int
    topic_id: str | None

    @property
    def path(self) -> Path:
        return self.log_dir / self.name


@dataclass(frozen=True, slots=True)
class UnknownFolder:
    """A folder that isn't understood, and is therefore left alone."""

    log_dir: Path
    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Listing:
    folders: tuple[PartitionFolder, ...]
    strangers: tuple[UnknownFolder, ...]


def list_folders(log_dir: Path) -> Listing:
    """The directory's folders by name. Raises `UsageError` if it can't be read."""
    folders: list[PartitionFolder] = []
    strangers: list[UnknownFolder] = []
    try:
        device = log_dir.stat().st_dev
        with os.scandir(log_dir) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                match _understood(log_dir, entry, device):
                    case PartitionFolder() as folder:
                        folders.append(folder)
                    case str() as why:
                        strangers.append(UnknownFolder(log_dir, entry.name, why))
    except OSError as error:
        raise UsageError(
            f"{log_dir} can't be read ({error.strerror}); run as Kafka's user"
        ) from error
    return Listing(tuple(folders), tuple(strangers))


def _understood(
    log_dir: Path, entry: os.DirEntry[str], device: int
) -> PartitionFolder | str | None:
    """The folder, why it isn't understood, or None for what isn't looked at."""
    if entry.name in KAFKAS_OWN_FOLDERS:
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
    return PartitionFolder(log_dir, entry.name, name, found.st_dev, found.st_ino, topic_id)


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


LONGEST_FILE_NAME = 255
"""Bytes of a file's name."""

LARGEST_PARTITION = 2**31 - 1


class FolderKind(StrEnum):
    REPLICA = "replica"
    STRAY = "stray"
    FUTURE = "future"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class FolderName:
    """What a folder's name says. ``may_be_cut``: the topic's name may be longer than this."""

    topic: str
    partition: int
    kind: FolderKind
    may_be_cut: bool = False


_FORM = re.compile(
    r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>0|[1-9][0-9]{0,9})"
    r"(?:\.[0-9a-f]{32}-(?P<suffix>stray|future|delete))?"
)


def parse(name: str) -> FolderName | None:
    """None for a name that is none of Kafka's forms."""
    form = _FORM.fullmatch(name)
    if form is None or form["topic"] in (".", "..") or int(form["partition"]) > LARGEST_PARTITION:
        return None
    kind = FolderKind(form["suffix"]) if form["suffix"] else FolderKind.REPLICA
    return FolderName(
        form["topic"], int(form["partition"]), kind, bool(form["suffix"]) and _full(name)
    )


def name_for_deletion(name: FolderName) -> str:
    """A new name in Kafka's form for what is about to be deleted.

    Should the removal be cut off after the rename, a broker that starts then deletes the folder
    itself; any name of our own would keep the broker from starting.
    """
    rest = f"-{name.partition}.{uuid.uuid4().hex}-{FolderKind.DELETE}"
    return name.topic[: LONGEST_FILE_NAME - len(rest)] + rest


def _full(name: str) -> bool:
    return len(name) >= LONGEST_FILE_NAME
