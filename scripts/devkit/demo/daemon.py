"""The daemon with ``config/demo.yaml``, or another file that takes the same variables."""

import json
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any

from devkit.daemon_process import DaemonProcess
from devkit.embedded.ports import LOOPBACK, PortReservations

CONFIG = Path(__file__).resolve().parents[3] / "config" / "demo.yaml"

ANSWER_SECONDS = 2.0
STOP_SECONDS = 10.0
"""How long SIGTERM may take: what retentiond promises."""


class Daemon(DaemonProcess):
    """Has a port of its own until `close`."""

    def __init__(self, bootstrap_servers: str, folder: Path, config: Path = CONFIG) -> None:
        self._ports = PortReservations()
        port = self._ports.take()
        super().__init__(
            folder,
            config,
            {
                "RETENTIOND_DEMO_BOOTSTRAP": bootstrap_servers,
                "RETENTIOND_DEMO_STATE": str(folder / "state"),
                "RETENTIOND_DEMO_PORT": str(port),
            },
        )
        self.url = f"http://{LOOPBACK}:{port}"

    def plan(self) -> dict[str, Any] | None:
        """The last cycle's plan, as /api/plan gives it; None while there is none."""
        try:
            with urllib.request.urlopen(f"{self.url}/api/plan", timeout=ANSWER_SECONDS) as answer:
                plan: dict[str, Any] = json.load(answer)
        except (OSError, HTTPException):
            return None
        return plan

    def close(self) -> None:
        """End it, as an operator does, if it runs."""
        self.stop(2 * STOP_SECONDS)
        super().close()
        self._ports.close()
