"""What a look at the directories found, and the conditions that a removal waits for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from retentiond.config.duration import say_duration
from retentiond.model import Failure
from retentiond.orphans.contents import Contents
from retentiond.orphans.folder import Folder, Stranger
from retentiond.orphans.identity import Disks


class Fate(StrEnum):
    KEPT = "kept"
    REMOVABLE = "removable"
    REMOVED = "removed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Orphan:
    """``why`` it is one; ``since_ms``: since when it is known to be.

    ``reason``: why it is kept, or what failed. ``is_cut_off``: a removal renamed it and has not
    come to its end.
    """

    folder: Folder
    why: str
    contents: Contents
    since_ms: int
    fate: Fate
    reason: str | None = None
    is_cut_off: bool = False

    def kept(self, reason: str) -> Orphan:
        return replace(self, fate=Fate.KEPT, reason=reason)

    def failed(self, reason: str) -> Orphan:
        return replace(self, fate=Fate.FAILED, reason=reason)

    def removed(self) -> Orphan:
        return replace(self, fate=Fate.REMOVED, reason=None)


@dataclass(frozen=True, slots=True)
class Look:
    """``problems``: what keeps it from being complete; nothing is removed then.

    ``unclear``: folders that may be orphans or not. ``retention_ms``: of records in orphans; None
    is unlimited.
    """

    disks: Disks
    at_ms: int
    orphans: tuple[Orphan, ...]
    unclear: tuple[Stranger, ...]
    problems: tuple[str, ...]
    retention_ms: int | Failure | None

    def totals(self) -> dict[Path, tuple[int, int]]:
        """By directory: orphans and their bytes. One that was removed is no orphan any more."""
        found = dict.fromkeys(self.disks.log_dirs, (0, 0))
        for orphan in self.orphans:
            if orphan.fate is not Fate.REMOVED:
                count, size = found[orphan.folder.log_dir]
                found[orphan.folder.log_dir] = (count + 1, size + orphan.contents.segment_bytes)
        return found


@dataclass(frozen=True, slots=True)
class Conditions:
    """``now_ms``: the earlier of two clocks, the host's and the cluster's."""

    now_ms: int
    after_ms: int
    retention_ms: int | Failure | None
    is_complete: bool


def objection(contents: Contents, since_ms: int, conditions: Conditions) -> str | None:
    """Why the folder is kept for now; None: it may go."""
    retention_ms, newest_ms = conditions.retention_ms, contents.newest_ms
    if contents.stranger is not None:
        return f"not understood: {contents.stranger}"
    if not conditions.is_complete:
        return "the cluster was not read completely"
    if isinstance(retention_ms, Failure):
        return "the retention period is not known"
    if retention_ms is None:
        return "the broker's retention is unlimited"
    lacking_ms = since_ms + conditions.after_ms - conditions.now_ms
    if lacking_ms > 0:
        return f"an orphan for too short a time: {_rough(lacking_ms)} more"
    if newest_ms is not None and newest_ms + retention_ms >= conditions.now_ms:
        wait_ms = newest_ms + retention_ms - conditions.now_ms
        return f"it holds records within the retention period: {_rough(wait_ms)} more"
    return None


def _rough(ms: int) -> str:
    """To the second, from below; two units are enough."""
    return " ".join(say_duration(max(1000, -(-ms // 1000) * 1000)).split()[:4])
