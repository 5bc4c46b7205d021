"""Grafana's dashboard as it is committed, and the queries in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.support.prometheus import ROOT

FILE = ROOT / "deploy" / "grafana" / "retentiond.json"


def dashboard() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(FILE.read_text())
    return document


def panels() -> Iterator[dict[str, Any]]:
    """Those that show something."""
    yield from (panel for panel in dashboard()["panels"] if panel["type"] != "row")


def queries() -> Iterator[tuple[str, str]]:
    """Each panel's title and what it asks."""
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
