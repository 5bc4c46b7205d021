"""What the policy says, in the ledger's own words, and the configuration that says the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from retentiond.config import Config

EXCLUDED = "console-1"

HOUR_MS = 3_600_000


@dataclass(frozen=True)
class TopicRule:
    age_ms: int
    required: tuple[str, ...] = ()
    min_groups: int = 1
    excludes: bool = True  # console-1
    forget_ms: int | None = None

    def excludes_group(self, group: str) -> bool:
        return self.excludes and group == EXCLUDED

    def section(self) -> dict[str, Any]:
        return {
            "retention.commitoffset.enable": True,
            "retention.commitoffset.ms": self.age_ms,
            "groups": {
                "required": list(self.required),
                "min": self.min_groups,
                "exclude": ["console-.*"] if self.excludes else [],
                "forget_vanished_after": None if self.forget_ms is None else f"{self.forget_ms}ms",
            },
        }


@dataclass(frozen=True)
class Rules:
    """``topics`` by name: those that are enabled."""

    topics: dict[str, TopicRule]
    dry_run: bool = False
    records: int | None = None
    partitions: int | None = None
    settle_cycles: int = 1

    def config(self, state_dir: Path) -> Config:
        """``a`` by its name, ``b`` by a pattern."""
        return Config.model_validate(
            {
                "kafka": {"bootstrap.servers": "fake:9092"},
                "state_dir": str(state_dir),
                "dry_run": self.dry_run,
                "limits": {
                    "records_per_cycle": self.records,
                    "partitions_per_cycle": self.partitions,
                    "settle_cycles": self.settle_cycles,
                },
                "topics": [
                    {"name": "a", **self.topics["a"].section()},
                    {"pattern": "b|c.*", **self.topics["b"].section()},
                ],
            }
        )


def _often(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([usual] * (4 * len(others)) + list(others))


topic_rules = st.builds(
    TopicRule,
    age_ms=st.sampled_from([0, 60_000, 2 * HOUR_MS]),
    required=_often((), ("g1",)),
    min_groups=_often(1, 2),
    excludes=st.booleans(),
    forget_ms=_often(None, HOUR_MS),
)

all_rules = st.builds(
    Rules,
    topics=st.fixed_dictionaries({"a": topic_rules, "b": topic_rules}),
    dry_run=st.sampled_from([False] * 19 + [True]),
    records=_often(None, 1, 3),
    partitions=_often(None, 1),
    settle_cycles=_often(1, 3),
)
