"""Whole cycles on a cluster in memory: dry runs, slices, and what becomes of what went wrong."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from retentiond import cycle
from retentiond.act import carry_out, guard, slices
from retentiond.act.evidence import Evidence
from retentiond.act.guard import arranged
from retentiond.clock import Uptime, seconds_since_boot
from retentiond.cycle import CycleContext, run_cycle
from retentiond.daemon.engine import Engine
from retentiond.disks import broker_disks
from retentiond.errors import KafkaUnavailable, OtherCluster, StateError
from retentiond.formatting import HOUR_MS
from retentiond.kafka.interface import ListedGroup, TopicConfig
from retentiond.kafka.offsets.by_time import AGE_IS_HIDDEN
from retentiond.memory.readers import GroupOnTopic
from retentiond.model import Commit, Failure, Outcome, PlanRow, Reason, TopicPartition, Verdict
from retentiond.snapshot import Snapshot
from retentiond.state.audit import Audit
from retentiond.state.audit_file import AUDIT_NAME
from retentiond.state.audit_records import CycleRecord, read_deletions
from retentiond.state.groups import GroupMemory
from retentiond.state.operator_actions import Pause, write_pause
from retentiond.state.state import KeptFile, LastComplete, State, open_state, read_kept
from retentiond.tell.report import CycleReport, figures
from tests.faults import plain_plan
from tests.support import oracle
from tests.support.audited import read_cycles
from tests.support.builders.daemons import cycle_context, settings
from tests.support.fakes import FakeCluster
from tests.support.fakes.world import OFFSETS_TOPIC

AT = TopicPartition("orders", 0)


class Counting(FakeCluster):
    """``listings``: how often it was asked for its groups; ``at_listing``: what happens right
    before one of them, by its number. ``at_topics``: the same of the topics, once a reading.
    ``host_ahead_ms``: how far the wall clock of retentiond's host is ahead."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.folder, self.state, self.patch = folder, folder / "state", patch
        self.host_ahead_ms = 0
        self.listings = 0
        self.at_listing: dict[int, Callable[[], object]] = {}
        self.at_topics: dict[int, Callable[[], object]] = {}
        self.readings = 0
        self.create_topic("orders", 1)
        self.produce("orders", count=10)
        self.commit("billing", {AT: 7})

    def list_groups(self) -> Sequence[ListedGroup]:
        self.listings += 1
        self.at_listing.get(self.listings, lambda: None)()
        return super().list_groups()

    def topic_configs(self, names: Collection[str]) -> Mapping[str, TopicConfig | Failure]:
        self.readings += 1
        self.at_topics.get(self.readings, lambda: None)()
        return super().topic_configs(names)

    def run(self, **settings: Any) -> CycleReport:
        return run(self, self.folder, **settings)

    def add_topics(self, *topics: str) -> None:
        """Of each the same group has read as much."""
        for topic in topics:
            self.create_topic(topic, 1)
            self.produce(topic, count=10)
            self.commit("billing", {TopicPartition(topic, 0): 7})

    def by_slices(self, *topics: str) -> None:
        """With these topics, too, and one partition in each slice."""
        self.patch.setattr(slices, "MOST_PARTITIONS", 1)
        self.add_topics(*topics)

    def log_starts_of(self, *topics: str) -> list[int]:
        return [self.partition(topic).log_start for topic in topics]

    def results(self) -> list[str | None]:
        """By the audit log."""
        with closing(sqlite3.connect(self.state / AUDIT_NAME)) as connection:
            return [result for (result,) in connection.execute("SELECT result FROM cycles")]

    def last_complete(self) -> LastComplete | None:
        return read_kept(self.state).complete_by(self.now_ms)


def outcomes(report: CycleReport) -> dict[str, Outcome]:
    return {at.topic: each.outcome for at, each in report.outcomes.items()}


@pytest.fixture
def kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counting:
    return Counting(tmp_path, monkeypatch)


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycle, "decide", plain_plan.decide)


