"""Metrics, read back from the registry as Prometheus would scrape them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import CollectorRegistry
from prometheus_client.samples import Sample

from retentiond.config.no_policy import UnreadableFile
from retentiond.disks.broker_disks import DiskReport
from retentiond.disks.log_dirs import LogDirCapacity, Orphans
from retentiond.disks.pressure import LogDirRelief, PressedLogDir
from retentiond.disks.stuck import Stuck, StuckCause
from retentiond.errors import ConfigError, StateError
from retentiond.history.keeper import HistoryStatus
from retentiond.kafka.interface import LOOK_TO_REQUEST, THROTTLED
from retentiond.memory.readers import GroupOnTopic
from retentiond.model import DeletionOutcome, Outcome, PlanRow, Reason, TopicPartition
from retentiond.state import state as stored
from retentiond.state.state import LastComplete
from retentiond.tell.figures.coverage import Coverage
from retentiond.tell.figures.group_answers import LagReport
from retentiond.tell.figures.standing import Standing
from retentiond.tell.metrics.definition import INFO, Definition
from retentiond.tell.metrics.registry import ALL, Metrics
from tests.support.builders.daemons import settings
from tests.support.builders.reports import (
    PLANNED_AT_MS,
    outcome,
    report,
    row,
    turned_down,
    unreadable,
)
from tests.support.golden import Golden
from tests.support.prometheus import tool

BUILD = {"version": "1.2.3", "spark_version": "4.3.0", "librdkafka_version": "2.16.0"}


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> Metrics:
    return Metrics(registry, BUILD)


def series(registry: CollectorRegistry, name: str) -> dict[tuple[str, ...], float]:
    """The values of a metric by the values of its labels, in the order of the labels' names."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name
    }


def seen(
    metrics: Metrics, rows: Iterable[PlanRow], outcomes: Iterable[DeletionOutcome] = ()
) -> None:
    metrics.observe_cycle(report(rows, outcomes))


BILLING = GroupOnTopic("billing", "orders")


def rows() -> list[PlanRow]:
    """Of orders, which is on trial and has an owner, one partition is known, one lacks its commit,
    one has a commit beyond its end, and one can't be read; nor can anything of payments."""
    known = replace(row("orders"), predicted_bytes=400)
    of_orders = [
        known,
        replace(known, partition=1, min_committed_offset=None),
        replace(known, partition=2, min_committed_offset=201),
        replace(unreadable("orders"), partition=3),
    ]
    return [
        *(replace(each, owner="payments", dry_run=True) for each in of_orders),
        unreadable("payments"),
        replace(row("refunds", 0), predicted_bytes=1),
        *(row("refunds", number) for number in (1, 2, 3)),
        row("views", 0, Reason.NO_GROUP),
        row("views", 1, Reason.TOO_YOUNG),
        row("zones", reason=Reason.GROUP_WITHOUT_COMMIT),
    ]


