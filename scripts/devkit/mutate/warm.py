"""What is loaded once for all trials, and which tests try a mutant."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

import hypothesis.stateful
import pyarrow.compute
from pyspark.sql import SparkSession

import devkit.embedded
import retentiond.gather.gather
import retentiond.kafka.cluster
from devkit.mutate import trial
from devkit.mutate.mutants import Mutant
from devkit.mutate.trial import Fate
from retentiond.model import PlanRow
from retentiond.snapshot import Snapshot
from retentiond.spark import session
from retentiond.spark.session import SparkSessions

LOADED = (hypothesis.stateful, pyarrow.compute, devkit.embedded, retentiond.kafka.cluster)
"""So that no fork has to load them."""

TESTS = {
    "act": ["tests/unit/act", "tests/unit/test_cycle.py", "tests/property/test_guard_property.py"],
    "decide": ["tests/unit/decide"],
}

FIRST = {
    "act.approved": ["approved", "guard"],
    "act.carry_out": ["turns", "pause"],
    "act.delete": ["delete", "pause", "reconcile"],
    "act.evidence": ["guard"],
    "act.guard": ["guard"],
    "act.request": ["delete", "pause"],
    "act.rule": ["guard", "pause"],
    "decide.rule": ["rule"],
    "decide.detail": ["star_schema", "reasons"],
    "decide.limits": ["limits"],
    "decide.star_schema": ["star_schema"],
}
"""The tests of its package that are likely to find a mutant of a module: they go first."""

UNCOMPARED = ("detail", "limits")
"""Modules that make what the oracle leaves open: the sentences, and a cycle's limits."""

LOCAL: tuple[str, dict[str, str]] = ("local[2]", {})

WORLDS = 400
AT_ONCE = 200


class Trials(Protocol):
    def survives(self, mutant: Mutant) -> bool: ...


def trials_of(part: str) -> Trials:
    return Planned() if part == "decide" else Plain()


def _tests(mutant: Mutant) -> list[list[str]]:
    _, part, module = mutant.module.split(".")
    likely = FIRST.get(f"{part}.{module}", [])
    first = [f"tests/unit/{part}/test_{part}_{name}.py" for name in likely]
    return [first, TESTS[part]] if first else [TESTS[part]]


class Plain:
    """Trials of what needs no Spark."""

    def survives(self, mutant: Mutant) -> bool:
        return trial.fate(mutant, _tests(mutant)) is Fate.SURVIVED


class Planned:
    """Trials on one Spark session: random worlds first, the same ones each time."""

    def __init__(self) -> None:
        self._sessions = SparkSessions(*LOCAL)
        self._warm = _Warm()
        setattr(session, "SparkSessions", lambda *_: self._warm)  # noqa: B010 - the tests' fixture
        self._worlds = _worlds()
        self._renew()
        if not self._agrees():
            raise SystemExit("the plan disagrees with the oracle before anything was changed")

    def survives(self, mutant: Mutant) -> bool:
        """Found is only who left Spark alive, or has killed it twice."""
        check = None if mutant.module.endswith(UNCOMPARED) else self._agrees
        for _ in range(2):
            self._renew()
            fate = trial.fate(mutant, _tests(mutant), check)
            if fate is Fate.ENDLESS:  # its connections are now the next one's
                self._sessions.stop()
                self._sessions = SparkSessions(*LOCAL)
                return False
            if fate is Fate.SURVIVED:
                return True
            before = self._warm.session
            self._renew()
            if before is self._warm.session:
                break
        return False

    def _renew(self) -> None:
        with self._sessions.use() as living:
            living.sparkContext.cancelAllJobs()  # a mutant's endless join would go on
            self._warm.session = living

    def _agrees(self) -> bool:
        decide = importlib.import_module("retentiond.decide.plan").decide
        return all(
            [replace(row, detail=None) for row in decide(self._warm, snapshot)] == rows
            for snapshot, rows in self._worlds
        )


def _worlds() -> list[tuple[Snapshot, list[PlanRow]]]:
    """Snapshots of many worlds, and what the oracle says of them."""
    worlds = importlib.import_module("tests.property.test_plan_agrees_with_oracle")
    oracle = importlib.import_module("tests.support.oracle")
    made = worlds.made_up(WORLDS, same=True)
    snapshots = []
    for problems in (False, True):
        alike = [world for world in made if bool(world.problems) is problems]
        for start in range(0, len(alike), AT_ONCE):
            hidden = worlds.HIDDEN if start == AT_ONCE else ()
            together = worlds.together(alike[start : start + AT_ONCE])
            snapshots.append(worlds.seen_with(hidden, together))
    return [(snapshot, oracle.plan(snapshot)) for snapshot in snapshots]


class _Warm:
    """The one session, in place of `SparkSessions`, which would take the JVM for dead in a fork:
    it is no child of that process. No test may stop it, and what fails in it fails."""

    session: SparkSession

    @contextmanager
    def use(self) -> Iterator[SparkSession]:
        yield self.session

    def start(self) -> None: ...

    def stop(self) -> None: ...