def run(
    kafka: FakeCluster,
    folder: Path,
    *,
    dry_run: bool = False,
    elapsed: Callable[[], float] | None = None,
    deleting: threading.Event | None = None,
    stop: threading.Event | None = None,
    retention_ms: int = 0,
    pressure_ms: int | None = None,
    trials: Collection[str] = (),
    limits: Mapping[str, int] | None = None,
) -> CycleReport:
    rule = {"retention.commitoffset.enable": True, "retention.commitoffset.ms": retention_ms}
    pressure: dict[str, object] = {}
    if pressure_ms is not None:
        rule["retention.commitoffset.pressure.ms"] = pressure_ms
        pressure = {"disk_pressure": {"below_free": "50%", "until_free": "60%"}}
    config = settings(
        folder / "state",
        **pressure,
        schedule={},
        dry_run=dry_run,
        limits=limits or {},
        topics=[
            *(
                {"name": name, **rule, "dry_run": name in trials}
                for name in ("orders", "views", "zones", "zulu")
            ),
            {"pattern": "(stage|orders)[.].*", **rule},
        ],
    )
    elapsed = elapsed or (lambda: kafka.now_ms / 1000)
    began_ms, began_s = kafka.now_ms, elapsed()

    def now() -> int:
        """The host's wall clock, which goes on with the even one unless somebody sets it."""
        passed_ms = round(1000 * (elapsed() - began_s))
        return began_ms + passed_ms + getattr(kafka, "host_ahead_ms", 0)

    context = cycle_context(
        kafka,
        now=now,
        stop=stop or threading.Event(),
        elapsed=elapsed,
        deleting=deleting or threading.Event(),
    )
    with open_state(config.state_dir) as state:
        return run_cycle(context, config, state).report


def test_it_reads_once_and_asks_for_no_deletion(kafka: Counting) -> None:
    report = kafka.run(dry_run=True)
    (row,) = report.plan.rows
    assert (row.verdict, row.cutoff, row.records) == (Verdict.DELETE, 7, 7)
    assert row.dry_run
    assert report.outcome(row).outcome is Outcome.NOT_ATTEMPTED
    assert kafka.listings == 1
    assert kafka.partition("orders").log_start == 0


def test_a_trial_is_planned_beside_what_is_deleted_and_takes_nothing_from_it(
    kafka: Counting,
) -> None:
    kafka.create_topic("views", 1)
    kafka.produce("views", count=10)
    kafka.commit("billing", {TopicPartition("views", 0): 6})

    report = kafka.run(
        trials=["orders"],
        limits={"partitions_per_cycle": 1, "records_per_cycle": 6},
    )

    orders, views = report.plan.rows
    assert (orders.verdict, orders.cutoff, orders.records) == (Verdict.DELETE, 7, 7)
    assert (orders.dry_run, views.dry_run, report.plan.dry_run) == (True, False, False)
    assert outcomes(report) == {"views": Outcome.DELETED}
    assert (kafka.partition("orders").log_start, kafka.partition("views").log_start) == (0, 6)
    assert (report.result, report.undone) == ("ok", ())
    with open_state(kafka.state) as state:
        assert [each.row.topic for each in read_deletions(state.state_dir)] == ["views"]
        assert state.kept_file.kept.waiting == ()
    (cycle_record,) = read_cycles(kafka.state)
    assert (cycle_record.result, cycle_record.not_attempted) == ("ok", 0)


def test_a_cycle_of_trials_alone_asks_for_no_deletion_and_is_whole(kafka: Counting) -> None:
    report = kafka.run(trials=["orders"])
    assert (report.result, report.undone, report.outcomes) == ("ok", (), {})
    assert kafka.listings == 1
    assert kafka.partition("orders").log_start == 0
    assert kafka.run().records_deleted == 7  # the trial is over, and its groups are known


def test_it_tells_what_speaks_for_readers_that_commit_nothing(kafka: Counting) -> None:
    assert kafka.run().unseen == ()
    kafka.create_topic("mm2-offset-syncs.west.internal", 1)  # which no policy enables
    (sign,) = kafka.run().unseen
    assert sign.startswith("topic mm2-offset-syncs.west.internal is MirrorMaker 2's")


def test_a_dry_run_of_topics_that_are_not_there_plans_nothing(tmp_path: Path) -> None:
    assert run(FakeCluster(), tmp_path, dry_run=True).plan.rows == ()


