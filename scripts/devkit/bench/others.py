"""What others take to read all group offsets once, beside a gather right before: a poller over
franz-go, as one would write it in Go (``franz_poller/main.go``), and Kafka's own
kafka-consumer-groups, which describes all groups as a whole process."""

import json
import shutil
import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path

from devkit.bench import cycles
from devkit.bench.deletions import TOOL_RUNS, TOOL_WARM_UP
from devkit.bench.layouts import Layout
from devkit.bench.result import Result
from devkit.bench.timing import RUNS, WARM_UP, seconds
from devkit.embedded import EmbeddedKafka, tools

AGAINST_POLLER_AT_MOST = {"L": 2.5}

SOURCE = Path(__file__).with_name("franz_poller")

PROGRAM = Path(__file__).resolve().parents[3] / "build" / "franz-poller"

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"

REQUEST_TIMEOUT_MS = 60_000
"""The tool's own 5 s for a request are not enough for large layouts on few cores."""

TOOL_TIMEOUT_S = 600.0


def measure(
    kafka: EmbeddedKafka, layout: Layout, folder: Path, say: Callable[[str], None]
) -> list[Result]:
    """``say`` is told what is left out, and why. Raises ValueError where one of them fails or finds
    other commits than the layout has."""
    name = layout.name
    is_built = _builds(say)
    gather = cycles.gather_s(kafka, layout, folder)
    results = [Result(f"{name}: gather, right before the others", gather, "s")]
    if is_built:
        poll = _poll_s(kafka, layout)
        results += [
            Result(f"{name}: a poller over franz-go, one round", poll, "s"),
            Result(
                f"{name}: gather against the poller over franz-go",
                gather / poll,
                "x",
                AGAINST_POLLER_AT_MOST.get(name),
            ),
        ]
    described = _describe_s(kafka, layout)
    return [*results, Result(f"{name}: kafka-consumer-groups, whole process", described, "s")]


def _builds(say: Callable[[str], None]) -> bool:
    """Whether the poller can be built, and is."""
    if shutil.which("go") is None:
        say("the poller over franz-go is left out: there is no go here.")
        return False
    command = ["go", "build", "-o", str(PROGRAM), "."]
    done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)
    if done.returncode:
        say(f"the poller over franz-go is left out: {done.stderr}")
    return not done.returncode


def _poll_s(kafka: EmbeddedKafka, layout: Layout) -> float:
    """Median seconds of a round: the commits of all groups, and where all partitions begin and
    end."""
    command = [str(PROGRAM), kafka.bootstrap_servers, str(WARM_UP + RUNS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"the poller over franz-go: {done.stderr}")
    told = json.loads(done.stdout)
    took: list[float] = told["seconds"]
    commits = {
        (group, topic, int(partition)): offset
        for group, topics in told["commits"].items()
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }
    if commits != layout.offsets():
        raise ValueError(f"{layout.name}: the poller over franz-go finds other commits")
    return statistics.median(took[WARM_UP:])


def _describe_s(kafka: EmbeddedKafka, layout: Layout) -> float:
    """Median seconds of a run of Kafka's tool."""
    arguments = [
        *("--bootstrap-server", kafka.bootstrap_servers, "--describe", "--all-groups"),
        *("--timeout", str(REQUEST_TIMEOUT_MS)),
    ]
    expected = layout.offsets()
    took = []
    for _ in range(TOOL_WARM_UP + TOOL_RUNS):
        run_s, done = seconds(
            lambda: tools.run(kafka.version, TOOL, *arguments, timeout_seconds=TOOL_TIMEOUT_S)
        )
        took.append(run_s)
        if _printed_offsets(done.stdout) != expected:
            raise ValueError(f"{layout.name}: kafka-consumer-groups shows other offsets")
    return statistics.median(took[TOOL_WARM_UP:])


def _printed_offsets(printed: str) -> dict[tuple[str, str, int], int]:
    """By group, topic and partition, out of the tool's tables: one a group, each with a heading.

    A partition without a commit shows ``-``, and is left out.
    """
    found = {}
    for line in printed.splitlines():
        match line.split():
            case [group, topic, partition, offset, *_] if offset.isdecimal():
                found[group, topic, int(partition)] = int(offset)
    return found
