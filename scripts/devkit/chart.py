"""Writes what the Helm chart and the other files of deploy/ have in common.

python -m devkit.chart

The rules for Prometheus are written once, in the chart, with a place for each threshold; those of
deploy/prometheus have the thresholds of the chart's values. The dashboard is copied into the chart,
because Helm reads no file outside of it. The schema of the chart's values is written by hand but
for ``$defs``, the schema of the daemon's configuration.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "retentiond"

RULES = ("alerts.yml", "recording_rules.yml")
"""Written in the chart's files/. ``@ALERT@`` stands for the alert's threshold."""

DASHBOARD = "retentiond.json"

GENERATED = (
    "# Made from deploy/helm/retentiond/files by `python -m devkit.chart`: change it there.\n"
)

SCHEMA = "values.schema.json"

PLACE = re.compile(r"@(Retentiond\w+)@")

LOOK_AHEAD = re.compile(r"\(\?![^()]*\)")
"""Helm matches with Go's expressions, which have none; the daemon still looks itself."""


def files() -> dict[str, str]:
    """Path, seen from the chart → its text."""
    thresholds = yaml.safe_load((CHART / "values.yaml").read_text())["rules"]["thresholds"]
    rules = {f"../../prometheus/{name}": GENERATED + _rules(name, thresholds) for name in RULES}
    dashboard = (ROOT / "deploy" / "grafana" / DASHBOARD).read_text()
    schema = json.loads((CHART / SCHEMA).read_text()) | {"$defs": _definitions()}
    return {
        **rules,
        f"files/{DASHBOARD}": dashboard,
        SCHEMA: json.dumps(schema, indent=2) + "\n",
    }


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


if __name__ == "__main__":
    for name, text in files().items():
        (CHART / name).write_text(text)
