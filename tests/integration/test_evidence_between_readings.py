"""What changes between the plan and the guard's reading, on a real broker.

Each time the plan was right when it was made: seven of ten records can be deleted. Then a
group lowers what can be deleted, and the guard is to find it. Whatever else a second reading may
show is tests/unit/act/test_act_guard.py's matter.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from retentiond.model import GroupKind
from tests.contract.real import RealDriver
from tests.support.brokers.cycles import Stage, Told, deleted_up_to, row_of, told

pytestmark = pytest.mark.broker


@pytest.fixture
def stage(driver: RealDriver, tmp_path: Path, topic_name: str) -> Stage:
    """Of whose records the slow group has read seven."""
    made = Stage(driver, tmp_path, topic_name)
    made.commit(made.slow, 7)
    return made


def changed(sentence: str) -> Told:
    return Told("hold", "evidence_changed", sentence)


def test_a_group_that_goes_back_holds_and_the_next_cycle_takes_its_new_offset(
    stage: Stage,
) -> None:
    report = stage.retentiond.cycle(before_guard=lambda: stage.commit(stage.slow, 4))
    sentence = f"group {stage.slow} moved back from 7 to 4"
    assert told(report, stage.topic) == changed(sentence)
    row = row_of(report, stage.topic)
    assert (row.binding_group, row.binding_committed_offset) == (stage.slow, 4)
    assert stage.log_start == 0
    assert stage.retentiond.audit == []

    assert deleted_up_to(stage.retentiond.cycle(), stage.topic) == 4
    assert stage.log_start == 4


@pytest.mark.parametrize("kind", [GroupKind.CLASSIC, GroupKind.CONSUMER])
def test_a_group_that_subscribes_and_has_not_committed_yet_holds(
    stage: Stage, kind: GroupKind
) -> None:
    newcomer = f"newcomer-{stage.topic}"
    member = stage.driver.subscribed(newcomer, kind, [stage.topic])
    with ExitStack() as meanwhile:
        report = stage.retentiond.cycle(before_guard=lambda: meanwhile.enter_context(member))
    sentence = f"group {newcomer} has no commit on the partition"
    assert told(report, stage.topic) == changed(sentence)
    assert stage.log_start == 0
