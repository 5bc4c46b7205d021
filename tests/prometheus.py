"""Prometheus' own tools, for the tests of what is deployed beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DEPLOYED = ROOT / "deploy" / "prometheus"
UNPACKED = ROOT / "build" / "prometheus" / "usr" / "bin"


def tool(name: str) -> str:
    """Where ``prometheus`` or ``promtool`` is; without it the test is skipped."""
    found = shutil.which(name) or shutil.which(name, path=str(UNPACKED))
    if found is None:
        pytest.skip(f"{name} is missing: scripts/prometheus fetches it on Debian and its kind")
    return found
