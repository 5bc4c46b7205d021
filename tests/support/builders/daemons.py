"""A daemon whose cycles, clock and scheduler a test holds in its hands."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import httpx
import structlog
from structlog.typing import EventDict

from retentiond.config import Config
from retentiond.config.files import ConfigFiles
from retentiond.cycle import CycleContext, CycleEnd
from retentiond.daemon.daemon import Daemon
from retentiond.daemon.engine import EveryInterval
from retentiond.daemon.reload import Reading
from retentiond.errors import ConfigError
from retentiond.gather.groups import LastCoordinators
from retentiond.model import DeletionOutcome
from retentiond.state.state import KeptFile, State
from retentiond.tell import logs
from retentiond.tell.report import CycleReport
from tests.support.builders.histories import World
from tests.support.builders.reports import report
from tests.support.fakes import FakeCluster
from tests.support.waiting import eventually

Step = Callable[[], CycleReport]


def settings(state_dir: Path = Path("/nowhere"), **changes: Any) -> Config:
    """A configuration with an interval of a minute, any free port and no history."""
    return Config.model_validate(
        {
            "kafka": {"bootstrap.servers": "localhost:9092"},
            "schedule": {"interval": "60s"},
            "state_dir": str(state_dir),
            "http": {"host": "127.0.0.1", "port": 0},
            "topics": [{"name": "orders", "retention.commitoffset.enable": True}],
            "history": {"enabled": False},
            **changes,
        }
    )


def cycle_context(kafka: FakeCluster, **changes: Any) -> CycleContext:
    """A cycle's on a cluster in memory, by its clock and without Spark."""
    made = CycleContext(
        kafka=kafka,
        spark=cast(Any, None),
        now=lambda: kafka.now_ms,
        stop=threading.Event(),
        coordinators=LastCoordinators(),
        elapsed=lambda: kafka.now_ms / 1000,
    )
    return replace(made, **changes)


class FakeEngine:
    """Runs ``cycle`` where the real one would ask Kafka."""

    def __init__(self, config: Config, cycle: Step) -> None:
        self.config = config
        self.in_force: Callable[[], Config] = lambda: self.config
        self.finished = World().seen()
        """What its cycles leave for the history."""
        self.cycle = cycle
        self.settled: tuple[DeletionOutcome, ...] = ()
        self.configs_used: list[Config] = []
        self.warmed_up = False
        self.closed = False
        self.abandoned = False
        self.deleting = False
        self.pruned: Callable[[], None] = lambda: None

    def warm_up(self) -> None:
        self.warmed_up = True

    def reconcile(self, _state: State) -> tuple[DeletionOutcome, ...]:
        settled, self.settled = self.settled, ()
        return settled

    def run_cycle(self, _state: State) -> CycleEnd:
        self.configs_used.append(self.config)
        return CycleEnd(self.cycle(), self.finished)

    def prune(self, _state: State) -> None:
        self.pruned()

    def is_deleting(self) -> bool:
        return self.deleting

    def fits(self, config: Config) -> bool:
        return config.kafka == self.config.kafka

    def abandon(self) -> None:
        self.abandoned = True

    def close(self) -> None:
        self.closed = True


class FakeScheduler:
    """Runs nothing by itself. ``play`` goes on beside the daemon, which waits for signals."""

    def __init__(self, play: Callable[[], None]) -> None:
        self._play = play
        self.on_shutdown: Callable[[], None] = lambda: None
        self.tick: Callable[[], None] = lambda: None
        self.interval_s = 0.0
        self.next_run_time: datetime | None = None
        self.modified_at = datetime.now(UTC)

    def add_job(self, job: Callable[[], None], trigger: EveryInterval, **rest: Any) -> None:
        assert (rest.pop("id"), rest.pop("replace_existing")) == ("cycle", True)
        self.tick = job
        self.interval_s = trigger.interval.total_seconds()
        self.next_run_time = rest.pop("next_run_time")
        assert rest == {}

    def modify_job(self, job_id: str, *, next_run_time: datetime) -> None:
        assert job_id == "cycle"
        self.next_run_time = next_run_time
        self.modified_at = datetime.now(UTC)

    def get_job(self, job_id: str) -> FakeScheduler:
        """Of which a job is not told apart here: it has a ``next_run_time``, too."""
        assert job_id == "cycle"
        return self

    def start(self) -> None:
        threading.Thread(target=self._play, name="play").start()

    def shutdown(self, *, wait: bool) -> None:
        assert not wait
        self.on_shutdown()


