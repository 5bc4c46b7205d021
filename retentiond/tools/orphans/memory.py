"""Remembers since when folders have been orphans, and which ones were renamed to be deleted.

There is one JSON file for each broker, which is replaced as a whole. A run holds its lock, so that
two runs at a time can't forget what the other one has seen.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, PlainSerializer, TypeAdapter

from retentiond.clock import Uptime
from retentiond.errors import StateError
from retentiond.state.state_dir import atomic_write, open_regular, read_regular
from retentiond.tools.orphans.broker_process import BrokerLogDirs
from retentiond.tools.orphans.folder import PartitionFolder

OrphanKey = tuple[str, str, int]
"""Log directory, folder, inode. A folder that is recreated or renamed has another key."""


def folder_key(folder: PartitionFolder) -> OrphanKey:
    return (str(folder.log_dir), folder.name, folder.inode)


def _by_key(name: str) -> tuple[BeforeValidator, PlainSerializer]:
    """A mapping by `OrphanKey` is a list of rows in the file, where ``name`` is the value."""

    def read(rows: Any) -> Any:
        if not isinstance(rows, list):  # it is in memory already
            return rows
        try:
            return {(row["log_dir"], row["folder"], row["inode"]): row[name] for row in rows}
        except (KeyError, TypeError) as error:
            raise ValueError(f"a row without {error}") from error

    def write(values: Mapping[OrphanKey, object]) -> list[dict[str, object]]:
        return [
            {"log_dir": log_dir, "folder": folder, "inode": inode, name: value}
            for (log_dir, folder, inode), value in sorted(values.items())
        ]

    return BeforeValidator(read), PlainSerializer(write)


_FIRST_SEEN, _RENAMED, _OBSERVED = map(_by_key, ("first_seen_ms", "from", "observed_ms"))


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

    first_seen_ms: Annotated[Mapping[OrphanKey, int], *_FIRST_SEEN] = field(default_factory=dict)
    renamed: Annotated[Mapping[OrphanKey, str | None], *_RENAMED] = field(default_factory=dict)
    retention_ms: int | None = None
    was_alive: bool = False
    observed_ms: Annotated[Mapping[OrphanKey, int], *_OBSERVED] = field(default_factory=dict)
    looked_at: Annotated[Uptime | None, BeforeValidator(lambda it: it and Uptime(*it))] = None
    version: Literal[2] = 2


_MEMORY = TypeAdapter(OrphanMemory)


class OrphanMemoryFile:
    def __init__(self, state_dir: Path, disks: BrokerLogDirs) -> None:
        self._path = state_dir / f"orphans-{disks.cluster_id}-{disks.broker}.json"

    def read(self) -> OrphanMemory:
        """The memory; empty if there is no file yet. Raises `StateError`."""
        try:
            return _MEMORY.validate_json(read_regular(self._path), strict=True)
        except FileNotFoundError:
            return OrphanMemory()
        except OSError as error:
            raise StateError(f"{self._path} can't be read ({error.strerror})") from error
        except (ValueError, TypeError) as error:
            raise StateError(
                f"{self._path} is damaged; move it away, and the age of every orphan starts again"
            ) from error

    def write(self, memory: OrphanMemory) -> None:
        """Writes the memory, and returns once it is on disk. Raises `StateError`."""
        atomic_write(self._path, _MEMORY.dump_json(memory), "; choose another --state-dir")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the lock. Raises `StateError` if another process holds it."""
        try:
            fd = open_regular(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StateError(
                f"{self._path.parent} can't be written to ({error.strerror}); "
                "choose another --state-dir"
            ) from error
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise StateError(
                    "another `retentiond orphans` looks at this broker's directories; wait for it"
                ) from error
            except OSError as error:
                raise StateError(
                    f"{self._path.parent} can't be locked ({error.strerror}); choose a --state-dir "
                    "on a file system with file locks"
                ) from error
            yield
        finally:
            os.close(fd)
