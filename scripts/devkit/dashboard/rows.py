"""Makes the panels of `rows.yaml`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from grafana_foundation_sdk.builders import bargauge, stat, statetimeline, table, timeseries

from devkit.dashboard.panels import DAEMON, About, Query, bars, figure, graph, listing, states

FILE = Path(__file__).with_suffix(".yaml")

Panel = stat.Panel | timeseries.Panel | bargauge.Panel | statetimeline.Panel | table.Panel

OWNED = 'owner=~"$owner"'
"""Absent is empty, so where every owner is chosen, topics without one match, too."""


def _of_owner(within: str = "") -> str:
    """What restricts a query to topics of the chosen owners; ``within``: a range."""
    chosen = " or ".join(
        f"last_over_time({of}[{within}])" if within else of
        for of in (
            f"retentiond_{name}{{{DAEMON}, {OWNED}}}" for name in ("partitions", "topic_owner_info")
        )
    )
    return f"and on (job, instance, topic) ({chosen})"


WORDS = {
    "DAEMON": DAEMON,
    "TOPIC": f'{DAEMON}, topic=~"$topic"',
    "OF_OWNER": _of_owner(),
    "OF_OWNER_IN_RANGE": _of_owner("$__range"),
}
"""What stands for these words in a query."""


def rows() -> Iterator[tuple[str, list[Panel]]]:
    """Each row's title and panels."""
    for row in yaml.safe_load(FILE.read_text()):
        yield row["row"], [_panel(each) for each in row["panels"]]


def _panel(told: Mapping[str, Any]) -> Panel:
    """Raises KeyError, ValueError where the file says something else than this module knows."""
    kind, *_ = told
    about = About(told[kind], told["unit"], told["about"], told.get("alert", ""))
    queries = [Query(_replaced(each["expr"]), each.get("legend", "")) for each in told["queries"]]
    further = {name: told[name] for name in ("span", "steps", "stacked") if name in told}
    match kind:
        case "figure":
            return figure(about, queries[0], **further)
        case "states":
            return states(about, queries[0], told["names"], **further)
        case "listing":
            return listing(about, queries[0], told["columns"], **further)
        case "graph":
            return graph(about, *queries, **further)
        case "bars":
            return bars(about, queries[0], **further)
    raise ValueError(f"{FILE.name}: {kind} is no kind of panel")


def _replaced(expr: str) -> str:
    return re.sub(r"\b[A-Z_]{5,}\b", lambda word: WORDS[word[0]], expr)
