"""What a report shows of the lag; apart, so that whoever shows it needs no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from retentiond.memory.remembered import GroupOnTopic


@dataclass(frozen=True, slots=True)
class LagReport:
    """``kept``: records by the group that alone keeps them; ``margins``: seconds until Kafka's
    forced retention reaches what the group has not read; ``problem``: why some may be missing."""

    kept: Mapping[GroupOnTopic, int] = field(default_factory=dict)
    margins: Mapping[GroupOnTopic, float] = field(default_factory=dict)
    problem: str | None = None


NO_LAG_READ = LagReport()
