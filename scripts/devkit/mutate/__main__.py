"""``python -m devkit.mutate``: see ``scripts/mutate``."""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from pathlib import Path

from devkit.mutate.mutants import Mutant, mutants
from devkit.mutate.trial import load_plugins
from devkit.mutate.warm import trials_of

ROOT = Path(__file__).parents[3]

EQUIVALENT = Path(__file__).with_name("equivalent.toml")

PARTS = ("act", "decide")
"""The packages that decide what is deleted."""


def modules_of(part: str) -> list[str]:
    found = (ROOT / "retentiond" / part).glob("[!_]*.py")
    return sorted(each.stem for each in found)


def main() -> int:
    options = _options()
    os.chdir(ROOT)
    sys.setrecursionlimit(10_000)  # cosmic-ray walks the whole tree of a module
    sys.pycache_prefix = str(ROOT / "build" / "pycache")
    load_plugins()
    trials = trials_of(options.part)
    known = tomllib.loads(EQUIVALENT.read_text())["mutant"]
    equivalent = {(each["module"], each["after"], each["was"], each["becomes"]) for each in known}
    found: list[Mutant] = []
    names = options.modules or modules_of(options.part)
    for name in names:
        found += mutants(ROOT, ROOT / "retentiond" / options.part / f"{name}.py")
    tried = [each for each in found if each.identity not in equivalent]
    asked = {f"retentiond.{options.part}.{name}" for name in names}
    gone = {each for each in equivalent if each[0] in asked} - {each.identity for each in found}
    for module, _, was, becomes in sorted(gone):
        print(f"equivalent, and no mutant any more: {module}: {was}  →  {becomes}", flush=True)
    alive = 0
    for number, mutant in enumerate(tried, start=1):
        if trials.survives(mutant):
            alive += 1
            print(f"survived: {mutant}", flush=True)
        if number % 50 == 0:
            print(f"{number} of {len(tried)}", file=sys.stderr, flush=True)
    print(
        f"{options.part}: {len(found)} mutants, {len(tried) - alive} killed, "
        f"{len(found) - len(tried)} equivalent, {alive} survived"
    )
    return 1 if alive or gone else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/mutate", description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("modules", nargs="*", help="some of its modules; by default all")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
