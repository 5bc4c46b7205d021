"""A topic's page: why, who reads it, its partitions, and what was freed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.model import DeletionOutcome, Outcome, PlanRow, Reason, TopicPartition
from tests.support import scenes
from tests.support.builders.page_visitor import Visitor


def page_of(state_dir: Path, *rows: PlanRow, dry_run: bool = False) -> str:
    return Visitor(state_dir, scenes.report(rows, dry_run=dry_run)).see("/topics/orders").text


def test_a_partition_shows_its_offsets_and_its_reason(tmp_path: Path) -> None:
    row = scenes.partition("orders", 3, start=1_000, committed=3_000, young=2_500, end=4_000)
    assert (
        "3 delete consumed 1,000 3,000 4,000 2,500 1.8 MiB 1,500"
        in page_of(tmp_path, row, dry_run=True)
    )  # fmt: skip


def test_what_is_not_known_is_a_dash_and_never_a_number(tmp_path: Path) -> None:
    row = scenes.partition("orders", 0, Reason.OFFSET_UNREADABLE, committed=None, group=None)
    row = replace(row, log_start_offset=None, high_watermark=None, cutoff=None)
    text = page_of(tmp_path, replace(row, detail="LEADER_NOT_AVAILABLE"))
    dashes = "\N{EM DASH} " * 3
    assert f"0 hold offsets can't be read LEADER_NOT_AVAILABLE {dashes}" in text


def test_each_reason_comes_with_what_to_do(tmp_path: Path) -> None:
    rows = [
        scenes.partition("orders", 0, Reason.GROUP_VANISHED, committed=1, group="mailer"),
        scenes.partition("orders", 1, Reason.GROUP_VANISHED, committed=1, group="mailer"),
        scenes.partition("orders", 2, Reason.TOO_YOUNG, young=0),
    ]
    text = page_of(tmp_path, *rows)
    assert "hold group_vanished 2 partitions mailer has vanished." in text
    assert "forget it (retentiond groups forget mailer)" in text
    assert text.index("group_vanished") < text.index("too_young")


def test_of_very_many_reasons_the_rest_is_counted(tmp_path: Path) -> None:
    rows = [
        scenes.partition("orders", number, Reason.NOT_CONSUMED, committed=0, group=f"g-{number}")
        for number in range(20)
    ]
    assert "And 8 other causes: see the partitions." in page_of(tmp_path, *rows)


def test_a_group_shows_what_it_holds_and_since_when(tmp_path: Path) -> None:
    stands = scenes.partition("orders", 0, Reason.NOT_CONSUMED, committed=100)
    rows = [
        replace(stands, partition=number, binding_since="2026-09-21T13:13:20Z")
        for number in range(2)
    ]
    scenes.remember(tmp_path, "orders", {"search": {0: 1_000}, "billing": {0: 100, 1: 100}})
    scenes.remember(tmp_path, "clicks", {"elsewhere": {0: 1}})
    text = page_of(tmp_path, *rows)
    assert (
        "billing consumer 2 2.4 MiB 2,000 records 1,800 1 h ago 2 "
        "search consumer 0 nothing 0 has read all 1"
    ) in text
    assert "elsewhere" not in text
    assert text.count("billing has yet to read them since 2026-09-21 13:13:20 UTC") == 2


def test_a_vanished_group_says_since_when(tmp_path: Path) -> None:
    scenes.remember(tmp_path, "orders", {"mailer": {0: 5}}, vanished=["mailer"])
    row = scenes.partition("orders", 0, Reason.GROUP_VANISHED, committed=5, group="mailer")
    text = page_of(tmp_path, replace(row, binding_since="2026-09-21T12:13:20Z"))
    assert "mailer vanished 2 h ago consumer 1 1.2 MiB 1,000 records 995 1 h ago 1" in text
    assert "mailer has vanished since 2026-09-21 12:13:20 UTC" in text


def test_a_required_group_that_never_committed_is_listed(tmp_path: Path) -> None:
    scenes.remember(tmp_path, "orders", {"search": {0: 5}})
    row = scenes.partition("orders", 0, Reason.REQUIRED_GROUP_MISSING, group="billing")
    text = page_of(tmp_path, row)
    assert "billing not known 1 1.2 MiB 1,000 records \N{EM DASH} not known 0" in text


def test_without_a_memory_it_says_so(tmp_path: Path) -> None:
    row = scenes.partition("orders", 0, committed=5)
    assert "The remembered groups can't be read" in page_of(tmp_path, row)
    (tmp_path / "groups.db").write_bytes(b"nonsense" * 1_000)
    assert "The remembered groups can't be read" in page_of(tmp_path, row)


def test_a_done_deletion_is_shown_as_done_and_a_failed_one_with_its_error(tmp_path: Path) -> None:
    rows = [scenes.partition("orders", number, committed=9) for number in range(2)]
    at = TopicPartition("orders", 1)
    failed = DeletionOutcome(*at, Outcome.FAILED, error="NOT_LEADER: it moved")
    report = scenes.report(rows, outcomes={at: failed})
    text = Visitor(tmp_path, report).see("/topics/orders").text
    assert "0 deleted consumed" in text
    assert "1 delete failed consumed NOT_LEADER: it moved" in text
    assert "1 partition done by the last cycle." in text


def test_what_was_freed_is_shown_by_day(tmp_path: Path) -> None:
    days = [0, 1, 1, 6, 7, 400]
    scenes.deleted(tmp_path, "orders", [scenes.NOW_MS - each * 24 * 3_600_000 for each in days])
    scenes.deleted(tmp_path, "clicks", [scenes.NOW_MS])
    text = page_of(tmp_path, scenes.partition("orders", 0, committed=5))
    assert "4,000 records, by day" in text
    assert re.search(r"2026-09-15 1,000 . 2026-09-20 2,000 . 2026-09-21 1,000 .", text)


def test_before_the_first_deletion_nothing_was_freed(tmp_path: Path) -> None:
    text = page_of(tmp_path, scenes.partition("orders", 0, committed=5))
    assert "Nothing was deleted in the last seven days." in text


def test_partitions_can_be_filtered_by_verdict_and_come_in_pages(tmp_path: Path) -> None:
    visitor = Visitor(tmp_path, scenes.many_partitions(1_000))
    text = visitor.see("/topics/firehose?verdict=hold&page=3").text
    assert "250 of 1,000 partitions" in text
    assert "page 3 of 3" in text
    assert "999 hold group-0 has not committed" in text


def test_an_unknown_topic_is_not_found(tmp_path: Path) -> None:
    visitor = Visitor(tmp_path, scenes.many_topics(1))
    response = visitor.get("/topics/unheard-of")
    assert response.status_code == 404
    assert "The last plan has no topic called" in response.text
    assert "unheard-of" in response.text


def test_before_the_first_cycle_no_topic_can_be_shown(tmp_path: Path) -> None:
    assert Visitor(tmp_path).get("/topics/orders").status_code == 503


@pytest.mark.long
def test_two_thousand_partitions_with_many_groups_are_rendered_quickly(tmp_path: Path) -> None:
    commits = dict.fromkeys(range(2_000), 400)
    scenes.remember(tmp_path, "firehose", {f"group-{number}": commits for number in range(30)})
    visitor = Visitor(tmp_path, scenes.many_partitions(2_000))
    visitor.get("/topics/firehose")  # templates are compiled
    assert visitor.cpu_seconds_of("/topics/firehose") < 0.2


def test_a_topic_on_trial_says_that_nothing_is_deleted_and_how_the_trial_ends(
    tmp_path: Path,
) -> None:
    row = scenes.partition("orders", 3, start=1_000, committed=3_000, young=2_500, end=4_000)
    text = page_of(tmp_path, replace(row, dry_run=True))
    assert "on trial orders is on trial (dry_run): 1,500 records may go, and nothing" in text
    assert "Would be freed" in text
