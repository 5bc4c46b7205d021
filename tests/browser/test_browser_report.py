"""The report's page in a real browser: readable without a network, in the dark and on a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Request

from retentiond.cli.output.report import html
from retentiond.history.ask.past import EntryRow, Past, timeline
from retentiond.history.ask.report_figures import (
    KeepingGroup,
    LogDirFilling,
    Report,
    StoppedGroup,
    TopicSaving,
)

pytestmark = pytest.mark.browser

HOUR_MS = 3_600_000
NOW_MS = 1_790_000_000_000
GROUP = "<script>alert(1)</script>"
TOPIC = "a-topic-with-a-rather-long-name.and-a-second-part.and-a-third-part"


@pytest.fixture
def page_file(tmp_path: Path) -> Path:
    entries = [
        EntryRow(number, NOW_MS + number * HOUR_MS, True, False, HOUR_MS, False)
        for number in range(48)
    ]
    unused: Any = None
    past = Past(
        unused, (), "cluster", (), timeline(entries, NOW_MS, NOW_MS + 48 * HOUR_MS), unused, True
    )
    line = {NOW_MS + number * HOUR_MS: 1e9 + number * 1e7 for number in range(48)}
    saving = TopicSaving(TOPIC, None, 10**9, 5 * 10**9, 1_000_000, 48, 24 * HOUR_MS)
    report = Report(
        past,
        (saving,),
        saving,
        (KeepingGroup(GROUP, TOPIC, 10**8, 12_345, None),),
        ("lonely",),
        (StoppedGroup(GROUP, (TOPIC,), 12_345, NOW_MS),),
        (LogDirFilling(1, "/var/lib/kafka", 10**11, 10**12, NOW_MS + 10**9, 86_400_000),),
        {TOPIC: line, GROUP: line},
        {TOPIC: line},
        {NOW_MS: 5.0, NOW_MS + 24 * HOUR_MS: 7.0},
        {"1 /var/lib/kafka": dict.fromkeys(line, 80.0)},
    )
    file = tmp_path / "report.html"
    file.write_text(html(report, report.past.cluster_id))
    return file


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_needs_nothing_from_elsewhere_and_fits(
    chromium: Browser, page_file: Path, scheme: Any, width: int
) -> None:
    context = chromium.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 800}, offline=True
    )
    page = context.new_page()
    asked: list[str] = []
    trouble: list[str] = []

    def remember(request: Request) -> None:
        asked.append(request.url)

    page.on("request", remember)
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("dialog", lambda dialog: trouble.append(dialog.message))
    page.goto(page_file.as_uri())

    assert asked == [page_file.as_uri()]
    assert trouble == []
    assert page.locator("figure svg").count() == 3
    assert page.locator("table").count() == 4
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert GROUP in page.locator("main").inner_text()
    labels = page.locator("figure svg text.axis, figure svg text.legend")
    heights = labels.evaluate_all(
        "found => found.filter(each => each.textContent)"
        ".map(each => each.getBoundingClientRect().height)"
    )
    assert min(heights) >= 10, "pixels that can be read"
    paper, text = (
        page.evaluate(f"getComputedStyle(document.body).{each}")
        for each in ("backgroundColor", "color")
    )
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    title = page.locator("figure svg text.title").first
    assert title.evaluate("element => getComputedStyle(element).fill") == text
    context.close()
