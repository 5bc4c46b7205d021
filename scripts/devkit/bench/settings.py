"""The configuration that measurements run with: all topics, a consumed retention of 1 s."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from devkit.bench.layouts import Layout
from retentiond.config import Config
from retentiond.daemon.engine import Engine
from retentiond.state.state import open_state
from retentiond.tell.report import CycleReport

CONSUMED_RETENTION_MS = 1000
"""So that every partition is looked up by time, and no record is too young."""

MASTER = "local[2]"


def settings(layout: Layout, servers: str, state_dir: Path, **changes: Any) -> dict[str, Any]:
    """What a configuration file holds."""
    return {
        "kafka": {"bootstrap.servers": servers},
        "spark": {"master": MASTER, "conf": {"spark.driver.memory": layout.spark_memory}},
        "schedule": {"interval": "1s"},
        "http": {"host": "127.0.0.1", "port": 0},
        "state_dir": str(state_dir),
        "topics": [
            {
                "pattern": ".*",
                "retention.commitoffset.enable": True,
                "retention.commitoffset.ms": CONSUMED_RETENTION_MS,
            }
        ],
        **changes,
    }


@contextmanager
def started(config: Config, state_dir: Path) -> Iterator[Callable[[], CycleReport]]:
    """Runs a cycle of one and the same engine with each call."""
    engine = Engine(config, threading.Event(), lambda *_: None)
    with closing(engine), open_state(state_dir) as state:
        yield lambda: engine.run_cycle(state).report
