"""Partitions whose retention is stuck, as the daemon has found them: other commands read it here.

Only a process that compares its readings for a quarter of an hour can find them. The file is
replaced as a whole and not there while nothing is stuck; one that can't be understood is as good
as none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from retentiond.disk.stuck import Stuck, StuckCause
from retentiond.errors import StateError
from retentiond.model import TopicPartition
from retentiond.observe.report import rfc3339

STUCK_NAME = "stuck.json"


def read_stuck(state_dir: Path) -> tuple[Stuck, ...]:
    """As they were found last; each sentence says when."""
    try:
        stored = json.loads((state_dir / STUCK_NAME).read_bytes())
        seen = f"as the daemon saw it at {rfc3339(stored['at_ms'])}"
        return tuple(
            Stuck(TopicPartition(topic, partition), StuckCause(cause), f"{sentence} ({seen})")
            for topic, partition, cause, sentence in stored["stuck"]
        )
    except (OSError, ValueError, TypeError, KeyError, OverflowError):
        return ()


def write_stuck(state_dir: Path, stuck: Sequence[Stuck], at_ms: int) -> None:
    """Raises `StateError`."""
    path = state_dir / STUCK_NAME
    unfinished = path.with_name(f"{path.name}.new")
    rows = [[*each.at, each.cause.value, each.sentence] for each in stuck]
    try:
        if rows:
            unfinished.write_text(json.dumps({"at_ms": at_ms, "stuck": rows}))
            os.replace(unfinished, path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise StateError(
            f"{path} can't be written ({error.strerror}), so `retentiond explain` does not know "
            "what is stuck; see to free space and write permission in state_dir"
        ) from error
