"""A plan by topic, what it frees and who keeps the rest, and the whole cluster."""

from __future__ import annotations

from dataclasses import replace

from retentiond.decide.kept_records import KEPT_BY_AGE, KeptBecause, KeptRecords
from retentiond.disks.broker_disks import DiskReport
from retentiond.model import PlanRow, Reason, TopicPartition
from retentiond.tell.figures.answers import ClusterAnswer, TopicAnswer
from tests.support.builders.first_looks import on_disk, rest
from tests.support.builders.reports import report, row

BILLING = KeptBecause(Reason.NOT_CONSUMED, "billing")


def answers(
    rows: list[PlanRow], sizes: dict[str, int] | None = None, freed: dict[str, int] | None = None
) -> ClusterAnswer:
    return on_disk(rows, sizes or {}, freed or {}).answers


def only(
    rows: list[PlanRow], sizes: dict[str, int] | None = None, freed: dict[str, int] | None = None
) -> TopicAnswer:
    (topic,) = answers(rows, sizes, freed).topics
    return topic


def test_the_cluster_sums_up_what_is_known_and_says_whether_it_is_all() -> None:
    rows = [rest(topic="a"), rest(topic="b")]
    look = answers(rows, {"a": 90, "b": 10}, {"a": 40, "b": 5})
    assert (look.known_predicted_bytes, look.is_bytes_known) == (45, True)
    look = answers(rows, {"a": 90}, {"a": 40})
    assert (look.known_predicted_bytes, look.is_bytes_known) == (40, False)
    assert (look.predicted_bytes, look.log_records, look.records) == (None, 380, 180)


def test_who_keeps_the_most_bytes_of_the_cluster_comes_first() -> None:
    rows = [rest(topic="a"), row("b", reason=Reason.NO_GROUP), rest(topic="c")]
    look = answers(rows, {"a": 1_900, "b": 190, "c": 1_900}, {"a": 900, "c": 900})
    assert look.kept == (
        KeptRecords(*BILLING, 100, 1_000),
        KeptRecords(*KEPT_BY_AGE, 100, 1_000),
        KeptRecords(*KeptBecause(Reason.NO_GROUP), 190, 190),
    )


def test_what_is_kept_takes_its_share_of_each_partitions_bytes() -> None:
    rows = [rest(), replace(rest(Reason.NO_GROUP), partition=1)]
    sizes = {TopicPartition("orders", 0): 190, TopicPartition("orders", 1): 19_000}
    (topic,) = replace(report(rows), disk=DiskReport(sizes)).answers.topics
    assert topic.kept == (
        KeptRecords(*KeptBecause(Reason.NO_GROUP), 190, 19_000),
        KeptRecords(*BILLING, 50, 50),
        KeptRecords(*KEPT_BY_AGE, 50, 50),
    )
