"""A disk that fills up within a cycle: nothing goes that is not written down, and no group is
forgotten.

The fast group has read all of ten records, the slow one three and then five; once the slow one is
gone from the cluster, only the memory keeps the other five.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from retentiond.model import Outcome
from tests.contract.real import RealDriver
from tests.faults.held import Held
from tests.faults.plain_plan import without_spark
from tests.support.brokers.command import configure
from tests.support.brokers.cycles import Stage, arrange_deletion

pytestmark = [pytest.mark.broker, pytest.mark.thorough("kills")]


@pytest.fixture
def stage(driver: RealDriver, tmp_path: Path, topic_name: str) -> Iterator[Stage]:
    """What both groups have read is deleted."""
    configure(tmp_path, driver.broker.bootstrap_servers, topic_name, dry_run=False)
    with without_spark():
        made = Stage(driver, tmp_path, topic_name)
        made.commit(made.fast, 10)
        made.commit(made.slow, 3)
        arrange_deletion(made.retentiond, topic_name, 3)
        yield made


FULL_BEFORE = {
    "before the groups are remembered": [],
    "before the cycle's beginning is recorded": [],
    "while the intents are being written": [],
    "before the outcomes are written": [None],
}
"""From which step of a cycle on no file can grow, and what the audit log has of the deletion."""


@pytest.mark.parametrize("step", FULL_BEFORE)
def test_on_a_full_disk_nothing_goes_that_is_not_written_down_and_no_group_is_forgotten(
    stage: Stage, step: str
) -> None:
    stage.commit(stage.slow, 5)
    known = len(stage.retentiond.audit)
    with Held(step, "run", "--once", cwd=stage.folder) as process:
        process.await_step()
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, 0))
        process.release()
        assert process.wait(60) == 1
    left = [each.outcome for each in stage.retentiond.audit[known:]]
    assert left == FULL_BEFORE[step]
    assert stage.log_start == (5 if left else 3)

    stage.retentiond.settle()
    stage.retentiond.cycle()
    (deletion,) = stage.retentiond.audit[known:]
    assert (deletion.row.cutoff, deletion.outcome) == (5, Outcome.DELETED)
    stage.driver.delete_group(stage.slow)
    assert stage.told.reason == "group_vanished"
    assert stage.log_start == 5
