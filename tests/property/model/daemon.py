"""retentiond under test: the real cycle and state directory, and a plan in plain Python."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast
from unittest import mock

from retentiond.collect.census import CoordinatorWatch
from retentiond.collect.snapshot import Snapshot
from retentiond.cycle import Stopped, Tools, run_cycle, settle_open_deletions
from retentiond.errors import KafkaUnavailable
from retentiond.kafka.port import Kafka
from retentiond.model import PlanRow, Reason, TopicPartition, Verdict
from retentiond.observe.report import CycleReport
from retentiond.plan.session import SparkSessions
from retentiond.state.memory import Memory
from retentiond.state.pause import Pause, remove_pause, write_pause
from retentiond.state.state import State, open_state
from tests import oracle
from tests.property.model.audited import check_settled, open_intents
from tests.property.model.hand import Hand
from tests.property.model.ledger import Ledger
from tests.property.model.quiet import NoDisks, NothingUnread
from tests.property.model.rules import Rules
from tests.property.model.witness import Killed, Moments, OneThread, Stop, Witness

STEPS = {
    "audit": ("record_cycle", "intend", "settle"),
    "memory": ("recall", "remember"),
}
"""What a cycle does with the state directory: before and after each of them it may be killed."""

Plan = Callable[[Snapshot], Sequence[PlanRow]]


class Stepping:
    """Everything as the object it wraps does it, with moments before and after its steps."""

    def __init__(self, wrapped: object, steps: Sequence[str], reach: Callable[[str], None]) -> None:
        self._wrapped = wrapped
        self._steps = steps
        self._reach = reach

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._wrapped, name)
        if name not in self._steps:
            return method

        def step(*args: Any, **kwargs: Any) -> Any:
            self._reach(f"before {name}")
            answer = method(*args, **kwargs)
            self._reach(f"after {name}")
            return answer

        return step


class Daemon:
    """One daemon after another on the same state directory."""

    def __init__(self, root: Path, rules: Rules, hand: Hand) -> None:
        self.state_dir = root / "state"
        self.ledger = Ledger(hand, rules)
        self.moments = Moments(self.ledger)
        self._config = rules.config(self.state_dir)
        self._image = root / "image"
        self._hand = hand
        self._open = ExitStack()
        self._state: State | None = None

    # The process

    def start(self) -> State:
        if self._state is None:
            found = self._open.enter_context(open_state(self.state_dir))
            real_apply = found.memory._apply

            def apply(changed: Any) -> None:
                real_apply(changed)
                self.moments.reach("within remember")

            found.memory._apply = apply  # type: ignore[method-assign]  # a step of its own
            self._state = replace(
                found,
                audit=cast(Any, Stepping(found.audit, STEPS["audit"], self._reach)),
                memory=cast(Any, Stepping(found.memory, STEPS["memory"], self._reach)),
            )
            self.stop = Stop(self._hand, self.moments)
            self.witness = Witness(self.ledger, self.moments, self._judge)
            self._tools = Tools(
                kafka=cast(Kafka, self.witness),
                spark=cast(SparkSessions, None),
                now=lambda: self._hand.host_now_ms,
                stop=self.stop,
                coordinators=CoordinatorWatch(),
                disks=NoDisks(),
                unread=NothingUnread(),
            )
        return self._state

    def end(self) -> None:
        self._state = None
        self._open.close()

    def kill(self, _moment: str) -> None:
        """What is on disk at this very moment is what the next one finds."""
        shutil.copytree(self.state_dir, self._image)
        raise Killed

    def _bury(self) -> None:
        self.end()
        shutil.rmtree(self.state_dir)
        self._image.rename(self.state_dir)

    def _reach(self, step: str) -> None:
        if step == "before remember":
            self.ledger.gathered()
        self.moments.reach(step)

    def _judge(self, cutoffs: Mapping[TopicPartition, int]) -> None:
        self.ledger.judge(cutoffs, open_intents(self.state_dir))

    # A cycle

    def cycle(self, plan: Plan, is_late: Sequence[bool]) -> CycleReport | None:
        """None: there was none, or it came to no end."""
        state = self.start()
        report = None
        with (
            mock.patch("retentiond.cycle.decide", self._decides(plan)),
            mock.patch("retentiond.cycle.time", self.stop.clock),
            mock.patch("retentiond.collect.census.time", self.stop.clock),
            mock.patch("retentiond.collect.gather.time", self.stop.clock),
            mock.patch("retentiond.collect.gather.ThreadPoolExecutor", partial(OneThread, is_late)),
        ):
            try:
                settle_open_deletions(self._tools, state.audit)
                check_settled(self.state_dir, self.ledger)
                self.ledger.begin()
                report = run_cycle(self._tools, self._config, state)
            except KafkaUnavailable:
                self.ledger.met["cycles without a broker"] += 1
            except Stopped:
                self.ledger.met["cycles that were stopped"] += 1
            except Killed:
                self.ledger.met[f"killed at {self.moments.names[-1]}"] += 1
                self._bury()
        if self.witness.objection is not None:
            raise self.witness.objection
        if report is not None:
            check_settled(self.state_dir, self.ledger)
            self.ledger.check_plan(report.plan)
        return report

    def calm_down(self) -> None:
        """Whatever was planned for the cycle and did not come up is off."""
        self.moments.plan(())
        self.stop.is_asked = self.witness.cut = self.witness.leave_out = False

    def _decides(self, plan: Plan) -> Callable[[object, Snapshot], tuple[PlanRow, ...]]:
        def decide(_spark: object, snapshot: Snapshot) -> tuple[PlanRow, ...]:
            self.moments.reach("decide")
            self.ledger.planned()
            return tuple(plan(snapshot))

        return decide

    # Operators

    def pause(self) -> None:
        self.state_dir.mkdir(exist_ok=True)
        write_pause(self.state_dir, Pause("a test"))
        self.ledger.paused = True

    def resume(self) -> None:
        remove_pause(self.state_dir)
        self.ledger.paused = False

    def forget(self, group: str) -> None:
        """As ``retentiond groups forget`` does it, beside the daemon."""
        if self._state is not None:
            with closing(Memory.open(self.state_dir, shared=True)) as memory:
                memory.forget(group)
            self.ledger.forget(group)

    def accept_losses(self) -> None:
        if self._state is not None:
            with closing(Memory.open(self.state_dir, shared=True)) as memory:
                memory.accept_losses()
            self.ledger.lost = False

    def damage_memory(self) -> None:
        """While nobody uses it."""
        self.end()
        path = self.state_dir / "groups.db"
        if path.exists():
            for log in self.state_dir.glob("groups.db-*"):
                log.unlink()
            path.write_bytes(b"damaged" + path.read_bytes()[7:])
            self.ledger.lose_memory()


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
