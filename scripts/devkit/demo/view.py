"""How the demo looks: a live table on a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from devkit.demo.figures import TopicFigures, megabytes

PLAIN_SECONDS = 10.0
WIDE = 100  # columns


@contextmanager
def shown(console: Console, caption: str) -> "Iterator[View]":
    """On a terminal it is a table that changes in place; ``caption`` is below."""
    if console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            yield View(console, caption, live)
    else:
        yield View(console, caption)


class View:
    def __init__(self, console: Console, caption: str, live: Live | None = None) -> None:
        self._console = console
        self._caption = caption
        self._live = live
        self._started = time.monotonic()
        self._plain_at = self._started + PLAIN_SECONDS

    def tell(self, text: str) -> None:
        """Something happened, some seconds after this view was made."""
        self._console.print(f"{self._elapsed()}  {text}", soft_wrap=True)

    def show(self, topics: Sequence[TopicFigures], *, now: bool = False) -> None:
        """Where all topics stand. Elsewhere than on a terminal that is printed every 10 s, or
        ``now``."""
        if self._live is not None:
            table = _table(topics, wide=self._console.width >= WIDE)
            lines = Group(Text(f"\n{self._elapsed()}", "dim"), table, Text(self._caption, "dim"))
            self._live.update(lines, refresh=True)
        elif now or time.monotonic() >= self._plain_at:
            self._plain_at = time.monotonic() + PLAIN_SECONDS
            for topic in topics:
                self.tell(_line(topic))

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._started:3.0f} s"


def _table(topics: Sequence[TopicFigures], *, wide: bool) -> Table:
    """``wide`` terminals have room for what was freed, too."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("TOPIC", no_wrap=True)
    for heading in ("ON DISK", *(["FREED"] if wide else []), "WRITTEN", "DELETED"):
        table.add_column(heading, justify="right", no_wrap=True, min_width=8 if wide else 7)
    table.add_column("GROUPS BEHIND", no_wrap=True, min_width=13)
    table.add_column("DECISION", overflow="fold", min_width=20 if wide else 12)
    table.add_column("BINDING", overflow="fold")
    for topic in topics:
        table.add_row(
            topic.topic,
            megabytes(topic.on_disk),
            *([megabytes(topic.freed)] if wide else []),
            f"{topic.written:,}",
            f"{topic.deleted:,}",
            "\n".join(f"{group} {records:,}" for group, records in topic.behind),
            topic.decision.words,
            "\n".join(topic.decision.bound_by),
            style="green" if topic.deleted else "",
        )
    return table


def _line(topic: TopicFigures) -> str:
    behind = ", ".join(f"{group} {records:,}" for group, records in topic.behind)
    bound_by = (
        f", bound by {' and '.join(topic.decision.bound_by)}" if topic.decision.bound_by else ""
    )
    return (
        f"{topic.topic}: {megabytes(topic.on_disk)} on disk, {megabytes(topic.freed)} freed; "
        f"records written {topic.written:,}, deleted {topic.deleted:,}; behind: {behind}; "
        f"{topic.decision.words}{bound_by}"
    )
