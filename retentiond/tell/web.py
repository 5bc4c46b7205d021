"""The HTTP port: metrics, health, and whether the daemon is ready."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from retentiond.config.config import Http
from retentiond.config.no_policy import UnreadableFile
from retentiond.errors import ConfigError
from retentiond.formatting import printable
from retentiond.state.operator_actions import Pause
from retentiond.tell.metrics.registry import Exposition
from retentiond.tell.port import BasicAuth, Certificate, ClosingSilent, bind
from retentiond.tell.report import CycleReport

READY_INTERVALS = 3
"""The daemon is ready if a cycle with complete evidence began within so many intervals, or within
so many times the duration of that cycle."""

DAY_S = 86_400

STUCK_S = 300.0
"""A cycle without a sign of life for so long is stuck. Every request and every step has a shorter
deadline of its own; where there is none (a disk, say), the daemon can't help itself."""

BACKLOG = 32
"""How many connections asyncio accepts at once before it closes any."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Of the configuration on disk. ``since_s``: since the last one that was taken, in epoch
    seconds. ``error``: of its last content."""

    since_s: float
    error: ConfigError

    def sentence(self, now_s: float, *, has_changed: bool) -> str:
        since = datetime.fromtimestamp(self.since_s, UTC)
        is_recent = now_s - self.since_s < DAY_S
        said = f"configuration refused since {since:{'%H:%M' if is_recent else '%Y-%m-%d %H:%M'}}"
        if has_changed:
            return f"{said}: its files have changed since, and have not been taken yet"
        owner = f" (owner {self.error.owner})" if self.error.owner else ""
        return f"{said}: {self.error}{owner}"


@dataclass(slots=True)
class DaemonStatus:
    """What the daemon shows of itself: the last report, and whether its cycles go well.

    A field is replaced as a whole, so readers on other threads see the old value or the new one.
    ``clock`` returns monotonic seconds.
    """

    interval_ms: int
    clock: Callable[[], float] = time.monotonic
    stuck_after_s: float = STUCK_S
    report: CycleReport | None = None
    problem: str | None = None  # why the last try brought no plan
    needs_restart: str | None = None  # why no try succeeds before an operator restarts it
    pressure_interval_ms: int | None = None  # in force while a disk is under pressure
    history_problem: Callable[[], str | None] = lambda: None  # doesn't affect cycles
    pause: Callable[[], Pause | None] | None = (
        None  # the present one; None: the last cycle's counts
    )
    unreadable: Sequence[UnreadableFile] = ()  # fenced policy files, whose topics are held
    refused: Refusal | None = None  # the configuration on disk; an older one is in force
    has_changed_since: Callable[[], bool] = lambda: False  # what was refused
    unsettled: Sequence[str] = ()  # files that don't stand still, and count as they were
    date: Callable[[], float] = time.time
    _last_complete: _CompleteCycle | None = None
    _heartbeat: _Heartbeat | None = None

    def publish(self, report: CycleReport) -> None:
        self.report = report
        self.problem = None
        self.needs_restart = None  # an operator has put the files of the state back
        if report.evidence_complete:
            took_s = sum(report.seconds.values())
            self._last_complete = _CompleteCycle(self.clock() - took_s, took_s)

    def heartbeat(self, *, at_work: bool) -> None:
        """A sign of life from the thread of the cycles. ``at_work``: a cycle is under way."""
        self._heartbeat = _Heartbeat(self.clock(), at_work)

    def stuck(self) -> str | None:
        """Why no cycle is expected to end any more; None if cycles go on."""
        last = self._heartbeat
        if last is None:
            return None
        silent_s = self.clock() - last.at_s
        if silent_s <= self.stuck_after_s + (0 if last.at_work else self.interval_ms / 1000):
            return None
        sign = "the cycle under way has given no sign" if last.at_work else "no cycle has begun"
        return f"{sign} for {silent_s:.0f} s"

    def unready(self) -> str | None:
        """Why no recent cycle had complete evidence; None if one had. What became of its requests
        doesn't count: one topic without a right makes no daemon unready."""
        if self.needs_restart:
            return self.needs_restart
        last = self._last_complete
        if last is None:
            why = "no complete cycle yet"
        else:
            interval_s, took_s = self.interval_ms / 1000, last.took_s
            if self.clock() - last.began_s <= READY_INTERVALS * max(interval_s, took_s):
                return None
            many = "intervals" if took_s <= interval_s else "times what the last one took"
            why = f"no complete cycle within {READY_INTERVALS} {many}"
        return "; ".join([why, *self._troubles()])

    def ready(self) -> str:
        """What /readyz says while there is recent complete evidence. The last cycle may have
        failed or have been incomplete, and it may be paused now."""
        paused = self.report.plan.paused if self.report else None
        if self.pause is not None:  # an operator may have paused it, or resumed it, since then
            pause = self.pause()
            paused = None if pause is None else str(pause)
        return "; ".join(["ready", *([paused] if paused else []), *self._troubles()])

    def of_configuration(self) -> Iterator[str]:
        """What keeps the configuration on disk out of force."""
        if self.refused is not None:
            yield self.refused.sentence(self.date(), has_changed=self.has_changed_since())
        for file in self.unsettled:
            yield f"{file} has not stood still for minutes, so it counts as it was before"

    def _troubles(self) -> Sequence[str]:
        """Why the last cycle brought no plan, or what it lacked or left undone."""
        if self.problem:
            return (self.problem,)
        return (*self.report.problems, *self.report.undone) if self.report else ()


