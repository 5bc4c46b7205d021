"""``retentiond plan`` on a real broker: every reason that one broker can give.

All topics are in one configuration and in one plan, which is made once for each version. Topics and
groups have a prefix of their own on the shared broker, and no other group counts.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devkit.embedded import EmbeddedKafka
from tests.contract.real import RealDriver
from tests.support.brokers.command import Document, Done, configure, consumed, matching
from tests.support.command_here import run_here
from tests.support.releases import NEWEST, OLDEST, Release

pytestmark = [
    pytest.mark.broker,
    pytest.mark.parametrize("release", [NEWEST, OLDEST], indirect=True, ids=str),
]

HOUR_MS = 3_600_000

PREFIX = f"plan-{uuid.uuid4().hex[:8]}."

LAKE = f"{PREFIX}lake"
"""An external reader that has told nobody how far it is."""

RECORDS = 10


def topic_entry(name: str, **rules: Any) -> Document:
    return consumed(PREFIX + name, **rules)


TOPICS = [
    topic_entry("consumed"),
    topic_entry("empty"),
    topic_entry("too-young", **{"retention.commitoffset.ms": HOUR_MS}),
    topic_entry("partly-young", **{"retention.commitoffset.ms": HOUR_MS}),
    topic_entry("not-consumed"),
    topic_entry("no-group"),
    topic_entry("too-few-groups", groups={"min": 2}),
    topic_entry(
        "required-group-missing", groups={"required": [f"{PREFIX}billing", f"{PREFIX}nobody"]}
    ),
    topic_entry("group-without-commit"),
    topic_entry("commit-beyond-end"),
    topic_entry("compacted"),
    consumed("__consumer_offsets"),
    topic_entry("retention-exceeds-forced", **{"retention.commitoffset.ms": 2 * HOUR_MS}),
    topic_entry("open-transaction"),
    topic_entry(
        "group-unreadable", groups={"external": [{"name": LAKE, "offsets": "/nowhere/lake.json"}]}
    ),
    topic_entry("z-limit-reached"),
    matching(f"{re.escape(PREFIX)}policy-.*"),
    matching(f"{re.escape(PREFIX)}.*-conflict", **{"retention.commitoffset.ms": 1}),
]


@dataclass(frozen=True)
class Planned:
    """The plan of a broker on which each topic is about one reason."""

    release: Release
    config: Path
    done: Done

    def rows(self, topic: str) -> list[Document]:
        """``topic``: without the prefix, or one of Kafka's own."""
        names = (PREFIX + topic, topic)
        return [row for row in self.done.plan["partitions"] if row["topic"] in names]

    def row(self, topic: str) -> Document:
        (row,) = self.rows(topic)
        return row


@pytest.fixture(scope="module")
def planned(
    any_kafka: EmbeddedKafka, release: Release, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Planned]:
    folder = tmp_path_factory.mktemp("plan")
    with closing(RealDriver(any_kafka)) as driver:
        populate(driver)
        config = configure(
            folder,
            any_kafka.bootstrap_servers,
            *TOPICS,
            dry_run=False,
            limits={"partitions_per_cycle": 3},
            defaults={"groups": {"only": [f"{re.escape(PREFIX)}.*"]}},
        )
        yield Planned(
            release, config, run_here("plan", "--output", "json", "--exit-code", cwd=folder)
        )


def populate(driver: RealDriver) -> None:
    hour_ago = driver.now_ms - HOUR_MS - 60_000

    def topic(name: str, *, partitions: int = 1, **config: str) -> None:
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        driver.filled_topic(PREFIX + name, partitions=partitions, config=dotted)

    def read(topic: str, offset: int = RECORDS, group: str = "billing") -> None:
        driver.commit(PREFIX + group, {(PREFIX + topic, 0): offset})

    driver.create_topic(f"{PREFIX}empty")
    read("empty", 0)
    for name in ("consumed", "z-limit-reached", "too-young", "too-few-groups"):
        topic(name)
        read(name, 7)
    driver.create_topic(f"{PREFIX}partly-young")
    driver.produce(f"{PREFIX}partly-young", [hour_ago] * 4 + [driver.now_ms] * 6)
    read("partly-young")
    topic("not-consumed")
    read("not-consumed", 0, group="slow")
    read("not-consumed", 7)
    topic("no-group")
    topic("required-group-missing")
    read("required-group-missing")
    topic("group-without-commit", partitions=2)
    read("group-without-commit")
    topic("commit-beyond-end")
    read("commit-beyond-end", RECORDS + 1, group="astray")
    read("commit-beyond-end", 7)
    topic("compacted", cleanup_policy="compact")
    read("compacted")
    topic("retention-exceeds-forced", retention_ms=str(HOUR_MS))
    read("retention-exceeds-forced")
    driver.create_topic(f"{PREFIX}open-transaction")
    driver.begin(f"{PREFIX}open-transaction", RECORDS)
    read("open-transaction", RECORDS)
    topic("policy-conflict")
    read("policy-conflict")
    topic("group-unreadable")
    read("group-unreadable")


