"""Made-up histories: what a daemon would have recorded, entry by entry, as rows of `SCHEMA`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from retentiond.history.place import location
from retentiond.history.schema import SCHEMA, RowKind

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
CLUSTER = "the-cluster"
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


@dataclass
class PastEntry:
    """``at_ms``: since `BEGIN`. ``rows``: as dictionaries, without what all of an entry's share.
    ``left_out``: so many entries before it are missing."""

    at_ms: int
    observed_ms: int | None = None
    complete: bool = True
    is_whole: bool = False
    dry_run: bool = True
    read_ms: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    left_out: int = 0

    @property
    def at(self) -> datetime:
        return BEGIN + timedelta(milliseconds=self.at_ms)


@dataclass
class PastCluster:
    entries: list[PastEntry]
    cluster_id: str = CLUSTER

    @property
    def numbers(self) -> list[int]:
        """Of the entries."""
        return list(accumulate(1 + each.left_out for each in self.entries))

    def table(self) -> pa.Table:
        rows = [
            row
            for number, each in zip(self.numbers, self.entries, strict=True)
            for row in self._of(number, each)
        ]
        return pa.Table.from_pylist(rows, SCHEMA)

    def _of(self, number: int, entry: PastEntry) -> Iterable[dict[str, Any]]:
        head = {
            "day": f"{entry.at:%Y-%m-%d}",
            "entry": number,
            "at": entry.at,
            "cluster_id": self.cluster_id,
        }
        yield {
            **head,
            "kind": RowKind.CYCLE.value,
            "cycle_id": f"cycle-{number}",
            "complete": entry.complete,
            "dry_run": entry.dry_run,
            "observed_ms": entry.observed_ms,
            "read_ms": entry.read_ms,
            "is_whole": entry.is_whole,
        }
        for row in entry.rows:
            yield {**head, **row}

    def write(self, path: Path) -> Path:
        self.write_to(str(path))
        return path

    def write_to(self, place: str) -> None:
        """``place``: a folder, or an object store's URL."""
        write_deltalake(location(place), self.table(), mode="append", partition_by=["day"])


def entry_of_hour(hour: int, rows: list[dict[str, Any]]) -> PastEntry:
    """One of those that a daemon writes every hour from its start on."""
    return PastEntry(
        hour * HOUR_MS,
        observed_ms=HOUR_MS if hour else None,
        is_whole=not hour,
        rows=rows,
    )


def partition_row(
    topic: str, partition: int = 0, *, high_watermark: int | None, **figures: Any
) -> dict[str, Any]:
    """One in which everything is read and old: what is not given follows from the rest."""
    start = figures.get("log_start_offset", 0)
    size = None if start is None or high_watermark is None else 100 * (high_watermark - start)
    return {
        "kind": RowKind.PARTITION.value,
        "topic": topic,
        "topic_id": "id",
        "partition": partition,
        "log_start_offset": 0,
        "high_watermark": high_watermark,
        "last_stable_offset": high_watermark,
        "size_bytes": size,
        "verdict": "nothing",
        "reason": "too_young",
        "groups": 1,
        "min_committed_offset": high_watermark,
        **figures,
    }


def commit_row(
    group: str, topic: str, partition: int, offset: int | None, state: str | None = "read"
) -> dict[str, Any]:
    """Without an offset and with the usual state: there is none any more."""
    return {
        "kind": RowKind.COMMIT.value,
        "group": group,
        "topic": topic,
        "partition": partition,
        "committed_offset": offset,
        "state": None if offset is None and state == "read" else state,
    }


def reader_row(group: str, topic: str, state: str | None = "live") -> dict[str, Any]:
    return {"kind": RowKind.READER.value, "group": group, "topic": topic, "state": state}


def deletion_row(
    topic: str, partition: int, cutoff: int, outcome: str = "deleted"
) -> dict[str, Any]:
    return {
        "kind": RowKind.DELETION.value,
        "topic": topic,
        "partition": partition,
        "cutoff": cutoff,
        "records": 1,
        "outcome": outcome,
        "cycle_id": "cycle",
    }


def log_dirs(*held: tuple[int, str]) -> str:
    """As a partition's row writes where its replicas are: broker and path of each."""
    return json.dumps([f"{broker}:{path}" for broker, path in held])


def log_dir_row(broker: int, log_dir: str, total_bytes: int, usable_bytes: int) -> dict[str, Any]:
    return {
        "kind": RowKind.LOG_DIR.value,
        "broker": broker,
        "log_dir": log_dir,
        "total_bytes": total_bytes,
        "usable_bytes": usable_bytes,
    }


def group_row(
    group: str, state: str | None, kind: str = "consumer", *, complete: bool | None = True
) -> dict[str, Any]:
    """``complete``: it is not unreadable as a whole."""
    return {
        "kind": RowKind.GROUP.value,
        "group": group,
        "group_kind": kind,
        "state": state,
        "complete": None if state is None else complete,
    }
