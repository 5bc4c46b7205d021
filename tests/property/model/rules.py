"""What the policy says, in the world's own words, and the configuration that says the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from retentiond.config import Config

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

ENABLED = ("a", "b")
TOPICS = (*ENABLED, "bystander")
EXCLUDED = "console-1"


@dataclass(frozen=True)
class Rules:
    """Of both enabled topics. ``required`` names g1; ``forget_ms``: forget_vanished_after;
    ``pressure_ms``: the age while a disk is full."""

    age_ms: int = 0
    pressure_ms: int | None = None
    required: bool = False
    min_groups: int = 1
    forget_ms: int | None = None
    dry_run: bool = False
    records: int | None = None
    partitions: int | None = None
    settle_cycles: int = 1

    def config(self, state_dir: Path) -> Config:
        """``a`` by its name, ``b`` by a pattern."""
        pressure = {}
        if self.pressure_ms is not None:
            pressure = {"retention.commitoffset.pressure.ms": self.pressure_ms}
        section: dict[str, Any] = {
            "retention.commitoffset.enable": True,
            "retention.commitoffset.ms": self.age_ms,
            **pressure,
            "groups": {
                "required": ["g1"] if self.required else [],
                "min": self.min_groups,
                "exclude": ["console-.*"],
                "forget_vanished_after": None if self.forget_ms is None else f"{self.forget_ms}ms",
            },
        }
        return Config.model_validate(
            {
                "kafka": {"bootstrap.servers": "fake:9092"},
                "state_dir": str(state_dir),
                "schedule": {"interval": "3h"},
                "dry_run": self.dry_run,
                "disk_pressure": {"below_free": "5%", "until_free": "8%"},
                "limits": {
                    "records_per_cycle": self.records,
                    "partitions_per_cycle": self.partitions,
                    "settle_cycles": self.settle_cycles,
                },
                "topics": [{"name": "a", **section}, {"pattern": "b|c.*", **section}],
            }
        )


def some_rules(random: Random) -> Rules:
    def mostly(usual: Any, *others: Any) -> Any:
        return random.choice([usual] * (4 * len(others)) + list(others))

    age_ms = random.choice([0, MINUTE_MS, 2 * HOUR_MS])
    return Rules(
        age_ms=age_ms,
        pressure_ms=random.choice([None, 0, age_ms // 2]),
        required=mostly(False, True),
        min_groups=mostly(1, 2),
        forget_ms=random.choice([None, None, 2 * HOUR_MS]),
        dry_run=random.random() < 0.05,
        records=mostly(None, 1, 3),
        partitions=mostly(None, 1),
        settle_cycles=mostly(1, 3),
    )
