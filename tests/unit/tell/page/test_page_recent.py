"""The history on the first page: three times, three charts, and a sentence where there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from retentiond.history.hourly import SPANS, Hourly
from retentiond.history.keeper import HistoryKeeper
from retentiond.history.schema import SCHEMA, RowKind
from retentiond.history.table import HistoryTable
from retentiond.tell import charts
from tests.support import scenes
from tests.support.builders import recent_days
from tests.support.builders.histories import World, settings
from tests.support.builders.page_visitor import Document, Visitor

GIB = 1 << 30


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Hourly:
    return recent_days.write(tmp_path_factory.mktemp("history"), scenes.NOW_MS, days=1)


def visitor_of(tmp_path: Path, hourly: Hourly | None, **history: Any) -> Visitor:
    keeper = HistoryKeeper(settings(tmp_path, **history))
    keeper.hourly = hourly
    return Visitor(tmp_path, scenes.plausible(), keeper)


def chart_labels(document: Document) -> list[str]:
    found = [each for each in document.all("svg") if each.get("class") == "chart"]
    return [each["aria-label"] or "" for each in found]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("", "24 hours"),
        ("?span=7d", "7 days"),
        ("?span=30d", "30 days"),
        ("?span=%3Cb%3E", "24 hours"),
    ],
)
def test_it_shows_the_time_that_is_asked_for(
    tmp_path: Path, days: Hourly, query: str, name: str
) -> None:
    document = visitor_of(tmp_path, days).see(f"/{query}")
    (chosen,) = [each for each in document.all("a") if each.get("aria-current")]
    assert name in document.text[document.text.index("History") :]
    spans = {"24 hours": "?", "7 days": "?span=7d", "30 days": "?span=30d"}
    assert chosen["href"] == spans[name]
    disk, deleted, lag = chart_labels(document)
    assert disk.startswith(f"On disk, by topic, the last {name}; ")
    assert deleted.endswith(f" deleted in the last {name}")
    assert lag.startswith(f"Yet to read, by the group that binds, the last {name}; ")


def test_it_says_what_was_saved(
    tmp_path: Path, days: Hourly, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = replace(days.recent(SPANS[1], scenes.NOW_MS), saved_byte_ms=60 * GIB * 86_400_000)
    monkeypatch.setattr(days, "recent", lambda _span, _now_ms: saved)
    said = "Saved in the last 7 days: about 60 GiB·days of disk"
    assert f"{said}." in visitor_of(tmp_path, days).see("/?span=7d").text
    nothing = replace(saved, saved_byte_ms=None)
    monkeypatch.setattr(days, "recent", lambda _span, _now_ms: nothing)
    assert "Saved in the last" not in visitor_of(tmp_path, days).see("/?span=7d").text


def test_other_choices_stay_when_the_time_is_chosen(tmp_path: Path, days: Hourly) -> None:
    document = visitor_of(tmp_path, days).see("/?name=o&verdict=delete&sort=name&span=7d")
    links = [each["href"] for each in document.all("a")]
    assert "?name=o&verdict=delete&sort=name&span=30d" in links
    assert "?name=o&verdict=delete&sort=name" in links
    hidden = {each["name"]: each["value"] for each in document.all("input") if each.get("value")}
    assert hidden == {"name": "o", "sort": "name", "span": "7d"}


def test_the_figures_beside_the_charts_are_those_of_the_newest_hour(tmp_path: Path) -> None:
    sizes = {"a": 3 * GIB, "b": GIB}
    text = visitor_of(tmp_path, hours(tmp_path, 3, sizes)).see("/").text
    assert "On disk, by topic 4.0 GiB at the end" in text
    assert "Deleted 15 records" in text
    assert "Yet to read, by the group that binds 14 at the end" in text
    assert "88% of this time has no entry and is shaded." in text


def hours(
    tmp_path: Path, many: int, sizes: dict[str, int], group: str = "g", *, is_known: bool = True
) -> Hourly:
    """One entry in each of the last hours, with a partition of each topic."""
    table = HistoryTable.open_or_create(tmp_path / "history")
    for entry in range(1, many + 1):
        at = (scenes.NOW_MS - (many - entry) * scenes.HOUR_MS) * 1000
        head = {"day": "2026-09-21", "entry": entry, "at": at, "cluster_id": "c"}
        rows: list[dict[str, Any]] = [
            {"kind": RowKind.PARTITION.value, "topic": topic, "partition": 0, "size_bytes": size,
             "log_start_offset": 0, "high_watermark": 10, "min_committed_offset": 3,
             "binding_group": group}
            for topic, size in sizes.items()
        ]  # fmt: skip
        if not is_known:
            rows = [{name: row[name] for name in ("kind", "topic", "partition")} for row in rows]
        rows.append({"kind": RowKind.CYCLE.value})
        if is_known:
            rows.append({"kind": RowKind.DELETION.value, "records": 5, "outcome": "deleted"})
        table.append("c", entry, pa.Table.from_pylist([head | each for each in rows], SCHEMA))
    return Hourly(table.place, "c")


def test_the_legend_leads_to_topics_and_groups(tmp_path: Path, days: Hourly) -> None:
    links = [each["href"] for each in visitor_of(tmp_path, days).see("/").all("a")]
    assert "./topics/audit.trail" in links
    assert "./groups/ledger-writer" in links


def test_names_in_charts_are_only_names(tmp_path: Path) -> None:
    group = scenes.HOSTILE_GROUP.encode(errors="replace").decode()
    hourly = hours(tmp_path, 2, {scenes.HOSTILE_TOPIC: GIB, "": 1}, group)
    document = visitor_of(tmp_path, hourly).see("/")
    assert len(chart_labels(document)) == 3
    assert scenes.HOSTILE_TOPIC in document.text
    assert not {tag for tag, _ in document.elements} & {"style", "b", "img", "u"}
    assert len(document.all("script")) == 1
    attributes = {name for _, given in document.elements for name in given}
    assert not [name for name in attributes if name.startswith("on") or name == "style"]
    assert document.open == []


def test_a_chart_is_drawn_when_its_figures_change_and_not_before(
    tmp_path: Path, days: Hourly, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    draw = charts.Chart.svg

    def counted(chart: charts.Chart, look: charts.Look, label: str, unknown: Any) -> str:
        drawn.append(label)
        return draw(chart, look, label, unknown)

    monkeypatch.setattr(charts.Chart, "svg", counted)
    visitor = visitor_of(tmp_path, days)
    for _ in range(3):
        visitor.get("/")
    assert len(drawn) == 3
    visitor.now_ms += scenes.HOUR_MS
    visitor.get("/")
    assert len(drawn) == 6
    days.version += 1
    visitor.get("/")
    assert len(drawn) == 9


@pytest.mark.parametrize(
    ("history", "sentence"),
    [
        ({"enabled": False}, "The history is off: history.enabled is false, so nothing"),
        ({}, "The history is empty: its first entry follows a cycle."),
    ],
)
def test_where_there_is_no_history_it_says_so(
    tmp_path: Path, history: dict[str, Any], sentence: str
) -> None:
    document = visitor_of(tmp_path, None, **history).see("/")
    assert sentence in document.text
    assert chart_labels(document) == []


def test_a_broken_history_is_told_and_what_is_known_of_it_shown(
    tmp_path: Path, days: Hourly
) -> None:
    (tmp_path / "history").write_text("no folder")
    visitor = visitor_of(tmp_path, days)
    visitor.keeper.see(World().seen())
    visitor.keeper.keep()
    assert visitor.keeper.finish(60)
    document = visitor.see("/")
    assert f"The history in {tmp_path / 'history'} can't be used" in document.text
    assert len(chart_labels(document)) == 3


def test_one_hour_alone_is_too_little_to_draw(tmp_path: Path) -> None:
    document = visitor_of(tmp_path, hours(tmp_path, 1, {"a": 1})).see("/")
    assert "There is nothing to draw yet: of the last 24 hours little is known." in document.text
    assert chart_labels(document) == []


def test_where_nothing_is_known_or_deleted_a_word_stands_for_the_chart(tmp_path: Path) -> None:
    hourly = hours(tmp_path, 2, {"a": 1}, is_known=False)
    document = visitor_of(tmp_path, hourly).see("/")
    assert chart_labels(document) == []
    assert "On disk, by topic not known Deleted nothing in the last 24 hours" in document.text
    assert "Yet to read, by the group that binds nothing" in document.text


@pytest.mark.long
@pytest.mark.parametrize("query", ["", "?span=30d", "?sort=-kept", "?sort=name"])
def test_the_page_of_a_large_cluster_is_quick(tmp_path: Path, days: Hourly, query: str) -> None:
    """4,000 partitions of 400 topics. It is the first look after a cycle, which draws again."""
    rows = [
        replace(row, topic=f"topic-{row.partition % 400:03}", partition=row.partition // 400)
        for row in scenes.many_partitions(4_000).plan.rows
    ]
    visitor = visitor_of(tmp_path, days)
    visitor.get("/")  # templates are compiled

    def a_cycle_later() -> None:
        visitor.status.publish(scenes.report(rows))
        days.version += 1

    assert visitor.is_quick(f"/{query}", a_cycle_later)
    assert visitor.is_quick("/groups/group-1")
