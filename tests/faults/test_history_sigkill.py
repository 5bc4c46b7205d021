"""A process that is killed while it writes the history leaves whole entries, and no others."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from retentiond.history.table import HistoryTable
from tests.support.builders.histories import CLUSTER, entries_in

pytestmark = pytest.mark.thorough("kills")

WRITER = """
import sys
from tests.support.builders.histories import Cycles, World
from retentiond.history import upkeep
upkeep.SMALL_FILES = 5
cycles = Cycles(sys.argv[1], merge=upkeep.merge)
world = World(partitions={("orders", at): 100 for at in range(50)})
for number in range(10_000):
    world.commits = {("billing", "orders", at): number for at in range(50)}
    cycles.one(world)
    assert cycles.told == [], cycles.told
    print(number, flush=True)
"""

LIVES = 5
MOST_S = 1.0


@pytest.mark.long
def test_what_was_written_before_a_kill_stands_there_as_a_whole(tmp_path: Path) -> None:
    chance = random.Random(1)
    told = 0
    for _ in range(LIVES):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "history")],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        ) as writer:
            assert writer.stdout is not None
            told += len(writer.stdout.readline().split())
            time.sleep(chance.uniform(0, MOST_S))  # the moment is the test
            writer.send_signal(signal.SIGKILL)
            told += len(writer.stdout.read().splitlines())
        found = list(entries_in(tmp_path / "history"))
        assert told <= len(found) <= told + LIVES  # one that was written and not yet told, each
        for number, each in enumerate(found):
            assert each.cycle["entry"] == number + 1
            assert len(each.partitions) == len(each.commits) == 50
            assert len(set(each.commits.values())) == 1
    files = HistoryTable.open(tmp_path / "history").files(CLUSTER)
    assert len(files) < told  # some were merged
