"""Writes what the Helm chart has from elsewhere: Helm reads no file outside of a chart.

python -m devkit.chart

Alerts, recording rules and dashboard are copies. The schema of the chart's values is written by
hand but for ``$defs``, the schema of the daemon's configuration.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "retentiond"

COPIES = ("prometheus/alerts.yml", "prometheus/recording_rules.yml", "grafana/retentiond.json")
"""Under deploy/."""

SCHEMA = "values.schema.json"

LOOK_AHEAD = re.compile(r"\(\?![^()]*\)")
"""Helm matches with Go's expressions, which have none; the daemon still looks itself."""


def files() -> dict[str, str]:
    """Path in the chart → its text."""
    copies = {f"files/{Path(name).name}": (ROOT / "deploy" / name).read_text() for name in COPIES}
    schema = json.loads((CHART / SCHEMA).read_text()) | {"$defs": _definitions()}
    return {**copies, SCHEMA: json.dumps(schema, indent=2) + "\n"}


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
