"""`live`: the command, stopped in one step.

It is the real command with one function wrapped. When a cycle gets there, the file ``reached``
appears in FOLDER, and that thread waits until there is a file ``released``; so a test can pull
the plug, or freeze the broker, at a known point. The step ``nowhere`` wraps nothing. The plan is
worked out without Spark.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka.admin

import retentiond.act.carry_out
import retentiond.cycle
import retentiond.state.audit
from retentiond.cli.main import main
from retentiond.daemon import engine
from retentiond.disks.broker_disks import BrokerDisks
from retentiond.kafka.cluster import KafkaCluster
from retentiond.state.audit import Audit
from retentiond.state.groups import GroupMemory
from retentiond.state.state import KeptFile
from tests.faults.plain_plan import without_spark

POLL_S = 0.01


def always(*_: Any, **__: Any) -> bool:
    return True


def has_finished(_audit: Audit, cycle: Any) -> bool:
    return cycle.finished_at_ms is not None


def has_begun(_audit: Audit, cycle: Any) -> bool:
    return cycle.finished_at_ms is None


@dataclass(frozen=True)
class Step:
    """A function, as an attribute of its owner; the wait is before it, or after it returned."""

    owner: Any
    name: str
    after: bool = False
    applies: Callable[..., bool] = always


STEPS = {
    "before the outcomes of earlier runs are read back": Step(engine, "reconcile"),
    "before the first reading": Step(retentiond.cycle, "gather"),
    "before the groups are remembered": Step(GroupMemory, "remember"),
    "while the groups are being remembered": Step(GroupMemory, "_apply", after=True),
    "after the groups are remembered": Step(GroupMemory, "remember", after=True),
    "before the plan": Step(retentiond.cycle, "decide"),
    "after the plan": Step(retentiond.cycle, "decide", after=True),
    "before the second reading": Step(retentiond.cycle, "gather_again"),
    "before the newcomers are remembered": Step(GroupMemory, "remember_newcomers"),
    "after the newcomers are remembered": Step(GroupMemory, "remember_newcomers", after=True),
    "before the guard": Step(retentiond.act.carry_out, "verify"),
    "after the guard": Step(retentiond.act.carry_out, "verify", after=True),
    "before the cycle's beginning is recorded": Step(Audit, "record_cycle", applies=has_begun),
    "before the cycle's beginning is put into the log's own file": Step(Audit, "_checkpoint"),
    "after the cycle's beginning is recorded": Step(Audit, "record_cycle", True, has_begun),
    "while the intents are being written": Step(retentiond.state.audit, "_list_id"),
    "after the intents are written": Step(Audit, "intend", after=True),
    "before the request": Step(KafkaCluster, "delete_records"),
    "while the request is under way": Step(
        confluent_kafka.admin.AdminClient, "delete_records", after=True
    ),
    "after the answer": Step(KafkaCluster, "delete_records", after=True),
    "before the outcomes are written": Step(Audit, "settle"),
    "after the outcomes are written": Step(Audit, "settle", after=True),
    "before the cycle's end is recorded": Step(Audit, "record_cycle", applies=has_finished),
    "after the cycle's end is recorded": Step(Audit, "record_cycle", True, has_finished),
    "before the disks are looked at": Step(retentiond.cycle, "read_disks"),
    "after the disks are looked at": Step(retentiond.cycle, "read_disks", after=True),
    "before what deletions freed is concluded": Step(retentiond.cycle, "conclude"),
    "before it is recorded what deletions will free": Step(Audit, "record_predicted"),
    "after it is recorded what deletions will free": Step(Audit, "record_predicted", after=True),
    "before what deletions freed is recorded": Step(Audit, "record_freed"),
    "after what deletions freed is recorded": Step(Audit, "record_freed", after=True),
    "after what deletions freed is concluded": Step(retentiond.cycle, "conclude", True),
    "before it is recorded who waits": Step(KeptFile, "keep"),
    "after it is recorded who waits": Step(KeptFile, "keep", after=True),
    "before it is looked what is stuck": Step(BrokerDisks, "stuck"),
    "before old entries of the audit log go": Step(Audit, "prune"),
    "while old entries of the audit log go": Step(retentiond.state.audit, "prune_step", after=True),
    "after old entries of the audit log are gone": Step(Audit, "prune", after=True),
}


def hold(step: Step, folder: Path) -> None:
    """Wraps the function. Only the first call that applies waits."""
    original = getattr(step.owner, step.name)

    def wait() -> None:
        (folder / "reached").touch()
        while not (folder / "released").exists():
            time.sleep(POLL_S)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        is_here = not (folder / "reached").exists() and step.applies(*args, **kwargs)
        if is_here and not step.after:
            wait()
        answer = original(*args, **kwargs)
        if is_here and step.after:
            wait()
        return answer

    setattr(step.owner, step.name, wrapped)


def live(name: str, folder: Path, arguments: list[str], cwd: Path, log_file: Path) -> None:
    """A life of the command in a forked process; ``folder``: of the two files."""
    os.setsid()
    os.chdir(cwd)
    for file, flags, descriptors in (
        ("/dev/null", os.O_RDWR, (0, 1)),
        (log_file, os.O_WRONLY | os.O_CREAT, (2,)),
    ):
        opened = os.open(file, flags)
        for descriptor in descriptors:
            os.dup2(opened, descriptor)
        os.close(opened)
    sys.argv = ["retentiond", *arguments]
    with without_spark():
        if name != "nowhere":
            hold(STEPS[name], folder)
        main()
