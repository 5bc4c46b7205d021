"""The last look as metrics, with the health of the process, on one port."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from retentiond.observe import definitions
from retentiond.orphans.orphan import Look

READY_INTERVALS = 3
"""Ready means a complete look within that many intervals."""


class LastLook(Collector):
    """The last one stays on show while later ones fail; its age tells."""

    def __init__(self) -> None:
        self.look: Look | None = None
        self.complete_ms = 0

    def pin(self, look: Look, now_ms: int) -> None:
        """``now_ms`` by the host's clock, which the readiness goes by."""
        if not look.problems:
            self.complete_ms = now_ms
        self.look = look

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the first look; asked for at registration."""
        return []

    def collect(self) -> Iterator[Metric]:
        look = self.look
        if look is None:
            return
        count = definitions.ORPHAN_COUNT.gauge_family()
        size = definitions.ORPHAN_BYTES.gauge_family()
        for log_dir, (orphans, size_bytes) in look.totals().items():
            labels = [str(look.disks.broker), str(log_dir)]
            count.add_metric(labels, orphans)
            size.add_metric(labels, size_bytes)
        last = definitions.LAST_ORPHAN_LOOK.gauge_family()
        last.add_metric([], self.complete_ms / 1000)
        yield from (count, size, last)


def application(last: LastLook, interval_ms: int, now_ms: Callable[[], int]) -> Starlette:
    registry = CollectorRegistry()
    registry.register(last)

    def metrics(request: Request) -> Response:
        encoder, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encoder(registry), headers={"content-type": content_type})

    def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    def readyz(_request: Request) -> Response:
        if now_ms() - last.complete_ms <= READY_INTERVALS * interval_ms:
            return PlainTextResponse("ready\n")
        problems = last.look.problems if last.look else ()
        why = "; ".join([f"no complete look within {READY_INTERVALS} intervals", *problems])
        return PlainTextResponse(f"{why}\n", status_code=503)

    return Starlette(
        routes=[Route("/metrics", metrics), Route("/healthz", healthz), Route("/readyz", readyz)]
    )