class _CompleteCycle(NamedTuple):
    """When a cycle with complete evidence began, and how long it took, by `DaemonStatus.clock`."""

    began_s: float
    took_s: float


class _Heartbeat(NamedTuple):
    at_s: float
    at_work: bool


def application(
    status: DaemonStatus, exposition: Exposition, page: Sequence[BaseRoute] = ()
) -> Starlette:
    """The daemon's HTTP application. ``page``: the routes of the status page."""

    def metrics(request: Request) -> Response:
        text, content_type = exposition.text(request.headers.get("accept", ""))
        return Response(text, headers={"content-type": content_type})

    def healthz(_request: Request) -> Response:
        why = status.stuck()
        return PlainTextResponse(f"{why or 'ok'}\n", status_code=503 if why else 200)

    def readyz(_request: Request) -> Response:
        why = status.unready()
        held = (f"the topics of a fence are held: {file.problem}" for file in status.unreadable)
        first, refused = why or status.ready(), status.of_configuration()
        text = "; ".join(filter(None, [first, *refused, *held, status.history_problem()]))
        return PlainTextResponse(f"{printable(text)}\n", status_code=503 if why else 200)

    return Starlette(
        routes=[
            Route("/metrics", metrics),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            *page,
        ]
    )


class Server:
    """Serves an application on a thread of its own."""

    def __init__(
        self, app: ASGIApp, listener: socket.socket, tls: ssl.SSLContext | None = None
    ) -> None:
        self._socket = listener
        is_local = listener.family == socket.AF_UNIX
        self.port: int | None = None if is_local else listener.getsockname()[1]
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=1,
            lifespan="off",
            http=ClosingSilent,
            backlog=BACKLOG,
            ws="none",  # basic authentication covers HTTP requests alone
            ssl_context_factory=None if tls is None else lambda *_: tls,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="http", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=3)
        self._socket.close()


def serve(app: Starlette, http: Http, is_stuck: Callable[[], object] = lambda: None) -> Server:
    """A server of the application on the configured port, with the configured security.

    ``is_stuck``: whether cycles are stuck; /healthz says so even without a password. Raises
    `ConfigError` if the port or the certificate can't be used.
    """
    guarded = BasicAuth(app, http.basic_auth, is_stuck) if http.basic_auth else app
    certificate = Certificate(http.tls.certificate, http.tls.key) if http.tls else None
    listener = bind(http.host, http.port)
    return Server(guarded, listener, certificate.context if certificate else None)
