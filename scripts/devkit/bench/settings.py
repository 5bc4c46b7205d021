"""The configuration that measurements run with: all topics, a consumed retention of 1 s."""

from pathlib import Path
from typing import Any

from devkit.bench.layouts import Layout

CONSUMED_RETENTION_MS = 1000
"""So that every partition is looked up by time, and no record is too young."""

MASTER = "local[2]"


def settings(layout: Layout, servers: str, state_dir: Path, **changes: Any) -> dict[str, Any]:
    """What a configuration file holds."""
    return {
        "kafka": {"bootstrap.servers": servers},
        "spark": {"master": MASTER, "conf": {"spark.driver.memory": layout.spark_memory}},
        "schedule": {"interval": "1s"},
        "http": {"host": "127.0.0.1", "port": 0},
        "state_dir": str(state_dir),
        "topics": [
            {
                "pattern": ".*",
                "retention.commitoffset.enable": True,
                "retention.commitoffset.ms": CONSUMED_RETENTION_MS,
            }
        ],
        **changes,
    }