def test_a_partition_that_deletion_has_emptied_is_empty_and_no_hold(
    kafka: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its deleted records may hide their age for as long as they lie in the active segment."""
    monkeypatch.setattr(cycle, "decide", lambda _, snapshot: tuple(oracle.plan(snapshot)))
    kafka.commit("billing", {AT: 10})
    kafka.advance(2_000)
    kafka.run(retention_ms=1_000)
    assert kafka.partition("orders").log_start == 10
    kafka.fail("offsets_at", AT, AGE_IS_HIDDEN)
    (row,) = kafka.run(retention_ms=1_000).plan.rows
    assert (row.verdict, row.reason, row.retention_offset) == (Verdict.NOTHING, Reason.EMPTY, 10)


def test_that_it_deletes_is_known_until_what_is_about_to_be_freed_is_recorded(
    kafka: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An end that was asked for waits for that."""
    deleting, seen = threading.Event(), []

    def noting(called: Callable[..., object]) -> Callable[..., object]:
        def note(*arguments: object, **named: object) -> object:
            seen.append(deleting.is_set())
            return called(*arguments, **named)

        return note

    for module, name in ((cycle, "gather"), (carry_out, "execute"), (cycle, "after_acting")):
        monkeypatch.setattr(module, name, noting(getattr(module, name)))
    kafka.run(deleting=deleting)
    assert seen == [False, True, True]


def test_a_cycle_that_is_over_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def deletes_and_fails(context: CycleContext, *_: object) -> None:
        context.deleting.set()
        assert made.is_deleting()
        raise StateError("the disk is full")

    monkeypatch.setattr("retentiond.daemon.engine.run_cycle", deletes_and_fails)
    config = settings(tmp_path, kafka={"bootstrap.servers": "127.0.0.1:1"})
    made = Engine(config, threading.Event(), observe=lambda *_, **__: None)
    try:
        with pytest.raises(StateError):
            made.run_cycle(cast(State, None))
        assert not made.is_deleting()
    finally:
        made.close()


def test_the_guard_judges_a_dry_run_too(kafka: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(spark: object, snapshot: object) -> tuple[PlanRow, ...]:
        (row,) = plain_plan.decide(spark, snapshot)  # type: ignore[arg-type]  # as it is called
        return (replace(row, cutoff=8, records=8),)

    monkeypatch.setattr(cycle, "decide", wrong)
    report = kafka.run(dry_run=True)
    (row,) = report.plan.rows
    assert (row.verdict, row.reason) == (Verdict.HOLD, Reason.EVIDENCE_CHANGED)
    assert row.detail == (
        "by the plan's own reading, group billing has committed 7, below the cutoff 8"
    )
    assert report.outcomes == {}


# Slice by slice


class Slow(Counting):
    """Each partition that a group is asked about takes ``pace_s``, each commit of a group that
    tells all as long."""

    def __init__(self, *of_counting: Any, topics: int, groups: int) -> None:
        super().__init__(*of_counting)
        self.pace_s = 0.0
        self.late_s = 0.0
        self.asked: list[tuple[tuple[str, ...], bool]] = []  # groups, and whether by name
        self.names = [f"stage.{number:03d}" for number in range(topics)]
        at = [TopicPartition(name, number) for name in self.names for number in range(2)]
        for name in self.names:
            self.create_topic(name, 2)
            for number in range(2):
                self.produce(name, number, 10)
        self.names_of_groups = [f"group-{number}" for number in range(groups)]
        for group in self.names_of_groups:
            self.commit(group, dict.fromkeys(at, 7))

    def elapsed(self) -> float:
        return seconds_since_boot() + self.late_s

    def commits(
        self, groups: Collection[str], on: Collection[TopicPartition] | None = None
    ) -> Mapping[str, Sequence[Commit] | Failure]:
        found = super().commits(groups, on)
        self.asked.append((tuple(groups), on is not None))
        for answer in found.values():
            assert not isinstance(answer, Failure)
            self.late_s += self.pace_s * len(answer if on is None else on)
        return found

    def log_starts(self) -> list[int]:
        return [self.partition(name, number).log_start for name in self.names for number in (0, 1)]


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Slow]:
    return partial(Slow, tmp_path, monkeypatch)


def test_commits_that_can_not_be_read_at_once_in_time_are_read_slice_by_slice(
    slow: Callable[..., Slow],
) -> None:
    """All of them take a minute. Each request is in time, and nothing is left."""
    kafka = slow(topics=30, groups=20)
    kafka.pace_s = 60 / (30 * 2 * 20)
    report = kafka.run(elapsed=kafka.elapsed)
    assert {*kafka.log_starts()} == {7}
    assert report.result == "ok"
    assert len(report.evidence_ages_s) == len(kafka.deletions) > 12
    assert max(report.evidence_ages_s) <= 5


@pytest.mark.parametrize("when", ["before the listing", "after the listing"])
@pytest.mark.parametrize(
    ("what", "detail"),
    [
        ("rewinds", "group group-1 moved back from 7 to 2"),
        ("is deleted", "group group-1 was there for the plan and is gone"),
        ("loses a commit", "group group-1 has no commit on the partition"),
    ],
)
def test_what_a_group_does_until_its_commits_are_asked_by_name_holds_what_it_reads(
    slow: Callable[..., Slow], when: str, what: str, detail: str
) -> None:
    kafka = slow(topics=3, groups=2)  # six commits each, and slices of two partitions
    at = TopicPartition("stage.001", 0)

    def happens() -> None:
        if what == "rewinds":
            kafka.commit("group-1", {at: 2})
        elif what == "is deleted":
            kafka.delete_group("group-1")
        else:
            del kafka.groups["group-1"].commits[at]

    def in_the_second_reading() -> None:
        if when == "before the listing":
            happens()
        else:
            kafka.script.after("list_groups", happens)

    # The plan's reading, then a slice for each topic: the second is the one about it.
    kafka.at_listing[3] = in_the_second_reading
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "MOST_PARTITIONS", 2)
        report = kafka.run()
    held = {row.topic_partition: row.detail for row in report.plan.rows if row.verdict == "hold"}
    assert any(on for _, on in kafka.asked), "nobody was asked by name"
    assert held[at] == detail
    assert kafka.partition(*at).log_start == 0


