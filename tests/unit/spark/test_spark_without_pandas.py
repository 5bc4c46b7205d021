"""pandas stays out of a process that needs nothing of it, and Spark Connect of a slim install."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from retentiond.errors import ConfigError
from retentiond.memory.changes import changes
from retentiond.memory.remembered import NOTHING
from retentiond.spark.session import SparkSessions
from retentiond.state.groups import GroupMemory
from tests.support.builders.gather_worlds import healthy, snapshot

LOOK = """
import sys
from retentiond.spark.session import SparkSessions
for master in {masters}:
    SparkSessions(master, {{}})
import pyarrow
pyarrow.array([1])  # looks whether it was given a column of pandas
try:
    import pandas
except ModuleNotFoundError:
    print("hidden")
else:
    print("shown")
"""


STARTS = """
import sys
from pathlib import Path
import retentiond.cli.run, retentiond.daemon.daemon
from retentiond.state.groups import GroupMemory
assert len(GroupMemory.open(Path(sys.argv[1])).recall().readers)
print("pandas" in sys.modules)
"""


def test_a_daemon_that_starts_with_its_memory_imports_no_pandas(tmp_path: Path) -> None:
    with closing(GroupMemory.open(tmp_path)) as memory:
        memory.remember(changes(snapshot(healthy()), NOTHING, 1), memory.recall())
    command = [sys.executable, "-c", STARTS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("masters", "is_found"),
    [
        (["local[2]"], "hidden"),
        (["sc://connect"], "shown"),
        (["local[2]", "sc://connect"], "shown"),
    ],
)
def test_pandas_is_there_for_spark_connect_alone(masters: list[str], is_found: str) -> None:
    script = LOOK.format(masters=masters)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [is_found]


def test_spark_connect_names_its_extra_where_it_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(ConfigError, match=r"^spark.master: .* install retentiond\[connect\]$"):
        SparkSessions("sc://connect", {})
