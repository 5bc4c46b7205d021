"""A topic's page: why, who reads it, its partitions, and what was freed (tests/golden/page)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.model import DeletionOutcome, Outcome, PlanRow, Reason, TopicPartition
from retentiond.tell.report import CycleReport
from tests.support import scenes
from tests.support.builders.page_visitor import Visitor, side_by_side
from tests.support.golden import Golden

DAY_MS = 24 * 3_600_000

ALONE = scenes.partition("orders", 3, start=1_000, committed=3_000, young=2_500, end=4_000)


def with_groups(folder: Path) -> list[PlanRow]:
    """One that holds, one that has read all, and one of another topic."""
    stands = scenes.partition("orders", 0, Reason.NOT_CONSUMED, committed=100)
    scenes.remember(folder, "orders", {"search": {0: 1_000}, "billing": {0: 100, 1: 100}})
    scenes.remember(folder, "clicks", {"elsewhere": {0: 1}})
    return [
        replace(stands, partition=number, binding_since="2026-09-21T13:13:20Z")
        for number in range(2)
    ]


def with_a_vanished_group(folder: Path) -> list[PlanRow]:
    scenes.remember(folder, "orders", {"mailer": {0: 5, 1: 5}}, vanished=["mailer"])
    row = scenes.partition("orders", 0, Reason.GROUP_VANISHED, committed=5, group="mailer")
    row = replace(row, binding_since="2026-09-21T12:13:20Z")
    young = scenes.partition("orders", 2, Reason.TOO_YOUNG, young=0)
    return [row, replace(row, partition=1), young]


def with_a_missing_group(folder: Path) -> list[PlanRow]:
    scenes.remember(folder, "orders", {"search": {0: 5}})
    return [scenes.partition("orders", 0, Reason.REQUIRED_GROUP_MISSING, group="billing")]


def with_deletions(folder: Path) -> list[PlanRow]:
    days = [0, 1, 1, 6, 7, 400]
    scenes.deleted(folder, "orders", [scenes.NOW_MS - each * DAY_MS for each in days])
    scenes.deleted(folder, "clicks", [scenes.NOW_MS])
    return [replace(ALONE, owner="payments & co")]


def unread(_folder: Path) -> list[PlanRow]:
    row = scenes.partition("orders", 0, Reason.OFFSET_UNREADABLE, committed=None, group=None)
    row = replace(row, log_start_offset=None, high_watermark=None, cutoff=None)
    return [replace(row, detail="LEADER_NOT_AVAILABLE")]


def of_many_groups(_folder: Path) -> list[PlanRow]:
    return [
        scenes.partition("orders", number, Reason.NOT_CONSUMED, committed=0, group=f"g-{number}")
        for number in range(14)
    ]


SCENES: dict[str, Callable[[Path], list[PlanRow]]] = {
    "groups that read it": with_groups,
    "a vanished group": with_a_vanished_group,
    "a required group that never committed": with_a_missing_group,
    "an owner, and what was freed by day": with_deletions,
    "what is not known is a dash": unread,
    "of very many reasons the rest is counted": of_many_groups,
}


def test_what_it_shows(tmp_path: Path, golden: Golden) -> None:
    def page(folder: Path, report: CycleReport) -> str:
        return Visitor(folder, report).see("/topics/orders").main

    pages = {}
    for number, (title, rows) in enumerate(SCENES.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        pages[title] = page(folder, scenes.report(rows(folder)))
    trial = DeletionOutcome("orders", 3, Outcome.NOT_ATTEMPTED)
    tried = scenes.report([replace(ALONE, dry_run=True)], outcomes={trial.topic_partition: trial})
    pages["on trial"] = page(tmp_path, tried)
    pages["dry run"] = page(tmp_path, scenes.report([ALONE], dry_run=True))
    at = TopicPartition("orders", 1)
    done = [scenes.partition("orders", number, committed=9) for number in range(2)]
    failed = DeletionOutcome(*at, Outcome.FAILED, error="NOT_LEADER: it moved")
    pages["deleted, and failed"] = page(tmp_path, scenes.report(done, outcomes={at: failed}))
    golden("page/topic.txt", side_by_side(pages))


def test_an_owner_leads_to_the_others_of_it(tmp_path: Path) -> None:
    report = scenes.report([replace(ALONE, owner="payments & co")])
    links = [each["href"] for each in Visitor(tmp_path, report).see("/topics/orders").all("a")]
    assert "../?owner=payments+%26+co" in links


def test_a_memory_that_is_damaged_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "groups.db").write_bytes(b"nonsense" * 1_000)
    text = Visitor(tmp_path, scenes.report([ALONE])).see("/topics/orders").text
    assert "The remembered groups can't be read" in text


def test_partitions_can_be_filtered_by_verdict_and_come_in_pages(tmp_path: Path) -> None:
    visitor = Visitor(tmp_path, scenes.many_partitions(1_000))
    text = visitor.see("/topics/firehose?verdict=hold&page=3").text
    assert "250 of 1,000 partitions" in text
    assert "page 3 of 3" in text
    assert "999 hold group-0 has not committed" in text


def test_an_unknown_topic_is_not_found(tmp_path: Path) -> None:
    response = Visitor(tmp_path, scenes.many_topics(1)).get("/topics/unheard-of")
    assert response.status_code == 404
    assert "The last plan has no topic called" in response.text
    assert "unheard-of" in response.text
    assert Visitor(tmp_path).get("/topics/orders").status_code == 503  # before the first cycle


@pytest.mark.long
def test_two_thousand_partitions_with_many_groups_are_rendered_quickly(tmp_path: Path) -> None:
    commits = dict.fromkeys(range(2_000), 400)
    scenes.remember(tmp_path, "firehose", {f"group-{number}": commits for number in range(30)})
    visitor = Visitor(tmp_path, scenes.many_partitions(2_000))
    visitor.get("/topics/firehose")  # templates are compiled
    assert visitor.is_quick("/topics/firehose")
