"""What must hold in the end, and what the demo says then."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from devkit import audit
from devkit.demo.daemon import STOP_SECONDS, Daemon
from devkit.demo.figures import TopicFigures, megabytes
from devkit.demo.scenario import TOPICS
from devkit.demo.stage import Stage


def problems(stage: Stage, freed_bytes: int) -> Iterator[str]:
    """A sentence for each thing that went wrong while all was at work, for each deletion that was
    not to be, and for what is wrong in the audit log."""
    wrong = [*stage.faults(), *stage.troubles()]
    yield from wrong
    if not wrong:  # else it has ended early, and much is unread
        for group, records in stage.unread().items():
            yield f"group {group} has not read {records:,} records"
    if not freed_bytes:
        yield "nothing was freed on disk"
    for topic in TOPICS:
        if not topic.emptied and (deleted := stage.deleted(topic)):
            yield f"{deleted:,} records of {topic.name} were deleted, and none may be"
    deletions = audit.read(stage.daemon.state_dir)
    for topic_name, number in sorted({each.partition for each in deletions}):
        if (topic_name, number) not in stage.log_starts:
            yield f"{topic_name}-{number} was deleted from, and is no partition of the demo"
    yield from audit.contradictions(deletions, stage.log_starts)


def problems_of_end(daemon: Daemon) -> Iterator[str]:
    """End the daemon, if it runs; a sentence unless it does that as it should."""
    ended = daemon.stop(2 * STOP_SECONDS)
    if ended is None:
        return
    seconds, code = ended
    if code != 0 or seconds > STOP_SECONDS:
        yield (
            f"SIGTERM ended the daemon after {seconds:.1f} s with exit code {code}, "
            f"and should within {STOP_SECONDS:g} s with 0"
        )


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
