"""Lists the partition folders of a log directory. It follows no link and changes nothing.

The folder ``TOPIC-N`` has a replica. A folder with a unique part and a suffix in its name
(``TOPIC-N.<32 hex>-stray``) is a replica that Kafka has put aside (``stray``), the copy of a
replica that moves to another directory (``future``), or a replica that the broker is about to
delete (``delete``). In the names of stray and deleted replicas, Kafka cuts the topic short if the
name would be longer than 255 characters. A broker that finds a folder with any other name does not
start.
"""

from __future__ import annotations

import os
import re
import stat
import uuid
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from retentiond.errors import UsageError
from retentiond.fields import NUMBER, PATH, SENTENCE, TEXT, WORD, described, figure, inlined, said
from retentiond.model import LARGEST_PARTITION, LEGAL_TOPIC

KAFKAS_OWN_FOLDERS = frozenset({"__cluster_metadata-0", "remote-log-index-cache"})
"""Kafka's own folders, which are never touched: KRaft's metadata log, and the cache of tiered
storage."""

METADATA = "partition.metadata"

_METADATA_FORM = re.compile(r"version: 0\ntopic_id: ([A-Za-z0-9_-]{22})\n?")

LARGEST_METADATA = 1024
"""Greatest size of the file, in bytes. The one that Kafka writes has less than 50."""


class FolderKind(StrEnum):
    REPLICA = "replica"
    STRAY = "stray"
    FUTURE = "future"
    DELETE = "delete"


@described
class FolderName:
    """What a folder's name says. ``may_be_cut``: the topic's name may be longer than this."""

    topic: str = said(TEXT, "the topic, by the folder's name")
    partition: int = said(NUMBER, "the partition's number")
    kind: FolderKind = said(WORD, f"by the folder's name: {', '.join(FolderKind)}")
    may_be_cut: bool = False


@described
class PartitionFolder:
    """A partition's folder. ``log_dir`` is a real path. Device and inode tell the folder from a
    later one with the same name."""

    log_dir: Path = said(PATH, "the log directory's path")
    name: str = said(TEXT, "the folder's name", name="folder")
    parsed_name: FolderName = inlined(FolderName)
    device: int
    inode: int
    topic_id: str | None = said(
        TEXT, "the topic's id by the folder's partition.metadata; null: it has no such file"
    )

    @figure(PATH, "the folder's path", (), column="FOLDER")
    def path(self) -> Path:
        return self.log_dir / self.name


@described
class UnknownFolder:
    """A folder that isn't understood, so it is left alone."""

    log_dir: Path = said(PATH, "the log directory's path")
    name: str = said(TEXT, "the folder's name", name="folder")
    why: str = said(SENTENCE, "why it is left alone")


def list_folders(log_dir: Path) -> Iterator[PartitionFolder | UnknownFolder]:
    """The directory's folders by name. Raises `UsageError` if it can't be read."""
    try:
        device = log_dir.stat().st_dev
        with os.scandir(log_dir) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                match _understood(log_dir, entry, device):
                    case PartitionFolder() as folder:
                        yield folder
                    case str() as why:
                        yield UnknownFolder(log_dir, entry.name, why)
    except OSError as error:
        raise UsageError(
            f"{log_dir} can't be read ({error.strerror}); run as Kafka's user"
        ) from error


def _understood(
    log_dir: Path, entry: os.DirEntry[str], device: int
) -> PartitionFolder | str | None:
    """The folder, or why it isn't understood; None for entries that don't matter."""
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
        status = entry.stat(follow_symlinks=False)
        if status.st_dev != device:
            return "it is another file system"
        topic_id = _topic_id(log_dir / entry.name / METADATA)
    except FileNotFoundError:  # deleted or renamed meanwhile
        return None
    except (OSError, ValueError):
        return f"its {METADATA} can't be read"
    return PartitionFolder(log_dir, entry.name, name, status.st_dev, status.st_ino, topic_id)


def _topic_id(path: Path) -> str | None:
    """The topic id in the file; None if there is no such file. Raises OSError, and ValueError if
    Kafka has not written the file."""
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
"""In bytes."""


_FORM = re.compile(
    rf"(?P<topic>{LEGAL_TOPIC})"
    r"-(?P<partition>0|[1-9][0-9]{0,9})"
    r"(?:\.[0-9a-f]{32}-(?P<suffix>stray|future|delete))?"
)


def parse(name: str) -> FolderName | None:
    """The parts of a folder's name; None if it has none of Kafka's forms."""
    form = _FORM.fullmatch(name)
    if form is None or form["topic"] in (".", "..") or int(form["partition"]) > LARGEST_PARTITION:
        return None
    kind = FolderKind(form["suffix"]) if form["suffix"] else FolderKind.REPLICA
    may_be_cut = bool(form["suffix"]) and len(name) >= LONGEST_FILE_NAME
    return FolderName(form["topic"], int(form["partition"]), kind, may_be_cut)


def name_for_deletion(name: FolderName) -> str:
    """A new name for the folder, in Kafka's form for a replica that is about to be deleted.

    If the removal is cut off after the rename, a broker that starts deletes the folder itself. Any
    other name would keep the broker from starting.
    """
    rest = f"-{name.partition}.{uuid.uuid4().hex}-{FolderKind.DELETE}"
    return name.topic[: LONGEST_FILE_NAME - len(rest)] + rest
