"""One mutant's trial: the tests run in a fork of a process that has everything else loaded.

A mutant lives in the fork alone, so nothing on disk changes, and one JVM serves all of them.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from enum import Enum
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from devkit.mutate.mutants import Mutant

KEPT = ("retentiond.spark.session", "retentiond.spark.jvm")
"""Modules that the warm Spark session belongs to."""

FRESH = ("retentiond.act", "retentiond.decide", "retentiond.cycle", "retentiond.state", "tests")
"""What must not be loaded when a trial begins: it could hold on to the unchanged module."""

CPU_S = 60
"""Far more than all tests take; who needs more is in an endless loop."""

TIME_S = 900.0
"""The same for one that waits: long, because the machine may be busy with other things."""

OPTIONS = (
    *("-x", "-q", "--tb=no"),
    *("-p", "no:cacheprovider"),
    *("-p", "no:unraisableexception"),  # it collects the garbage of all that is loaded, twice
)

Check = Callable[[], bool]


class Fate(Enum):
    SURVIVED = "survived"
    FOUND = "found"
    ENDLESS = "endless"  # found, too; whatever it talked to may wait for its next word


def fate(mutant: Mutant, tests: Sequence[Sequence[str]], check: Check | None = None) -> Fate:
    """Whether ``check`` (where it is given, first) or a run of the tests finds it.

    One that comes to no end is told: on a busy machine it may be only slow.
    """
    child = os.fork()
    if child == 0:
        os._exit(_try(mutant, tests, check))
    ends_at = time.monotonic() + TIME_S
    said = f"without an end, and so found: {mutant}"
    while time.monotonic() < ends_at:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            if os.WIFSIGNALED(status):
                print(said, flush=True)
                return Fate.ENDLESS
            return Fate.FOUND if status else Fate.SURVIVED
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print(said, flush=True)
    return Fate.ENDLESS


def _try(mutant: Mutant, tests: Sequence[Sequence[str]], check: Check | None) -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    try:
        forget()
        sys.meta_path.insert(0, _Mutated(mutant))
        if check is not None and not check():
            return 1
        return int(any(pytest.main([*OPTIONS, *paths]) for paths in tests))
    except BaseException:  # noqa: BLE001 - a module that can't be imported is found, too
        return 1


def load_plugins() -> None:
    """Once, so that no fork has to; and rewritten tests are kept for the next one."""
    sys.dont_write_bytecode = False
    pytest.main([*OPTIONS, "--version"])


def forget() -> None:
    for name in list(sys.modules):
        if name.startswith(FRESH) and name not in (*KEPT, "retentiond.decide", "retentiond.act"):
            del sys.modules[name]


class _Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the mutant where its module is asked for."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._mutant.module:
            return None
        return importlib.util.spec_from_loader(name, self)

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._mutant.source, f"<{self._mutant.module}>", "exec"), module.__dict__)
