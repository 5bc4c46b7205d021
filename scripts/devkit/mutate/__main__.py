"""``python -m devkit.mutate``: see ``scripts/mutate``."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cosmic_ray import plugins  # type: ignore[import-not-found]  # scripts/mutate's
from cosmic_ray.commands import execute, init  # type: ignore[import-not-found]  # as above
from cosmic_ray.config import ConfigDict  # type: ignore[import-not-found]  # as above
from cosmic_ray.mutating import mutate_code  # type: ignore[import-not-found]  # as above
from cosmic_ray.work_db import WorkDB, use_db  # type: ignore[import-not-found]  # as above
from cosmic_ray.work_item import (  # type: ignore[import-not-found]  # as above
    TestOutcome,
    WorkerOutcome,
    WorkResult,
)

from devkit.embedded.ports import PortReservations
from devkit.mutate import MASTER
from devkit.mutate.equivalents import Mutant, bare, is_of_use, known, mutant
from devkit.mutate.operators import Provider

ROOT = Path(__file__).parents[3]

BUILD = ROOT / "build" / "mutation"

COPY = BUILD / "tree"
"""What is changed and tested: never the project itself."""

TESTS = {
    "act": ["tests/unit/act", "tests/unit/test_cycle.py", "tests/property/test_guard_property.py"],
    "decide": [
        "tests/unit/decide",
        "tests/property/test_plan_agrees_with_oracle.py"
        "::test_spark_and_the_oracle_agree_on_many_worlds",
    ],
}
"""By the package that decides what is deleted, the tests that should notice a change in it."""

TIMEOUT_S = 900.0
"""Whoever takes longer is in an endless loop, and so found; long, as the machine may be busy."""

SKIPPED = WorkResult(output="", test_outcome=None, worker_outcome=WorkerOutcome.SKIPPED)


def main() -> int:
    options = _options()
    sys.setrecursionlimit(10_000)  # cosmic-ray walks the whole tree of a module
    plugins.OPERATOR_PROVIDERS["retentiond"] = Provider()
    _copy()
    os.chdir(COPY)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(COPY / "scripts"), str(COPY)])
    total: Counter[str] = Counter()
    with _test_command(options.part) as command:
        if subprocess.run(command, check=False).returncode:
            raise SystemExit("the tests fail before anything was changed")
        for name in options.modules or _modules_of(options.part):
            counts = _try_module(Path("retentiond", options.part, f"{name}.py"), command)
            print(f"| - {name} | {' | '.join(map(str, counts.values()))} |", flush=True)
            total += counts
    print(f"| {options.part} | {' | '.join(str(total[each]) for each in _counts([], 0))} |")
    return 1 if total["survived"] else 0


def _try_module(path: Path, command: list[str]) -> dict[str, int]:
    """cosmic-ray makes the mutants and runs the trials; those that are not worth one are left out
    before."""
    module = ".".join(path.with_suffix("").parts)
    config = ConfigDict(
        {
            "test-command": " ".join(command),
            "timeout": TIMEOUT_S,
            "distributor": {"name": "local"},
        }
    )
    with use_db(str(BUILD / f"{module}.sqlite"), WorkDB.Mode.create) as work:
        init([path], work, {})
        equivalent, tried = _leave_out(work, path, module)
        execute(work, config)
        survivors = [
            tried[job]
            for job, result in work.results
            if result.test_outcome is TestOutcome.SURVIVED
        ]
    for each in survivors:
        print(f"survived: {each.module}: {each.was}  →  {each.becomes}", flush=True)
    return _counts(survivors, len(tried), equivalent)


def _counts(survivors: list[Mutant], tried: int, equivalent: int = 0) -> dict[str, int]:
    """In the order of the table's columns."""
    alive = len(survivors)
    return {
        "mutants": tried + equivalent,
        "killed": tried - alive,
        "equivalent": equivalent,
        "survived": alive,
    }


def _leave_out(work: WorkDB, path: Path, module: str) -> tuple[int, dict[str, Mutant]]:
    """How many are known to do the same as the original, and those that are left to try, by job."""
    source = path.read_text()
    original = bare(source)
    assert original is not None
    seen: set[str | None] = {None, original}
    equivalents, found, tried = known(module), set(), {}
    skipped = []
    for item in work.pending_work_items:
        (spec,) = item.mutations
        changed = None
        if is_of_use(spec.operator_name, source):
            operator = plugins.get_operator(spec.operator_name)()
            changed = bare(mutate_code(source, operator, spec.occurrence))
        if changed in seen or changed is None:
            skipped.append(item.job_id)
            continue
        seen.add(changed)
        each = mutant(module, original, changed)
        if each in equivalents:
            found.add(each)
            skipped.append(item.job_id)
        else:
            tried[item.job_id] = each
    for gone in equivalents - found:
        print(f"equivalent, and no mutant any more: {module}: {gone.was}  →  {gone.becomes}")
    work.set_multiple_results(skipped, SKIPPED)
    return len(found), tried


def _copy() -> None:
    """What git knows of or would, as it is now."""
    shutil.rmtree(COPY, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():
            (COPY / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, COPY / name)


@contextmanager
def _test_command(part: str) -> Iterator[list[str]]:
    """That of a trial. Spark starts once for all of them."""
    pytest = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        "--quick",
    ]
    if part != "decide":
        yield [*pytest, *TESTS[part]]
        return
    from tests.support.brokers.spark_processes import connect_server  # noqa: PLC0415 - of the copy

    with PortReservations() as ports, connect_server(BUILD / "spark", port := ports.take()):
        os.environ[MASTER] = f"sc://127.0.0.1:{port}"
        yield [*pytest, "-p", "devkit.mutate.warm_spark", *TESTS[part]]


def _modules_of(part: str) -> list[str]:
    return sorted(each.stem for each in (COPY / "retentiond" / part).glob("[!_]*.py"))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/mutate", description=__doc__)
    parser.add_argument("part", choices=TESTS)
    parser.add_argument("modules", nargs="*", help="some of its modules; by default all")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
