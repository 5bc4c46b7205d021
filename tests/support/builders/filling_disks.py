"""Pasts of an entry an hour, with disks that run full."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.support.builders.past_clusters import (
    PastEntry,
    log_dir_row,
    log_dirs,
    partition_row,
)

HOUR_MS = 3_600_000
TOTAL = 1_000

A, B, OTHER = (1, "/a"), (1, "/b"), (2, "/a")
"""Two directories of a broker, and one of another."""

Usable = Mapping[tuple[int, str], Sequence[int | None]]
"""Of each log directory by the hour; None: not known."""


def by_the_hour(usable: Usable, rows: Callable[[int], list[dict[str, Any]]]) -> list[PastEntry]:
    return [
        PastEntry(
            hour * HOUR_MS,
            observed_ms=HOUR_MS if hour else None,
            is_whole=not hour,
            rows=[
                *rows(hour),
                *(
                    log_dir_row(*log_dir, TOTAL, bytes_left)
                    for log_dir, by_hour in usable.items()
                    if (bytes_left := by_hour[hour]) is not None
                ),
            ],
        )
        for hour in range(max(map(len, usable.values())))
    ]


def growing(topic: str, *where: tuple[int, str], **figures: Any) -> Callable[[int], Any]:
    """A hundred records of a byte come in each hour, are read at once, and none has gone."""
    held = log_dirs(*where) if where else None

    def row(hour: int) -> dict[str, Any]:
        end = 100 * (hour + 1)
        sizes = {"size_bytes": end, "log_dirs": held, **figures}
        return partition_row(topic, high_watermark=end, **sizes)

    return row


def topics(*rows: Callable[[int], Any]) -> Callable[[int], list[dict[str, Any]]]:
    return lambda hour: [row(hour) for row in rows]
