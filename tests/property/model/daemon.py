"""retentiond under test: its entry points, and all that the model knows of how it is driven.

The cycle is the real one, with real state on disk. Its clients, its clocks, its waits and its
threads are the world's; in place of Spark is the oracle that Spark is held against.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Self, cast
from unittest import mock

from retentiond.act.delete import reconcile
from retentiond.clock import Stopped, Uptime
from retentiond.config import Config
from retentiond.config.disks import DiskPressure
from retentiond.cycle import CycleContext, run_cycle
from retentiond.disks.broker_disks import BrokerDisks
from retentiond.disks.freed import FreedProgress
from retentiond.disks.log_dirs import DiskReading, disk_reading
from retentiond.disks.pressure import Pressure, pressure
from retentiond.errors import KafkaUnavailable, RetentiondError
from retentiond.gather.groups import LastCoordinators
from retentiond.kafka.cluster_identity import ClusterIdentity
from retentiond.model import PlanRow, Reason, Verdict
from retentiond.snapshot import Snapshot, partitions_of
from retentiond.spark.session import SparkSessions
from retentiond.state.groups import GroupMemory
from retentiond.state.operator_actions import Pause, remove_pause, write_pause
from retentiond.state.state import State, open_state
from retentiond.tell.figures.group_answers import NO_LAG_READ, LagReport
from retentiond.tell.figures.margins import LagReader
from retentiond.tell.report import CycleReport
from tests.property.model.audited import check_outcomes, open_intents
from tests.property.model.harm import Judge
from tests.property.model.rules import Rules
from tests.property.model.world import OTHER_STATE, World
from tests.support import oracle

DELETES = "delete_records"
CLIENT_OF = {"topic_names": "deleting", "look_before_deleting": "deleting", DELETES: "deleting"}
"""Which of retentiond's two clients asks; the others are the ``reading`` one's."""

LAST_LOOK: frozenset[str] = frozenset()
"""What is asked right before a request, within its round trip: nothing changes in between."""

CALL_MS = 2
"""How long a question takes."""

AT_ONCE = 0.3
BEFORE_A_QUESTION = 0.2
"""How often a task runs right when it is submitted; and one that waits, before the next
question."""

Due = Mapping[int | str, Sequence[tuple[Any, ...]]]


class Killed(BaseException):
    """As SIGKILL: nothing handles it."""


class Daemon:
    """One process after another, mostly on the same state directory."""

    def __init__(self, root: Path, world: World, rules: Rules) -> None:
        self.root = root
        self.world = world
        self.rules = rules
        self.judge = Judge(world, rules)
        self.moments: list[str] = []  # of the latest cycle
        self.objection: Exception | None = None
        self.stopping = False
        self._due: dict[int | str, Sequence[tuple[Any, ...]]] = {}
        self._cut = self._leave_out = False  # the next question fails; its answer lacks an item
        self.tasks = Tasks(0)  # of the latest cycle
        self._open = ExitStack()
        self._state: State | None = None
        self._configs: dict[Path, Config] = {}
        self._use(0)

    # The process

    def _use(self, state: int) -> None:
        self.state_dir = self.root / f"state-{state}"
        self.judge.state = self.state_dir.name
        self.world.known = set()  # of that memory, nothing is known yet
        self.judge.paused = self.paused = (self.state_dir / "paused").exists()

    def start(self) -> State:
        if self._state is None:
            found = self._open.enter_context(open_state(self.state_dir))
            found.memory.uptime = lambda: Uptime("the-host", self.world.now_ms)
            real_apply = found.memory._apply

            def apply(*changed: Any) -> None:
                real_apply(*changed)
                self.reach("within remember")

            found.memory._apply = apply  # type: ignore[assignment,method-assign]  # a step of its own
            self._state = replace(
                found,
                audit=cast(Any, Stepping(found.audit, self.reach)),
                memory=cast(Any, Stepping(found.memory, self.reach)),
            )
            self._context = CycleContext(
                kafka=cast(Any, Clients(self)),
                spark=cast(SparkSessions, None),
                now=lambda: self.world.host_now_ms,
                stop=Stop(self),
                coordinators=LastCoordinators(),
                disks=NoDisks(self.world),
                lag=NoLag(),
            )
            if self.state_dir not in self._configs:
                self._configs[self.state_dir] = self.rules.config(self.state_dir)
        return self._state

    def end(self) -> None:
        self._state = None
        self._open.close()

    def _bury(self) -> None:
        """What was on disk in the moment of death is what the next one finds."""
        self.end()
        shutil.rmtree(self.state_dir)
        (self.root / "image").rename(self.state_dir)

    # A cycle

    def step_cycle(self, plan: str = "sound", due: Due | None = None, late: int = 0) -> None:
        """``due``: what happens at a moment of it, by its number or its name. ``late``: the seed of
        the order in which tasks run, see `Tasks`."""
        self.moments.clear()
        self._due = dict(due or {})
        self.tasks = Tasks(late)
        report = None
        self.judge.begin()
        self.world.in_cycle = True
        self.world.full_in_cycle = self.world.full
        self.world.met["cycles"] += 1
        try:
            with self._in_the_world(plan):
                report = self._run()
        except (RetentiondError, Stopped) as error:
            self.world.met[f"ended by {type(error).__name__}"] += 1
        except Killed:
            self.world.met[f"killed at {self.moments[-1]}"] += 1
            self._bury()
        finally:
            self.world.in_cycle = self.stopping = self._cut = self._leave_out = False
            self._due = {}
        if self.objection is not None:
            raise self.objection
        if report is not None:
            self.judge.finished()
            check_outcomes(self.state_dir, self.judge)
            self.world.met.update(row.reason for row in report.plan.rows)

    def _run(self) -> CycleReport:
        state = self.start()
        reconcile(state.audit, self._context.kafka, self._context.now())
        return run_cycle(self._context, self._configs[self.state_dir], state).report

    @contextmanager
    def _in_the_world(self, plan: str) -> Iterator[None]:
        """Wherever retentiond's modules have a clock or threads, they have the world's."""
        own = {
            time: Clock(self.world),
            ThreadPoolExecutor: lambda *_, **__: OneThread(self.tasks),
        }
        replaced = [
            (module, name, value) for module, name, value in _used_by_retentiond() if value in own
        ]

        def decide(_spark: object, snapshot: Snapshot) -> tuple[PlanRow, ...]:
            self.reach("decide")
            return tuple(PLANS[plan](snapshot))

        with ExitStack() as stack:
            stack.enter_context(mock.patch("retentiond.cycle.decide", decide))
            for module, name, value in replaced:
                stack.enter_context(mock.patch.object(module, name, own[value]))
            yield

    def reach(self, name: str) -> None:
        """A moment of the cycle: what is due happens, but for the moment before a request."""
        self.judge.paused = self.paused
        number = len(self.moments)
        self.moments.append(name)
        for step in (*self._due.pop(number, ()), *self._due.pop(name, ())):
            self.do(step)

    def do(self, step: tuple[Any, ...]) -> None:
        """A step of the world, of its operator, or of what befalls the process."""
        if hasattr(self, f"step_{step[0]}"):
            if step[0] == "forget" and self.moments[-1:] == ["within remember"]:
                return  # the file is locked, and the command would wait
            self.world.met[step[0]] += 1
            getattr(self, f"step_{step[0]}")(*step[1:])
        else:
            self.world.do(step)
        self.world.note()
        self.judge.note()

    def ask(self, api: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """A question of one of its clients, answered by the cluster to which that one comes."""
        self.tasks.go_on()
        self.world.pass_time(CALL_MS)
        if api != DELETES and api not in LAST_LOOK:
            self.reach(api)
        cluster = self.world.clusters[self.world.routes[CLIENT_OF.get(api, "reading")]]
        if api == DELETES:
            try:
                self.judge.judge(cluster, args[0], open_intents(self.state_dir, args[0]))
            except Exception as error:  # it would be taken for the network's
                self.objection = self.objection or error
                raise
        else:
            self._context.kafka.identity.check(cluster.id)  # type: ignore[attr-defined]  # `Clients`
        if self._cut:
            self._cut = False
            raise KafkaUnavailable("no broker answers")
        answer = getattr(cluster, api)(*args, **kwargs)
        if self._leave_out and isinstance(answer, dict) and answer:
            self._leave_out = False
            answer = dict([*answer.items()][1:])
        self.judge.shown(cluster, api, answer)
        if api == DELETES:
            self.judge.answered()
            self.reach(DELETES)
        return answer

    # What befalls the process, and what its operator does

    def step_kill(self) -> None:
        if self.world.in_cycle:
            shutil.copytree(self.state_dir, self.root / "image")
            raise Killed
        self.end()

    def step_stop(self) -> None:
        self.stopping = self.world.in_cycle

    def step_cut(self) -> None:
        self._cut = self.world.in_cycle

    def step_leave_out(self) -> None:
        self._leave_out = self.world.in_cycle

    def step_restart(self, cluster: int, state: int) -> None:
        """As the operator starts it again, for a cluster and with a state directory."""
        if not self.world.in_cycle and (cluster == state or OTHER_STATE in self.world.may):
            self.end()
            self.world.home = cluster
            self.world.routes = dict.fromkeys(self.world.routes, cluster)
            self._use(state)

    def step_detour(self) -> None:
        """Started for the other cluster by mistake, with this one's state, and then as before."""
        if not self.world.in_cycle and OTHER_STATE in self.world.may:
            home, state = self.world.home, int(self.state_dir.name[-1])
            self.step_restart(1 - home, state)
            self.step_cycle()
            self.step_restart(home, state)

    def step_lapse(self, skew_ms: int) -> None:
        """The host's clock is wrong for a cycle, and then put right."""
        if not self.world.in_cycle:
            self.world.set_clock(skew_ms)
            self.step_cycle()
            self.world.set_clock(0)

    def step_pause(self) -> None:
        self.state_dir.mkdir(exist_ok=True)
        write_pause(self.state_dir, Pause("a test"))
        self.paused = True

    def step_resume(self) -> None:
        remove_pause(self.state_dir)
        self.paused = False

    def step_forget(self, group: str) -> None:
        """As ``retentiond groups forget`` does it, beside the daemon."""
        if self._state is not None:
            with closing(GroupMemory.open(self.state_dir, shared=True)) as memory:
                memory.forget(group)
            self.judge.forget(group)

    def step_damage(self) -> None:
        """The memory, while nobody uses it; its operator goes on without, or does not."""
        path = self.state_dir / "groups.db"
        if not self.world.in_cycle:
            self.end()
            if path.exists():
                for log in self.state_dir.glob("groups.db-*"):
                    log.unlink()
                path.write_bytes(b"damaged" + path.read_bytes()[7:])

    def step_accept(self) -> None:
        if self._state is not None:
            with closing(GroupMemory.open(self.state_dir, shared=True)) as memory:
                if memory.accept_losses():
                    self.judge.forget_all()


