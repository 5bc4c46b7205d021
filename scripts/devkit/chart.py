"""Writes what the Helm chart and the other files of deploy/ have in common, and the chart's README.

python -m devkit.chart            the files that are committed
python -m devkit.chart FOLDER     what a packaged chart has besides, into that copy of the chart

The rules for Prometheus are written once, in the chart, with a place for each threshold; those of
deploy/prometheus have the thresholds of the chart's values. README.md lists values.yaml in
helm-docs' form: the comment above a value, from ``# --`` on, is its description; a short one may
stand behind it. Only a packaged chart has the schema of the daemon's configuration in the schema of
its values (``$defs``), and the dashboard.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from devkit.dashboard.dashboard import text as dashboard
from devkit.docs.tables import with_rows

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "retentiond"

RULES = ("alerts.yml", "recording_rules.yml")
"""Written in the chart's files/. ``@ALERT@`` stands for the alert's threshold."""

GENERATED = (
    "# Made from deploy/helm/retentiond/files by `python -m devkit.chart`: change it there.\n"
)

SCHEMA = "values.schema.json"

DASHBOARD = "files/retentiond.json"

PLACE = re.compile(r"@(Retentiond\w+)@")

LOOK_AHEAD = re.compile(r"\(\?![^()]*\)")
"""Helm matches with Go's expressions, which have none; the daemon still looks itself."""

KEY = re.compile(r"( *)(\w+):(?: +([^ #].*?))?(?: +# (.*))?")


class Value(NamedTuple):
    path: str
    default: object
    description: str


def files() -> dict[str, str]:
    """Path, seen from the chart → its text."""
    text = (CHART / "values.yaml").read_text()
    thresholds = yaml.safe_load(text)["rules"]["thresholds"]
    rules = {f"../../prometheus/{name}": GENERATED + _rules(name, thresholds) for name in RULES}
    return {**rules, "README.md": _readme(text)}


def complete(chart: Path) -> None:
    """Gives a copy of the chart what a packaged one has besides."""
    schema = json.loads((chart / SCHEMA).read_text()) | {"$defs": _definitions()}
    (chart / SCHEMA).write_text(json.dumps(schema, indent=2) + "\n")
    (chart / DASHBOARD).write_text(dashboard())


def _rules(name: str, thresholds: dict[str, float]) -> str:
    text = (CHART / "files" / name).read_text()
    # As Helm writes numbers.
    return PLACE.sub(lambda place: f"{thresholds[place.group(1)]:g}", text)


def _definitions() -> dict[str, Any]:
    text = (ROOT / "config" / "retentiond.schema.json").read_text()
    config: dict[str, Any] = json.loads(LOOK_AHEAD.sub("", text))
    definitions: dict[str, Any] = config.pop("$defs")
    del config["$schema"]
    del config["anyOf"]  # the chart has policies elsewhere, too
    return {"Config": config, **definitions}


def _readme(text: str) -> str:
    rows = (
        (f"`{value.path}`", f"`{json.dumps(value.default)}`", value.description)
        for value in values(text)
    )
    return with_rows((CHART / "README.md").read_text(), "value | default | what it is", rows)


def values(text: str) -> Iterator[Value]:
    """Each that has no further values below it, and each that has a description."""
    parents: list[str] = []
    described: list[str] = []
    for line in text.splitlines():
        comment = line.strip()
        if comment.startswith("#"):
            if comment.startswith("# --"):
                described = [comment.removeprefix("# --").strip()]
            elif described:
                described.append(comment.removeprefix("#").strip())
            continue
        found = KEY.fullmatch(line)
        if found:
            parents = [*parents[: len(found[1]) // 2], found[2]]
            default: Any = yaml.safe_load(text)
            for name in parents:
                default = default[name]
            if found[3] or described:
                yield Value(".".join(parents), default, " ".join(described) or found[4] or "")
        described = []


if __name__ == "__main__":
    if sys.argv[1:]:
        complete(Path(sys.argv[1]))
    else:
        for name, text in files().items():
            (CHART / name).write_text(text)
