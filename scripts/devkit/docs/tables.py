"""The tables of pages that are written by hand otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import dropwhile
from typing import Any

from retentiond.cli.past.doubts import Doubts
from retentiond.config import Difference
from retentiond.disks.broker_disks import DiskReport
from retentiond.fields import (
    API,
    COMMAND,
    EXPLAINED,
    FIRST_LOOK,
    GROUP,
    GROUP_LIST,
    PARTITION,
    PLAN,
    figures_of,
)
from retentiond.history.ask.past import Timeline
from retentiond.history.ask.recommend import Recommendation
from retentiond.history.ask.report_figures import Report
from retentiond.history.ask.simulate import Simulation
from retentiond.model import ROW_FIELDS, Plan
from retentiond.state.audit_records import DeletionRecord
from retentiond.state.operator_actions import Action
from retentiond.tell.figures.answers import TopicAnswer
from retentiond.tell.figures.group_answers import GroupAnswer
from retentiond.tell.figures.group_rows import GroupRow
from retentiond.tell.metrics.registry import ALL
from retentiond.tools.delete_records.partitions import Item
from retentiond.tools.doctor.examine import Examination
from retentiond.tools.orphans.orphan import Scan


def with_rows(page: str, heading: str, rows: Iterable[Sequence[str]]) -> str:
    """The page, with these rows in the table of that heading. Raises ValueError unless there is one
    such table."""
    mark = f"| {heading} |\n"
    above, below = page.split(mark)
    ruler, *lines = below.splitlines(keepends=True)
    rest = dropwhile(lambda line: line.startswith("|"), lines)
    return "".join([above, mark, ruler, *map(_row, rows), *rest])


def _row(cells: Sequence[str]) -> str:
    written = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(written)} |\n"


def fields(page: str) -> str:
    """``docs/fields.md``, with what a plan says of each partition, and what is shown of a topic and
    of a group."""
    page = with_rows(page, "field | unit | what it says | audit | history", _fields())
    page = with_rows(page, f"field of a topic | {SHOWN}", shown(TopicAnswer))
    page = with_rows(page, f"field of a group | {SHOWN}", shown(GroupRow))
    return with_rows(page, f"field of a group on a topic | {SHOWN}", shown(GroupAnswer))


def _fields() -> Iterator[Sequence[str]]:
    for field in ROW_FIELDS:
        if (said := field.said).in_json:
            recorded = (said.audit is not None, said.in_history)
            yes = ("yes" if is_recorded else "" for is_recorded in recorded)
            yield f"`{field.name}`", said.type.unit or "", said.meaning, *yes


SHOWN = "unit | what it says | many | in | metric"


def shown(row: type[Any]) -> Iterator[Sequence[str]]:
    """A line for each figure of the row that stands in some JSON."""
    for field in figures_of(row):
        if (said := field.said).in_json:
            metric = code([said.metric] if said.metric else [])
            where = "all"
            if said.documents is not None:
                where = ", ".join(DOCUMENTS[document] for document in said.documents)
            unit, many = said.type.unit or "", said.many or ""
            yield f"`{field.name}`", unit, said.meaning, many, where, metric


def nested(row: type[Any], within: str = "") -> Iterator[Sequence[str]]:
    """A line for each field in the row's JSON, and in the rows within it."""
    for field in figures_of(row):
        if field.said.in_json:
            kind, metric = field.said.type, code([field.said.metric] if field.said.metric else [])
            yield f"`{within}{field.name}`", kind.unit or "", field.said.meaning, metric
            if kind.row is not None and kind.where is None:
                yield from nested(kind.row, f"{within}{field.name}.")


PRINTED: dict[str, tuple[type[Any], ...]] = {
    "plan": (Plan, DiskReport),
    "check": (Difference,),
    "doctor": (Examination,),
    "audit": (DeletionRecord, Action),
    "delete-records": (Item,),
    "orphans": (Scan,),
    "simulate": (Timeline, Doubts, Simulation),
    "recommend": (Timeline, Recommendation),
    "report": (Timeline, Report),
}
"""The rows of a command's JSON, in this order."""


def printed(command: str) -> str:
    """The tables of what a command's JSON has; empty where other pages tell."""
    heads = ("\n| field | unit | what it says | metric |\n| --- | --- | --- | --- |\n",)
    tables = ("".join((*heads, *map(_row, nested(row)))) for row in PRINTED.get(command, ()))
    return "\n\n## JSON\n" + "".join(tables) if command in PRINTED else ""


DOCUMENTS = {
    API: "API",
    PLAN: "plan",
    FIRST_LOOK: "first look",
    GROUP_LIST: "API's list",
    GROUP: "API's group",
    COMMAND: "command",
    EXPLAINED: "topic explained",
    PARTITION: "partition explained",
}


def metrics(page: str) -> str:
    """``docs/metrics.md``, with every metric."""
    rows = ((f"`{each.name}`", each.type, code(each.labels), each.help) for each in ALL)
    return with_rows(page, "metric | type | labels | what it says", rows)


def code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)
