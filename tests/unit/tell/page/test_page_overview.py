"""The first page: how it goes, and every topic by what it frees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.config.config import MetricSettings
from retentiond.disks.broker_disks import DiskReport
from retentiond.disks.log_dirs import LogDirCapacity
from retentiond.disks.pressure import LogDirRelief, PressedLogDir
from retentiond.errors import StateError
from retentiond.history.keeper import HistoryKeeper
from retentiond.model import DeletionOutcome, Outcome, Reason, TopicPartition
from retentiond.state.operator_actions import Pause, write_pause
from tests.support import scenes
from tests.support.builders.histories import settings
from tests.support.builders.page_visitor import INTERVAL_MS, Visitor
from tests.support.builders.reports import unreadable


def topics(visitor: Visitor, path: str = "/") -> list[str]:
    links = [link["href"] or "" for link in visitor.see(path).all("a")]
    return [link.removeprefix("./topics/") for link in links if link.startswith("./topics/")]


def test_before_the_first_cycle_it_says_so(tmp_path: Path) -> None:
    text = Visitor(tmp_path).see("/").text
    assert "Starting no cycle has ended yet" in text
    assert "Nothing to show before the first cycle." in text


def test_topics_that_free_most_bytes_come_first_then_those_that_hold_most(tmp_path: Path) -> None:
    report = scenes.report(
        [
            scenes.partition("small", 0, committed=100),
            scenes.partition("held", 0, Reason.NO_GROUP, end=10),
            scenes.partition("held-more", 0, Reason.NO_GROUP, end=20),
            scenes.partition("large", 0, committed=900),
        ]
    )
    assert topics(Visitor(tmp_path, report)) == ["large", "small", "held-more", "held"]


def test_a_topic_shows_what_it_frees_and_who_keeps_the_rest(tmp_path: Path) -> None:
    row = scenes.partition("orders", 0, Reason.NOT_CONSUMED, committed=0, end=2_000_000)
    freed = scenes.partition("orders", 1, committed=1_000_000, young=1_000_000, end=1_000_001)
    text = Visitor(tmp_path, scenes.report([row, freed], dry_run=True)).see("/").text
    assert "orders 1 delete 1 nothing 1.2 GiB 1,000,000 of 3,000,001 3.5 GiB" in text
    assert "billing has yet to read them 2.3 GiB" in text


def test_partitions_that_could_not_be_read_are_counted(tmp_path: Path) -> None:
    rows = [scenes.partition("orders", 0), unreadable("orders"), unreadable("orders")]
    rows = [replace(row, partition=number) for number, row in enumerate(rows)]
    text = Visitor(tmp_path, scenes.report(rows)).see("/").text
    assert "2 unreadable" in text


def test_a_bar_says_in_words_what_it_shows(tmp_path: Path) -> None:
    row = scenes.partition("orders", 0, committed=400, young=300, end=1_000)
    pictures = Visitor(tmp_path, scenes.report([row])).see("/").all("svg")
    labels = [picture.get("aria-label") for picture in pictures]
    assert "300 free to go, 700 too young" in labels


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?name=TOPIC-0000", ["topic-00003", "topic-00002", "topic-00001", "topic-00000"]),
        ("?name=00003", ["topic-00003"]),
        ("?name=+00003+", ["topic-00003"]),
        ("?verdict=hold", []),
        ("?verdict=nonsense&name=00001", ["topic-00001"]),
        ("?name=00001&verdict=delete&page=99", ["topic-00001"]),
        ("?page=-1&name=00001", ["topic-00001"]),
        ("?page=%D9%A3&name=00001", ["topic-00001"]),
        ("?name=" + "9" * 10_000, []),
    ],
)
def test_topics_can_be_filtered(tmp_path: Path, query: str, expected: list[str]) -> None:
    assert topics(Visitor(tmp_path, scenes.many_topics(4)), f"/{query}") == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?owner=payments", ["clicks", "orders"]),
        ("?owner=payments&name=ord", ["orders"]),
        ("?owner=pay", []),
        ("?owner=", ["clicks", "orders", "views"]),
    ],
)
def test_topics_can_be_filtered_by_their_owner(
    tmp_path: Path, query: str, expected: list[str]
) -> None:
    rows = [replace(scenes.partition(each, 0), owner="payments") for each in ("orders", "clicks")]
    visitor = Visitor(tmp_path, scenes.report([*rows, scenes.partition("views", 0)]))
    document = visitor.see(f"/{query}&sort=name")
    assert sorted(topics(visitor, f"/{query}")) == expected
    assert "payments" in [each["value"] for each in document.all("option")]
    hrefs = [link["href"] or "" for link in document.all("a")]
    asked = query.removeprefix("?owner=").partition("&")[0]
    assert all(f"owner={asked}" in each for each in hrefs if "sort=" in each) or not asked


def test_where_no_topic_has_an_owner_nobody_is_asked_for_one(tmp_path: Path) -> None:
    document = Visitor(tmp_path, scenes.many_topics(3)).see("/")
    assert "owner" not in document.text


def test_a_topics_page_names_its_owner_and_leads_to_the_others_of_it(tmp_path: Path) -> None:
    row = replace(scenes.partition("orders", 0), owner="payments & co")
    document = Visitor(tmp_path, scenes.report([row])).see("/topics/orders")
    assert "Owner: payments & co" in document.text
    assert "../?owner=payments+%26+co" in [link["href"] for link in document.all("a")]


def test_a_filter_stays_in_its_form_and_in_the_pages(tmp_path: Path) -> None:
    document = Visitor(tmp_path, scenes.many_topics(250)).see("/?name=topic&verdict=delete&page=2")
    (field,) = document.all("input")
    assert field["value"] == "topic"
    assert [each["value"] for each in document.all("option") if "selected" in each] == ["delete"]
    hrefs = [link["href"] for link in document.all("a")]
    assert "?name=topic&verdict=delete" in hrefs
    assert "?name=topic&verdict=delete&page=3" in hrefs
    assert "page 2 of 3" in document.text


def test_of_many_topics_every_page_shows_others(tmp_path: Path) -> None:
    visitor = Visitor(tmp_path, scenes.many_topics(250))
    seen = [name for page in (1, 2, 3) for name in topics(visitor, f"/?page={page}")]
    assert seen == [f"topic-{number:05}" for number in reversed(range(250))]


@pytest.mark.parametrize(
    ("sort", "expected", "column", "direction"),
    [
        ("", ["freed", "kept", "large", "Small"], "Freed", "descending"),
        ("reclaimable", ["Small", "large", "kept", "freed"], "Freed", "ascending"),
        ("name", ["Small", "freed", "kept", "large"], "Topic", "ascending"),
        ("-name", ["large", "kept", "freed", "Small"], "Topic", "descending"),
        ("-bytes", ["large", "freed", "kept", "Small"], "On disk", "descending"),
        ("bytes", ["Small", "kept", "freed", "large"], "On disk", "ascending"),
        ("-kept", ["large", "kept", "freed", "Small"], "What keeps most of the rest", "descending"),
        ("kept", ["Small", "freed", "kept", "large"], "What keeps most of the rest", "ascending"),
        ("nonsense", ["freed", "kept", "large", "Small"], "Freed", "descending"),
        ("--name", ["freed", "kept", "large", "Small"], "Freed", "descending"),
    ],
)
def test_topics_can_be_sorted(
    tmp_path: Path, sort: str, expected: list[str], column: str, direction: str
) -> None:
    rows = [
        scenes.partition("freed", 0, committed=900, young=900),
        scenes.partition("kept", 0, committed=100, end=800),
        scenes.partition("large", 0, Reason.NO_GROUP, end=5_000),
        scenes.partition("Small", 0, Reason.NO_GROUP, end=10),
    ]
    visitor = Visitor(tmp_path, scenes.report(rows))
    assert topics(visitor, f"/?sort={sort}") == expected
    document = visitor.see(f"/?sort={sort}")
    sorted_ones = [each["aria-sort"] for each in document.all("th") if each.get("aria-sort")]
    assert sorted_ones == [direction]
    html = visitor.get(f"/?sort={sort}").text
    assert column in html[html.index("aria-sort") : html.index("aria-sort") + 120]


def test_a_heading_sorts_and_then_the_other_way_round(tmp_path: Path) -> None:
    visitor = Visitor(tmp_path, scenes.many_topics(250))

    def headings(path: str) -> list[str]:
        links = [link["href"] or "" for link in visitor.see(path).all("a")]
        return [link for link in links if "sort=" in link and "page" not in link][-4:]

    first = ["?sort=name", "?sort=reclaimable", "?sort=-bytes", "?sort=-kept"]
    assert headings("/?page=2") == first
    assert headings("/?sort=name")[0] == "?sort=-name"
    assert headings("/?sort=-bytes")[2] == "?sort=bytes"
    assert headings("/?sort=bytes&name=t")[2] == "?name=t&sort=-bytes"
    assert "?sort=name&page=3" in [
        link["href"] for link in visitor.see("/?sort=name&page=2").all("a")
    ]
    assert topics(visitor, "/?sort=name&page=2")[0] == "topic-00100"


def test_a_new_plan_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    visitor = Visitor(tmp_path, scenes.many_topics(1))
    assert topics(visitor) == ["topic-00000"]
    visitor.status.publish(scenes.report([scenes.partition("other", 0, committed=1)]))
    assert topics(visitor) == ["other"]


def test_a_healthy_daemon_says_when_it_worked_and_will_again(tmp_path: Path) -> None:
    text = Visitor(tmp_path, scenes.many_topics(1)).see("/").text
    assert "Healthy the last cycle saw every group and did what it had planned" in text
    assert "Last cycle 1 min ago, next in 3 min" in text


def test_a_dry_run_is_said(tmp_path: Path) -> None:
    visitor = Visitor(tmp_path, scenes.report([], dry_run=True))
    text = visitor.see("/").text
    assert f"cluster {scenes.report([]).plan.cluster_id} dry run" in text
    assert "Dry run it plans and explains, and deletes nothing" in text
    assert "Would be freed" in text


def test_the_head_has_the_clusters_name_beside_its_id(tmp_path: Path) -> None:
    keeper = HistoryKeeper(
        settings(tmp_path).model_copy(update={"metrics": MetricSettings(cluster="orders")})
    )
    text = Visitor(tmp_path, scenes.report([]), keeper).see("/").text
    assert f"cluster orders {scenes.report([]).plan.cluster_id} deletes" in text


def test_a_brake_is_said_as_soon_as_it_is_pulled(tmp_path: Path) -> None:
    visitor = Visitor(tmp_path, scenes.many_topics(1))
    write_pause(tmp_path, Pause("incident 12", "2026-11-21T15:00:00Z", "root"))
    assert "Paused since 2026-11-21T15:00:00Z by root: incident 12" in visitor.see("/").text


def test_incomplete_evidence_is_said_with_its_cause(tmp_path: Path) -> None:
    visitor = Visitor(tmp_path, scenes.many_topics(1))
    visitor.status.publish(scenes.report([], problems=("broker 2 is down",)))
    document = visitor.see("/")
    assert "Incomplete broker 2 is down; what needs this evidence is held" in document.text
    assert "health warn" in [each.get("class") for each in document.all("div")]


def test_a_failed_cycle_comes_before_all_else(tmp_path: Path) -> None:
    visitor = Visitor(tmp_path, scenes.report([], dry_run=True))
    visitor.status.problem = "KafkaUnavailable"
    document = visitor.see("/")
    assert "Failing the last cycle brought no plan: KafkaUnavailable" in document.text
    assert "Last cycle 1 min ago, next try soon" in document.text
    assert "health bad" in [each.get("class") for each in document.all("div")]


def test_a_daemon_without_a_fresh_plan_is_late(tmp_path: Path) -> None:
    visitor = Visitor(tmp_path, scenes.many_topics(1))
    visitor.now_ms += 4 * INTERVAL_MS
    text = visitor.see("/").text
    assert "Late no complete cycle within 3 intervals" in text
    assert "Last cycle 21 min ago, next due" in text


def test_failed_deletions_are_said(tmp_path: Path) -> None:
    at = TopicPartition("orders", 0)
    failed = DeletionOutcome(*at, Outcome.FAILED, error="NOT_LEADER: it moved")
    report = scenes.report([scenes.partition("orders", 0, committed=9)], outcomes={at: failed})
    text = Visitor(tmp_path, report).see("/").text
    assert "Deletions not done 1 of 1 deletions not done: NOT_LEADER: it moved" in text
    assert "1 failed" in text


def test_a_plan_of_which_the_guard_leaves_nothing_is_no_health(tmp_path: Path) -> None:
    held = replace(scenes.partition("orders", 0, Reason.EVIDENCE_CHANGED), detail="a group is gone")
    visitor = Visitor(tmp_path, scenes.report([held]))
    document = visitor.see("/")
    assert "Healthy" not in document.text
    sentence = "Deletions not done 1 of 1 deletions not done: the guard turned it down: a group is"
    assert sentence in document.text
    assert "health bad" in [each.get("class") for each in document.all("div")]  # none was ever done

    visitor.status.publish(scenes.many_topics(1))
    visitor.status.publish(scenes.report([held]))
    assert "health warn" in [each.get("class") for each in visitor.see("/").all("div")]


def test_a_cycle_with_an_offline_log_directory_is_no_health(tmp_path: Path) -> None:
    offline = ("/a of broker 1: KAFKA_STORAGE_ERROR", "/b of broker 1: KAFKA_STORAGE_ERROR")
    report = replace(scenes.many_topics(1), disk=DiskReport(problems=offline))
    document = Visitor(tmp_path, report).see("/")
    assert "Healthy" not in document.text
    assert "health warn" in [each.get("class") for each in document.all("div")]
    assert all(document.text.count(f"Disks {each}") == 1 for each in offline)


def test_a_cycle_that_failed_after_it_had_deleted_is_said(tmp_path: Path) -> None:
    report = replace(scenes.many_topics(1), failure=StateError("the disk is full"))
    text = Visitor(tmp_path, report).see("/").text
    assert "Failing the last cycle failed after it had deleted already" in text
    assert "the cycle failed: StateError: the disk is full" in text


def test_stuck_retention_is_said(tmp_path: Path) -> None:
    text = Visitor(tmp_path, scenes.plausible()).see("/").text
    assert "Retention stuck on prices.ticks-2 its move to /data-2 on broker 1" in text


def test_a_damaged_audit_log_leaves_the_page_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "audit.db").write_bytes(b"\0" * 8192)
    visitor = Visitor(tmp_path, scenes.many_topics(1))
    assert "topic-00000" in visitor.see("/").text
    assert "The audit log could not be read in passing" in visitor.see("/topics/topic-00000").text


@pytest.mark.long
@pytest.mark.parametrize("report", [scenes.many_topics(2_000), scenes.many_partitions(2_000)])
def test_two_thousand_partitions_are_rendered_quickly(tmp_path: Path, report: object) -> None:
    assert isinstance(report, type(scenes.plausible()))
    visitor = Visitor(tmp_path, report)
    visitor.get("/")  # templates are compiled
    assert visitor.cpu_seconds_of("/", lambda: visitor.status.publish(report)) < 0.2


def test_what_was_not_deleted_does_not_count_as_freed(tmp_path: Path) -> None:
    rows = [scenes.partition("orders", number, committed=850) for number in range(2)]
    at = TopicPartition("orders", 1)
    failed = DeletionOutcome(*at, Outcome.UNKNOWN, error="it timed out")
    text = Visitor(tmp_path, scenes.report(rows, outcomes={at: failed})).see("/").text
    assert "The last cycle will free 1.0 MiB 850 records, predicted" in text
    assert "orders 2 delete 1 unknown 1.0 MiB 850 of 2,000" in text


def test_bytes_that_are_not_known_are_not_none(tmp_path: Path) -> None:
    row = replace(scenes.partition("orders", 0, committed=850), predicted_bytes=None)
    text = Visitor(tmp_path, scenes.report([row])).see("/").text
    assert "The last cycle will free \N{EM DASH} 850 records" in text


def test_where_not_every_group_counts_the_page_and_the_topics_own_say_so(tmp_path: Path) -> None:
    row = replace(scenes.partition("orders", 0, committed=400), only_groups="<b>|search")
    visitor = Visitor(tmp_path, scenes.report([row]))
    sentence = "On orders only groups that match <b>|search count (groups.only): what any other"
    assert sentence in visitor.see("/").text
    assert sentence in visitor.see("/topics/orders").text


def test_what_speaks_for_readers_that_commit_nothing_is_said(tmp_path: Path) -> None:
    report = scenes.report([scenes.partition("orders", 0, committed=400)])
    sign = "topic heartbeats is MirrorMaker 2's, which reads topics without committing"
    assert "Unseen readers" not in Visitor(tmp_path, report).see("/").text
    text = Visitor(tmp_path, replace(report, unseen=(sign,))).see("/").text
    assert f"Unseen readers there may be some: {sign}" in text


def test_each_disk_says_what_is_left_and_one_under_pressure_what_is_done_for_it(
    tmp_path: Path,
) -> None:
    gib = 2**30
    pressed = PressedLogDir(1, "/data-1", 100 * gib, 10 * gib, 25 * gib)
    disk = DiskReport(
        space=(
            LogDirCapacity(2, "/data-2", 100 * gib, 60 * gib),
            LogDirCapacity(1, "/data-1", 100 * gib, 10 * gib),
        ),
        until_full_s={(1, "/data-1"): 2 * 3600.0},
        relief=(LogDirRelief(pressed, 3 * gib, 12 * gib, {"billing": 9 * gib}, {}),),
    )
    visitor = Visitor(tmp_path, replace(scenes.many_topics(1), disk=disk))
    visitor.status.pressure_interval_ms = 90_000

    text = visitor.see("/").text

    assert "/data-1 of broker 1 under pressure 10% left of 100 GiB, full in 2 hours" in text
    assert text.index("10% left of 100 GiB") < text.index("60% left of 100 GiB")
    assert "12.0 GiB of that may not go; most is kept for billing (9.0 GiB)" in text
    assert "Last cycle 1 min ago, next in 18 s" in text


def test_where_no_broker_tells_its_space_there_are_no_disks(tmp_path: Path) -> None:
    assert "Disks" not in Visitor(tmp_path, scenes.many_topics(1)).see("/").text
