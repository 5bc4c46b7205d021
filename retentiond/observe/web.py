"""The one port: metrics, health, and the last plan as JSON."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from retentiond.config.config import Http
from retentiond.errors import ConfigError
from retentiond.observe.auth import BasicAuth
from retentiond.observe.exposition import Exposition
from retentiond.observe.report import CycleReport, document
from retentiond.observe.tls import Certificate

READY_INTERVALS = 3
"""Ready means a complete cycle within that many intervals."""


@dataclass(slots=True)
class Board:
    """What the daemon pins up for its readers: the last report, and when it was last complete.

    Each field is replaced as a whole; readers on other threads see the old or the new one.
    """

    interval_ms: int
    report: CycleReport | None = None
    last_complete_ms: int | None = None
    trouble: str | None = None  # why the last try brought no plan

    def pin(self, report: CycleReport) -> None:
        self.report = report
        self.trouble = None
        if report.plan.complete:
            self.last_complete_ms = report.plan.planned_at_ms

    def unready(self, now_ms: int) -> str | None:
        """Why there is no fresh complete plan; None: there is."""
        if self.last_complete_ms is None:
            why = "no complete cycle yet"
        elif now_ms - self.last_complete_ms > READY_INTERVALS * self.interval_ms:
            why = f"no complete cycle within {READY_INTERVALS} intervals"
        else:
            return None
        problems = self.report.plan.problems if self.report else ()
        return "; ".join([why, *([self.trouble] if self.trouble else problems)])

    def ready(self) -> str:
        """What is said of a plan that is fresh and complete."""
        paused = self.report.plan.paused if self.report else None
        return f"ready; {paused}" if paused else "ready"


def application(
    board: Board, exposition: Exposition, now: Callable[[], int], page: Sequence[Route] = ()
) -> Starlette:
    """``page``: the routes of whatever else is served, the status page most of all."""

    def metrics(request: Request) -> Response:
        text, content_type = exposition.text(request.headers.get("accept", ""))
        return Response(text, headers={"content-type": content_type})

    def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    def readyz(_request: Request) -> Response:
        why = board.unready(now())
        return PlainTextResponse(f"{why or board.ready()}\n", status_code=503 if why else 200)

    def plan(_request: Request) -> Response:
        if board.report is None:
            return JSONResponse({"error": "no plan yet"}, status_code=503)
        return JSONResponse(document(board.report, with_outcomes=True))

    return Starlette(
        routes=[
            Route("/metrics", metrics),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/api/plan", plan),
            *page,
        ]
    )


class Server:
    """Serves an application on a thread of its own."""

    def __init__(
        self, app: ASGIApp, host: str, port: int, tls: ssl.SSLContext | None = None
    ) -> None:
        self._socket = _bind(host, port)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=1,
            lifespan="off",
            ws="none",  # there is no websocket, and basic authentication looks at requests only
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


def serve(app: Starlette, http: Http) -> Server:
    """A server of the application on the port of the configuration, secured as that says.

    Raises `ConfigError` where the port or the certificate can't be used.
    """
    guarded = BasicAuth(app, http.basic_auth) if http.basic_auth else app
    certificate = Certificate(http.tls.certificate, http.tls.key) if http.tls else None
    return Server(guarded, http.host, http.port, certificate.context if certificate else None)


def _bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises `ConfigError`: another process has the port, most often."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"{host}:{port} can't be listened on ({error.strerror}); choose another port",
            path="http.port",
        ) from error
    return listener
