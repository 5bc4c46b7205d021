"""The first page: how it goes, and every topic by what it frees."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
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
from retentiond.tell.report import CycleReport
from tests.support import scenes
from tests.support.builders.histories import settings
from tests.support.builders.page_visitor import INTERVAL_MS, Visitor
from tests.support.builders.reports import unreadable
from tests.support.golden import Golden


def topics(visitor: Visitor, path: str = "/") -> list[str]:
    links = [link["href"] or "" for link in visitor.see(path).all("a")]
    return [link.removeprefix("./topics/") for link in links if link.startswith("./topics/")]


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
def test_topics_can_be_filtered_by_their_owner_where_one_has_any(
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
    assert "owner" not in Visitor(tmp_path, scenes.many_topics(3)).see("/").text


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


def test_a_damaged_audit_log_leaves_the_page_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "audit.db").write_bytes(b"\0" * 8192)
    visitor = Visitor(tmp_path, scenes.many_topics(1))
    assert "topic-00000" in visitor.see("/").text
    assert "The audit log could not be read in passing" in visitor.see("/topics/topic-00000").text


@pytest.mark.long
def test_two_thousand_topics_are_rendered_quickly(tmp_path: Path) -> None:
    report = scenes.many_topics(2_000)
    visitor = Visitor(tmp_path, report)
    visitor.get("/")  # templates are compiled
    assert visitor.is_quick("/", lambda: visitor.status.publish(report))


def under_pressure_and_not() -> DiskReport:
    gib = 2**30
    pressed = PressedLogDir(1, "/data-1", 100 * gib, 10 * gib, 25 * gib)
    space = (
        LogDirCapacity(2, "/data-2", 100 * gib, 60 * gib),
        LogDirCapacity(1, "/data-1", 100 * gib, 10 * gib),
    )
    relief = LogDirRelief(pressed, 3 * gib, 12 * gib, {"billing": 9 * gib}, {})
    return DiskReport(space=space, relief=(relief,))


def situations(folder: Path) -> Iterator[tuple[str, Visitor]]:
    """What the first page may have to say, each with a daemon's state of its own."""

    def visitor(report: CycleReport | None, **keeper: HistoryKeeper) -> Visitor:
        state_dir = folder / str(next(numbers))
        state_dir.mkdir()
        return Visitor(state_dir, report, **keeper)

    numbers = count()
    few = scenes.many_topics(1)
    at = TopicPartition("orders", 0)
    row = scenes.partition("orders", 0, committed=850)
    gone = replace(scenes.partition("orders", 0, Reason.EVIDENCE_CHANGED), detail="a group is gone")
    failed = DeletionOutcome(*at, Outcome.FAILED, error="NOT_LEADER: it moved")
    unknown = DeletionOutcome("orders", 1, Outcome.UNKNOWN, error="it timed out")
    offline = ("/a of broker 1: KAFKA_STORAGE_ERROR", "/b of broker 1: KAFKA_STORAGE_ERROR")

    yield "before the first cycle", visitor(None)
    yield "healthy", visitor(few)
    yield "dry run", visitor(scenes.report([row], dry_run=True))
    named = settings(folder).model_copy(update={"metrics": MetricSettings(cluster="orders")})
    yield "a named cluster", visitor(few, keeper=HistoryKeeper(named))
    paused = visitor(few)
    write_pause(folder / "4", Pause("incident 12", "2026-11-21T15:00:00Z", "root"))
    yield "paused", paused
    incomplete = visitor(few)
    incomplete.status.publish(scenes.report([unreadable("orders")], problems=("broker 2 is down",)))
    yield "incomplete", incomplete
    failing = visitor(scenes.report([], dry_run=True))
    failing.status.problem = "KafkaUnavailable"
    yield "failing", failing
    late = visitor(few)
    late.now_ms += 4 * INTERVAL_MS
    yield "late", late
    yield "a failed deletion", visitor(scenes.report([row], outcomes={at: failed}))
    two = [row, replace(row, partition=1)]
    outcomes = {unknown.topic_partition: unknown}
    yield "an unknown outcome", visitor(scenes.report(two, outcomes=outcomes))
    yield "the guard leaves nothing, and never has", visitor(scenes.report([gone]))
    after = visitor(few)
    after.status.publish(scenes.report([gone]))
    yield "the guard leaves nothing after a deletion", after
    yield "offline disks", visitor(replace(few, disk=DiskReport(problems=offline)))
    yield "failed after deletions", visitor(replace(few, failure=StateError("the disk is full")))
    yield "unknown bytes", visitor(scenes.report([replace(row, predicted_bytes=None)]))
    only = replace(row, only_groups="<b>|search")
    sign = "topic heartbeats is MirrorMaker 2's, which reads topics without committing"
    yield "readers that don't count", visitor(replace(scenes.report([only]), unseen=(sign,)))
    yield "a plausible cluster", visitor(scenes.plausible())
    pressed = visitor(replace(few, disk=under_pressure_and_not()))
    pressed.status.pressure_interval_ms = 90_000
    yield "a disk under pressure, and one that is not", pressed


PARTS = re.compile(
    r"to the content retentiond (?P<head>.*?) ?Plan as JSON Metrics Readiness Pause refresh "
    r"(?P<health>.*) Status of retentiond (?P<figures>.*?)"
    r"( History .*? most of the rest (?P<topics>.*) Cycle .*)?( This page only shows.*|$)"
)
"""Of the first page's text: the cluster, how it goes, the figures, and the topics."""


def test_how_it_goes_is_said_in_words(tmp_path: Path, golden: Golden) -> None:
    """tests/golden/page: each line is a part of the page."""
    said = []
    for title, visitor in situations(tmp_path):
        page = visitor.see("/")
        health = [each for div in page.all("div") if "health" in (each := div.get("class") or "")]
        parts = PARTS.search(page.text)
        assert parts is not None
        said += [f"=== {title}: {', '.join(health)}", *filter(None, parts.groupdict().values()), ""]
    golden("page/overview.txt", "\n".join(said))
