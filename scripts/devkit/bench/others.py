"""What others take to read all group offsets once, beside a gather right before."""

from collections.abc import Callable
from pathlib import Path

from devkit.bench import cycles, franz, groups_command, klag, klag_build
from devkit.bench.layouts import Layout
from devkit.bench.result import Result
from devkit.embedded import EmbeddedKafka

AGAINST_POLLER_AT_MOST = {"L": 2.5}


def measure(
    kafka: EmbeddedKafka, layout: Layout, folder: Path, say: Callable[[str], None]
) -> list[Result]:
    """``say`` is told what is left out, and why."""
    name = layout.name
    program, poller = klag_build.program(say), franz.program(say)
    gather = cycles.gather_s(kafka, layout, folder)
    results = [Result(f"{name}: gather, right before the others", gather, "s")]
    if poller is not None:
        poll = franz.measure(poller, kafka.bootstrap_servers, layout)
        results += [
            Result(f"{name}: a poller over franz-go, one round", poll, "s"),
            Result(
                f"{name}: gather against the poller over franz-go",
                gather / poll,
                "x",
                AGAINST_POLLER_AT_MOST.get(name),
            ),
        ]
    if program is not None:
        refresh = klag.measure(program, kafka, layout, folder)
        results += [
            Result(f"{name}: klag-exporter, one refresh of all groups", refresh, "s"),
            Result(f"{name}: gather against klag-exporter", gather / refresh, "x"),
        ]
    described = groups_command.measure(kafka, layout)
    return [
        *results,
        Result(f"{name}: kafka-consumer-groups, whole process", described, "s"),
    ]
