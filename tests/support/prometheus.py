"""Prometheus and its tools, for the tests of what is deployed beside it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from devkit.embedded.ports import PortReservations
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
DEPLOYED = ROOT / "deploy" / "prometheus"
UNPACKED = ROOT / "build" / "prometheus" / "usr" / "bin"

EVERY = "1s"
"""How often it scrapes and evaluates in a test."""


def tool(name: str) -> str:
    """Where ``prometheus`` or ``promtool`` is; without it the test is skipped."""
    found = shutil.which(name) or shutil.which(name, path=str(UNPACKED))
    if found is None:
        pytest.skip(f"{name} is missing: scripts/prometheus fetches it on Debian and its kind")
    return found


class Prometheus:
    """One that runs."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def get(self, path: str, **parameters: str) -> Any:
        """What an endpoint of the API answers, once it does."""
        answer = httpx.get(f"{self._url}/api/v1/{path}", params=parameters).json()
        if answer["status"] != "success":
            raise AssertionError(f"{path}: {answer}")
        return answer["data"]

    def query(self, expr: str) -> list[dict[str, Any]]:
        """The series and their values at this moment."""
        found: list[dict[str, Any]] = self.get("query", query=expr)["result"]
        return found

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self._url}/-/ready").status_code == 200
        except httpx.TransportError:
            return False


@contextmanager
def running_prometheus(folder: Path, target: str) -> Iterator[Prometheus]:
    """Prometheus with the deployed configuration, which scrapes that one target every second."""
    config = yaml.safe_load((DEPLOYED / "prometheus.yml").read_text())
    config["global"] = dict.fromkeys(config["global"], EVERY)
    config["rule_files"] = [str(DEPLOYED / name) for name in config["rule_files"]]
    (job,) = config["scrape_configs"]
    job["static_configs"] = [{"targets": [target]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    # The port stays reserved meanwhile: Go's listeners set SO_REUSEADDR, as Java's do.
    with PortReservations() as ports, (folder / "prometheus.log").open("wb") as log:
        port = ports.take()
        process = subprocess.Popen(
            [
                tool("prometheus"),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            prometheus = Prometheus(port)
            eventually(prometheus.is_ready, timeout_s=60)
            yield prometheus
        finally:
            process.terminate()
            process.wait(30)
