"""What the audit log says, read by SQL alone, and whether it is true."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from retentiond.model import Outcome, TopicPartition

if TYPE_CHECKING:
    from tests.property.model.harm import Judge, Request

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


def intents(state_dir: Path, condition: str) -> list[Intent]:
    """Oldest first; none where there is no audit log yet."""
    path = state_dir / "audit.db"
    if not path.exists():
        return []
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        rows = connection.execute(f"SELECT {COLUMNS} FROM deletions WHERE {condition} ORDER BY id")
        return [Intent(*row) for row in rows]


def open_intents(
    state_dir: Path, cutoffs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The number of each deletion. Before a request goes out, they are on disk."""
    on_disk = {(each.topic, each.partition): each for each in intents(state_dir, "outcome IS NULL")}
    for at, cutoff in cutoffs.items():
        assert at in on_disk, f"the audit log lacks {at}"
        assert on_disk[at].cutoff == cutoff, f"the audit log has {on_disk[at]}, and not {cutoff}"
    return {at: on_disk[at].id for at in cutoffs}


def check_outcomes(state_dir: Path, judge: Judge) -> None:
    """After a cycle: each deletion has an outcome, which says what really happened, or that
    nobody knows."""
    if not judge.world.met["fail_over"]:  # else those of the other cluster may be open
        here = (
            f"cycle_id IN (SELECT cycle_id FROM cycles WHERE cluster_id = '{judge.world.here.id}')"
        )
        assert not intents(state_dir, f"outcome IS NULL AND {here}"), "a deletion has no outcome"
    state = state_dir.name
    for each in intents(state_dir, f"id > {judge.audited.get(state, 0)}"):
        if each.outcome is None:
            continue
        judge.audited[state] = each.id
        judge.world.met[f"outcome {each.outcome}"] += 1
        asked = [one for one in judge.requests if one.intent == (state, each.id)]
        _check_outcome(each, asked, judge)


def _check_outcome(each: Intent, asked: Sequence[Request], judge: Judge) -> None:
    if each.outcome == Outcome.NOT_ATTEMPTED:
        assert not asked, f"{each} went out"
    elif each.outcome == Outcome.FAILED:
        assert asked, f"{each} did not go out"
        assert not any(one.applied or one.late for one in asked), f"{each} was applied"
    elif each.outcome == Outcome.DELETED and all(one.topic_id == each.topic_id for one in asked):
        assert judge.reached[each.topic_id, each.partition] >= each.cutoff, (
            f"{each} was not applied"
        )
