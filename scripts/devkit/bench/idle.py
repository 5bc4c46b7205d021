"""A cycle as a daemon runs it between two long pauses, in which processors and caches forget it."""

import time
from pathlib import Path

from devkit.bench.layouts import Layout
from devkit.bench.result import Result
from devkit.bench.settings import settings, started
from devkit.bench.timing import WARM_UP
from devkit.embedded import EmbeddedKafka
from retentiond.config import Config
from retentiond.garbage_collection import release_memory

PAUSE_S = 300.0

DECIDE_AT_MOST_S = {"L": 0.6}


def measure(kafka: EmbeddedKafka, layout: Layout, folder: Path) -> list[Result]:
    """One dry run after `PAUSE_S`, and before it as many as warm a JVM up."""
    document = settings(layout, kafka.bootstrap_servers, folder, dry_run=True)
    with started(Config.model_validate(document), folder) as cycle:
        for _ in range(WARM_UP):
            cycle()
        release_memory()
        time.sleep(PAUSE_S)  # which is what is measured
        seconds = cycle().seconds
    name = f"{layout.name}: {{}} after {PAUSE_S:g} s without a cycle"
    return [
        Result(name.format("gather"), seconds["gather"], "s"),
        Result(name.format("decide"), seconds["decide"], "s", DECIDE_AT_MOST_S.get(layout.name)),
    ]
