"""The long-lived process: scheduler, signals, HTTP, and what becomes of failures."""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import FrameType
from typing import Any, Protocol

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler
from prometheus_client.registry import CollectorRegistry

from retentiond import garbage
from retentiond.config import Config
from retentiond.cycle import Stop, Stopped
from retentiond.engine import Engine, build_versions, now_ms
from retentiond.errors import ConfigError, KafkaUnavailable, RetentiondError
from retentiond.kafka.cluster import Observer
from retentiond.model import DeletionOutcome
from retentiond.observe import definitions, events
from retentiond.observe.canonical import log_cycle
from retentiond.observe.exposition import Exposition
from retentiond.observe.metrics import Metrics
from retentiond.observe.report import CycleReport
from retentiond.observe.web import Board, application, serve
from retentiond.page.routes import status_page
from retentiond.state.state import State

READ_S = 1.0
"""How long after a signal a cycle may take to finish that only reads."""

FINISH_S = 8.5
"""How long one that deletes may take: a request without answer is given up after 7.5 s."""

UNHEARD_S = 0.5
"""How long a signal may go unheard."""

END_S = 9.5
"""How long after it clients and Spark's JVM may take to close; they also end with the process."""

FIRST_RETRY_S = 1.0
"""After a failed cycle the next try comes this soon, then twice as late each time."""

MOST_DOUBLINGS = 20
"""Twelve days: beyond any interval that an operator means."""

JOB = "cycle"

RELOAD = int(signal.SIGHUP)


class Worker(Protocol):
    """What the daemon needs of an `Engine`."""

    config: Config

    def warm_up(self) -> None: ...

    def settle(self, state: State) -> tuple[DeletionOutcome, ...]: ...

    def run_cycle(self, state: State) -> CycleReport: ...

    def is_deleting(self) -> bool: ...

    def fits(self, config: Config) -> bool: ...

    def close(self) -> None: ...


def background_scheduler() -> Any:
    """One cycle at a time; APScheduler's own default would drop one that starts 1 s late."""
    return BackgroundScheduler(
        timezone=UTC,
        executors={"default": ThreadPoolExecutor(1)},
        job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
    )


class Daemon:
    """Runs cycles until a signal ends it. ``load`` reads the configuration anew, on SIGHUP."""

    def __init__(
        self,
        config: Config,
        load: Callable[[], Config],
        state: State,
        *,
        make_engine: Callable[[Config, Stop, Observer], Worker] = Engine,
        make_scheduler: Callable[[], Any] = background_scheduler,
    ) -> None:
        self._load = load
        self._state = state
        self._make_engine = make_engine
        self._log = structlog.get_logger()
        self._signals: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._failures = 0
        self._wanted = config  # in force from the next cycle on

        registry = CollectorRegistry()
        self._metrics = Metrics(registry, build_versions())
        self._board = Board(config.schedule.interval_ms)
        definitions.READY.gauge(registry).set_function(
            lambda: 0 if self._board.unready(now_ms()) else 1
        )
        self._exposition = Exposition(registry)
        page = status_page(self._board, now_ms, config.state_dir)
        app = application(self._board, self._exposition, now_ms, page)
        self._server = serve(app, config.http)
        self._engine = make_engine(config, self._stop, self._metrics.observe_request)
        self._scheduler = make_scheduler()

    def run(self) -> bool:
        """Returns when a signal asked for the end; True if nothing is left that still runs."""
        for handled in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(handled, self._on_signal)
        self._server.start()
        self._engine.warm_up()
        self._schedule(self._engine.config)
        self._log.info(events.STARTED, **self._facts())
        self._scheduler.start()
        while (number := self._next_signal()) == RELOAD:
            self._reload()
        self._log.info(events.STOPPING, signal=signal.Signals(number).name)
        return self._shut_down()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signals.put(number)

    def _next_signal(self) -> int:
        """Python hears of one between two of its instructions: one that comes right before a wait
        would go unheard for as long as that lasts."""
        while True:
            with suppress(queue.Empty):
                return self._signals.get(timeout=UNHEARD_S)

    def _facts(self) -> dict[str, object]:
        config = self._engine.config
        return {
            **build_versions(),
            "bootstrap_servers": config.kafka["bootstrap.servers"],
            "interval_seconds": config.schedule.interval_ms / 1000,
            "dry_run": config.dry_run,
            "state_dir": str(config.state_dir),
            "port": self._server.port,
        }

    def _schedule(self, config: Config) -> None:
        """The first cycle at once, then every interval; a late one is coalesced, never doubled."""
        self._scheduler.add_job(
            self._tick,
            "interval",
            seconds=config.schedule.interval_ms / 1000,
            next_run_time=datetime.now(UTC),
            id=JOB,
            replace_existing=True,
        )

    def _tick(self) -> None:
        self._idle.clear()
        try:
            has_finished = self._cycle()
        finally:
            self._idle.set()  # what follows is no part of the cycle, and must not hold up the end
        if has_finished and not self._stop.is_set():
            garbage.give_back()

    def _cycle(self) -> bool:
        """Whether it came to its end."""
        try:
            if self._stop.is_set():  # asked only now: whoever sets it waits for idle next
                return False
            self._adopt()
            for outcome in self._engine.settle(self._state):
                self._log.info(
                    events.DELETION_SETTLED,
                    topic=outcome.topic,
                    partition=outcome.partition,
                    outcome=outcome.outcome.value,
                    error=outcome.error,
                )
            report = self._engine.run_cycle(self._state)
        except Stopped:
            return False
        except RetentiondError as error:
            self._failed(error)
            return False
        except Exception as error:  # noqa: BLE001 - a bug must not end the daemon in silence
            self._failed(error, exc_info=True)
            return False
        self._succeeded(report)
        return True

    def _succeeded(self, report: CycleReport) -> None:
        if self._failures:
            self._log.info(events.CYCLE_RECOVERED, tries=self._failures)
        self._failures = 0
        self._metrics.observe_cycle(report)
        self._board.pin(report)
        self._exposition.renew()
        for outcome in report.failed:
            self._log.warning(
                events.DELETION_UNCLEAR,
                topic=outcome.topic,
                partition=outcome.partition,
                outcome=outcome.outcome.value,
                error=outcome.error,
            )
        log_cycle(self._log, report)

    def _failed(self, error: Exception, *, exc_info: bool = False) -> None:
        """Says so once, and tries again sooner than the interval, ever less often."""
        interval_s = self._engine.config.schedule.interval_ms / 1000
        delay_s = min(interval_s, FIRST_RETRY_S * 2 ** min(self._failures, MOST_DOUBLINGS))
        if not self._failures or self._board.trouble != _trouble(error):
            self._log.error(events.CYCLE_FAILED, error=str(error), exc_info=exc_info)
        self._failures += 1
        self._metrics.observe_failure()
        self._board.trouble = _trouble(error)
        with suppress(JobLookupError):  # the scheduler has ended meanwhile
            self._scheduler.modify_job(
                JOB, next_run_time=datetime.now(UTC) + timedelta(seconds=delay_s)
            )

    def _reload(self) -> None:
        """Takes the configuration over from the next cycle on; a bad one changes nothing."""
        try:
            config = self._load()
        except ConfigError as error:
            self._log.error(events.CONFIG_REFUSED, error=str(error))
            return
        old = self._engine.config
        fixed = [name for name in ("state_dir", "http") if _differs(name, old, config)]
        if fixed:
            self._log.warning(events.CONFIG_NEEDS_RESTART, settings=fixed)
        self._wanted = config
        self._board.interval_ms = config.schedule.interval_ms
        self._schedule(config)
        self._log.info(events.CONFIG_RELOADED, dry_run=config.dry_run)

    def _adopt(self) -> None:
        """Takes over what was reloaded; clients and session are made anew where they differ."""
        config = self._wanted
        if config is self._engine.config:
            return
        if self._engine.fits(config):
            self._engine.config = config
            return
        try:
            engine = self._make_engine(config, self._stop, self._metrics.observe_request)
        except ConfigError as error:
            self._wanted = self._engine.config
            self._log.error(events.CONFIG_REFUSED, error=str(error))
            return
        self._engine.close()
        self._engine = engine

    def _shut_down(self) -> bool:
        asked_at = time.monotonic()
        self._stop.set()
        self._scheduler.shutdown(wait=False)
        self._server.stop()
        finished = self._idle.wait(READ_S) or (
            # One that doesn't by now never will: it looks at the stop before every request.
            self._engine.is_deleting() and self._idle.wait(asked_at + FINISH_S - time.monotonic())
        )
        closed = finished and self._close(asked_at + END_S)
        self._log.info(events.STOPPED, abandoned_a_cycle=not finished)
        return closed

    def _close(self, give_up_at: float) -> bool:
        """Whether it could be done before that, by the monotonic clock."""
        closing = threading.Thread(target=self._engine.close, name="close", daemon=True)
        closing.start()
        closing.join(max(0.0, give_up_at - time.monotonic()))
        return not closing.is_alive()


def _trouble(error: Exception) -> str:
    """In a few words, the same for as long as the same thing is wrong."""
    kind = error.kind if isinstance(error, KafkaUnavailable) else None
    return ": ".join(part for part in (type(error).__name__, kind) if part)


def _differs(name: str, old: Config, new: Config) -> bool:
    return bool(getattr(old, name) != getattr(new, name))