@pytest.fixture
def full(metrics: Metrics, registry: CollectorRegistry) -> CollectorRegistry:
    """One in which every metric has a series."""
    at = TopicPartition("orders", 0)
    disk = DiskReport(
        size_bytes={TopicPartition("orders", number): 1000 for number in range(4)},
        topic_bytes={"orders": 4000, "clicks": 70},
        stuck=(
            Stuck(*at, StuckCause.FUTURE_REPLICA, "why"),
            Stuck("orders", 1, StuckCause.FUTURE_REPLICA, "why"),
            Stuck("orders", 1, StuckCause.RETENTION_OVERDUE, "why"),
        ),
        orphans=(Orphans(1, "/kafka", 0, 0), Orphans(2, "/kafka", 3, 700)),
        space=(LogDirCapacity(1, "/kafka", 100, 40), LogDirCapacity(2, "/kafka", 100, 80)),
        relief=(LogDirRelief(PressedLogDir(1, "/kafka", 100, 40, 60), 5, 15, {"billing": 30}, {}),),
    )
    unread = LagReport({BILLING: 50}, {BILLING: 60.5})
    stand = Standing(
        {"orders": 3_600_000},
        {"billing": 1_500},
        {"search": 2_500},
        {"billing": True, "old": False},
    )
    cycle = replace(
        report(rows(), [outcome("refunds", at, what) for at, what in enumerate(Outcome)]),
        disk=disk,
        lag=unread,
        standing=stand,
        coverage=Coverage({"": 1}, frozenset({"clicks", "new"}), {("payments", "only"): 2}),
        clock_skew_ms=1_500,
    )
    metrics.observe_config(settings(schedule={"interval": "90s"}))
    metrics.observe_cycle(cycle)
    for api in ("list_offsets", LOOK_TO_REQUEST, THROTTLED):
        metrics.observe_request(api, "ok", 0.5)
    metrics.observe_request("list_offsets", "failed", 30.0)
    daemon = metrics.daemon
    daemon.is_ready = lambda: True
    daemon.audit_log_bytes = daemon.state_dir_usable_bytes = lambda: 9
    daemon.audit_bytes = daemon.audit_oldest_s = daemon.certificate_expiry_s = lambda: 9
    daemon.history = lambda: HistoryStatus(bytes=7, written_at=1.5, failures=2)
    daemon.dropped_log_lines = lambda: 3
    daemon.unreadable = [UnreadableFile.because_of(ConfigError("bad"), "pay.yaml", "payments")]
    daemon.refused = ConfigError("bad", file="pay.yaml", owner="payments")
    return registry


def scraped(registry: CollectorRegistry) -> str:
    """Without types and descriptions, which docs/metrics.md has, buckets, and times of creation."""
    lines = generate_latest(registry).decode().splitlines()
    left_out = ("#", "_bucket{", "_created{", "_created ")
    return "\n".join(each for each in lines if not any(part in each for part in left_out))


def test_what_is_scraped_before_the_first_cycle_after_it_and_after_one_that_knows_little(
    metrics: Metrics, registry: CollectorRegistry, golden: Golden, request: pytest.FixtureRequest
) -> None:
    """tests/golden/metrics: what is not known has no series, and what no longer holds has none."""
    golden("metrics/before-the-first-cycle.txt", scraped(registry))
    request.getfixturevalue("full")
    golden("metrics/after-a-cycle.txt", scraped(registry))
    rows = [replace(row("orders"), dry_run=True), row("views", 0, Reason.EMPTY)]
    space = DiskReport(space=(LogDirCapacity(1, "/kafka", 100, 40),))  # and no word of pressure
    metrics.observe_cycle(replace(report(rows, dry_run=True), disk=space))
    golden("metrics/after-a-poor-cycle.txt", scraped(registry))


def test_every_metric_has_a_series_as_it_is_defined(full: CollectorRegistry) -> None:
    """And so as docs/metrics.md says, which is made from the definitions."""
    found = {
        family.name: (family.type, family.documentation, _labels(family))
        for family in full.collect()
    }
    assert found == {_family(each): (each.type, each.help, set(each.labels)) for each in ALL}


def _labels(family: Metric) -> set[str]:
    assert family.samples, family.name
    return {label for sample in family.samples for label in sample.labels} - {"le"}


def _family(of: Definition[Any]) -> str:
    """A gauge that tells names, and an info, are both called ``_info`` by a query."""
    name = of.name.removesuffix("_total")
    return name.removesuffix("_info") if of.type == INFO else name


def cluster(registry: CollectorRegistry) -> dict[str, str]:
    """The labels of the one series that says which cluster it is."""
    ((cluster_id, name),) = series(registry, "retentiond_cluster_info")
    return {"cluster_id": cluster_id, "kafka_cluster": name}


LAST = "retentiond_last_complete_cycle_timestamp_seconds"


