"""What the demo says in the end."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from devkit.demo.daemon import Daemon
from devkit.demo.figures import TopicFigures, megabytes


def print_summary(
    console: Console,
    topics: Sequence[TopicFigures],
    gaps: int,
    problems: Sequence[str],
) -> None:
    """The figures over all topics, then what went wrong."""
    freed = sum(topic.freed for topic in topics)
    lines = {
        "bytes written": megabytes(freed + sum(topic.on_disk for topic in topics)),
        "bytes freed on disk": megabytes(freed),
        "records written": f"{sum(topic.written for topic in topics):,}",
        "records deleted": f"{sum(topic.deleted for topic in topics):,}",
        "records that every group read": f"{sum(topic.read_by_all for topic in topics):,}",
        "gaps seen by any consumer": str(gaps),
    }
    console.print()
    for name, value in lines.items():
        console.print(f"{name}: {value}")
    for problem in problems:
        console.print(f"FAILED: {problem}", soft_wrap=True)


SINCE = "5m"
"""Longer than a demo takes."""

QUESTIONS = (
    (
        "What if demo.clicks were deleted from as soon as its groups have read it?",
        ("simulate", "--since", SINCE, "--set", "demo.clicks:retention.commitoffset.hours=0"),
    ),
    (
        "How short may the retention be?",
        ("recommend", "--since", SINCE),
    ),
)
"""Of what its cycles have seen, and the commands that answer."""


def print_past(console: Console, daemon: Daemon, report: Path) -> None:
    """What the history of the demo says, which needs neither broker nor daemon, and where its
    report is. Raises CommandError."""
    width = str(console.width)
    for question, command in QUESTIONS:
        console.print(f"\n{question}  $ retentiond {' '.join(command)}", soft_wrap=True)
        console.print(daemon.told(*command, width=width), soft_wrap=True, end="")
    daemon.told("report", "--since", SINCE, "--output", "html", "--file", str(report))
    console.print(f"\nreport of this time, for a browser: {report}", soft_wrap=True)
