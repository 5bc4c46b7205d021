"""The model: random lives of a cluster and of a daemon that deletes from it.

See `tests.property.model.ledger` for what must hold, and how it is checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

import retentiond.cycle
import retentiond.state.state
from retentiond.act.approved import Approved, GroupEvidence
from retentiond.act.guard import Verified
from retentiond.collect.snapshot import Snapshot
from retentiond.model import GroupKind, Outcome, PlanRow, Reason, Verdict
from retentiond.state.memory import Memory
from tests.property.model.machine import Model

LIVES = 260
STEPS_OF_A_LIFE = 50
STEPS = 10_000

FEW = LIVES  # at most: what is broken comes out in one of the first

SETTINGS = settings(
    stateful_step_count=STEPS_OF_A_LIFE,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    report_multiple_bugs=False,
)

OFTEN = {
    Reason.CONSUMED,
    Reason.EMPTY,
    Reason.TOO_YOUNG,
    Reason.NOT_CONSUMED,
    Reason.NO_GROUP,
    Reason.REQUIRED_GROUP_MISSING,
    Reason.GROUP_WITHOUT_COMMIT,
    Reason.GROUP_VANISHED,
    Reason.GROUP_UNREADABLE,
    Reason.GROUP_LIST_INCOMPLETE,
    Reason.OFFSET_UNREADABLE,
    Reason.TOPIC_RECREATED,
    Reason.EVIDENCE_CHANGED,
    Reason.LIMIT_REACHED,
}
"""Reasons that come up a hundred times in a run; `test_model_lives` has a life for each other."""


@pytest.fixture
def met() -> Iterator[Counter[str]]:
    """What came up in the lives of this test."""
    Model.met.clear()
    yield Model.met
    Model.met.clear()


@pytest.mark.long
@pytest.mark.timeout(900)  # a minute; a time-out would look like a failure to be shrunk
def test_nothing_is_deleted_that_somebody_needs_whatever_happens(met: Counter[str]) -> None:
    run_state_machine_as_test(Model, settings=settings(SETTINGS, max_examples=LIVES))

    print({str(name): count for name, count in met.most_common()})
    assert met["steps"] >= STEPS
    assert met["cycles"] >= STEPS / 5
    assert met["requests"] >= STEPS / 50
    assert {reason for reason in Reason if met[reason]} >= OFTEN
    assert met[f"outcome {Outcome.FAILED}"]
    assert sum(count for name, count in met.items() if name.startswith("killed at")) >= 50


def approve_everything(rows: Iterable[PlanRow], _first: Snapshot, _second: Snapshot) -> Verified:
    """In place of `retentiond.act.guard.verify`."""
    planned = tuple(rows)
    return Verified(tuple(map(_approved, filter(_is_deletion, planned))), planned)


def _is_deletion(row: PlanRow) -> bool:
    return row.verdict is Verdict.DELETE


def _approved(row: PlanRow) -> Approved:
    assert row.topic_id is not None
    assert row.cutoff is not None
    assert row.log_start_offset is not None
    evidence = GroupEvidence("somebody", GroupKind.CLASSIC, row.cutoff)
    return Approved(
        row.topic, row.partition, row.topic_id, row.cutoff, row.log_start_offset, (evidence,), row
    )


@pytest.mark.parametrize(
    ("owner", "part", "stand_in"),
    [
        (retentiond.cycle, "verify", approve_everything),
        (retentiond.state.state, "read_pause", lambda _state_dir: None),
        (Memory, "remember", lambda *_: None),
    ],
    ids=["a guard that approves everything", "a brake without effect", "no memory of groups"],
)
def test_the_model_finds(
    owner: Any, part: str, stand_in: Any, monkeypatch: pytest.MonkeyPatch, met: Counter[str]
) -> None:
    """Otherwise its silence would prove nothing."""
    monkeypatch.setattr(owner, part, stand_in)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            Model,
            settings=settings(
                SETTINGS, max_examples=FEW, derandomize=True, phases=[Phase.generate]
            ),
        )
    assert met["steps"] <= FEW * STEPS_OF_A_LIFE
