"""The dashboard: is it healthy, what does it delete, who holds what, and what do the disks say.

`rows.yaml` has its panels, and `dashboard.yaml` everything else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent

WIDTH = 24
"""Of a row, in Grafana's units."""

DAEMON = 'job=~"$job", instance=~"$instance"'
"""The daemons that are chosen. A series of every target has these labels, ``up`` too."""

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
    "OWNED": OWNED,
    "TOPIC": f'{DAEMON}, topic=~"$topic"',
    "OF_OWNER": _of_owner(),
    "OF_OWNER_IN_RANGE": _of_owner("$__range"),
}
"""What stands for these words in a query."""


def text() -> str:
    """The JSON that Grafana imports."""
    said = _read("dashboard.yaml")
    panels = list(_panels(said, _read("rows.yaml")))
    for number, panel in enumerate(panels, start=1):
        panel["id"] = number
    return json.dumps({**said["dashboard"], "panels": panels}, sort_keys=True, indent=2) + "\n"


def _panels(said: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """A panel for each row's title, and below it the row's own, from left to right."""
    y = 0
    for row in rows:
        place = {"x": 0, "y": y, "w": WIDTH, "h": 1}
        title = {"type": "row", "title": row["row"], "collapsed": False, "panels": []}
        yield {**title, "gridPos": place}
        x, y, below = 0, y + 1, y + 1
        for told in row["panels"]:
            kind, *_ = told
            of_kind = deepcopy(said["kinds"][kind])
            width, height = told.get("width", of_kind["width"]), of_kind["height"]
            if x + width > WIDTH:
                x, y = 0, below
            place = {"x": x, "y": y, "w": width, "h": height}
            yield {**_panel(kind, of_kind, told, said["link"]), "gridPos": place}
            x, below = x + width, max(below, y + height)
        y = below


def _panel(
    kind: str, of_kind: Mapping[str, Any], told: Mapping[str, Any], link: Mapping[str, Any]
) -> dict[str, Any]:
    """Raises KeyError where the files do not say what they must."""
    panel: dict[str, Any] = of_kind["panel"]
    defaults = panel["fieldConfig"]["defaults"]
    if "unit" in told:
        defaults["unit"] = told["unit"]
    for value, color in told.get("steps", ()):
        defaults["thresholds"]["steps"].append({"color": color, "value": value})
    if told.get("stacked"):
        defaults["custom"]["stacking"] = {"mode": "normal"}
    alert = told.get("alert")
    return {
        **panel,
        "title": told[kind],
        "description": told["about"],
        "links": [{**link, "title": alert, "url": f"${{runbook}}#{alert.lower()}"}]
        if alert
        else [],
        "targets": [
            {
                **of_kind["query"],
                "refId": letter,
                "expr": _of_live_daemons(query["expr"]) if kind == "figure" else query["expr"],
                "legendFormat": query.get("legend", ""),
            }
            for letter, query in zip("ABCDE", told["queries"], strict=False)
        ],
        **told.get("panel", {}),
    }


def _of_live_daemons(expr: str) -> str:
    """The figure, as long as every chosen daemon is up: what one of them has not told is missing
    from it. Otherwise a negative number: how many are down; -1 where there is none at all."""
    up = f"up{{{DAEMON}}}"
    return f"({expr}) and on () (min({up}) == 1) or -count({up} == 0) or -absent({up})"


def _read(name: str) -> Any:
    return _replaced(yaml.safe_load((FOLDER / name).read_text()))


def _replaced(value: Any) -> Any:
    """With what stands for each of the words, wherever it is."""
    match value:
        case str():
            return re.sub(r"\b[A-Z_]{5,}\b", lambda word: WORDS.get(word[0], word[0]), value)
        case list():
            return [_replaced(each) for each in value]
        case dict():
            return {name: _replaced(each) for name, each in value.items()}
    return value