class FilesOfBench(ConfigFiles):
    """Unchanged for as long as the bench has the same file."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self._bench, self._read = bench, bench.file

    def look_again(self) -> ConfigFiles:
        return FilesOfBench(self._bench)

    def changed_in(self, later: ConfigFiles) -> frozenset[str]:
        assert isinstance(later, FilesOfBench)
        return frozenset() if later._read is self._read else frozenset({"file"})

    written_until = changed_in


class Bench:
    """A daemon in its whole life, and everything around it. ``cycle`` may be replaced any time."""

    def __init__(self, config: Config, play: Callable[[Bench], None], end: signal.Signals) -> None:
        self.file: Config | Exception = config  # what is read on SIGHUP
        self.cycle: Step = report
        self.engines: list[FakeEngine] = []
        self.later_s = 0.0  # so much time has passed, as the daemon sees it
        self.clock_ahead_s = 0.0  # so far somebody has set the host's clock
        self.refusal: Exception | None = None  # why no further engine can be made
        self.while_made: Callable[[], None] = lambda: None  # beside the next engine's making
        self.error: BaseException | None = None  # what went wrong in the play
        self.scheduler = FakeScheduler(lambda: self._play(play, end))
        kept_file = KeptFile(config.state_dir)
        with structlog.testing.capture_logs() as self.log:
            self.daemon = Daemon(
                config,
                self._read,
                # The fake engine asks nothing of it.
                State(config.state_dir, cast(Any, None), cast(Any, None), kept_file),
                files=FilesOfBench(self),
                make_engine=cast(Any, self._engine),  # it stands in for an `Engine`
                make_scheduler=lambda: self.scheduler,
                date=lambda: time.time() + self.later_s + self.clock_ahead_s,
                clock=lambda: time.monotonic() + self.later_s,
            )
            self.finished = self.daemon.run()
        if self.error is not None:
            raise self.error

    def events(self, name: str) -> list[EventDict]:
        return [line for line in self.log if line["event"] == name]

    def tick(self, cycle: Step | None = None) -> None:
        """One cycle, as the scheduler would start it."""
        if cycle is not None:
            self.cycle = cycle
        self.scheduler.tick()

    def retry_delay_s(self, cycle: Step) -> float:
        """Seconds, to a whole one, from a failing tick until the next try."""
        self.scheduler.next_run_time = None
        self.tick(cycle)
        due = self.scheduler.next_run_time
        assert due is not None, "no retry was set"
        return round((due - self.scheduler.modified_at).total_seconds())

    def reload(self, file: Config | Exception) -> None:
        """SIGHUP; returns when the daemon has taken notice."""
        self.file = file
        told = len(self._reloads())
        os.kill(os.getpid(), signal.SIGHUP)
        eventually(lambda: len(self._reloads()) > told)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.port}{path}")

    @property
    def port(self) -> int:
        eventually(lambda: self.events(logs.STARTED) != [])
        port: int = self.events(logs.STARTED)[0]["port"]
        return port

    def _reloads(self) -> list[EventDict]:
        return self.events(logs.CONFIG_RELOADED) + self.events(logs.CONFIG_REFUSED)

    def _play(self, play: Callable[[Bench], None], end: signal.Signals) -> None:
        try:
            play(self)
        except BaseException as error:  # noqa: BLE001 - raised again where the test can see it
            self.error = error
        finally:
            os.kill(os.getpid(), end)

    def _read(self, _make_files: object, _readers: object) -> Reading:
        if isinstance(self.file, Config | ConfigError):
            return Reading(self.file, FilesOfBench(self))
        raise self.file

    def _run_cycle(self) -> CycleReport:
        return self.cycle()

    def _engine(self, config: Config, _stop: object, _observe: object) -> FakeEngine:
        self.while_made()
        if self.refusal is not None:
            raise self.refusal
        self.engines.append(FakeEngine(config, self._run_cycle))
        return self.engines[-1]


def live(
    play: Callable[[Bench], None] = lambda _: None,
    config: Config | None = None,
    end: signal.Signals = signal.SIGTERM,
) -> Bench:
    """A daemon's start, the play beside it, and its end by a signal."""
    with signals_as_they_were():
        return Bench(config or settings(), play, end)


@contextmanager
def signals_as_they_were() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
