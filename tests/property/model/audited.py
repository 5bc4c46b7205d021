"""What the audit log says, read by SQL alone, and whether it is true."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from retentiond.model import Outcome, TopicPartition

if TYPE_CHECKING:
    from tests.property.model.ledger import Ledger

COLUMNS = "id, cycle_id, topic, partition, topic_id, cutoff, outcome"


class Intent(NamedTuple):
    """One deletion; ``outcome`` None is open."""

    id: int
    cycle_id: str
    topic: str
    partition: int
    topic_id: str
    cutoff: int
    outcome: str | None


def intents(state_dir: Path, condition: str = "true") -> list[Intent]:
    """Oldest first; none where there is no audit log yet."""
    path = state_dir / "audit.db"
    if not path.exists():
        return []
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        rows = connection.execute(f"SELECT {COLUMNS} FROM deletions WHERE {condition} ORDER BY id")
        return [Intent(*row) for row in rows]


def open_intents(state_dir: Path) -> Mapping[TopicPartition, Intent]:
    """The latest of each partition."""
    found = intents(state_dir, "outcome IS NULL")
    return {TopicPartition(each.topic, each.partition): each for each in found}


def check_settled(state_dir: Path, ledger: Ledger) -> None:
    """Each deletion has an outcome, which says what really happened or that nobody knows."""
    for each in intents(state_dir):
        assert each.outcome is not None, "a deletion has no outcome"
        if each.id not in ledger.checked and each.outcome != Outcome.UNKNOWN:
            ledger.checked.add(each.id)
            ledger.met[f"outcome {each.outcome}"] += 1
            _check_outcome(each, ledger)
        ledger.last_intent = each.id


def _check_outcome(each: Intent, ledger: Ledger) -> None:
    at = TopicPartition(each.topic, each.partition)
    requests = [one for one in ledger.requests if one.cycle_id == each.cycle_id and one.at == at]
    if each.outcome == Outcome.NOT_ATTEMPTED:
        assert not requests
    elif each.outcome == Outcome.FAILED:
        assert requests
        assert not any(one.applied or one.is_late for one in requests)
    elif all(one.log_id[0] == each.topic_id for one in requests):  # it reached no other topic
        assert ledger.reached[each.topic_id, each.partition] >= each.cutoff
