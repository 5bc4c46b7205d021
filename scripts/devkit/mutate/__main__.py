"""``python -m devkit.mutate``: see ``scripts/mutate``."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from cosmic_ray import plugins  # type: ignore[import-not-found]  # scripts/mutate's
from cosmic_ray.commands import init  # type: ignore[import-not-found]  # as above
from cosmic_ray.mutating import mutate_code  # type: ignore[import-not-found]  # as above
from cosmic_ray.work_db import WorkDB, use_db  # type: ignore[import-not-found]  # as above

from devkit.embedded.ports import PortReservations
from devkit.mutate import MASTER
from devkit.mutate.equivalents import Mutant, bare, is_of_use, known, mutant
from devkit.mutate.operators import Provider

ROOT = Path(__file__).parents[3]

BUILD = ROOT / "build" / "mutation"

TESTS = {
    "act": ["tests/unit/act", "tests/unit/test_cycle.py", "tests/property/test_guard_property.py"],
    "decide": [
        "tests/unit/decide",
        "tests/property/test_plan_agrees_with_oracle.py"
        "::test_spark_and_the_oracle_agree_on_many_worlds",
    ],
}
"""By the package that decides what is deleted, the tests that should notice a change in it."""

PATIENCE = 10
"""A trial that takes so many times as long as the tests do without a change is in an endless loop,
and so found. Trials run side by side, so each takes longer than the tests alone."""


def main() -> int:
    options = _options()
    sys.setrecursionlimit(10_000)  # cosmic-ray walks the whole tree of a module
    plugins.OPERATOR_PROVIDERS["retentiond"] = Provider()
    trees = [_copy(number) for number in range(options.jobs)]
    os.chdir(trees[0])
    total: Counter[str] = Counter()
    with _test_command(options.part) as command, ThreadPoolExecutor(len(trees)) as pool:
        began_s = time.monotonic()
        if not _passes(command, trees[0]):
            raise SystemExit("the tests fail before anything was changed")
        trials = Trials(command, pool, trees, PATIENCE * (time.monotonic() - began_s))
        names = options.modules or _modules_of(options.part)
        try:
            for name, begun in [(name, _begin(options.part, name, trials)) for name in names]:
                counts = begun.counts()
                print(f"| - {name} | {' | '.join(map(str, counts.values()))} |", flush=True)
                total += counts
        finally:
            pool.shutdown(cancel_futures=True)  # else Ctrl-C waits for all trials, for hours
    print(f"| {options.part} | {' | '.join(str(total[each]) for each in _counts([], 0))} |")
    return 1 if total["survived"] else 0


class Trials:
    """Runs the tests on changed sources, in each tree one trial at a time."""

    def __init__(
        self, command: list[str], pool: ThreadPoolExecutor, trees: Sequence[Path], timeout_s: float
    ) -> None:
        self._command, self._pool, self._timeout_s = command, pool, timeout_s
        self._free: SimpleQueue[Path] = SimpleQueue()
        for tree in trees:
            self._free.put(tree)

    def begin(self, path: Path, source: str, original: str) -> Future[bool]:
        """Whether no test notices the source in the place of the ``original`` one."""
        return self._pool.submit(self._survives, path, source, original)

    def _survives(self, path: Path, source: str, original: str) -> bool:
        tree = self._free.get()
        try:
            (tree / path).write_text(source)
            return _passes(self._command, tree, self._timeout_s)
        finally:
            (tree / path).write_text(original)
            self._free.put(tree)


class Begun(NamedTuple):
    """A module whose trials have begun."""

    equivalent: int
    trials: dict[Mutant, Future[bool]]

    def counts(self) -> dict[str, int]:
        """Waits for the trials, and prints each survivor."""
        survivors = []
        for each, trial in self.trials.items():
            if trial.result():
                survivors.append(each)
                print(f"survived: {each.module}: {each.was}  →  {each.becomes}", flush=True)
        return _counts(survivors, len(self.trials), self.equivalent)


def _begin(part: str, name: str, trials: Trials) -> Begun:
    path = Path("retentiond", part, f"{name}.py")
    original = path.read_text()
    equivalent, tried = _mutants(path, f"retentiond.{part}.{name}", original)
    return Begun(
        equivalent,
        {each: trials.begin(path, source, original) for each, source in tried.items()},
    )


def _passes(command: list[str], tree: Path, timeout_s: float | None = None) -> bool:
    """Whether no test fails; one in an endless loop does."""
    paths = os.pathsep.join([str(tree / "scripts"), str(tree)])
    with subprocess.Popen(
        command,
        cwd=tree,
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as trial:
        try:
            return trial.wait(timeout_s) == 0
        except subprocess.TimeoutExpired:
            os.killpg(trial.pid, signal.SIGKILL)
            return False


def _counts(survivors: list[Mutant], tried: int, equivalent: int = 0) -> dict[str, int]:
    """In the order of the table's columns."""
    alive = len(survivors)
    return {
        "mutants": tried + equivalent,
        "killed": tried - alive,
        "equivalent": equivalent,
        "survived": alive,
    }


def _mutants(path: Path, module: str, original: str) -> tuple[int, dict[Mutant, str]]:
    """How many are known to do the same as the original, and the sources of those that are left to
    try."""
    parsed = bare(original)
    assert parsed is not None
    seen = {parsed}
    equivalents, found, tried = known(module), set(), {}
    with use_db(":memory:", WorkDB.Mode.create) as work:
        init([path], work, {})
        specs = [spec for item in work.work_items for spec in item.mutations]
    for spec in specs:
        if not is_of_use(spec.operator_name, original):
            continue
        operator = plugins.get_operator(spec.operator_name)()
        changed = mutate_code(original, operator, spec.occurrence)
        becomes = None if changed is None else bare(changed)
        if becomes is None or becomes in seen:
            continue
        seen.add(becomes)
        each = mutant(module, parsed, becomes)
        if each in equivalents:
            found.add(each)
        else:
            tried[each] = changed
    for gone in equivalents - found:
        print(f"equivalent, and no mutant any more: {module}: {gone.was}  →  {gone.becomes}")
    return len(found), tried


def _copy(number: int) -> Path:
    """A tree of what git knows of or would, as it is now: never the project itself is changed."""
    tree = BUILD / f"tree-{number}"
    shutil.rmtree(tree, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return tree


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
    return sorted(each.stem for each in Path("retentiond", part).glob("[!_]*.py"))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/mutate", description=__doc__)
    parser.add_argument("part", choices=TESTS)
    parser.add_argument("modules", nargs="*", help="some of its modules; by default all")
    parser.add_argument("--jobs", type=int, default=2, help="trials at a time (default: 2)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
