"""The status page's addresses: `/`, `/topics/NAME`, `/groups/NAME`, and the files that they load.

Filters are part of the address. So a view can be sent to a colleague, and the page works without a
script.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route

from retentiond.decide.kept_records import cause
from retentiond.history.hourly import SPANS
from retentiond.history.keeper import HistoryKeeper
from retentiond.model import GroupKind, Verdict
from retentiond.state.audit_records import deleted_by_day
from retentiond.state.groups_lookup import readers_of
from retentiond.state.operator_actions import read_pause
from retentiond.tell.api import api
from retentiond.tell.figures.group_rows import groups_on
from retentiond.tell.page import details, overview, recent
from retentiond.tell.page.render import Assets, environment
from retentiond.tell.report import CycleReport
from retentiond.tell.web import DaemonStatus

HEADERS = {
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}

DAYS_SHOWN = 7
"""For how many days a topic's page shows what was deleted."""

MOST_CHARS = 300
"""The greatest length of a filter. Topic names are shorter."""


def status_page(
    status: DaemonStatus, now: Callable[[], int], state_dir: Path, keeper: HistoryKeeper
) -> list[BaseRoute]:
    """The routes of the status page, and of its rows as JSON. ``now`` returns epoch milliseconds.
    ``state_dir`` is only read."""
    charts = recent.RecentCharts(keeper)
    site = _Site(status, now, state_dir, keeper, charts, environment())
    return [
        Route("/", site.overview),
        Route("/topics/{name:path}", site.topic),
        Route("/groups/{name:path}", site.group),
        Mount("/assets", Assets()),
        *api(status, state_dir),
    ]


@dataclass(frozen=True, slots=True)
class _Site:
    """The pages. Their methods may run on any thread."""

    status: DaemonStatus
    now: Callable[[], int]
    state_dir: Path
    keeper: HistoryKeeper
    charts: recent.RecentCharts
    env: Environment

    def overview(self, request: Request) -> Response:
        report, now_ms = self.status.report, self.now()
        asked = request.query_params
        order, span = overview.order_named(asked.get("sort")), recent.span_named(asked.get("span"))
        wanted = overview.TopicFilter(
            _filter_text(request, "name"),
            _asked_verdict(request),
            asked.get("page"),
            order,
            _filter_text(request, "owner"),
        )
        return self._page(
            "overview.html",
            root="./",
            now_ms=now_ms,
            report=report,
            wanted=wanted,
            given={
                "name": wanted.name,
                "verdict": wanted.verdict.value if wanted.verdict else "",
                "owner": wanted.owner,
                "sort": "" if order == overview.BY_FREES else order.word,
                "span": "" if span == SPANS[0] else span.word,
            },
            next_order=overview.next_order,
            figure_columns=overview.FIGURE_COLUMNS,
            spans=SPANS,
            recent=self.charts.of(span, now_ms),
            topics=overview.topic_items(report, wanted) if report else None,
            freed=overview.freed_by(report, report.planned.partitions) if report else None,
        )

    def topic(self, request: Request) -> Response:
        name: str = request.path_params["name"]
        report, now_ms = self.status.report, self.now()
        topics = report.answers.topics if report else ()
        answer = next((topic for topic in topics if topic.topic == name), None)
        if report is None or answer is None:
            return self._missing("topic", name, report, now_ms)
        verdict, page = _asked_verdict(request), request.query_params.get("page")
        readers = readers_of(self.state_dir, name)
        return self._page(
            "topic.html",
            root="../",
            now_ms=now_ms,
            report=report,
            wanted_verdict=verdict,
            item=overview.topic_item(report, answer),
            reasons=answer.alike(cause),
            groups=groups_on(answer, readers or {}),
            groups_read=readers is not None,
            partitions=details.partitions(answer, verdict, page),
            deleted=deleted_by_day(self.state_dir, name, now_ms, DAYS_SHOWN),
        )

    def group(self, request: Request) -> Response:
        name: str = request.query_params.get("name", request.path_params["name"])
        report, now_ms = self.status.report, self.now()
        group = details.group_named(report, name, self.state_dir) if report else None
        if group is None:
            return self._missing("group", name, report, now_ms)
        is_external = group.kind == GroupKind.EXTERNAL.value
        return self._page(
            "group.html",
            root="../",
            now_ms=now_ms,
            report=report,
            group=group,
            topics=overview.paged(group.on, len(group.on), request.query_params.get("page")),
            groups_read=group.remembered is not None,
            required=self.keeper.config.said_of_required(
                group.group, group.reads or (), is_external=is_external
            ),
        )

    def _missing(self, what: str, name: str, report: CycleReport | None, now_ms: int) -> Response:
        status = 404 if report else 503
        return self._page(
            "missing.html", status, root="../", now_ms=now_ms, report=report, what=what, name=name
        )

    def _page(self, template: str, status: int = 200, /, **values: Any) -> Response:
        html = self.env.get_template(template).render(
            findings=[*overview.findings(self.status, read_pause(self.state_dir))],
            next_ms=overview.next_cycle_ms(self.status),
            cluster_name=self.keeper.config.metrics.cluster,
            **values,
        )
        return Response(html.encode(errors="replace"), status, HEADERS)


def _filter_text(request: Request, key: str) -> str:
    return request.query_params.get(key, "").strip()[:MOST_CHARS]


def _asked_verdict(request: Request) -> Verdict | None:
    """The verdict of the filter; None, which means any, if there is none or an unknown one."""
    try:
        return Verdict(request.query_params.get("verdict", ""))
    except ValueError:
        return None
