"""The status page in a real browser: headless Chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from prometheus_client.registry import CollectorRegistry

from retentiond.config import Http
from retentiond.history.keeper import HistoryKeeper
from retentiond.tell.metrics.registry import Exposition
from retentiond.tell.page.routes import status_page
from retentiond.tell.report import CycleReport
from retentiond.tell.web import DaemonStatus, application, serve
from tests.support import scenes
from tests.support.builders.histories import settings

PLAIN = Http(host="127.0.0.1", port=0)


class Site:
    """A daemon's port without the daemon: what is pinned up is shown."""

    def __init__(self, state_dir: Path, http: Http = PLAIN) -> None:
        self.state_dir = state_dir
        self.status = DaemonStatus(interval_ms=300_000)
        self.keeper = HistoryKeeper(settings(state_dir))
        page = status_page(self.status, lambda: scenes.NOW_MS, state_dir, self.keeper)
        exposition = Exposition(CollectorRegistry())
        app = application(self.status, exposition, page)
        self.server = serve(app, http)
        self.url = f"http{'s' if http.tls else ''}://127.0.0.1:{self.server.port}/"

    def show(self, report: CycleReport) -> None:
        self.status.publish(report)


class OpenPage(Protocol):
    """Opens a path in a context of its own; keywords are those of `Browser.new_context`."""

    def __call__(self, path: str = "", **context: Any) -> Page: ...


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One for each module: while it runs, its thread has an event loop."""
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("needs Debian's chromium (apt-get install chromium)")
    # Chromium can't make its sandbox for root; what it opens here is ours alone.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    site.server.start()
    yield site
    site.server.stop()


@pytest.fixture
def visit(chromium: Browser, site: Site) -> Iterator[OpenPage]:
    """Pages whose scripts fail, or that break their own policy, fail the test."""
    trouble: list[str] = []
    with ExitStack() as contexts:

        def open_page(path: str = "", **context: Any) -> Page:
            opened = chromium.new_context(**context)
            contexts.callback(opened.close)
            page = opened.new_page()
            page.set_default_timeout(15_000)
            page.on("pageerror", lambda error: trouble.append(str(error)))
            page.on("console", lambda said: _note(said.type, said.text, trouble))
            page.goto(site.url + path)
            return page

        yield open_page
    assert trouble == []


def _note(kind: str, text: str, trouble: list[str]) -> None:
    is_expected = any(each in text for each in ("ERR_CONNECTION_REFUSED", "404", "401"))
    if kind in ("error", "warning") and not is_expected:
        trouble.append(text)
