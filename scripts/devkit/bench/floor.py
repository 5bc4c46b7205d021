"""What a gather takes beside the least that a Go program takes for the same commits: a poller over
franz-go (``franz_poller/main.go``) lists the groups, and reads their commits and where all
partitions begin and end."""

import json
import shutil
import statistics
import subprocess
from pathlib import Path

from devkit.bench.layouts import Layout
from devkit.bench.result import Result
from devkit.bench.timing import RUNS, WARM_UP
from devkit.embedded import EmbeddedKafka

AT_MOST = {"L": 2.2}

SOURCE = Path(__file__).with_name("franz_poller")

PROGRAM = Path(__file__).resolve().parents[3] / "build" / "franz-poller"


def measure(kafka: EmbeddedKafka, layout: Layout, gather_s: float) -> list[Result]:
    """Nothing where there is no Go. Raises ValueError if the poller fails or finds other commits
    than the layout has."""
    if shutil.which("go") is None:
        return []
    _run("go", "build", "-o", str(PROGRAM), ".")
    told = json.loads(_run(str(PROGRAM), kafka.bootstrap_servers, str(WARM_UP + RUNS)))
    commits = {
        (group, topic, int(partition)): offset
        for group, topics in told["commits"].items()
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }
    if commits != layout.offsets():
        raise ValueError(f"{layout.name}: the poller over franz-go finds other commits")
    poll_s = statistics.median(told["seconds"][WARM_UP:])
    what = f"{layout.name}, dry run: gather against the poller"
    return [
        Result(f"{layout.name}, dry run: a poller over franz-go, one round", poll_s, "s"),
        Result(what, gather_s / poll_s, "x", AT_MOST.get(layout.name)),
    ]


def _run(*command: str) -> str:
    done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"the poller over franz-go: {done.stderr}")
    return done.stdout
