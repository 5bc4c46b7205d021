"""A poller over franz-go, as one would write it in Go (``franz_poller/main.go``): how long it takes
to read the commits of all groups, and where all partitions begin and end."""

import json
import shutil
import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path

from devkit.bench.layouts import Layout
from devkit.bench.timing import RUNS, WARM_UP

SOURCE = Path(__file__).with_name("franz_poller")

PROGRAM = Path(__file__).resolve().parents[3] / "build" / "franz-poller"


def program(say: Callable[[str], None]) -> Path | None:
    """Builds it, and says where it is. None where that can't be done, which ``say`` is told."""
    if shutil.which("go") is None:
        say("the poller over franz-go is left out: there is no go here.")
        return None
    command = ["go", "build", "-o", str(PROGRAM), "."]
    done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)
    if done.returncode:
        say(f"the poller over franz-go is left out: {done.stderr}")
        return None
    return PROGRAM


def measure(built: Path, servers: str, layout: Layout) -> float:
    """Median seconds of a round. Raises ValueError where it fails or finds other commits."""
    command = [str(built), servers, str(WARM_UP + RUNS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"the poller over franz-go: {done.stderr}")
    took, commits = read(done.stdout)
    if commits != layout.offsets():
        raise ValueError(f"{layout.name}: the poller over franz-go finds other commits")
    return statistics.median(took[WARM_UP:])


def read(output: str) -> tuple[list[float], dict[tuple[str, str, int], int]]:
    """The seconds of each round, and the last one's commits by group, topic and partition."""
    document = json.loads(output)
    return document["seconds"], {
        (group, topic, int(partition)): offset
        for group, topics in document["commits"].items()
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }
