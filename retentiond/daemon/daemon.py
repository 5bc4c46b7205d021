"""The long-lived process: scheduler, signals, HTTP, and what becomes of failures."""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import prometheus_client
import structlog
from apscheduler.jobstores.base import JobLookupError
from prometheus_client.registry import CollectorRegistry

from retentiond import garbage_collection
from retentiond.clock import ClockChanges, Stop, Stopped, now_ms
from retentiond.config import Config
from retentiond.config.files import ConfigFiles
from retentiond.config.no_policy import UnreadableFile
from retentiond.config.policy_files import unreadable_files
from retentiond.config.warnings import passed_over
from retentiond.daemon.engine import Engine, EveryInterval, background_scheduler, build_versions
from retentiond.daemon.reload import Reading, Reload
from retentiond.errors import (
    ConfigError,
    HistoryUnavailable,
    OtherCluster,
    RetentiondError,
    StateError,
    StateOfOtherCluster,
    StateReplaced,
    release_frames,
)
from retentiond.history.keeper import HistoryKeeper
from retentiond.kafka.cluster import Observer
from retentiond.kafka.confluent.admin import refuse_properties
from retentiond.kafka.settings.tls import certificate_expiry_s
from retentiond.state.audit_file import entry_bytes, log_bytes, oldest_entry_s
from retentiond.state.operator_actions import read_pause
from retentiond.state.state import State
from retentiond.state.state_dir import usable_bytes
from retentiond.tell import logs
from retentiond.tell.cycle_log import log_report, log_settled
from retentiond.tell.last_cycle import Answering, Answers
from retentiond.tell.logs import Causes, sentence_of
from retentiond.tell.metrics.registry import Exposition, Metrics
from retentiond.tell.page.routes import status_page
from retentiond.tell.port import raise_open_files
from retentiond.tell.report import CycleReport
from retentiond.tell.web import STUCK_S, DaemonStatus, Refusal, application, serve

READING_CYCLE_END_S = 1.0
"""After a signal, for a cycle that only reads."""

DELETING_CYCLE_END_S = 8.0
"""For one that deletes: a request without answer is given up after 6.5 s."""

SIGNAL_POLL_S = 0.5  # a signal may have to wait so long

HISTORY_ENTRY_S = 1.0
"""At the end of the process, for an entry of the history."""

CLOSE_S = 9.0
"""After that, for clients and Spark's JVM. They also end with the process."""

FIRST_RETRY_S = 1.0
"""After a failed cycle; then twice as late each time."""

MOST_DOUBLINGS = 20
"""Twelve days: beyond any interval that an operator means."""

LOOK_S = 5.0  # a cycle waits so long for the look at the files of the configuration

CYCLE_JOB = "cycle"

RELOAD_SIGNAL = int(signal.SIGHUP)


class InForce(NamedTuple):
    """A configuration that is in force. ``read``: as it was read. ``config``: what counts of that:
    its fenced files may have become bad since, and are held."""

    config: Config
    read: Config


class Daemon:
    """Runs cycles until a signal ends it. ``read`` reads the configuration again,
    with files that are made so, and beside the external readers in force (`Config.readers`);
    ``date`` gives the host's time in epoch seconds, ``clock`` seconds that go on evenly."""

    def __init__(
        self,
        config: Config,
        read: Callable[[Callable[[], ConfigFiles], Mapping[str, object]], Reading],
        state: State,
        *,
        files: ConfigFiles | None = None,
        answers: Answers | None = None,
        make_engine: Callable[[Config, Stop, Observer], Engine] = Engine,
        make_scheduler: Callable[[], Any] = background_scheduler,
        date: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        signals: queue.SimpleQueue[int] | None = None,
    ) -> None:
        """``files``: those of ``config``. ``answers``: to commands that ask over the socket in
        ``state_dir``; without any there is none. ``signals``: those that came before."""
        self._read = read
        self._reload = Reload(
            self._read_again,
            self._take_over,
            self._refuse,
            clock,
            files,
            tell_unsettled=self._see_unsettled,
        )
        self._state, self._state_dir = state, config.state_dir
        self._make_engine = make_engine
        self._log = structlog.get_logger()
        self._signals = queue.SimpleQueue[int]() if signals is None else signals
        self._stop = threading.Event()
        self._pruning = threading.Lock()
        self._idle = threading.Event()
        self._idle.set()
        self._failures = 0
        self._causes = Causes()
        self._not_pruned: str | None = None  # why the audit log could not be pruned last
        self._in_force = InForce(config, config)  # from the next cycle on
        self._at_work = self._in_force  # that of the engine and of the history
        self._taking_over = threading.Lock()  # held by whoever puts another one in force

        registry = CollectorRegistry()
        self._metrics = Metrics(registry, build_versions(), date(), clock=clock)
        kept = state.kept_file.kept
        self._metrics.restore(kept.complete_by(int(date() * 1000)))
        self._metrics.restore_held(kept.held)
        self._date = date
        figures = self._metrics.daemon
        figures.paused = self._is_paused()
        raise_open_files()
        self._status = DaemonStatus(
            config.schedule.interval_ms, clock, has_changed_since=lambda: self._reload.is_outdated
        )
        self._show(config)
        self._status.pause = lambda: read_pause(config.state_dir)
        self._clock = ClockChanges(date, clock)
        figures.is_ready = lambda: self._status.unready() is None
        figures.audit_log_bytes = lambda: log_bytes(config.state_dir)
        figures.audit_bytes = lambda: entry_bytes(config.state_dir)
        figures.audit_oldest_s = lambda: oldest_entry_s(config.state_dir)
        figures.certificate_expiry_s = lambda: certificate_expiry_s(self._engine.config.kafka)
        figures.state_dir_usable_bytes = lambda: usable_bytes(config.state_dir)
        figures.history = lambda: self._history.shown
        figures.dropped_log_lines = logs.dropped_lines
        prometheus_client.ProcessCollector(registry=registry)
        self._exposition = Exposition(registry)
        self._history = HistoryKeeper(config, self._tell_of_history)
        page = status_page(self._status, now_ms, config.state_dir, self._history)
        self._server = serve(
            application(self._status, self._exposition, page), config.http, self._status.stuck
        )
        self._answering = Answering(self._status, config.state_dir, answers or {})
        self._status.history_problem = lambda: self._history.problem
        self._engine = self._made(config)
        self._scheduler = make_scheduler()

    def run(self) -> bool:
        """Returns when a signal asked for the end; True if nothing is left that still runs."""
        for handled in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(handled, lambda number, _frame: self._signals.put(number))
        self._server.start()
        self._answering.start()
        self._engine.warm_up()
        config = self._engine.config
        self._schedule(config)
        self._log.info(
            logs.STARTED,
            **build_versions(),
            bootstrap_servers=config.kafka["bootstrap.servers"],
            interval_seconds=config.schedule.interval_ms / 1000,
            dry_run=config.dry_run,
            state_dir=str(config.state_dir),
            port=self._server.port,
        )
        logs.log_files(self._log, config, passed_over(config))
        self._scheduler.start()
        while (number := self._next_signal()) == RELOAD_SIGNAL:
            self._reload.begin()
        self._log.info(logs.STOPPING, signal=signal.Signals(number).name)
        return self._shut_down()

    def _next_signal(self) -> int:
        """Python handles a signal only between two instructions, so one that arrives right before a
        wait would be noticed only after it."""
        while True:
            with suppress(queue.Empty):
                return self._signals.get(timeout=SIGNAL_POLL_S)
            self._follow_clock()
            is_refused = self._status.refused is not None
            self._reload.go_on(is_refused=is_refused, watches=self._in_force.config.reload.watch)

    def _observe(self, api: str, result: str, seconds: float) -> None:
        """A request to Kafka has ended: whoever waits for it goes on."""
        self._status.heartbeat(at_work=not self._idle.is_set())
        self._metrics.observe_request(api, result, seconds)

    def _follow_clock(self) -> None:
        """The scheduler goes by the host's date, and intervals don't."""
        ahead_s = self._clock.set_by_s()
        if not ahead_s:
            return
        self._log.warning(logs.CLOCK_SET, seconds=round(ahead_s, 1))
        if (due := self._next_due()) is not None:
            latest = datetime.now(UTC) + timedelta(milliseconds=self._status.interval_ms)
            self._begin_next_at(min(due + timedelta(seconds=ahead_s), latest))

    def _next_due(self) -> datetime | None:
        """None where that is not known."""
        job = self._scheduler.get_job(CYCLE_JOB)
        due: datetime | None = None if job is None else job.next_run_time
        return due

    def _begin_next_at(self, due: datetime) -> None:
        with suppress(JobLookupError):  # the scheduler has ended meanwhile
            self._scheduler.modify_job(CYCLE_JOB, next_run_time=due)

    def _schedule(self, config: Config) -> None:
        """The first cycle at once, then every interval; a late one is coalesced, never doubled."""
        self._scheduler.add_job(
            self._tick,
            EveryInterval(timedelta(milliseconds=config.schedule.interval_ms)),
            next_run_time=datetime.now(UTC),
            id=CYCLE_JOB,
            replace_existing=True,
        )

    def _tick(self) -> None:
        """The scheduler swallows a job's exceptions. After an error behind a cycle's end the next
        cycle comes when it is due."""
        try:
            self._cycle_with_upkeep()
        except Exception as error:  # noqa: BLE001 - a bug must not end the daemon in silence
            self._log.error(logs.CYCLE_FAILED, error=str(error), exc_info=True)
            self._metrics.observe_failure()
            self._status.problem = sentence_of(error)
            release_frames(error)
        if self._waits_for_a_cycle() and not self._stop.is_set():
            # It was due at once, and the scheduler leaves out what is due while a cycle runs.
            self._begin_next_at(datetime.now(UTC) + timedelta(seconds=FIRST_RETRY_S))

    def _waits_for_a_cycle(self) -> bool:
        """Whether a configuration was reloaded that only the next cycle takes over."""
        return self._in_force is not self._at_work and not self._status.needs_restart

    def _cycle_with_upkeep(self) -> None:
        self._idle.clear()
        # Spark may take its time twice: to start, and for a plan.
        config = self._in_force.config
        spark_s = config.spark.timeout_ms / 1000
        self._status.stuck_after_s = STUCK_S + 2 * spark_s
        self._status.heartbeat(at_work=True)
        if config.reload.watch and not self._stop.is_set():
            self._reload.look(LOOK_S)
        try:
            has_finished = self._cycle()
            if has_finished:  # begins only now: whoever waits for idle next waits for it, too
                self._history.keep()
        finally:
            self._status.heartbeat(at_work=False)
            self._idle.set()  # what follows is no part of the cycle
        with self._pruning:
            if has_finished and not self._stop.is_set():
                self._prune()
        if has_finished and not self._stop.is_set():
            garbage_collection.release_memory()

    def _prune(self) -> None:
        """Says so once if it fails: the log grows on, and nothing else is the matter."""
        problem = None
        try:
            self._engine.prune(self._state)
        except StateError as error:
            problem = str(error)
            if problem != self._not_pruned and not self._stop.is_set():
                self._log.warning(logs.AUDIT_NOT_PRUNED, error=problem)
        self._not_pruned = problem

    def _cycle(self) -> bool:
        """Whether it came to its end."""
        try:
            if self._stop.is_set():  # asked only now: whoever sets it waits for idle next
                return False
            self._adopt()
            log_settled(self._log, self._engine.reconcile(self._state))
            report, finished = self._engine.run_cycle(self._state)
        except Stopped:
            return False
        except Exception as error:  # noqa: BLE001 - a bug must not end the daemon in silence
            self._failed(error, exc_info=not isinstance(error, RetentiondError))
            release_frames(error)
            return False
        self._history.see(finished)
        self._finished(report)
        self._answering.see(self._engine.config, report, finished)
        return True

    def _finished(self, report: CycleReport) -> None:
        if report.failure is None:
            if self._failures:
                self._log.info(logs.CYCLE_RECOVERED, tries=self._failures)
            self._failures = 0
            self._causes = Causes()
        self._metrics.observe_cycle(report)
        if self._is_paused():  # an operator may have paused it after the plan
            self._metrics.daemon.paused = True
        with suppress(StateError):  # information only: no cycle fails because of it
            self._state.kept_file.keep(held=self._metrics.held())
        self._status.publish(report)
        self._exposition.renew()
        log_report(self._log, report, each_deletion=self._engine.config.audit.log)
        if report.disk.relief:  # sooner, unless one comes sooner still
            sooner_ms, due = self._engine.config.schedule.under_pressure_ms, self._next_due()
            soon = datetime.now(UTC) + timedelta(milliseconds=sooner_ms)
            if due is not None and soon < due:
                self._begin_next_at(soon)
        if report.failure is not None:  # after something was deleted: its figures count
            self._try_again_after(report.failure)
            release_frames(report.failure)

    def _is_paused(self) -> bool:
        return read_pause(self._state_dir) is not None

    def _failed(self, error: Exception, *, exc_info: bool = False) -> None:
        """Says so once for each cause."""
        repeats = self._causes.repeats_before(error)
        if repeats is not None:
            more = {"failures_before": repeats} if repeats else {}
            self._log.error(logs.CYCLE_FAILED, error=str(error), exc_info=exc_info, **more)
        self._metrics.observe_failure()
        self._metrics.daemon.paused = self._is_paused()
        if isinstance(error, StateOfOtherCluster):
            self._metrics.restore(None)
        self._try_again_after(error)

    def _try_again_after(self, error: Exception) -> None:
        """Sooner than the interval, ever less often."""
        interval_s = self._engine.config.schedule.interval_ms / 1000
        delay_s = min(interval_s, FIRST_RETRY_S * 2 ** min(self._failures, MOST_DOUBLINGS))
        self._failures += 1
        self._status.problem = sentence_of(error)
        if isinstance(error, OtherCluster | StateReplaced):
            self._status.needs_restart = str(error)
        self._begin_next_at(datetime.now(UTC) + timedelta(seconds=delay_s))

    def _tell_of_history(self, error: HistoryUnavailable | None) -> None:
        if error is None:
            self._log.info(logs.HISTORY_RECOVERED)
        else:
            self._log.warning(logs.HISTORY_FAILED, error=str(error))

    def _take_over(self, config: Config) -> None:
        """The configuration that was read again, from the next cycle on. What the one under way
        has yet to request is not requested any more."""
        if self._stop.is_set():
            return
        old = self._engine.config
        fixed = [
            name for name in ("state_dir", "http") if getattr(old, name) != getattr(config, name)
        ]
        if fixed:
            self._log.warning(logs.CONFIG_NEEDS_RESTART, settings=fixed)
            config = config.model_copy(update={name: getattr(old, name) for name in fixed})
        with self._taking_over:
            before = self._in_force.config
            config = config.holding((), before)
            self._put_in_force(InForce(config, config))
        old_files, files = set(before.policy_files), set(config.policy_files)
        were_bad = {file.name for file in before.unreadable}
        self._metrics.daemon.reload_succeeded = True
        self._metrics.daemon.refused = self._status.refused = None
        self._log.info(
            logs.CONFIG_RELOADED,
            dry_run=config.dry_run,
            files=1 + len(files),
            entries=len(config.entries),
            files_added=sorted(files - old_files),
            files_removed=sorted(old_files - files),
            files_readable_again=sorted(were_bad - {file.name for file in config.unreadable}),
        )
        logs.log_files(self._log, config, passed_over(config))

    def _read_again(self, make_files: Callable[[], ConfigFiles]) -> Reading:
        in_force = self._in_force.read
        reading = self._read(make_files, in_force.readers)
        if not isinstance(reading.outcome, ConfigError):
            return reading
        unreadable = unreadable_files(in_force, reading.files, refuse_properties)
        return reading._replace(unreadable=unreadable)

    def _see_unsettled(self, files: tuple[str, ...]) -> None:
        """Says so once for each file."""
        if new := sorted({*files} - {*self._status.unsettled}):
            self._log.warning(logs.CONFIG_UNSETTLED, files=new)
        self._status.unsettled = files

    def _refuse(
        self,
        error: ConfigError,
        unreadable: tuple[UnreadableFile, ...] | None,
        taken_back: InForce | None = None,
    ) -> None:
        """What is in force stays so, but for the topics of ``unreadable`` fenced files: they are
        held, whatever else is wrong. ``taken_back``: what is in force and can't work, so that what
        is at work comes into force again, unless something else has meanwhile."""
        self._metrics.daemon.reload_succeeded = False
        before = self._status.refused
        self._status.refused = Refusal(before.since_s if before else self._date(), error)
        self._metrics.daemon.refused = error
        self._log.error(logs.CONFIG_REFUSED, error=str(error))
        if unreadable is None:
            return
        with self._taking_over:
            if taken_back is not None and taken_back is not self._in_force:
                return
            config, read = self._in_force if taken_back is None else self._at_work
            held = read.holding(
                [*unreadable, *self._mended(read, unreadable)], config, self._in_force.config
            )
            if taken_back is None and held.unreadable == config.unreadable:
                return
            self._put_in_force(InForce(held, read))
        logs.log_files(self._log, held, passed_over(held))

    def _mended(
        self, read: Config, unreadable: Iterable[UnreadableFile]
    ) -> Iterator[UnreadableFile]:
        """The fenced files that were bad when the configuration was ``read``, and are not any more:
        they can only come in with the rest."""
        names = {file.name for file in unreadable}
        for file in read.unreadable:
            if file.name not in names:
                problem = (
                    f"{file.name}: it can be used again, and comes into force with the rest of "
                    "the configuration, which is refused"
                )
                yield UnreadableFile(file.name, file.owner, problem, file.error)

    def _put_in_force(self, in_force: InForce) -> None:
        """With the lock."""
        self._in_force = in_force
        self._show(in_force.config)
        self._schedule(in_force.config)

    def _show(self, config: Config) -> None:
        """By the endpoints and the metrics."""
        self._status.interval_ms = config.schedule.interval_ms
        self._status.pressure_interval_ms = config.schedule.under_pressure_ms
        self._status.unreadable = config.unreadable
        self._metrics.observe_config(config)

    def _made(self, config: Config) -> Engine:
        engine = self._make_engine(config, self._stop, self._observe)
        engine.in_force = lambda: self._in_force.config
        return engine

    def _adopt(self) -> None:
        """Takes over what was reloaded. Clients and session are replaced if their settings differ,
        unless only a restart helps: new clients would not know that two clusters answered."""
        in_force = self._in_force
        if not self._waits_for_a_cycle():
            return
        if not self._engine.fits(in_force.config):
            try:
                engine = self._made(in_force.config)
            except ConfigError as error:
                unreadable = unreadable_files(self._at_work.read, ConfigFiles(), refuse_properties)
                self._refuse(error, unreadable, taken_back=in_force)
                in_force = self._in_force
                if not self._engine.fits(in_force.config):
                    return
            else:
                self._engine.close()
                self._engine = engine
        self._at_work = in_force
        self._engine.config = self._history.config = in_force.config

    def _shut_down(self) -> bool:
        asked_at = time.monotonic()
        self._stop.set()
        self._scheduler.shutdown(wait=False)
        self._server.stop()
        self._answering.stop()
        finished = self._idle.wait(READING_CYCLE_END_S) or (
            # One that doesn't by now never will: it looks at the stop before every request.
            self._engine.is_deleting()
            and self._idle.wait(asked_at + DELETING_CYCLE_END_S - time.monotonic())
        )
        if not finished:
            self._engine.abandon()
        written = self._history.finish(HISTORY_ENTRY_S)
        pruned = self._pruning.acquire(timeout=max(0.0, asked_at + CLOSE_S - time.monotonic()))
        if pruned:
            self._pruning.release()  # who comes now finds that it is the end
        closed = finished and written and pruned and self._close(asked_at + CLOSE_S)
        self._log.info(logs.STOPPED, abandoned_a_cycle=not finished)
        return closed

    def _close(self, give_up_at: float) -> bool:
        """Whether it could be done before that, by the monotonic clock."""
        closing = threading.Thread(target=self._engine.close, name="close", daemon=True)
        closing.start()
        closing.join(max(0.0, give_up_at - time.monotonic()))
        return not closing.is_alive()