def test_what_can_not_be_read_in_time_at_all_is_left_and_told_and_the_others_are_deleted(
    slow: Callable[..., Slow],
) -> None:
    """One topic takes too long, and comes first."""
    kafka = slow(topics=6, groups=20)
    kafka.create_topic("orders.large", 100)
    large = [TopicPartition("orders.large", number) for number in range(100)]
    for at in large:
        kafka.produce(*at, 10)
    for group in kafka.names_of_groups:
        kafka.commit(group, dict.fromkeys(large, 7))
    kafka.pace_s = 0.02
    report = kafka.run(elapsed=kafka.elapsed)
    outcomes = {at: each.outcome for at, each in report.outcomes.items()}
    assert {outcomes[at] for at in large} == {Outcome.NOT_ATTEMPTED}
    assert {outcomes[at] for at in outcomes.keys() - {*large}} == {Outcome.DELETED}
    assert report.result == "incomplete"
    assert all("longer than 5.0 s" in str(report.outcomes[at].error) for at in large)
    assert {*read_kept(kafka.state).waiting} == {*large}


def test_whom_one_slice_has_shown_counts_for_the_next(kafka: Counting) -> None:
    """It reads the other topic, too, and is gone before that one's turn."""
    kafka.by_slices("views")
    kafka.at_listing[2] = lambda: kafka.join("newcomer", ["orders", "views"])
    kafka.at_listing[3] = lambda: kafka.delete_group("newcomer")
    report = kafka.run()
    assert {row.topic: row.detail for row in report.plan.rows} == {
        "orders": "group newcomer has no commit on the partition",
        "views": "group newcomer was seen to read the topic and is not there any more",
    }
    assert report.outcomes == {}


def test_a_slice_that_can_not_be_read_again_waits_and_the_next_one_goes_on(kafka: Counting) -> None:
    kafka.by_slices("views", "zones")
    kafka.at_topics[3] = lambda: raise_(KafkaUnavailable("nobody answers"))
    report = kafka.run()
    told = {at.topic: (each.outcome, each.error) for at, each in report.outcomes.items()}
    assert told == {
        "orders": (Outcome.DELETED, None),
        "views": (Outcome.NOT_ATTEMPTED, "nobody answers"),
        "zones": (Outcome.DELETED, None),
    }
    assert read_kept(kafka.state).waiting == (TopicPartition("views", 0),)


def test_each_slice_is_intended_requested_and_settled_before_the_next_is_read(
    kafka: Counting,
) -> None:
    kafka.by_slices("views")
    undone: list[tuple[int, int]] = []  # open intents and log start, at each second reading

    def look() -> None:
        unsettled = [each for each in read_deletions(kafka.state) if each.outcome is None]
        undone.append((len(unsettled), kafka.partition("orders").log_start))

    kafka.at_listing[2] = kafka.at_listing[3] = look
    assert kafka.run().records_deleted == 14
    assert undone == [(0, 0), (0, 7)]


