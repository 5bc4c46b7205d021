"""Removals of orphans in the audit log: what is about to go, and what became of it."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from retentiond.cli.operator import action
from retentiond.orphans.orphan import Orphan
from retentiond.state.actions import record

REMOVAL = "orphan-removal"

OUTCOME = "orphan-removal-outcome"


class OrphansAudit:
    """A `retentiond.orphans.remove.Journal`: one removal after the other, two rows for each."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._removal_id = ""

    def removing(self, orphan: Orphan, new_name: str) -> None:
        self._removal_id = uuid.uuid4().hex
        folder = orphan.folder
        self._record(
            REMOVAL,
            {
                "log_dir": str(folder.log_dir),
                "folder": folder.name,
                "renamed_to": new_name,
                "topic_id": folder.topic_id,
                "size_bytes": orphan.contents.segment_bytes,
                "newest_record_ms": orphan.contents.newest_ms,
                "since_ms": orphan.since_ms,
                "why": orphan.why,
            },
        )

    def settled(self, orphan: Orphan) -> None:
        self._record(OUTCOME, {"fate": orphan.fate.value, "reason": orphan.reason})

    def _record(self, what: str, detail: dict[str, object]) -> None:
        record(self._state_dir, action(what, self._removal_id, json.dumps(detail)))
