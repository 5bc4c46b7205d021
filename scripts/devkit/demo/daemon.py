"""The daemon with ``config/demo.yaml``, or another file that takes the same variables."""

import http.client
import json
from pathlib import Path
from types import TracebackType
from typing import Any

from devkit.daemon_process import DaemonProcess
from devkit.embedded.ports import LOOPBACK, PortReservations

CONFIG = Path(__file__).resolve().parents[3] / "config" / "demo.yaml"

ANSWER_SECONDS = 2.0
STOP_SECONDS = 10.0
"""How long SIGTERM may take: what retentiond promises."""


class Daemon(DaemonProcess):
    """Ends with the block, or with this process."""

    def __init__(self, bootstrap_servers: str, folder: Path, config: Path = CONFIG) -> None:
        self._ports = PortReservations()
        self._port = self._ports.take()
        super().__init__(
            folder,
            config,
            {
                "RETENTIOND_DEMO_BOOTSTRAP": bootstrap_servers,
                "RETENTIOND_DEMO_STATE": str(folder / "state"),
                "RETENTIOND_DEMO_PORT": str(self._port),
            },
        )

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._port}"

    def plan(self) -> dict[str, Any] | None:
        """The last cycle's plan, as /api/plan gives it; None while there is none."""
        connection = http.client.HTTPConnection(LOOPBACK, self._port, timeout=ANSWER_SECONDS)
        try:
            connection.request("GET", "/api/plan")
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        plan: dict[str, Any] | None = json.loads(body) if response.status == 200 else None
        return plan

    def deletions(self) -> list[dict[str, Any]]:
        """The audit log, by ``retentiond audit``. Raises CommandError."""
        deletions: list[dict[str, Any]] = json.loads(self.told("audit", "--output", "json"))
        return deletions

    def __enter__(self) -> "Daemon":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.stop(2 * STOP_SECONDS)
        finally:
            self.close()
            self._ports.close()
