"""Kafka's own kafka-consumer-groups, which describes all groups as a whole process."""

import statistics

from devkit.bench.deletions import TOOL_RUNS, TOOL_WARM_UP
from devkit.bench.layouts import Layout
from devkit.bench.timing import seconds
from devkit.embedded import EmbeddedKafka, tools

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"

REQUEST_TIMEOUT_MS = 60_000
"""The tool's own 5 s for a request are not enough for large layouts on few cores."""

TIMEOUT_S = 600.0


def measure(kafka: EmbeddedKafka, layout: Layout) -> float:
    """Median seconds of a run. Raises ValueError where one prints other offsets."""
    expected = layout.offsets()
    took = []
    for _ in range(TOOL_WARM_UP + TOOL_RUNS):
        run_s, printed = seconds(lambda: _describe(kafka))
        took.append(run_s)
        if offsets(printed) != expected:
            raise ValueError(f"{layout.name}: kafka-consumer-groups shows other offsets")
    return statistics.median(took[TOOL_WARM_UP:])


def command(servers: str) -> list[str]:
    """The tool's arguments."""
    return [
        *("--bootstrap-server", servers, "--describe", "--all-groups"),
        *("--timeout", str(REQUEST_TIMEOUT_MS)),
    ]


def offsets(printed: str) -> dict[tuple[str, str, int], int]:
    """By group, topic and partition, out of the tool's tables: one a group, each with a heading.

    A partition without a commit shows ``-``, and is left out.
    """
    found = {}
    for line in printed.splitlines():
        match line.split():
            case [group, topic, partition, offset, *_] if offset.isdecimal():
                found[group, topic, int(partition)] = int(offset)
    return found


def _describe(kafka: EmbeddedKafka) -> str:
    arguments = command(kafka.bootstrap_servers)
    return tools.run(kafka.version, TOOL, *arguments, timeout_seconds=TIMEOUT_S).stdout