# What it is given


class Clients:
    """The interface, on whatever cluster the address leads to. As `KafkaCluster` does it, each
    answer but that of DeleteRecords proves its cluster."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self.identity = ClusterIdentity()

    def __getattr__(self, api: str) -> Callable[..., Any]:
        return lambda *args, **kwargs: self._daemon.ask(api, args, kwargs)


class Stop:
    """The signal to end, and waits in which the world goes on."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def is_set(self) -> bool:
        return self._daemon.stopping

    def wait(self, timeout: float) -> bool:
        self._daemon.reach("wait")
        self._daemon.world.pass_time(int(timeout * 1000) + 1)
        return self._daemon.stopping


class Clock:
    """In place of the module `time`."""

    def __init__(self, world: World) -> None:
        self._world = world

    def monotonic(self) -> float:
        return self._world.seconds

    def time(self) -> float:
        return self._world.host_now_ms / 1000

    def time_ns(self) -> int:
        return self._world.host_now_ms * 1_000_000

    def clock_gettime(self, _clock: int) -> float:
        return self._world.seconds

    def clock_gettime_ns(self, _clock: int) -> int:
        return int(self._world.seconds * 1_000_000_000)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


class Later:
    """A task that runs when somebody asks for its result, if not before."""

    def __init__(self, task: Callable[[], Any]) -> None:
        self._task = task
        self.has_begun = False
        self._done: Future[Any] = Future()

    def run(self) -> None:
        if not self.has_begun:
            self.has_begun = True
            try:
                self._done.set_result(self._task())
            except Exception as error:  # noqa: BLE001 - it is the caller's, as with a real one
                self._done.set_exception(error)

    def result(self) -> Any:
        self.run()
        return self._done.result(0)  # one that waits for it while it runs would wait for ever


