"""Takes the pictures of the docs: `scripts/docs pictures`. What they show is made up."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from retentiond.cli.output.report import html
from retentiond.history.ask.past import EntryRow, Past, timeline
from retentiond.history.ask.report_figures import (
    KeepingGroup,
    Line,
    LogDirFilling,
    Report,
    StoppedGroup,
    TopicSaving,
)
from retentiond.history.hourly import SPANS, Hourly, Recent
from retentiond.model import Verdict
from retentiond.tell.report import CycleReport
from tests.browser.conftest import Site
from tests.support import scenes
from tests.support.builders import recent_days

DOCS = Path(__file__).parents[2] / "docs"
WIDTH = 1280
HOUR_MS, DAY_MS = scenes.HOUR_MS, 24 * scenes.HOUR_MS
SAVED = 0.85
"""Of what would be on disk without retentiond."""

SIZES = recent_days.SIZES | {
    "orders.enriched": 280,
    "clicks.sessionized": 78,
    "payments.checked": 5,
}
"""GiB at noon, as the daemon leaves them."""

DELETED_IN_AN_HOUR = 8_000_000
CYCLES_IN_AN_HOUR = 12


def main() -> None:
    executable = shutil.which("chromium")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []  # it opens what is ours alone
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=arguments)
        hourly = recent_days.write(
            Path(folder) / "history", scenes.NOW_MS, sizes=SIZES, deleted=DELETED_IN_AN_HOUR
        )
        take_pages(browser, Path(folder), hourly)
        take_report(browser, Path(folder) / "report.html", hourly.recent(SPANS[-1], scenes.NOW_MS))
        browser.close()


def take_pages(browser: Browser, state_dir: Path, hourly: Hourly) -> None:
    slow = {"fraud-detector": dict.fromkeys(range(12, 16), 50_000_000)}
    scenes.remember(state_dir, "orders.enriched", slow, moved_at_ms=scenes.NOW_MS - 4 * DAY_MS)
    report = one_of_many(scenes.plausible(dry_run=False))
    read = {
        row.partition: row.min_committed_offset
        for row in report.plan.rows
        if row.topic == "orders.enriched" and row.binding_group == "billing"
        if row.min_committed_offset is not None
    }
    scenes.remember(state_dir, "orders.enriched", {"billing": read}, moved_at_ms=scenes.NOW_MS)
    hours = [scenes.NOW_MS - hours_ago * HOUR_MS for hours_ago in range(24)]
    a_day = sum(map(deleted_in, range(24)))
    scenes.deleted(state_dir, "orders.enriched", hours, a_day // len(hours))
    site = Site(state_dir)
    site.keeper.hourly = hourly
    site.show(report)
    site.server.start()
    take(browser, f"{site.url}?span=7d", "status-page", 900)
    take(browser, f"{site.url}topics/orders.enriched", "topic-page", 900)
    site.server.stop()


def deleted_in(hours_ago: int) -> int:
    """The records of one hour, which its cycles share."""
    at = datetime.fromtimestamp((scenes.NOW_MS - hours_ago * HOUR_MS) / 1000, UTC)
    return recent_days.deleted_in(hours_ago, at, DELETED_IN_AN_HOUR)


def one_of_many(report: CycleReport) -> CycleReport:
    """The report of a cycle that follows others: it deletes its share of an hour."""
    share = deleted_in(0) / CYCLES_IN_AN_HOUR / sum(row.records for row in report.plan.rows)
    rows = [
        replace(
            row,
            log_start_offset=row.cutoff - records,
            records=records,
            predicted_bytes=records * scenes.RECORD_BYTES,
        )
        if row.verdict is Verdict.DELETE and row.cutoff is not None
        else row
        for row in report.plan.rows
        for records in (round(row.records * share),)
    ]
    return replace(
        scenes.report(rows, stuck=report.disk.stuck if report.disk else ()),
        group_states=report.group_states,
    )


def take_report(browser: Browser, file: Path, recent: Recent) -> None:
    found = made_up(recent)
    file.write_text(html(found, found.past.cluster_id))
    take(browser, file.as_uri(), "report", 1080, width=1000)


def take(browser: Browser, url: str, name: str, height: int, *, width: int = WIDTH) -> None:
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme="light")
    page = context.new_page()
    page.goto(url)
    page.screenshot(path=DOCS / f"{name}.png")
    context.close()


def made_up(recent: Recent) -> Report:
    """A month in which retentiond deleted from the topics that are not held."""
    entries = [
        EntryRow(number, at_ms, True, False, HOUR_MS, False)
        for number, at_ms in enumerate(recent.times)
    ]
    unused: Any = None
    span = timeline(entries, recent.times[0], scenes.NOW_MS)
    past = Past(unused, (), "cluster", (), span, unused, is_local=True)
    lines = {
        name: {at: value for at, value in zip(recent.times, values, strict=True) if value}
        for name, values in recent.bytes_by_topic.items()
        if name is not None
    }
    without = {name: grown(name, points) for name, points in lines.items()}
    by_day: dict[int, float] = {}
    for at_ms, records in zip(recent.times, recent.deleted, strict=True):
        day = at_ms // DAY_MS * DAY_MS + DAY_MS // 2
        by_day[day] = by_day.get(day, 0) + (records or 0)
    known_ms = scenes.NOW_MS - recent.times[0]
    savings = [
        TopicSaving(
            name,
            None,
            mean(lines[name]),
            mean(without[name]),
            deleted,
            720 if deleted else 0,
            known_ms,
        )
        for name in recent_days.SIZES
        for deleted in ((recent.total_deleted,) if name == "orders.enriched" else (0,))
    ]
    total = TopicSaving(
        "total",
        None,
        sum(each.mean_bytes or 0 for each in savings),
        sum(each.without_mean_bytes or 0 for each in savings),
        recent.total_deleted,
        720,
        known_ms,
    )
    now = scenes.NOW_MS
    return Report(
        past,
        tuple(savings),
        total,
        (
            KeepingGroup(
                "fraud-detector", "orders.enriched", 129 << 30, 112_000_000, now - 4 * DAY_MS
            ),
            KeepingGroup("warehouse-sync", "inventory.deltas", 58 << 30, 50_400_000, None),
        ),
        ("audit.trail",),
        (StoppedGroup("fraud-detector", ("orders.enriched",), 112_000_000, now - 4 * DAY_MS),),
        (
            LogDirFilling(
                *(1, "/var/lib/kafka", 700 << 30, 2 << 40, now + 11 * DAY_MS, DAY_MS),
            ),
        ),
        lines,
        without,
        by_day,
        {"1 /var/lib/kafka": {at: 40 + 25 * n / 120 for n, at in enumerate(recent.times)}},
    )


def grown(topic: str, line: Line) -> Line:
    """What would be there without retentiond: its bytes, and what it deleted within a week."""
    factor = 1 / (1 - SAVED) if topic == "orders.enriched" else 1.0
    return {at: value * factor for at, value in line.items()}


def mean(line: Line) -> int:
    return round(sum(line.values()) / len(line))


if __name__ == "__main__":
    main()
