"""The audit log beside ``delete-records``: the request before it goes out, its outcome after."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

from retentiond.cli.operator import action
from retentiond.cli.state_dir import make_state_dir
from retentiond.delete_records import journal
from retentiond.delete_records.item import Item
from retentiond.errors import StateError, UsageError
from retentiond.state.actions import record
from retentiond.state.pause import read_pause


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
        self._record(journal.REQUEST, journal.request_detail(sys.argv[1:], servers, items))

    def settled(self, items: Sequence[Item]) -> None:
        """What is deleted is deleted, so a failure is kept for after the result was shown."""
        try:
            self._record(journal.OUTCOME, journal.outcome_detail(items))
        except StateError as error:
            self.unrecorded = error

    def _record(self, what: str, detail: str) -> None:
        record(self._state_dir, action(what, self._request_id, detail))
