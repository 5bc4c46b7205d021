"""What the demo says in the end."""

from collections.abc import Sequence

from rich.console import Console

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
