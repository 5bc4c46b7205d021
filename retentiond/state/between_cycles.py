"""What one cycle leaves for the next: bytes to be freed, stuck retention, whose turn it is, and
when a cycle was last complete.

Each is a JSON file that is replaced as a whole, named tuples as arrays; stuck retention and turns
have none while nothing is stuck, and nobody waits. They are information, or order what is done: one
that can't be understood is as good as none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from retentiond.disks.freed import Awaited
from retentiond.disks.log_dirs import ReplicaKey
from retentiond.disks.stuck import Stuck, StuckCause
from retentiond.formatting import rfc3339
from retentiond.model import TopicPartition
from retentiond.state.state_dir import remove, write_json

AWAITED_NAME = "awaited.json"

STUCK_NAME = "stuck.json"

WAITING_NAME = "waiting.json"

LAST_COMPLETE_NAME = "last_complete.json"

UNREADABLE = (OSError, ValueError, TypeError, KeyError, OverflowError)

SEE_TO = "see to free space and write permission in state_dir"


def read_awaited(state_dir: Path) -> tuple[Awaited, ...]:
    """The deletions whose bytes the brokers have yet to free."""
    try:
        return tuple(_awaited(*each) for each in _read(state_dir / AWAITED_NAME))
    except UNREADABLE:
        return ()


def write_awaited(state_dir: Path, awaited: Sequence[Awaited]) -> None:
    """Raises `StateError`."""
    consequence = f", so what deletions free stays unknown; {SEE_TO}"
    write_json(state_dir / AWAITED_NAME, awaited, consequence)


def _awaited(cycle_id: str, replica: list[Any], *figures: Any) -> Awaited:
    (topic, partition), broker, log_dir = replica
    return Awaited(
        cycle_id, ReplicaKey(TopicPartition(topic, partition), broker, log_dir), *figures
    )


def read_stuck(state_dir: Path) -> tuple[Stuck, ...]:
    """As they were found last: only a process that compares its readings for a quarter of an hour
    can find them. Each sentence says when."""
    try:
        stored = _read(state_dir / STUCK_NAME)
        seen = f"as the daemon saw it at {rfc3339(stored['at_ms'])}"
        return tuple(
            Stuck(TopicPartition(topic, partition), StuckCause(cause), f"{sentence} ({seen})")
            for topic, partition, cause, sentence in stored["stuck"]
        )
    except UNREADABLE:
        return ()


def write_stuck(state_dir: Path, stuck: Sequence[Stuck], at_ms: int) -> None:
    """Raises `StateError`."""
    rows = [[*each.at, each.cause.value, each.sentence] for each in stuck]
    consequence = f", so `retentiond explain` does not know what is stuck; {SEE_TO}"
    _write_some(state_dir / STUCK_NAME, rows and {"at_ms": at_ms, "stuck": rows}, consequence)


def read_waiting(state_dir: Path) -> tuple[TopicPartition, ...]:
    """Who has waited longest comes first."""
    try:
        stored = _read(state_dir / WAITING_NAME)
        return tuple(TopicPartition(topic, partition) for topic, partition in stored)
    except UNREADABLE:
        return ()


def write_waiting(state_dir: Path, waiting: Sequence[TopicPartition]) -> None:
    """Raises `StateError`."""
    consequence = f", so what a limit left out would not come first next time; {SEE_TO}"
    _write_some(state_dir / WAITING_NAME, waiting, consequence)


class LastComplete(NamedTuple):
    """The last complete cycle: which cluster it was about, and when it was planned."""

    cluster_id: str
    planned_at_ms: int


def read_last_complete(state_dir: Path, now_ms: int) -> LastComplete | None:
    """None: there was none. A time that is still to come is none: the clock has been set."""
    try:
        cluster_id, planned_at_ms = _read(state_dir / LAST_COMPLETE_NAME)
        last = LastComplete(str(cluster_id), int(planned_at_ms))
    except UNREADABLE:
        return None
    return last if 0 < last.planned_at_ms <= now_ms else None


def write_last_complete(state_dir: Path, last: LastComplete) -> None:
    """Raises `StateError`."""
    consequence = f", so after a restart no cycle would seem to have been complete; {SEE_TO}"
    write_json(state_dir / LAST_COMPLETE_NAME, last, consequence)


def _read(path: Path) -> Any:
    return json.loads(path.read_bytes())


def _write_some(path: Path, document: object, consequence: str) -> None:
    """An empty one has no file."""
    if document:
        write_json(path, document, consequence)
    else:
        remove(path, consequence)
