"""Writes deploy/grafana/retentiond.json."""

from __future__ import annotations

from pathlib import Path

from devkit.dashboard.dashboard import text

FILE = Path(__file__).parents[3] / "deploy" / "grafana" / "retentiond.json"

if __name__ == "__main__":
    FILE.write_text(text())
