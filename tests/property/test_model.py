"""The model: random lives of readers, two clusters, and a daemon that deletes from them.

See `tests.property.model.harm` for what must not happen to a reader.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

import retentiond.act.carry_out
import retentiond.state.state
import tests.property.model.daemon
from retentiond.act.approved import Approved, CommitEvidence
from retentiond.act.guard import Verified
from retentiond.config.disks import DiskPressure
from retentiond.disks.log_dirs import DiskReading
from retentiond.disks.pressure import Pressure, pressure
from retentiond.model import GroupKind, Outcome, PlanRow, Reason, Verdict
from retentiond.state.groups import GroupMemory
from tests.property.model.walk import live, told, walk
from tests.property.model.world import FULL_DISK
from tests.support.tiers import runs

STEPS = runs(20_000, quick=4_000)

SEED = os.environ.get("RETENTIOND_MODEL_SEED", "11")
"""The same lives in each run, so that one that fails is about what has changed; `random` draws
others."""

OFTEN = {
    Reason.CONSUMED,
    Reason.EMPTY,
    Reason.TOO_YOUNG,
    Reason.NOT_CONSUMED,
    Reason.REQUIRED_GROUP_MISSING,
    Reason.GROUP_WITHOUT_COMMIT,
    Reason.GROUP_VANISHED,
    Reason.GROUP_UNREADABLE,
    Reason.GROUP_LIST_INCOMPLETE,
    Reason.OFFSET_UNREADABLE,
    Reason.TOPIC_RECREATED,
    Reason.EVIDENCE_CHANGED,
    Reason.LIMIT_REACHED,
    Reason.PAUSED,
}
"""Reasons that come up many times in a run; `test_model_lives` has a life for each other."""


@pytest.mark.long
@pytest.mark.timeout(1800)  # a minute; a time-out would look like a failure to be shortened
def test_no_reader_loses_a_record_whatever_happens() -> None:
    """A failure prints the shortest life like it, for `test_model_lives`."""
    seed = int.from_bytes(os.urandom(4), "big") if SEED == "random" else int(SEED)
    met, harmed = walk(seed, STEPS)

    print(f"seed {seed}", {str(name): count for name, count in met.most_common()})
    assert harmed is None, told(harmed)
    assert met["steps"] >= STEPS
    assert met["cycles"] >= STEPS / 5
    assert met["requests"] >= STEPS / 50
    assert {reason for reason in Reason if met[reason]} >= OFTEN
    assert met[f"outcome {Outcome.FAILED}"]
    assert met["cycles under pressure"]
    assert met["deletions that only pressure allows"]
    assert sum(count for name, count in met.items() if name.startswith("killed at")) >= 50


def approve_everything(rows: Iterable[PlanRow], *_readings: object) -> Verified:
    """In place of `retentiond.act.guard.verify`."""
    planned = tuple(rows)
    doomed = (row for row in planned if row.verdict is Verdict.DELETE)
    return Verified(tuple(map(_approved, doomed)), planned)


def _approved(row: PlanRow) -> Approved:
    assert row.topic_id is not None
    assert row.cutoff is not None
    assert row.log_start_offset is not None
    evidence = CommitEvidence((("somebody", GroupKind.CLASSIC),), (row.cutoff,))
    return Approved(
        row.topic, row.partition, row.topic_id, row.cutoff, row.log_start_offset, evidence, row
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("owner", "part", "stand_in"),
    [
        (retentiond.act.carry_out, "verify", approve_everything),
        (retentiond.state.state, "read_pause", lambda _state_dir: None),
        (GroupMemory, "remember", lambda *_, **__: None),
    ],
    ids=["a guard that approves everything", "a brake without effect", "no memory of groups"],
)
def test_the_model_finds(
    owner: Any, part: str, stand_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its silence would prove nothing. Nothing unusual has to happen for it."""
    monkeypatch.setattr(owner, part, stand_in)

    assert walk(seed=1, steps=STEPS, may=())[1] is not None


def test_the_model_finds_a_daemon_that_takes_every_disk_for_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    always = DiskPressure(below_free=50.0, until_free=50.0)

    def full(reading: DiskReading, _rules: DiskPressure, *rest: Any) -> Pressure:
        return pressure(reading, always, *rest)

    monkeypatch.setattr(tests.property.model.daemon, "pressure", full)

    _, harmed = walk(seed=1, steps=STEPS, may=(FULL_DISK,))
    assert harmed is not None
    assert "records are too young" in str(live(harmed)[1])
