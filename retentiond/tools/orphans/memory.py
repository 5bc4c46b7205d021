"""Since when each folder has been an orphan, and which ones were renamed to be deleted.

One JSON file for each broker, replaced as a whole. A look at the directories holds its lock, so
that two of them don't forget what the other one saw.
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
from retentiond.state.state_dir import write_json
from retentiond.tools.orphans.broker_process import BrokerLogDirs
from retentiond.tools.orphans.folder import PartitionFolder

VERSION = 1

Key = tuple[str, str, int]
"""Log directory, folder, inode: a folder that is made anew, or renamed, is another one."""


def folder_key(folder: PartitionFolder) -> Key:
    return (str(folder.log_dir), folder.name, folder.inode)


@dataclass(frozen=True, slots=True)
class OrphanMemory:
    """``first_seen_ms``: when each was first seen as an orphan, of all looks since without a break.
    ``observed_ms``: how much time has certainly passed since, on a clock that nobody sets; that of
    a boot that is over counts up to its last look. ``looked_at``: the last complete look.

    ``renamed``: folders that this command renamed to delete them, by their new name; the value is
    the old one, None once their files are being deleted.
    ``retention_ms``: the broker's, when it last told; None before, and where it is unlimited.
    ``was_alive``: some look found the broker alive in this cluster.
    """

    first_seen_ms: Mapping[Key, int] = field(default_factory=dict)
    renamed: Mapping[Key, str | None] = field(default_factory=dict)
    retention_ms: int | None = None
    was_alive: bool = False
    observed_ms: Mapping[Key, int] = field(default_factory=dict)
    looked_at: Uptime | None = None


class OrphanMemoryFile:
    def __init__(self, state_dir: Path, disks: BrokerLogDirs) -> None:
        self._path = state_dir / f"orphans-{disks.cluster_id}-{disks.broker}.json"

    def read(self) -> OrphanMemory:
        """Empty where there is none yet. Raises `StateError`."""
        try:
            return _memory(json.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return OrphanMemory()
        except OSError as error:
            raise StateError(f"{self._path} can't be read ({error.strerror})") from error
        except (ValueError, KeyError, TypeError) as error:
            raise StateError(
                f"{self._path} is damaged; move it away, and every orphan counts from anew"
            ) from error

    def write(self, memory: OrphanMemory) -> None:
        """On disk when it returns. Raises `StateError`."""
        document = {
            "version": VERSION,
            "orphans": _written(memory.first_seen_ms, "first_seen_ms"),
            "renamed": _written(memory.renamed, "from"),
            "retention_ms": memory.retention_ms,
            "was_alive": memory.was_alive,
            "observed": _written(memory.observed_ms, "observed_ms"),
            "looked_at": memory.looked_at,
        }
        write_json(self._path, document, "; choose another --state-dir")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Raises `StateError` while another process is at it."""
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
    looked_at = document.get("looked_at")  # versions before wrote neither this nor what follows
    retention_ms, was_alive = document["retention_ms"], document["was_alive"]
    if type(retention_ms) not in (int, type(None)):
        raise TypeError(f"{retention_ms!r} is no number")
    return OrphanMemory(
        retention_ms=retention_ms,
        was_alive=was_alive is True,
        first_seen_ms=_read(document["orphans"], "first_seen_ms", int),
        renamed=_read(document["renamed"], "from", str, type(None)),
        observed_ms=_read(document.get("observed", ()), "observed_ms", int),
        looked_at=None if looked_at is None else Uptime(str(looked_at[0]), int(looked_at[1])),
    )


def _read(rows: Any, value: str, *kinds: type) -> dict[Key, Any]:
    found = {(row["log_dir"], row["folder"], row["inode"]): row[value] for row in rows}
    for (log_dir, folder, inode), each in found.items():
        for part, wanted in ((log_dir, [str]), (folder, [str]), (inode, [int]), (each, kinds)):
            if type(part) not in wanted:
                raise TypeError(f"{part!r} is none of {wanted}")
    return found


def _written(values: Mapping[Key, object], name: str) -> list[dict[str, object]]:
    return [
        {"log_dir": log_dir, "folder": folder, "inode": inode, name: value}
        for (log_dir, folder, inode), value in sorted(values.items())
    ]
