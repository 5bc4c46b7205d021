"""A cycle as a daemon runs it between two long pauses, in which processors and caches forget it."""

import threading
from contextlib import closing
from pathlib import Path

from devkit.bench.layouts import Layout
from devkit.bench.result import Result
from devkit.bench.settings import settings
from devkit.bench.timing import WARM_UP
from devkit.embedded import EmbeddedKafka
from retentiond.config import Config
from retentiond.engine import Engine
from retentiond.garbage_collection import release_memory
from retentiond.state.state import open_state

PAUSE_S = 300.0

DECIDE_AT_MOST_S = {"L": 0.6}


def measure(kafka: EmbeddedKafka, layout: Layout, folder: Path) -> list[Result]:
    """One dry run after `PAUSE_S`, and before it as many as warm a JVM up."""
    document = settings(layout, kafka.bootstrap_servers, folder, dry_run=True)
    engine = Engine(Config.model_validate(document), threading.Event(), lambda *_: None)
    with closing(engine), open_state(folder) as state:
        for _ in range(WARM_UP):
            engine.run_cycle(state)
        release_memory()
        threading.Event().wait(PAUSE_S)
        seconds = engine.run_cycle(state).report.seconds
    name = f"{layout.name}: {{}} after {PAUSE_S:g} s without a cycle"
    return [
        Result(name.format("gather"), seconds["gather"], "s"),
        Result(name.format("decide"), seconds["decide"], "s", DECIDE_AT_MOST_S.get(layout.name)),
    ]