def test_a_cycle_of_several_slices_begins_once(
    kafka: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.by_slices("views")
    recorded: list[CycleRecord] = []
    record_cycle = Audit.record_cycle

    def record(audit: Audit, cycle: CycleRecord) -> None:
        recorded.append(cycle)
        record_cycle(audit, cycle)

    monkeypatch.setattr(Audit, "record_cycle", record)
    assert len(kafka.run().evidence_ages_s) == 2
    assert [each.finished_at_ms is None for each in recorded] == [True, False]


def with_a_full_disk() -> FakeCluster:
    """One group has read all of the one topic."""
    kafka = FakeCluster()
    kafka.create_topic("zulu", 1, {"segment.bytes": "1000"})
    kafka.produce("zulu", count=1000)
    kafka.commit("billing", {TopicPartition("zulu", 0): 1000})
    kafka.usable_bytes = dict.fromkeys(kafka.brokers, 10**11)  # a tenth
    kafka.advance(2_000)
    return kafka


def test_pressure_comes_into_force_however_long_remembering_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reading of the disks is good for a minute; millions of commits take longer."""
    monkeypatch.setattr(cycle, "decide", lambda _, snapshot: tuple(oracle.plan(snapshot)))
    passed_ms = 0
    monkeypatch.setattr(broker_disks, "uptime", lambda: Uptime("the-host", passed_ms))
    remember = GroupMemory.remember

    def remember_slowly(*args: Any) -> None:
        nonlocal passed_ms
        remember(*args)
        passed_ms += 61_000

    monkeypatch.setattr(GroupMemory, "remember", remember_slowly)
    kafka = with_a_full_disk()

    (row,) = run(kafka, tmp_path, retention_ms=60_000, pressure_ms=1_000).plan.rows
    assert (row.under_pressure, row.consumed_retention_ms) == (True, 1_000)


def test_a_pause_holds_what_pressure_would_delete_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycle, "decide", lambda _, snapshot: tuple(oracle.plan(snapshot)))
    kafka = with_a_full_disk()
    (tmp_path / "state").mkdir(mode=0o700)
    write_pause(tmp_path / "state", Pause("incident 4711"))

    report = run(kafka, tmp_path, retention_ms=60_000, pressure_ms=1_000)
    (row,) = report.plan.rows
    assert (row.verdict, row.reason) == (Verdict.HOLD, Reason.PAUSED)
    assert (row.under_pressure, row.consumed_retention_ms, row.cutoff) == (True, 1_000, 1000)
    assert report.disk.relief is not None
    assert {each.planned_bytes for each in report.disk.relief} == {0}
    assert all(each.waiting_bytes for each in report.disk.relief)  # and no directory is short of it
    assert {
        each.log_dir.needed_bytes - each.short_bytes - each.waiting_bytes
        for each in report.disk.relief
    } == {0}
    assert kafka.partition("zulu").log_start == 0

    young = run(kafka, tmp_path, retention_ms=60_000, pressure_ms=5_000)
    assert [row.reason for row in young.plan.rows] == [Reason.TOO_YOUNG]


@pytest.mark.parametrize("ended_by", ["pause", "stop"])
def test_what_ends_the_deletions_during_a_slice_keeps_the_next_ones_back(
    kafka: Counting, monkeypatch: pytest.MonkeyPatch, ended_by: str
) -> None:
    """The request under way is answered and recorded."""
    kafka.by_slices("views", "zones")
    stop = threading.Event()
    delete = kafka.delete_records

    def delete_and_end(*args: Any, **named: Any) -> Any:
        if ended_by == "pause":
            write_pause(kafka.state, Pause("incident 4711"))
        else:
            stop.set()
        return delete(*args, **named)

    monkeypatch.setattr(kafka, "delete_records", delete_and_end)
    report = kafka.run(stop=stop)

    assert kafka.log_starts_of("orders", "views", "zones") == [7, 0, 0]
    assert outcomes(report) == {
        "orders": Outcome.DELETED,
        "views": Outcome.NOT_ATTEMPTED,
        "zones": Outcome.NOT_ATTEMPTED,
    }
    (recorded,) = read_deletions(kafka.state)
    assert recorded.outcome is Outcome.DELETED
    assert kafka.listings == 2  # the next ones are not read again


@pytest.mark.parametrize(
    ("set_by_ms", "said"),
    [(3_600_000, "3600.0 s forward"), (-3_600_000, "3600.0 s back"), (-1_500, "1.5 s back")],
)
def test_what_was_planned_before_the_hosts_clock_was_set_is_not_requested(
    kafka: Counting, set_by_ms: int, said: str
) -> None:
    kafka.at_listing[2] = lambda: setattr(kafka, "host_ahead_ms", set_by_ms)
    report = kafka.run()
    assert kafka.partition("orders").log_start == 0
    assert (report.outcomes[AT].outcome, report.outcomes[AT].error) == (
        Outcome.NOT_ATTEMPTED,
        f"the host's clock was set {said} meanwhile; the next cycle decides by it",
    )
    assert report.result == "incomplete"
    assert kafka.run().records_deleted == 7  # the clock goes on from there


def test_once_the_hosts_clock_is_set_no_further_slice_is_requested(kafka: Counting) -> None:
    kafka.by_slices("views", "zones")
    kafka.at_listing[3] = lambda: setattr(kafka, "host_ahead_ms", -60_000)
    report = kafka.run()
    assert outcomes(report) == {
        "orders": Outcome.DELETED,
        "views": Outcome.NOT_ATTEMPTED,
        "zones": Outcome.NOT_ATTEMPTED,
    }
    assert kafka.listings == 3


@pytest.mark.parametrize("slewed_ms", [0, 900, -900])
def test_a_hosts_clock_that_goes_a_little_faster_or_slower_keeps_nothing_back(
    kafka: Counting, slewed_ms: int
) -> None:
    kafka.at_listing[2] = lambda: setattr(kafka, "host_ahead_ms", slewed_ms)
    assert kafka.run().records_deleted == 7


@pytest.mark.parametrize(
    ("unanswered", "readings", "deleted"),
    [(range(3, 12), 2 + 3, 1), ((3, *range(5, 12)), 4 + 3, 2)],
    ids=["from the second on", "counted anew after one that can be read"],
)
def test_a_cluster_that_answers_no_slice_any_more_is_not_asked_about_all_of_them(
    kafka: Counting, unanswered: Sequence[int], readings: int, deleted: int
) -> None:
    kafka.by_slices(*(f"stage.{number}" for number in range(8)))
    for reading in unanswered:
        kafka.at_topics[reading] = partial(raise_, KafkaUnavailable("nobody answers"))
    report = kafka.run()
    assert kafka.readings == readings
    errors = Counter(each.error for each in report.outcomes.values())
    assert errors == {None: deleted, "nobody answers": 9 - deleted}
    assert report.result == "incomplete"


@pytest.mark.parametrize("ended_by", ["the reading", "the intent"])
def test_after_what_ends_the_cycle_no_further_slice_is_read(
    kafka: Counting, monkeypatch: pytest.MonkeyPatch, ended_by: str
) -> None:
    kafka.by_slices("views", "zones", "zulu")
    intend = Audit.intend

    def intend_once(*args: Any, **named: Any) -> None:
        if kafka.deletions:
            raise StateError("the disk is full")
        intend(*args, **named)

    if ended_by == "the intent":
        monkeypatch.setattr(Audit, "intend", intend_once)
    else:
        kafka.at_listing[3] = lambda: raise_(StateError("the disk is full"))
    report = kafka.run()
    told = {at.topic: (each.outcome, each.error) for at, each in report.outcomes.items()}
    assert told == {
        "orders": (Outcome.DELETED, None),
        "views": (Outcome.NOT_ATTEMPTED, "the disk is full"),
        "zones": (Outcome.NOT_ATTEMPTED, "the disk is full"),
        "zulu": (Outcome.NOT_ATTEMPTED, "the disk is full"),
    }
    assert kafka.listings == 3
    assert str(report.failure) == "the disk is full"


@pytest.mark.parametrize(("round_trip_s", "reading_s"), [(0.0, 6.0), (0.9, 4.5)])
def test_a_reading_that_took_too_long_is_done_once_more_and_no_further_time(
    kafka: Counting, monkeypatch: pytest.MonkeyPatch, round_trip_s: float, reading_s: float
) -> None:
    """By itself, or because a look at brokers far away takes what is left of its time."""
    monkeypatch.setattr(kafka, "get_ready", lambda _: round_trip_s)
    report = kafka.run(elapsed=lambda: reading_s * kafka.listings)
    assert kafka.listings == 3
    assert report.outcome(report.plan.rows[0]).outcome is Outcome.NOT_ATTEMPTED


# What the guard alone finds


@pytest.mark.long
def test_a_commit_that_only_the_guard_finds_beyond_the_end_proves_nothing_later(
    kafka: Counting,
) -> None:
    """Other records have taken the place of those that the group has read."""
    kafka.run()
    kafka.produce("orders", count=5)
    kafka.commit("billing", {AT: 15})
    kafka.at_listing[4] = lambda: kafka.partition("orders").lose_from(12, 1)
    (row,) = kafka.run().plan.rows
    assert row.detail == "the end is 12, below the cutoff 15"

    kafka.produce("orders", count=8)
    (row,) = kafka.run().plan.rows
    assert row.verdict is Verdict.HOLD
    assert row.detail is not None
    assert row.detail == (
        "group billing has committed 15 before this log had so many records, or on an earlier "
        "topic of that name: it counts when it moves"
    )
    assert kafka.partition("orders").log_start == 7

    kafka.commit("billing", {AT: 16})
    assert kafka.run().records_deleted == 9


def test_a_commit_beyond_the_end_in_a_reading_that_was_too_old_proves_nothing_in_the_next(
    kafka: Counting,
) -> None:
    kafka.at_listing[2] = lambda: kafka.partition("orders").lose_from(6, 1)
    kafka.at_listing[3] = lambda: kafka.produce("orders", count=8)
    (row,) = kafka.run(elapsed=lambda: 6 if kafka.listings > 1 else 0).plan.rows
    assert row.detail == (
        "group billing has not committed since its commit was beyond the end, or the topic was "
        "recreated"
    )


def test_a_guards_reading_that_is_not_whole_makes_the_cycle_incomplete(kafka: Counting) -> None:
    kafka.at_listing[2] = lambda: kafka.move_leader(OFFSETS_TOPIC, 0, 1)
    report = kafka.run()
    assert (report.plan.complete, report.result) == (True, "incomplete")
    assert report.plan.guard_problems == ("group coordinators moved while the groups were listed",)
    assert report.undone == (
        "1 of 1 deletions not done: the guard turned it down: the listing of groups is not "
        "complete: group coordinators moved while the groups were listed",
    )
    assert kafka.results() == ["incomplete"]


def test_groups_that_come_and_go_hold_everything_and_the_cycle_says_so(kafka: Counting) -> None:
    for cycle_number, gone in ((0, "job-1"), (1, "job-2")):
        kafka.commit(gone, {("bystander", 0): 1})
        kafka.at_listing[2 + 2 * cycle_number] = partial(kafka.delete_group, gone)
        report = kafka.run()
        assert (report.result, report.plan.guard_problems) == ("incomplete", ())
        assert report.undone == (
            f"1 of 1 deletions not done: the guard turned it down: group {gone} was listed for the "
            "plan and is no longer listed",
        )


def test_a_group_that_goes_back_between_the_readings_is_no_fault_of_the_cycle(
    kafka: Counting,
) -> None:
    """Its partition is held, and the other one is done."""
    kafka.add_topics("views")
    kafka.at_listing[2] = lambda: kafka.commit("billing", {AT: 5})
    report = kafka.run()
    assert [row.reason for row in report.plan.rows] == [Reason.EVIDENCE_CHANGED, Reason.CONSUMED]
    assert (report.result, report.undone) == ("ok", ())
    assert kafka.results() == ["ok"]


# What ends a cycle that has deleted already


class Broken(Exception):
    """As a bug would raise it."""


def raise_(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    "error",
    [OtherCluster("two clusters answer"), StateError("the disk is full"), Broken("a bug")],
    ids=lambda error: type(error).__name__,
)
def test_a_cycle_that_fails_after_it_has_deleted_tells_what_it_did(
    kafka: Counting, error: Exception
) -> None:
    kafka.by_slices("views")
    kafka.at_listing[3] = partial(raise_, error)
    report = kafka.run()

    assert (report.result, report.failure, report.records_deleted) == ("failed", error, 7)
    assert outcomes(report) == {"orders": Outcome.DELETED, "views": Outcome.NOT_ATTEMPTED}
    assert report.undone[0].startswith(f"the cycle failed: {type(error).__name__}: {error}")
    assert kafka.results() == ["failed"]
    (recorded,) = read_cycles(kafka.state)
    assert recorded.error == f"{type(error).__name__}: {error}"
    assert read_kept(kafka.state).waiting == (TopicPartition("views", 0),)


FULL = StateError("the disk is full")


record_cycle = Audit.record_cycle


def only_the_beginning(audit: Audit, cycle: CycleRecord) -> None:
    if cycle.finished_at_ms is not None:
        raise FULL
    record_cycle(audit, cycle)


@pytest.mark.parametrize(
    ("of", "method", "fails"),
    [
        (Audit, "settle", lambda *_: raise_(FULL)),
        (Audit, "record_cycle", only_the_beginning),
        (KeptFile, "keep", lambda *_, **__: raise_(FULL)),
    ],
    ids=["the outcome", "the cycle's end", "what is kept for the next one"],
)
def test_a_cycle_that_can_not_be_recorded_tells_what_it_did_and_was_not_complete(
    kafka: Counting, of: type, method: str, fails: Callable[..., None]
) -> None:
    kafka.patch.setattr(of, method, fails)
    report = kafka.run()
    assert (report.result, report.failure, report.records_deleted) == ("failed", FULL, 7)
    assert kafka.last_complete() is None


@pytest.mark.parametrize(
    ("error", "fails"),
    [
        (StateError, lambda kafka: kafka.at_listing.update({2: lambda: raise_(FULL)})),
        (
            KafkaUnavailable,
            lambda kafka: kafka.at_topics.update({2: lambda: raise_(KafkaUnavailable("gone"))}),
        ),
        (
            StateError,
            lambda kafka: kafka.patch.setattr(Audit, "intend", lambda *_, **__: raise_(FULL)),
        ),
    ],
    ids=["a listing", "a reading of topics", "the intent"],
)
def test_a_cycle_that_fails_before_it_has_deleted_is_an_error(
    kafka: Counting, error: type[Exception], fails: Callable[[Counting], None]
) -> None:
    kafka.by_slices("views")
    fails(kafka)
    with pytest.raises(error):
        kafka.run()
    assert kafka.log_starts_of("orders", "views") == [0, 0]


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_complete_cycle_is_remembered_and_one_that_is_not_changes_nothing(
    kafka: Counting, dry_run: bool
) -> None:
    plan = kafka.run(dry_run=dry_run).plan
    last = LastComplete(plan.cluster_id, plan.planned_at_ms)
    assert kafka.last_complete() == last
    kafka.advance(1000)
    moved = partial(kafka.move_leader, OFFSETS_TOPIC, 0, 1)
    kafka.at_listing[kafka.listings + 1] = moved
    assert kafka.run(dry_run=dry_run).result == "incomplete"
    assert kafka.last_complete() == last


def test_a_bug_amid_a_request_leaves_its_outcome_unknown(
    kafka: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.by_slices("views")

    def no_offset(cutoffs: Mapping[TopicPartition, int], **_: object) -> Any:
        return dict.fromkeys(cutoffs, "no offset")

    kafka.at_listing[3] = lambda: monkeypatch.setattr(kafka, "delete_records", no_offset)
    report = kafka.run()
    assert outcomes(report) == {"orders": Outcome.DELETED, "views": Outcome.UNKNOWN}
    assert kafka.results() == ["failed"]


def test_the_plans_reading_is_arranged_before_the_guards_begins_to_grow_old(
    kafka: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    listings: list[int] = []

    def noted(rows: Sequence[PlanRow], reading: Snapshot) -> Evidence:
        listings.append(kafka.listings)
        return arranged(rows, reading)

    monkeypatch.setattr(carry_out, "arranged", noted)
    monkeypatch.setattr(guard, "arranged", noted)
    assert kafka.run().records_deleted == 7
    assert listings == [1, 2]


def test_a_cycle_tells_when_commits_moved_and_for_how_long_a_group_is_missing(
    kafka: Counting,
) -> None:
    kafka.commit("search", {AT: 3})
    first_ms = kafka.now_ms
    assert kafka.run().standing.last_commit_ms == {"billing": first_ms, "search": first_ms}
    kafka.now_ms += 60_000
    kafka.commit("search", {AT: 4})
    standing = kafka.run().standing
    assert standing.last_commit_ms == {"billing": first_ms, "search": kafka.now_ms}
    assert standing.vanished_ms == {}
    kafka.delete_group("billing")
    assert kafka.run().standing.vanished_ms == {"billing": 0}
    kafka.commit("billing", {AT: 8})
    assert kafka.run().standing.vanished_ms == {}


def test_a_group_that_exists_is_not_missing_though_its_commits_on_a_topic_have_expired(
    kafka: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycle, "decide", lambda _, snapshot: tuple(oracle.plan(snapshot)))
    other = TopicPartition("views", 0)
    kafka.add_topics("views")
    kafka.run()
    del kafka.groups["billing"].commits[other]
    for _ in range(2):
        kafka.now_ms += 60_000
        report = kafka.run()
        assert [row.reason for row in report.plan.rows if row.topic == "views"] == [
            Reason.GROUP_VANISHED
        ]
        assert report.standing.vanished_ms == {}


def test_a_cycle_tells_which_groups_have_members(kafka: Counting) -> None:
    kafka.commit("search", {AT: 4})
    kafka.join("search", ["orders"])
    assert kafka.run().standing.is_live == {"billing": False, "search": True}
    kafka.leave("search")
    kafka.delete_group("billing")
    assert kafka.run().standing.is_live == {"search": False}


def with_unread_records() -> FakeCluster:
    """Billing keeps three records of ten alone; search has read further, audit all of them."""
    kafka = FakeCluster(brokers=1)
    kafka.create_topic("orders", 1, {"retention.ms": str(100 * HOUR_MS)})
    kafka.produce("orders", count=10, timestamp_ms=kafka.now_ms - 40 * HOUR_MS)
    for group, offset in (("billing", 4), ("search", 7), ("audit", 10)):
        kafka.commit(group, {AT: offset})
    return kafka


BILLING, SEARCH = (GroupOnTopic(group, "orders") for group in ("billing", "search"))


def test_a_cycle_tells_what_one_group_keeps_and_how_long_kafka_will(tmp_path: Path) -> None:
    found = run(with_unread_records(), tmp_path).lag
    assert found.kept == {BILLING: 3}
    assert found.margins.keys() == {BILLING, SEARCH}
    for margin_s in found.margins.values():
        assert 60 * 3600 * 0.95 <= margin_s <= 60 * 3600
    assert found.problem is None


def test_a_deletion_is_done_and_told_though_the_look_ups_fail(
    tmp_path: Path,
) -> None:
    kafka = with_unread_records()
    gone = KafkaUnavailable("no broker answers")
    kafka.script.before("delete_records", lambda: kafka.script.fail_next("offsets_at", gone))
    report = run(kafka, tmp_path)
    assert [each.outcome for each in report.outcomes.values()] == [Outcome.DELETED]
    assert report.lag.kept == {BILLING: 3}
    assert report.lag.margins == {}
    assert figures(report)["lag_problem"] == "no broker answers"
