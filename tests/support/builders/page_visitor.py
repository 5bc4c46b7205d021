"""Asks for pages as a browser without a script would, and reads them as a parser does."""

from __future__ import annotations

import asyncio
import gc
import itertools
import re
import time
from collections.abc import Callable, Mapping
from html.parser import HTMLParser
from pathlib import Path

import httpx
from prometheus_client.registry import CollectorRegistry

from retentiond.history.keeper import HistoryKeeper
from retentiond.tell.metrics.registry import Exposition
from retentiond.tell.page.routes import status_page
from retentiond.tell.report import CycleReport
from retentiond.tell.web import DaemonStatus, application
from tests.support.builders.histories import settings
from tests.support.scenes import NOW_MS

INTERVAL_MS = 300_000
VOID = {"br", "img", "input", "link", "meta"}
BLOCKS = {"div", "dl", "dt", "figure", "h1", "h2", "h3", "li", "p", "section", "summary", "tr"}


class Document(HTMLParser):
    """``elements``: every tag with its attributes; ``texts``: what stands between them;
    ``open``: tags that were never closed; ``starts``: where in the texts a line begins."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.starts: list[int] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("td", "th"):
            self.texts.append(" ")
        if tag in BLOCKS:
            self.starts.append(len(self.texts))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            raise AssertionError(f"</{tag}> closes {self.open[-1:]}")
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        """As it is read, without the space around its parts."""
        return re.sub(r"\s+", " ", "".join(self.texts)).strip()

    @property
    def main(self) -> str:
        """What stands between the head of the page and its foot, line by line."""
        bounds = [0, *self.starts, len(self.texts)]
        parts = ("".join(self.texts[one:two]) for one, two in itertools.pairwise(bounds))
        lines = [line for part in parts if (line := " ".join(part.split()))]
        begin = lines.index("All topics")
        return "\n".join(each for each in lines[begin + 1 :] if "This page only shows" not in each)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


QUICK_S = 0.2

USUAL_FIXED_WORK_S = 0.042
"""Of the machine on which the limits of time were set, while nobody else used its cores."""


def _fixed_work_s() -> float:
    began, texts = time.process_time(), dict[int, str]()
    for number in range(300_000):
        texts[number & 1023] = str(number)
    return time.process_time() - began


class Visitor:
    """The application over a daemon's status and a clock that tests set by hand."""

    def __init__(
        self,
        state_dir: Path,
        report: CycleReport | None = None,
        keeper: HistoryKeeper | None = None,
    ) -> None:
        self.now_ms = NOW_MS
        self.keeper = keeper or HistoryKeeper(settings(state_dir))
        self.status = DaemonStatus(INTERVAL_MS, lambda: self.now_ms / 1000)
        if report is not None:
            self.status.publish(report)
        page = status_page(self.status, lambda: self.now_ms, state_dir, self.keeper)
        self.registry = CollectorRegistry()
        self.app = application(self.status, Exposition(self.registry), page)

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.ask("GET", path, **headers)

    def is_quick(self, path: str, before_each: Callable[[], object] = lambda: None) -> bool:
        """Whether the page, which must be there, takes less than `QUICK_S` of CPU time, on a core
        at its usual pace.

        On a host whose cores others share, the same work takes twice the CPU time for minutes. So a
        fixed piece of work is timed before and after each page, and one of five has to do. No look
        through all that other tests have left falls into it.
        """
        return any(self._cpu_seconds_of(path, before_each) < QUICK_S for _ in range(5))

    def _cpu_seconds_of(self, path: str, before: Callable[[], object]) -> float:
        before()
        gc.collect()
        gc.disable()
        try:
            paces = [_fixed_work_s()]
            began = time.process_time()
            assert self.get(path).status_code == 200
            took_s = time.process_time() - began
            paces.append(_fixed_work_s())
        finally:
            gc.enable()
        return took_s / max(1.0, sum(paces) / len(paces) / USUAL_FIXED_WORK_S)

    def ask(self, method: str, path: str, **headers: str) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await client.request(method, path, headers=headers)

        return asyncio.run(ask())

    def see(self, path: str) -> Document:
        return Document(self.get(path).text)


def side_by_side(pages: Mapping[str, str]) -> str:
    """The first page by its title, and of each other one the lines that the first has not."""
    first, *others = pages.items()
    known = set(first[1].splitlines())
    texts = [f"=== {first[0]}\n{first[1]}\n"]
    for title, page in others:
        lines = [line for line in page.splitlines() if line not in known]
        texts.append("\n".join([f"=== {title}", *lines, ""]))
    return "\n".join(texts)
