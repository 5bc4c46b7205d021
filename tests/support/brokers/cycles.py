"""Whole cycles on real brokers, on call: with the guard and the state on disk."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from retentiond.act.delete import reconcile
from retentiond.clock import Uptime, now_ms, uptime
from retentiond.config import Config
from retentiond.cycle import CycleContext, run_cycle
from retentiond.disks.broker_disks import BrokerDisks
from retentiond.gather.groups import LastCoordinators
from retentiond.kafka.interface import Kafka
from retentiond.model import DeletionOutcome, Outcome, PlanRow
from retentiond.spark.session import SparkSessions
from retentiond.state.audit_records import DeletionRecord, read_deletions
from retentiond.state.state import open_state
from retentiond.tell.report import CycleReport
from tests.contract.real import RealDriver
from tests.faults.held import log_start
from tests.support.brokers.command import Document, entries, settings
from tests.support.waiting import eventually
from tests.support.witnessed import CONFIGURED

Clock = Callable[[], int]


class Retentiond:
    """One with a state directory of its own, which it opens again for each cycle, as after a
    restart. ``spark``: None where the oracle plans (`tests.faults.plain_plan`); ``more``: further
    sections of its configuration."""

    def __init__(
        self,
        kafka: Kafka,
        folder: Path,
        *topics: str | Document,
        spark: SparkSessions | None = None,
        **more: Any,
    ) -> None:
        document = settings(
            "not used here:9092",
            folder / "state",
            topics=entries(topics),
            **{"dry_run": False, **more},
        )
        CONFIGURED.append(document)
        self.config = Config.model_validate(document)
        self._kafka = kafka
        self._spark: Any = spark
        self._coordinators = LastCoordinators()
        self._disks = BrokerDisks()

    def cycle(
        self,
        *,
        before_guard: Callable[[], object] | None = None,
        kafka: Kafka | None = None,
        now: Clock = now_ms,
        uptime: Callable[[], Uptime] = uptime,
    ) -> CycleReport:
        """One to its end. ``before_guard`` happens between the plan and the second reading;
        ``kafka``, ``now`` and ``uptime`` stand in for the cluster and for the host's clocks."""
        context = self._context(kafka, _interrupted(now, before_guard) if before_guard else now)
        with open_state(self.config.state_dir) as state:
            state.memory.uptime = uptime
            return run_cycle(context, self.config, state).report

    def settle(self) -> tuple[DeletionOutcome, ...]:
        """Reads back what earlier cycles left open."""
        with open_state(self.config.state_dir) as state:
            return reconcile(state.audit, self._kafka, now_ms())

    @property
    def audit(self) -> list[DeletionRecord]:
        return list(read_deletions(self.config.state_dir))

    def _context(self, kafka: Kafka | None = None, now: Clock = now_ms) -> CycleContext:
        stop = threading.Event()
        return CycleContext(
            kafka or self._kafka,
            self._spark,
            now,
            stop,
            self._coordinators,
            disks=self._disks,
        )


def arrange_deletion(retentiond: Retentiond, topic: str, cutoff: int) -> None:
    """Cycles until the records below ``cutoff`` are gone: for what a test starts from. A failure
    says what the last cycle did instead."""

    def said() -> str:
        report = retentiond.cycle()
        row = row_of(report, topic)
        if report.outcome(row).outcome is Outcome.DELETED and row.cutoff == cutoff:
            return ""
        problems = (*report.plan.problems, *report.plan.guard_problems)
        return "; ".join(map(str, (row, report.outcome(row), *problems)))

    eventually(said, lambda missing: not missing)


def _interrupted(now: Clock, happens: Callable[[], object]) -> Clock:
    """A cycle looks at the clock twice when it begins, and next right before its second reading."""
    looks = itertools.count()

    def look() -> int:
        if next(looks) == 2:
            happens()
        return now()

    return look


class Told(NamedTuple):
    """What an operator reads about a partition."""

    verdict: str
    reason: str
    sentence: str | None


def row_of(report: CycleReport, topic: str, partition: int = 0) -> PlanRow:
    (row,) = (r for r in report.plan.rows if (r.topic, r.partition) == (topic, partition))
    return row


def told(report: CycleReport, topic: str, partition: int = 0) -> Told:
    row = row_of(report, topic, partition)
    return Told(row.verdict.value, row.reason.value, row.detail)


def deleted_up_to(report: CycleReport, topic: str, partition: int = 0) -> int | None:
    """The cutoff of a deletion that was done; None where none was, and a failing test says why."""
    row = row_of(report, topic, partition)
    outcome = report.outcome(row)
    if outcome.outcome is Outcome.DELETED:
        return row.cutoff
    print(row, outcome, report.plan.problems, report.plan.guard_problems, sep="\n")
    return None


class Stage:
    """A topic with ten records in each partition, names of two groups, and who is to delete.

    ``topics``: further ones of its policy; ``kafka``: by which it reads and deletes."""

    def __init__(
        self,
        driver: RealDriver,
        folder: Path,
        topic: str,
        *topics: str | Document,
        partitions: int = 1,
        kafka: Kafka | None = None,
    ) -> None:
        self.driver, self.topic, self.folder = driver, topic, folder
        self.fast, self.slow = f"fast-{topic}", f"slow-{topic}"
        self.retentiond = Retentiond(kafka or driver.kafka, folder, topic, *topics)
        driver.filled_topic(topic, partitions=partitions)

    def commit(self, group: str, *offsets: int) -> None:
        """One for each partition, from the first on."""
        self.driver.commit(group, {(self.topic, at): offset for at, offset in enumerate(offsets)})

    @property
    def log_start(self) -> int:
        return log_start(self.driver.broker, self.topic)

    @property
    def told(self) -> Told:
        """In one more cycle."""
        return told(self.retentiond.cycle(), self.topic)

    @property
    def waits_for_the_slow_group(self) -> Told:
        sentence = f"group {self.slow} once committed here and has no commit any more"
        return Told("hold", "group_vanished", sentence)