def test_a_complete_cycle_before_the_start_counts_until_there_is_a_later_one(
    metrics: Metrics, registry: CollectorRegistry
) -> None:
    """It is when the cycle was planned. One of another cluster never counts."""
    doubtful = report(problems=("a broker is down",), planned_at_ms=PLANNED_AT_MS + 1)
    idle = report([turned_down()], planned_at_ms=PLANNED_AT_MS + 2)
    failed = replace(report([row("orders")], [outcome("orders")]), failure=StateError("full"))
    for restored, cycles, shown in (
        (LastComplete("cluster-a", 1_500), [], 1.5),
        (LastComplete("cluster-a", 1_500), [doubtful], 1.5),
        (LastComplete("cluster-b", 1_500), [doubtful], 0),
        (LastComplete("cluster-b", 1_500), [report(), doubtful, idle], PLANNED_AT_MS / 1000),
        (None, [failed], PLANNED_AT_MS / 1000),
    ):
        if restored:
            metrics.restore(restored)
        for cycle in cycles:
            metrics.observe_cycle(cycle)
        assert registry.get_sample_value(LAST) == shown
        ((cluster_id, _),) = series(registry, "retentiond_cluster_info")
        assert cluster_id == "cluster-a"
    assert series(registry, "retentiond_records_deleted_total") == {("orders",): 90}


def test_a_dry_run_and_a_pause_are_known_before_the_first_cycle_and_then_by_the_last_one(
    metrics: Metrics, registry: CollectorRegistry
) -> None:
    def shown() -> tuple[float | None, ...]:
        return tuple(registry.get_sample_value(f"retentiond_{of}") for of in ("dry_run", "paused"))

    metrics.observe_config(settings(dry_run=True))
    metrics.daemon.paused = True
    assert shown() == (1, 1)
    metrics.observe_cycle(report(dry_run=False))
    metrics.observe_config(settings(dry_run=True))
    assert shown() == (0, 0)
    metrics.observe_cycle(report(paused="paused: incident 4711"))
    assert shown() == (0, 1)


def test_without_series_by_partition_all_others_are_the_same(
    metrics: Metrics, registry: CollectorRegistry
) -> None:
    metrics.observe_config(settings())
    metrics.observe_cycle(report([row("orders"), row("payments")]))
    before = {family.name: family.samples for family in registry.collect()}
    metrics.observe_config(settings(metrics={"partitions": False}))
    metrics.observe_cycle(report([row("orders"), row("payments")]))
    after = {family.name: family.samples for family in registry.collect()}
    assert before.keys() - after.keys() == {
        "retentiond_log_start_offset",
        "retentiond_high_watermark",
        "retentiond_min_committed_offset",
        "retentiond_cutoff_offset",
    }
    assert [name for name in after if _has_partitions(after[name])] == []
    constant = [name for name in after if not name.startswith("retentiond_cycle")]
    assert {name: after[name] for name in constant} == {name: before[name] for name in constant}


def _has_partitions(samples: Iterable[Sample]) -> bool:
    return any("partition" in sample.labels for sample in samples)


def test_deletions_their_records_and_bytes_add_up_over_cycles(
    metrics: Metrics, registry: CollectorRegistry
) -> None:
    rows, one, two = [row("orders", 0), row("orders", 1)], outcome("orders"), outcome("orders", 1)
    for outcomes, freed in (
        ([one, two], {"orders": 30}),
        ([], {}),
        ([one], {"orders": 12, "x": 5}),
    ):
        done = replace(report(rows, outcomes), disk=DiskReport(freed_bytes=freed))
        metrics.observe_cycle(done)
    assert series(registry, "retentiond_records_deleted_total") == {("orders",): 270}
    assert series(registry, "retentiond_bytes_freed_total") == {("orders",): 42}
    assert series(registry, "retentiond_deletions_total") == {
        ("deleted", "orders"): 3,
        ("failed", "orders"): 0,
        ("not_attempted", "orders"): 0,
        ("unknown", "orders"): 0,
    }


