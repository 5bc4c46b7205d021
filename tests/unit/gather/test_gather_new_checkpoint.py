"""A Spark query that begins anew, with a new checkpoint in the old one's place."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from retentiond import cycle
from retentiond.config import ExternalReader
from retentiond.cycle import run_cycle
from retentiond.gather import external_positions
from retentiond.model import Failure, PlanRow, Reason
from retentiond.state.state import open_state
from tests.faults import plain_plan
from tests.support.builders.daemons import cycle_context, settings
from tests.support.fakes import FakeCluster


class Query:
    """It reads ``orders``, which has 20 records, and is its only reader."""

    def __init__(self, folder: Path) -> None:
        self.kafka = FakeCluster()
        self.kafka.create_topic("orders", 1)
        self.kafka.produce("orders", count=20)
        self.checkpoint = folder / "checkpoint"
        reader = {"name": "lake", "spark_checkpoint": str(self.checkpoint), "max_age": "10000d"}
        self.reader = ExternalReader.model_validate(reader)
        rule = {"retention.commitoffset.enable": True, "retention.commitoffset.ms": 0}
        topics = [{"name": "orders", **rule, "groups": {"external": [reader]}}]
        self.config = settings(folder / "state", dry_run=False, topics=topics)

    def batch(self, number: int, end: int, *, done: bool = True) -> None:
        for part, text in (
            ("offsets", f'v1\n{{}}\n{{"orders":{{"0":{end}}}}}'),
            *([("commits", "v1\n{}")] if done else []),
        ):
            (self.checkpoint / part).mkdir(parents=True, exist_ok=True)
            (self.checkpoint / part / str(number)).write_text(text)

    def begins_anew(self, end: int, *, done: bool = True) -> None:
        """``end``: of its first batch."""
        shutil.rmtree(self.checkpoint)
        self.batch(0, end, done=done)

    def cycle(self) -> PlanRow:
        with open_state(self.config.state_dir) as state:
            (row,) = run_cycle(cycle_context(self.kafka), self.config, state).report.plan.rows
        return row

    @property
    def log_start(self) -> int:
        return self.kafka.partition("orders").log_start


@pytest.fixture
def query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Query:
    """Of which a cycle has deleted the ten records that it had read."""
    monkeypatch.setattr(cycle, "decide", plain_plan.decide)
    query = Query(tmp_path)
    query.batch(7, 10)
    query.cycle()
    assert query.log_start == 10
    return query


def test_until_its_first_batch_is_done_nothing_goes(query: Query) -> None:
    query.begins_anew(15, done=False)
    assert query.cycle().reason is Reason.GROUP_UNREADABLE
    assert query.log_start == 10


def test_what_it_passes_over_by_its_own_choice_goes_as_after_a_reset_of_a_group(
    query: Query,
) -> None:
    query.begins_anew(15)
    assert query.cycle().reason is Reason.CONSUMED
    assert query.log_start == 15


@pytest.mark.parametrize(("end", "reason"), [(10, Reason.NOT_CONSUMED), (9, Reason.COMMIT_REWOUND)])
def test_one_that_goes_back_is_a_rewind(query: Query, end: int, reason: Reason) -> None:
    query.begins_anew(end)
    assert query.cycle().reason is reason
    assert query.log_start == 10


def test_a_first_batch_that_takes_the_old_one_s_place_in_the_midst_of_a_reading_is_not_done(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.begins_anew(10)
    sources = external_positions._sources

    def replaced(offsets: Path) -> list[str]:
        query.begins_anew(20, done=False)
        return sources(offsets)

    monkeypatch.setattr(external_positions, "_sources", replaced)
    position = external_positions.read_external(query.reader, query.kafka.now_ms, query.kafka)
    assert isinstance(position, Failure)
