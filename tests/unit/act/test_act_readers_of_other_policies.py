"""What a policy says of names and numbers is about groups of Kafka and about the external readers
that it names itself. A Spark query that another policy names counts by its offset alone."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from retentiond.act.guard import verify
from retentiond.model import PlanRow, Reason, TopicPartition, Verdict
from tests.support import oracle
from tests.support.builders.gather_worlds import config, entry, second_snapshot, snapshot
from tests.support.fakes import FakeCluster

AT = TopicPartition("b.out", 0)
END = 100
READ = 60
NAME = "billing"


def kafka(*groups: str) -> FakeCluster:
    """``groups`` have read everything of b.out."""
    cluster = FakeCluster(brokers=3, offsets_partitions=4)
    for topic in ("a.out", "b.out"):
        cluster.create_topic(topic, 1)
        cluster.produce(topic, 0, END, timestamp_ms=cluster.now_ms - 60_000)
    cluster.commit("a", {("a.out", 0): END})
    for group in groups:
        cluster.commit(group, {AT: END})
    return cluster


def query(tmp_path: Path, cluster: FakeCluster) -> dict[str, Any]:
    """A Spark query called billing, whose checkpoint names both topics."""
    at = {"a.out": {"0": END}, "b.out": {"0": READ}}
    for name, text in (
        ("offsets", f"v1\n{{}}\n{json.dumps(at)}\n"),
        ("commits", "v1\n{}"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0").write_text(text)
        os.utime(tmp_path / name / "0", (cluster.now_ms / 1000, cluster.now_ms / 1000))
    return {"external": [{"name": NAME, "spark_checkpoint": str(tmp_path)}]}


@pytest.mark.parametrize(
    ("rules", "groups", "own", "reason", "cutoff"),
    [
        # another policy's reader stands for no name and no number
        ({"required": [NAME]}, ["web"], False, Reason.REQUIRED_GROUP_MISSING, None),
        ({"only": [NAME]}, [], False, Reason.TOO_FEW_GROUPS, READ),
        ({"only": [NAME], "min": 1}, ["web"], False, Reason.TOO_FEW_GROUPS, READ),
        ({"only": [NAME], "required": [NAME]}, [], False, Reason.REQUIRED_GROUP_MISSING, None),
        ({}, [], False, Reason.TOO_FEW_GROUPS, READ),
        ({"min": 2}, ["web"], False, Reason.TOO_FEW_GROUPS, READ),
        # its offset bounds the cutoff, whatever the policy leaves out
        ({}, ["web"], False, Reason.CONSUMED, READ),
        ({"only": ["web"]}, ["web"], False, Reason.CONSUMED, READ),
        ({"exclude": [NAME]}, ["web"], False, Reason.CONSUMED, READ),
        ({"exclude": [".*"]}, ["web"], False, Reason.TOO_FEW_GROUPS, READ),
        ({"min": 2}, ["web", "search"], False, Reason.CONSUMED, READ),
        ({"required": ["web"]}, ["web"], False, Reason.CONSUMED, READ),
        # one that the topic's own policy names is one of its groups
        ({"required": [NAME]}, [], True, Reason.CONSUMED, READ),
        ({"only": [NAME], "min": 1}, ["web"], True, Reason.CONSUMED, READ),
        ({"min": 2}, ["web"], True, Reason.CONSUMED, READ),
        # a group of Kafka of that name is the one that is meant, and the two can't be told apart
        ({"required": [NAME]}, [NAME], False, Reason.GROUP_UNREADABLE, None),
        ({"exclude": [NAME]}, [NAME, "web"], False, Reason.GROUP_UNREADABLE, None),
    ],
)
def test_a_reader_that_another_policy_names_stands_for_nobody(
    tmp_path: Path,
    *,
    rules: dict[str, Any],
    groups: list[str],
    own: bool,
    reason: Reason,
    cutoff: int | None,
) -> None:
    cluster = kafka(*groups)
    reader = query(tmp_path, cluster)
    policy = config(
        entry("a.out", minutes=0, groups=reader),
        entry("b.out", minutes=0, groups={**rules, **(reader if own else {})}),
    )
    first = snapshot(cluster, policy)
    (row,) = (each for each in oracle.plan(first) if each.topic == "b.out")
    assert (row.reason, row.cutoff) == (reason, cutoff)
    if reason is Reason.REQUIRED_GROUP_MISSING:
        assert row.binding_group == NAME

    second = second_snapshot(cluster, first, [AT], policy)
    wanted = reckless(row)
    verified = verify([wanted], first, second)
    assert bool(verified.approved) == (reason is Reason.CONSUMED), verified.rows
    too_far = replace(wanted, cutoff=READ + 1, records=READ + 1)
    assert not verify([too_far], first, second).approved


def reckless(row: PlanRow) -> PlanRow:
    return replace(row, cutoff=READ, records=READ, verdict=Verdict.DELETE, reason=Reason.CONSUMED)


def test_two_readings_of_different_topics_give_a_reader_one_id(tmp_path: Path) -> None:
    """Otherwise the guard would miss one of them for ever."""
    cluster = kafka("web")
    reader = query(tmp_path, cluster)
    policy = config(
        entry("a.out", minutes=0, groups=reader),
        entry("b.out", minutes=0, groups={"required": [NAME]}),
    )
    first = snapshot(cluster, policy)
    second = second_snapshot(cluster, first, [TopicPartition("a.out", 0)], policy)
    rows = [each for each in oracle.plan(first) if each.topic == "a.out"]
    assert [each.reason for each in rows] == [Reason.CONSUMED]
    assert verify(rows, first, second).approved