class Held:
    """What the metric says of holds, cycle by cycle, ten minutes apart."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._now_s = 0.0
        self.metrics = Metrics(registry, BUILD, clock=lambda: self._now_s)

    def after(self, *rows: PlanRow) -> dict[tuple[str, ...], float]:
        seen(self.metrics, rows)
        self._now_s += 600
        return self.shown()

    def after_a_failure(self) -> dict[tuple[str, ...], float]:
        self.metrics.observe_failure()
        self._now_s += 600
        return self.shown()

    def shown(self) -> dict[tuple[str, ...], float]:
        return series(self._registry, "retentiond_topic_held_seconds")

    def by_group(self) -> dict[tuple[str, ...], float]:
        return series(self._registry, "retentiond_group_held_seconds")


@pytest.fixture
def held(registry: CollectorRegistry) -> Held:
    return Held(registry)


def test_a_hold_lasts_while_a_partition_is_held_for_the_same_reason(held: Held) -> None:
    orphaned, young = row("orders", 0, Reason.NO_GROUP), row("orders", 1, Reason.TOO_YOUNG)
    assert held.after(orphaned, young) == {("no_group", "orders"): 0}
    assert held.after(orphaned, row("orders", 1, Reason.NO_GROUP)) == {("no_group", "orders"): 600}
    assert held.after(row("orders", 0, Reason.OPEN_TRANSACTION)) == {
        ("open_transaction", "orders"): 0
    }
    assert held.after(orphaned) == {("no_group", "orders"): 0}
    assert held.after(row("orders", 0, Reason.TOO_YOUNG)) == {}


def test_partitions_that_take_turns_are_not_one_long_hold(held: Held) -> None:
    for turn in range(6):
        held.after(
            row("orders", turn % 2, Reason.EVIDENCE_CHANGED),
            row("orders", 1 - turn % 2, Reason.TOO_YOUNG),
        )
        assert held.shown() == {("evidence_changed", "orders"): 0}


def test_a_turn_at_a_limit_is_no_hold_to_be_told(held: Held) -> None:
    assert held.after(row("orders", 0, Reason.LIMIT_REACHED)) == {}
    assert held.after(row("orders", 0, Reason.LIMIT_REACHED)) == {}


def test_a_failed_cycle_and_one_without_evidence_end_no_hold(held: Held) -> None:
    orphaned = row("orders", 0, Reason.NO_GROUP)
    held.after(orphaned)
    assert held.after_a_failure() == {("no_group", "orders"): 0}
    assert held.after(row("orders", 0, Reason.GROUP_LIST_INCOMPLETE)) == {
        ("no_group", "orders"): 1200,
        ("group_list_incomplete", "orders"): 0,
    }
    assert held.after(orphaned) == {("no_group", "orders"): 1800}


def test_a_group_that_holds_many_topics_has_one_series_for_each_reason(held: Held) -> None:
    silent = [row(topic, 0, Reason.GROUP_WITHOUT_COMMIT) for topic in ("orders", "views")]
    held.after(silent[0], row("clicks", 0, Reason.NO_GROUP))
    held.after(*silent)
    assert held.by_group() == {("billing", "group_without_commit"): 600}
    held.after(silent[1], row("orders", 0, Reason.COMMIT_REWOUND))
    assert held.by_group() == {
        ("billing", "commit_rewound"): 0,
        ("billing", "group_without_commit"): 600,
    }


def test_a_hold_belongs_to_the_group_that_causes_it_now(held: Held) -> None:
    silent = row("orders", 0, Reason.GROUP_WITHOUT_COMMIT)
    held.after(silent)
    held.after(replace(silent, binding_group="search"))
    assert held.by_group() == {("search", "group_without_commit"): 600}
    held.after(row("orders", 0, Reason.GROUP_LIST_INCOMPLETE))
    assert held.by_group() == {("search", "group_without_commit"): 1200}


def test_a_hold_of_an_earlier_process_gets_its_group_with_the_first_cycle(held: Held) -> None:
    held.metrics.restore_held([stored.Held("orders", Reason.GROUP_WITHOUT_COMMIT, 900.0, (0,))])
    held.after(row("orders", 0, Reason.GROUP_LIST_INCOMPLETE))
    assert held.by_group() == {}
    held.after(row("orders", 0, Reason.GROUP_WITHOUT_COMMIT))
    assert held.by_group() == {("billing", "group_without_commit"): 1500}


def test_promtool_s_linter_accepts_every_metric(full: CollectorRegistry) -> None:
    done = subprocess.run(
        [tool("promtool"), "check", "metrics"],
        input=generate_latest(full),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