def test_a_plan_is_complete_and_says_of_what_and_when_and_leaves_nothing_behind(
    planned: Planned,
) -> None:
    """``--exit-code``: one with deletions ends with 3."""
    assert (planned.done.code, planned.done.err) == (3, "")
    plan = planned.done.plan
    assert (plan["complete"], plan["problems"], plan["dry_run"]) == (True, [], False)
    assert plan["cluster_id"]
    assert plan["cycle_id"]
    assert plan["planned_at"].endswith("Z")
    assert list(planned.config.parent.iterdir()) == [planned.config]


BILLING, SLOW, ASTRAY, NOBODY = (
    {"binding_group": PREFIX + group} for group in ("billing", "slow", "astray", "nobody")
)


@pytest.mark.parametrize(
    ("topic", "verdict", "figures"),
    [
        (
            "consumed",
            "delete: consumed",
            {
                "log_start_offset": 0,
                "high_watermark": 10,
                "min_committed_offset": 7,
                **BILLING,
                "retention_offset": 10,
                "cutoff": 7,
                "groups": 1,
                "records": 7,
            },
        ),
        ("partly-young", "delete: consumed", {"cutoff": 4}),
        ("too-young", "nothing: too_young", {"retention_offset": 0, "records": 0}),
        ("empty", "nothing: empty", {}),
        ("not-consumed", "nothing: not_consumed", {**SLOW, "min_committed_offset": 0, "groups": 2}),
        ("no-group", "hold: no_group", {"high_watermark": 10}),  # also on holds
        ("too-few-groups", "hold: too_few_groups", {}),
        ("required-group-missing", "hold: required_group_missing", NOBODY),
        ("commit-beyond-end", "hold: commit_beyond_end", ASTRAY),
        ("compacted", "hold: not_deletable", {}),
        ("retention-exceeds-forced", "hold: retention_exceeds_forced", {}),
        ("policy-conflict", "hold: policy_conflict", {}),
        ("open-transaction", "hold: open_transaction", {"high_watermark": 10}),
        ("z-limit-reached", "hold: limit_reached", {"cutoff": 7}),  # of a cycle's partitions
        ("group-unreadable", "hold: group_unreadable", {"binding_group": LAKE}),
    ],
)
def test_the_one_partition_of_a_topic(
    planned: Planned, topic: str, verdict: str, figures: Document
) -> None:
    (row,) = planned.rows(topic)
    assert row["topic_id"]
    assert (f"{row['verdict']}: {row['reason']}", row) == (verdict, row | figures)


def test_partitions_of_one_topic_are_judged_each(planned: Planned) -> None:
    with_commit, without = planned.rows("group-without-commit")
    assert with_commit["verdict"] == "delete"
    assert without.items() >= {"verdict": "hold", "reason": "group_without_commit"}.items()
    assert without.items() >= BILLING.items()
    internal = [(row["verdict"], row["reason"]) for row in planned.rows("__consumer_offsets")]
    assert internal == [("hold", "not_deletable")] * 4


def test_one_cycle_deletes_from_three_partitions_and_the_fourth_by_name_waits(
    planned: Planned,
) -> None:
    deletions = [
        row["topic"].removeprefix(PREFIX)
        for row in planned.done.plan["partitions"]
        if row["records"]
    ]
    assert deletions == ["consumed", "group-without-commit", "partly-young"]
