"""Grafana's dashboard, and the queries in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from devkit.dashboard.dashboard import text


def dashboard() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text())
    return document


def panels() -> Iterator[dict[str, Any]]:
    """Those that show something."""
    yield from (panel for panel in dashboard()["panels"] if panel["type"] != "row")


def everything_chosen(expr: str) -> str:
    """With what Grafana puts in place of its variables where everything is chosen."""
    for name in ("job", "instance", "cluster", "owner", "topic"):
        expr = expr.replace(f"${name}", ".*")
    return expr.replace("$__range", "24h")


def marks() -> Iterator[tuple[str, str]]:
    """What is marked on every graph, and what is asked for it."""
    for mark in dashboard()["annotations"]["list"]:
        yield mark["name"], mark["expr"]


def choices() -> Iterator[tuple[str, str, str]]:
    """The variables whose values are a label's: name, the label, and of which series."""
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            found = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"])
            assert found, variable
            yield variable["name"], found[2], found[1]


def queries() -> Iterator[tuple[str, str]]:
    """Each panel's title and what it asks."""
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
