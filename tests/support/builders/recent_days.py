"""A month as a daemon would have kept it, of the topics of a plan: nights, a slow reader, a gap."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from retentiond.history.hourly import Hourly
from retentiond.history.schema import SCHEMA, RowKind
from retentiond.history.table import HistoryTable

DAY_H = 24
SLOW_GROUP = "fraud-detector"

GIB = 1 << 30
SIZES = {
    "orders.enriched": 570,
    "clicks.sessionized": 260,
    "inventory.deltas": 64,
    "audit.trail": 24,
    "payments.checked": 15,
    "orders-store-changelog": 14,
    "emails.rendered": 9,
    "stage.geo-lookup": 6,
    "prices.ticks": 4,
    "stage.dedup": 2,
}
"""GiB at noon."""

GROUPS = {
    "fraud-detector": ("orders.enriched", 90_000_000),
    "warehouse-sync": ("inventory.deltas", 42_000_000),
    "recommender": ("clicks.sessionized", 18_000_000),
    "ledger-writer": ("payments.checked", 1_200_000),
}
"""That bind, with records that they have not read at most."""

GAP_H = range(60, 67)
"""So long ago nobody wrote an entry."""

DELETED_IN_AN_HOUR = 1_800_000
"""Records, at noon and while no reader is slow."""


def write(
    path: Path,
    now_ms: int,
    *,
    days: int = 31,
    cluster_id: str = "cluster",
    sizes: Mapping[str, int] = SIZES,
    deleted: int = DELETED_IN_AN_HOUR,
) -> Hourly:
    """Entries of an hour each, up to now. They are read."""
    table = HistoryTable.open_or_create(path)
    by_day: dict[str, list[dict[str, Any]]] = {}
    for entry, hours_ago in enumerate(range(days * DAY_H, -1, -1), 1):
        at = datetime.fromtimestamp(now_ms / 1000, UTC) - timedelta(hours=hours_ago)
        if hours_ago not in GAP_H:
            head: dict[str, Any] = {
                "day": f"{at:%Y-%m-%d}",
                "entry": entry,
                "at": at,
                "cluster_id": cluster_id,
            }
            by_day.setdefault(head["day"], []).extend(
                head | row for row in _rows(hours_ago, at, sizes, deleted)
            )
    for rows in by_day.values():
        table.append(cluster_id, rows[-1]["entry"], pa.Table.from_pylist(rows, SCHEMA))
    hourly = Hourly(table.place, cluster_id)
    hourly.catch_up(now_ms, wait_s=60)
    assert (hourly.problem, hourly.is_reading) == (None, False)
    return hourly


def tide(at: datetime) -> float:
    """How busy the hour is, beside a usual one."""
    return 1 + 0.25 * math.sin((at.hour - 6) / DAY_H * 2 * math.pi)


def deleted_in(hours_ago: int, at: datetime, usual: int) -> int:
    """Records; fewer since the slow reader stands on a quarter of the partitions."""
    return int(usual * tide(at) * (1 - 0.25 * _slowness(hours_ago)))


def _slowness(hours_ago: int) -> float:
    """From 0 to 1: the slow reader has stood for four days."""
    return max(0.0, 1 - hours_ago / 96)


def _rows(
    hours_ago: int, at: datetime, sizes: Mapping[str, int], deleted: int
) -> Iterator[dict[str, Any]]:
    yield {"kind": RowKind.CYCLE.value, "cycle_id": f"c{hours_ago}", "complete": True}
    slow = _slowness(hours_ago)
    for number, (topic, size) in enumerate(sizes.items()):
        wave = tide(at) * (1 + 0.05 * math.sin(hours_ago / (7 + number)))
        grown = 0.45 + 0.55 * slow if topic == "orders.enriched" else 1
        group = next((name for name, (of, _) in GROUPS.items() if of == topic), None)
        unread = 0 if group is None else GROUPS[group][1]
        behind = int(unread * (0.05 * wave + 0.95 * slow if group == SLOW_GROUP else 0.4 * wave))
        yield {
            "kind": RowKind.PARTITION.value,
            "topic": topic,
            "partition": 0,
            "log_start_offset": 0,
            "high_watermark": 10**9,
            "min_committed_offset": 10**9 - behind,
            "binding_group": group,
            "size_bytes": int(size * GIB * wave * grown),
        }
    yield {
        "kind": RowKind.DELETION.value,
        "topic": "orders.enriched",
        "partition": 0,
        "records": deleted_in(hours_ago, at, deleted),
        "outcome": "deleted",
    }
