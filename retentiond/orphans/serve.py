"""Looks again and again, and shows the last look, until a signal ends it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

import structlog

from retentiond.config import Http
from retentiond.errors import RetentiondError
from retentiond.observe import events, web
from retentiond.orphans.metrics import LastLook, application
from retentiond.orphans.orphan import Fate, Look
from retentiond.orphans.session import now_ms


def serve(run: Callable[[], Look], stop: threading.Event, http: Http, interval_ms: int) -> None:
    """``run`` is one look. Returns after SIGTERM or SIGINT, when the removal under way is done.

    Raises `ConfigError` when the port or its certificate can't be used.
    """
    last = LastLook()
    server = web.serve(application(last, interval_ms, now_ms), http)
    for handled in (signal.SIGTERM, signal.SIGINT):
        signal.signal(handled, lambda *_: stop.set())
    server.start()
    log = structlog.get_logger()
    log.info(events.STARTED, port=server.port, interval_seconds=interval_ms / 1000)
    while not stop.is_set():
        try:
            look = run()
        except RetentiondError as error:
            log.warning(events.ORPHANS_FAILED, error=str(error))
        else:
            last.pin(look, now_ms())
            _tell(log, look)
        stop.wait(interval_ms / 1000)
    server.stop()
    log.info(events.STOPPED)


def _tell(log: structlog.stdlib.BoundLogger, look: Look) -> None:
    for orphan in look.orphans:
        if orphan.fate in (Fate.REMOVED, Fate.FAILED):
            log.info(
                events.ORPHAN_REMOVED,
                folder=str(orphan.folder.path),
                bytes=orphan.contents.segment_bytes,
                fate=orphan.fate.value,
                reason=orphan.reason,
            )
    log.info(
        events.ORPHANS,
        broker=look.disks.broker,
        log_dirs={
            str(log_dir): {"count": count, "size_bytes": size_bytes}
            for log_dir, (count, size_bytes) in look.totals().items()
        },
        problems=list(look.problems),
    )