class Tasks:
    """What runs beside the cycle. ``seed``: of the order; 0: each task runs at once. Otherwise it
    may also run before any question that is asked later, or as late as can be."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed) if seed else None
        self._waiting: list[Later] = []

    def add(self, task: Later) -> None:
        if self._random is None or self._random.random() < AT_ONCE:
            task.run()
        else:
            self._waiting.append(task)

    def go_on(self) -> None:
        while self._random and self._random.random() < BEFORE_A_QUESTION:
            self._waiting = [each for each in self._waiting if not each.has_begun]
            if not self._waiting:
                break
            self._random.choice(self._waiting).run()


class OneThread:
    """In place of a `ThreadPoolExecutor`."""

    def __init__(self, tasks: Tasks) -> None:
        self._all = tasks
        self._own: list[Later] = []

    def submit(self, function: Callable[..., Any], *args: Any) -> Later:
        task = Later(lambda: function(*args))
        self._all.add(task)
        self._own.append(task)
        return task

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Nothing is left running, unless the process is."""
        if kind is not Killed:
            for task in self._own:
                task.run()


class Stepping:
    """As the object that it wraps, with a moment before and after each of its steps."""

    def __init__(self, wrapped: object, reach: Callable[[str], None]) -> None:
        self._wrapped = wrapped
        self._reach = reach

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._wrapped, name)
        if not callable(found):
            return found

        def step(*args: Any, **kwargs: Any) -> Any:
            self._reach(f"before {name}")
            answer = found(*args, **kwargs)
            self._reach(f"after {name}")
            return answer

        return step


