"""The deletions whose bytes the brokers have yet to free, from one cycle to the next.

A JSON file that is replaced as a whole: named tuples as arrays. It is information, so a crash may
lose its last words, and a file that can't be understood is as good as none: those deletions' freed
bytes stay unknown.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from retentiond.disk.awaited import Awaited
from retentiond.disk.replica import ReplicaKey
from retentiond.errors import StateError
from retentiond.model import TopicPartition

AWAITED_NAME = "awaited.json"


def read_awaited(state_dir: Path) -> tuple[Awaited, ...]:
    """As it was written last; empty where there is no file, or none that can be understood."""
    try:
        stored = json.loads((state_dir / AWAITED_NAME).read_bytes())
        return tuple(_awaited(*each) for each in stored)
    except (OSError, ValueError, TypeError):
        return ()


def write_awaited(state_dir: Path, awaited: Sequence[Awaited]) -> None:
    """Raises `StateError`."""
    path = state_dir / AWAITED_NAME
    unfinished = path.with_name(f"{path.name}.new")
    try:
        unfinished.write_text(json.dumps(awaited))
        os.replace(unfinished, path)
    except OSError as error:
        raise StateError(
            f"{path} can't be written ({error.strerror}), so what deletions free stays unknown; "
            "see to free space and write permission in state_dir"
        ) from error


def _awaited(cycle_id: str, replica: list[Any], *figures: Any) -> Awaited:
    (topic, partition), broker, log_dir = replica
    return Awaited(
        cycle_id, ReplicaKey(TopicPartition(topic, partition), broker, log_dir), *figures
    )
