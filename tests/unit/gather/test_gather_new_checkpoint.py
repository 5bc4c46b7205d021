"""A Spark query that begins anew, with a new checkpoint in the old one's place, or whose checkpoint
can't be read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from retentiond import cycle
from retentiond.config import ExternalReader
from retentiond.config.no_policy import UnreadableFile
from retentiond.cycle import run_cycle
from retentiond.errors import ConfigError
from retentiond.gather import external_positions, external_reads
from retentiond.model import Failure, PlanRow, Reason, TopicPartition
from retentiond.state.state import open_state
from tests.faults import plain_plan
from tests.support.builders.daemons import cycle_context, settings
from tests.support.fakes import FakeCluster


class Query:
    """It reads ``orders``, which has 20 records, and is its only reader. A group has read 15 of the
    other topic, ``clicks``."""

    def __init__(self, folder: Path) -> None:
        self.kafka = FakeCluster()
        self.kafka.create_topic("orders", 1)
        self.kafka.produce("orders", count=20)
        self.checkpoint = folder / "checkpoint"
        reader = {"name": "lake", "spark_checkpoint": str(self.checkpoint), "max_age": "10000d"}
        self.reader = ExternalReader.model_validate(reader)
        rule = {"retention.commitoffset.enable": True, "retention.commitoffset.ms": 0}
        self.kafka.create_topic("clicks", 1)
        self.kafka.produce("clicks", count=20)
        self.kafka.commit("billing", {TopicPartition("clicks", 0): 15})
        named = {"name": "orders", **rule, "groups": {"external": [reader]}}
        topics = [named, {"name": "clicks", **rule}]
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

    def plan(self) -> dict[str, PlanRow]:
        """Of a cycle, by topic."""
        with open_state(self.config.state_dir) as state:
            rows = run_cycle(cycle_context(self.kafka), self.config, state).report.plan.rows
        return {row.topic: row for row in rows}

    def cycle(self) -> PlanRow:
        return self.plan()["orders"]

    def breaks(self) -> None:
        """Something is there, and can't be read, whoever is asked."""
        shutil.rmtree(self.checkpoint, ignore_errors=True)
        (self.checkpoint / "offsets" / "3").mkdir(parents=True)

    @property
    def log_start(self) -> int:
        return self.kafka.partition("orders").log_start


@pytest.fixture
def unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Query:
    """Of which no cycle has seen anything."""
    monkeypatch.setattr(cycle, "decide", plain_plan.decide)
    return Query(tmp_path)


@pytest.fixture
def query(unread: Query) -> Query:
    """Of which a cycle has deleted the ten records that it had read."""
    query = unread
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


def test_a_place_that_never_answered_may_be_about_any_topic(
    unread: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    unread.batch(7, 10)
    monkeypatch.setattr(external_reads, "MOST_UNDER_WAY", 0)
    assert unread.plan()["clicks"].reason is Reason.GROUP_UNREADABLE


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


def test_one_that_is_there_and_was_never_read_may_read_any_topic(unread: Query) -> None:
    unread.breaks()
    for _ in range(2):
        row = unread.plan()["clicks"]
        assert (row.reason, row.binding_group) == (Reason.GROUP_UNREADABLE, "lake")
        assert "which topics it reads is not known, so it may read any" in str(row.detail)
    unread.begins_anew(10)
    assert unread.plan()["clicks"].reason is Reason.CONSUMED


def test_one_that_was_read_before_holds_the_topics_that_it_read(query: Query) -> None:
    query.breaks()
    query.kafka.commit("billing", {TopicPartition("clicks", 0): 18})
    rows = query.plan()
    assert rows["clicks"].reason is Reason.CONSUMED
    assert rows["orders"].reason is Reason.GROUP_UNREADABLE
    assert query.kafka.partition("clicks").log_start == 18


def test_one_of_a_bad_file_may_read_any_topic_although_another_reader_has_its_name(
    query: Query, tmp_path: Path
) -> None:
    """What the other one reads, now and in earlier cycles, says nothing about it."""
    place = tmp_path / "bad"
    (place / "offsets" / "3").mkdir(parents=True)
    lake = ExternalReader.model_validate({"name": "lake", "spark_checkpoint": str(place)})
    bad = UnreadableFile.because_of(ConfigError("bad"), "teams.yaml", "", [lake])
    query.config = query.config.holding([bad])
    query.kafka.commit("billing", {TopicPartition("clicks", 0): 18})
    for _ in range(2):
        row = query.plan()["clicks"]
        assert (row.reason, row.binding_group) == (Reason.GROUP_UNREADABLE, "lake")
    assert query.kafka.partition("clicks").log_start == 15


def test_one_that_is_not_there_holds_the_topics_that_name_it(unread: Query) -> None:
    assert unread.plan()["clicks"].reason is Reason.CONSUMED