class NoDisks(BrokerDisks):
    """Reads nothing: the real one does so on a thread. Which disks are full it is told at once."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def begin(self, kafka: Any) -> None: ...

    def pressure(
        self, snapshot: Snapshot, rules: DiskPressure, before: Any, awaited: Any, recent: Any
    ) -> Pressure:
        try:
            found = disk_reading(self._world.here.log_dirs(), partitions_of(snapshot))
        except KafkaUnavailable:
            found = DiskReading()
        pressed = pressure(found, rules, before, FreedProgress())
        self._world.met["cycles under pressure"] += bool(pressed.log_dirs)
        return pressed


class NoLag(LagReader):
    """Asks nothing: what it finds out is for operators."""

    def report(self, *_: object, **__: object) -> LagReport:
        return NO_LAG_READ


def _used_by_retentiond() -> list[tuple[Any, str, Any]]:
    """The clock, and the threads, of each of its modules."""
    return [
        (module, name, value)
        for module_name, module in [*sys.modules.items()]
        if module_name.startswith("retentiond.")
        for name, value in [*vars(module).items()]
        if value is time or value is ThreadPoolExecutor
    ]


# In place of Spark


def sound(snapshot: Snapshot) -> Sequence[PlanRow]:
    """What Spark says."""
    return oracle.plan(snapshot)


def reckless(snapshot: Snapshot) -> Sequence[PlanRow]:
    """Deletes whatever is there: the guard is to find out."""
    return [_doomed(row, row.high_watermark) for row in oracle.plan(snapshot)]


def careless(snapshot: Snapshot) -> Sequence[PlanRow]:
    """Deletes what one of the groups has consumed."""
    highest: dict[tuple[str, int], int] = {}
    for commit in snapshot.commits.to_pylist():
        at = snapshot.partitions[commit["partition_id"]]
        key = snapshot.topics[at.topic].name, at.partition
        highest[key] = max(highest.get(key, 0), commit["offset"] or 0)
    rows = oracle.plan(snapshot)
    return [_doomed(row, highest.get((row.topic, row.partition))) for row in rows]


def _doomed(row: PlanRow, cutoff: int | None) -> PlanRow:
    start = row.log_start_offset
    if start is None or cutoff is None or cutoff <= start:
        return row
    return replace(
        row,
        cutoff=cutoff,
        verdict=Verdict.DELETE,
        reason=Reason.CONSUMED,
        records=cutoff - start,
    )


PLANS = {"sound": sound, "reckless": reckless, "careless": careless}
