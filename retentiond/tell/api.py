"""The JSON below ``/api/``: the plan, topics, groups and health, from the rows that the page
shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from retentiond.fields import GROUP, GROUP_LIST, document_of
from retentiond.state.groups_lookup import readers_of
from retentiond.state.operator_actions import read_pause
from retentiond.tell.figures.group_rows import groups_of, groups_on
from retentiond.tell.page.details import group_named
from retentiond.tell.page.overview import findings
from retentiond.tell.report import (
    CycleReport,
    document,
    evidence_document,
    outcome_document,
    partition_document,
)
from retentiond.tell.web import DaemonStatus

Answer = Callable[[Request, CycleReport, Path], dict[str, Any] | bytes | None]
"""From a report and ``state_dir``: what stands in a document beside when and from which evidence,
or a whole document as JSON; None for an unknown name."""


def api(status: DaemonStatus, state_dir: Path) -> list[BaseRoute]:
    """The routes. ``state_dir`` is only read."""

    def of_report(answer: Answer) -> Callable[[Request], Response]:
        def respond(request: Request) -> Response:
            if status.report is None:
                return JSONResponse({"error": "no plan yet"}, 503)
            told = answer(request, status.report, state_dir)
            if told is None:
                return JSONResponse({"error": "the last cycle knows nothing of this name"}, 404)
            if isinstance(told, bytes):
                return Response(told, media_type=JSONResponse.media_type)
            return JSONResponse(evidence_document(status.report) | told)

        return respond

    def health(_request: Request) -> Response:
        found = [document_of(finding) for finding in findings(status, read_pause(state_dir))]
        return JSONResponse({"findings": found})

    return [
        Route("/api/plan", of_report(plan)),
        Route("/api/topics", of_report(topics)),
        Route("/api/topics/{name:path}", of_report(topic)),
        Route("/api/groups", of_report(groups)),
        Route("/api/groups/{name:path}", of_report(group)),
        Route("/api/health", health),
    ]


def plan(_request: Request, report: CycleReport, _state_dir: Path) -> dict[str, Any]:
    return document(report, with_outcomes=True)


def topics(_request: Request, report: CycleReport, _state_dir: Path) -> bytes:
    return report.topics_json


def topic(request: Request, report: CycleReport, state_dir: Path) -> dict[str, Any] | None:
    name = request.path_params["name"]
    topic = next((topic for topic in report.answers.topics if topic.topic == name), None)
    if topic is None:
        return None
    readers = readers_of(state_dir, name)
    return document_of(topic) | {
        "groups": None
        if readers is None
        else [document_of(group) for group in groups_on(topic, readers)],
        "partitions": [
            partition_document(partition) | outcome_document(partition.outcome)
            for partition in topic.partitions
        ],
    }


def groups(_request: Request, report: CycleReport, _state_dir: Path) -> dict[str, Any]:
    return {"groups": [document_of(group, GROUP_LIST) for group in groups_of(report)]}


def group(request: Request, report: CycleReport, state_dir: Path) -> dict[str, Any] | None:
    name = request.query_params.get("name", request.path_params["name"])
    group = group_named(report, name, state_dir)
    return None if group is None else document_of(group, GROUP)
