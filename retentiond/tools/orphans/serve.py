"""Looks again and again, and shows the last look as metrics, until a signal ends it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import structlog
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from retentiond.clock import now_ms
from retentiond.config import Http
from retentiond.errors import RetentiondError
from retentiond.tell import logs, metric_definitions, web
from retentiond.tools.orphans.orphan import Fate, Scan


def serve(run: Callable[[], Scan], stop: threading.Event, http: Http, interval_ms: int) -> None:
    """``run`` is one look. Returns after SIGTERM or SIGINT, when the removal under way is done.

    Raises `ConfigError` when the port or its certificate can't be used.
    """
    last = LastScan()
    server = web.serve(application(last, interval_ms), http)
    for handled in (signal.SIGTERM, signal.SIGINT):
        signal.signal(handled, lambda *_: stop.set())
    server.start()
    log = structlog.get_logger()
    log.info(logs.STARTED, port=server.port, interval_seconds=interval_ms / 1000)
    while not stop.is_set():
        try:
            scan = run()
        except RetentiondError as error:
            log.warning(logs.ORPHANS_FAILED, error=str(error))
        else:
            last.pin(scan, now_ms(), time.monotonic())
            _tell(log, scan)
        stop.wait(interval_ms / 1000)
    server.stop()
    log.info(logs.STOPPED)


def _tell(log: structlog.stdlib.BoundLogger, scan: Scan) -> None:
    for orphan in scan.orphans:
        if orphan.fate in (Fate.REMOVED, Fate.FAILED):
            log.info(
                logs.ORPHAN_REMOVED,
                folder=str(orphan.folder.path),
                bytes=orphan.contents.segment_bytes,
                fate=orphan.fate.value,
                reason=orphan.reason,
            )
    log.info(
        logs.ORPHANS,
        broker=scan.disks.broker,
        log_dirs={
            str(log_dir): {"count": count, "size_bytes": size_bytes}
            for log_dir, (count, size_bytes) in scan.totals().items()
        },
        problems=list(scan.problems),
    )


READY_INTERVALS = 3
"""Ready means a complete look within that many intervals."""


class LastScan(Collector):
    """The last one stays on show while later ones fail; its age tells."""

    def __init__(self) -> None:
        self.scan: Scan | None = None
        self.complete_ms = 0
        self.complete_at: float | None = None

    def pin(self, scan: Scan, now_ms: int, at: float) -> None:
        """``at`` is the same moment in seconds that go on evenly: readiness goes by those."""
        if not scan.problems:
            self.complete_ms, self.complete_at = now_ms, at
        self.scan = scan

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the first look; asked for at registration."""
        return []

    def collect(self) -> Iterator[Metric]:
        scan = self.scan
        if scan is None:
            return
        count = metric_definitions.ORPHAN_PARTITIONS.gauge_family()
        size = metric_definitions.ORPHAN_BYTES.gauge_family()
        for log_dir, (orphans, size_bytes) in scan.totals().items():
            labels = [str(scan.disks.broker), str(log_dir)]
            count.add_metric(labels, orphans)
            size.add_metric(labels, size_bytes)
        last = metric_definitions.LAST_ORPHAN_LOOK.gauge_family()
        last.add_metric([], self.complete_ms / 1000)
        yield from (count, size, last)


def application(
    last: LastScan, interval_ms: int, clock: Callable[[], float] = time.monotonic
) -> Starlette:
    registry = CollectorRegistry()
    registry.register(last)

    def metrics(request: Request) -> Response:
        encoder, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encoder(registry), headers={"content-type": content_type})

    def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    def readyz(_request: Request) -> Response:
        at = last.complete_at
        if at is not None and clock() - at <= READY_INTERVALS * interval_ms / 1000:
            return PlainTextResponse("ready\n")
        problems = last.scan.problems if last.scan else ()
        why = "; ".join([f"no complete look within {READY_INTERVALS} intervals", *problems])
        return PlainTextResponse(f"{why}\n", status_code=503)

    return Starlette(
        routes=[Route("/metrics", metrics), Route("/healthz", healthz), Route("/readyz", readyz)]
    )
