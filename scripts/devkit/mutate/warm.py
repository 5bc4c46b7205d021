"""What is loaded once for all trials, and which tests try a mutant."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import hypothesis.stateful
import pyarrow.compute

import devkit.embedded
import retentiond.collect.gather
import retentiond.kafka.cluster
from devkit.mutate import trial
from devkit.mutate.mutants import Mutant
from retentiond.plan import session

LOADED = (hypothesis.stateful, pyarrow.compute, devkit.embedded, retentiond.kafka.cluster)
"""So that no fork has to load them."""

TESTS = {
    "act": ["tests/unit/act", "tests/property/test_guard_property.py"],
    "plan": ["tests/unit/plan"],
}

FIRST = {
    "approved": ["approved", "guard"],
    "delete": ["delete", "brake"],
    "evidence": ["guard"],
    "guard": ["guard"],
    "limits": ["limits"],
    "readback": ["delete", "reconcile"],
    "reconcile": ["reconcile"],
    "rule": ["guard", "brake"],
}
"""The tests in ``tests/unit/act`` that are likely to find a mutant of a module: they go first."""

WORLDS = 400
AT_ONCE = 200


def trial_of(part: str) -> Callable[[Mutant], bool]:
    """Whether a mutant of that part survives."""
    check = _planned_worlds() if part == "plan" else None

    def survives(mutant: Mutant) -> bool:
        likely = FIRST.get(mutant.module.rpartition(".")[2], [])
        first = [f"tests/unit/act/test_act_{name}.py" for name in likely]
        return trial.survives(mutant, [first, TESTS[part]] if first else [TESTS[part]], check)

    return survives


def _planned_worlds() -> Callable[[], bool]:
    """Whether the plan agrees with the oracle on the same random worlds each time."""
    worlds = importlib.import_module("tests.property.test_plan_agrees_with_oracle")
    oracle = importlib.import_module("tests.oracle")
    made = worlds.made_up(WORLDS, same=True)
    snapshots = []
    for problems in (False, True):
        alike = [world for world in made if bool(world.problems) is problems]
        for start in range(0, len(alike), AT_ONCE):
            hidden = worlds.HIDDEN if start == AT_ONCE else ()
            together = worlds.together(alike[start : start + AT_ONCE])
            snapshots.append(worlds.seen_with(hidden, together))
    expected = [oracle.plan(snapshot) for snapshot in snapshots]
    spark = session.SparkSessions("local[2]", {})
    setattr(session, "SparkSessions", lambda *_: _Warm(spark))  # noqa: B010 - the tests' fixture

    def agrees() -> bool:
        decide = importlib.import_module("retentiond.plan.plan").decide
        return all(
            [replace(row, detail=None) for row in decide(spark, snapshot)] == rows
            for snapshot, rows in zip(snapshots, expected, strict=True)
        )

    if not agrees():
        raise SystemExit("the plan disagrees with the oracle before anything was changed")
    return agrees


class _Warm:
    """The one session, which no test may stop."""

    def __init__(self, spark: session.SparkSessions) -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    def stop(self) -> None:
        pass
