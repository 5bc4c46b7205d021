"""Remembers since when folders have been orphans, and which ones were renamed to be deleted.

There is one JSON file for each broker, which is replaced as a whole. A run holds its lock, so that
two runs at a time can't forget what the other one has seen.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from retentiond.clock import Uptime
from retentiond.errors import StateError
from retentiond.state.state_dir import atomic_write
from retentiond.tools.orphans.broker_process import BrokerLogDirs
from retentiond.tools.orphans.folder import PartitionFolder

VERSION = 1

OrphanKey = tuple[str, str, int]
"""Log directory, folder, inode. A folder that is recreated or renamed has another key."""


def folder_key(folder: PartitionFolder) -> OrphanKey:
    return (str(folder.log_dir), folder.name, folder.inode)


@dataclass(frozen=True, slots=True)
class OrphanMemory:
    """What earlier looks saw.

    - ``first_seen_ms``: when a folder was first seen as an orphan; all looks since saw it as one.
    - ``observed_ms``: how much monotonic time has certainly passed since then. The time of an
      earlier boot counts up to its last look.
    - ``looked_at``: the last complete look.
    - ``renamed``: folders that this command has renamed to delete them. The key has the new name;
      the value is the old name, or None once files are being deleted.
    - ``retention_ms``: the broker's retention when it last told it; None before that, and if it is
      unlimited.
    - ``was_alive``: whether a look has found the broker alive in this cluster.
    """

    first_seen_ms: Mapping[OrphanKey, int] = field(default_factory=dict)
    renamed: Mapping[OrphanKey, str | None] = field(default_factory=dict)
    retention_ms: int | None = None
    was_alive: bool = False
    observed_ms: Mapping[OrphanKey, int] = field(default_factory=dict)
    looked_at: Uptime | None = None


class OrphanMemoryFile:
    def __init__(self, state_dir: Path, disks: BrokerLogDirs) -> None:
        self._path = state_dir / f"orphans-{disks.cluster_id}-{disks.broker}.json"

    def read(self) -> OrphanMemory:
        """The memory; empty if there is no file yet. Raises `StateError`."""
        try:
            return _memory(json.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return OrphanMemory()
        except OSError as error:
            raise StateError(f"{self._path} can't be read ({error.strerror})") from error
        except (ValueError, KeyError, TypeError) as error:
            raise StateError(
                f"{self._path} is damaged; move it away, and the age of every orphan starts again"
            ) from error

    def write(self, memory: OrphanMemory) -> None:
        """Writes the memory, and returns once it is on disk. Raises `StateError`."""
        document = {
            "version": VERSION,
            "orphans": _rows(memory.first_seen_ms, "first_seen_ms"),
            "renamed": _rows(memory.renamed, "from"),
            "retention_ms": memory.retention_ms,
            "was_alive": memory.was_alive,
            "observed": _rows(memory.observed_ms, "observed_ms"),
            "looked_at": memory.looked_at,
        }
        atomic_write(self._path, json.dumps(document).encode(), "; choose another --state-dir")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the lock. Raises `StateError` if another process holds it."""
        try:
            fd = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StateError(
                f"{self._path.parent} can't be written to ({error.strerror}); "
                "choose another --state-dir"
            ) from error
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise StateError(
                    "another `retentiond orphans` looks at this broker's directories; wait for it"
                ) from error
            yield
        finally:
            os.close(fd)


def _memory(document: Any) -> OrphanMemory:
    if document["version"] != VERSION:
        raise ValueError(f"version {document['version']}")
    looked_at = document.get("looked_at")  # earlier versions wrote neither this nor "observed"
    retention_ms, was_alive = document["retention_ms"], document["was_alive"]
    if type(retention_ms) not in (int, type(None)):
        raise TypeError(f"{retention_ms!r} is no number")
    return OrphanMemory(
        retention_ms=retention_ms,
        was_alive=was_alive is True,
        first_seen_ms=_values(document["orphans"], "first_seen_ms", int),
        renamed=_values(document["renamed"], "from", str, type(None)),
        observed_ms=_values(document.get("observed", ()), "observed_ms", int),
        looked_at=None if looked_at is None else Uptime(str(looked_at[0]), int(looked_at[1])),
    )


def _values(rows: Any, name: str, *kinds: type) -> dict[OrphanKey, Any]:
    values = {(row["log_dir"], row["folder"], row["inode"]): row[name] for row in rows}
    for (log_dir, folder, inode), value in values.items():
        for part, wanted in ((log_dir, [str]), (folder, [str]), (inode, [int]), (value, kinds)):
            if type(part) not in wanted:
                raise TypeError(f"{part!r} is none of {wanted}")
    return values


def _rows(values: Mapping[OrphanKey, object], name: str) -> list[dict[str, object]]:
    return [
        {"log_dir": log_dir, "folder": folder, "inode": inode, name: value}
        for (log_dir, folder, inode), value in sorted(values.items())
    ]
