"""What operators do with ``delete-records`` and ``orphans``, in the audit log."""

from __future__ import annotations

import getpass
import json
import os
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from retentiond.errors import StateError, UsageError
from retentiond.state.actions import Action, record_action
from retentiond.state.pause import read_pause
from retentiond.tools.delete_records import request
from retentiond.tools.delete_records.partitions import Item

if TYPE_CHECKING:  # it brings kafka-python in, which takes long to load
    from retentiond.tools.orphans.orphan import Orphan


def operator() -> str:
    """The user's name; in a container a user may have none, and is a number then."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # KeyError before Python 3.13
        return f"uid {os.getuid()}"


def action(what: str, subject: str | None, detail: str) -> Action:
    """Of now."""
    return Action(time.time_ns() // 1_000_000, operator(), what, subject, detail)


def make_state_dir(state_dir: Path) -> None:
    """For its owner alone. Raises `StateError`."""
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(
            f"state_dir {state_dir} can't be made ({error.strerror}), and without an audit log "
            "nothing is deleted; choose another one with --state-dir"
        ) from error


class AuditLog:
    """``unrecorded``: why the outcome could not be written, once it could not."""

    def __init__(self, state_dir: Path) -> None:
        """Raises `UsageError` while deletions are paused there."""
        pause = read_pause(state_dir)
        if pause is not None:
            raise UsageError(f"nothing is deleted: {pause}; see `retentiond resume`")
        self._state_dir = state_dir
        self._request_id = uuid.uuid4().hex
        self.unrecorded: StateError | None = None

    def requested(self, servers: str, items: Sequence[Item]) -> None:
        """On disk when it returns. Raises `StateError`: then nothing may be deleted."""
        make_state_dir(self._state_dir)
        self._record(request.REQUEST, request.request_detail(sys.argv[1:], servers, items))

    def settled(self, items: Sequence[Item]) -> None:
        """What is deleted is deleted, so a failure is kept for after the result was shown."""
        try:
            self._record(request.OUTCOME, request.outcome_detail(items))
        except StateError as error:
            self.unrecorded = error

    def _record(self, what: str, detail: str) -> None:
        record_action(self._state_dir, action(what, self._request_id, detail))


REMOVAL = "orphan-removal"

OUTCOME = "orphan-removal-outcome"


class OrphansAudit:
    """A `retentiond.tools.orphans.remove.RemovalJournal`: one removal after the other, two rows for
    each."""

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
        record_action(self._state_dir, action(what, self._removal_id, json.dumps(detail)))
