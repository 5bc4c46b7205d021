"""When a log directory is full, if it goes on as in the last day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from retentiond.config.durations import DAY_MS, HOUR_MS, MINUTE_MS
from retentiond.disks.log_dirs import Space

SPACING_MS = 10 * MINUTE_MS
"""No more readings are remembered than one in this time."""


@dataclass(slots=True)
class Filling:
    """What the readings of the last day saw, of one process: usable bytes by broker and directory.

    Retention frees whole segments at a time, so the first and the last reading of a short time say
    nothing; less than an hour is no answer.
    """

    _seen: dict[tuple[int, str], list[tuple[int, int]]] = field(default_factory=dict)

    def look(self, space: Sequence[Space], now_ms: int) -> dict[tuple[int, str], float]:
        """Seconds, of those that fill. ``now_ms``: on a clock that nobody sets."""
        full: dict[tuple[int, str], float] = {}
        for each in space:
            key = (each.broker, each.log_dir)
            seen = [at for at in self._seen.get(key, []) if at[0] >= now_ms - DAY_MS]
            if seen and now_ms - seen[0][0] >= HOUR_MS:
                taken = seen[0][1] - each.usable_bytes
                if taken > 0:
                    full[key] = each.usable_bytes * (now_ms - seen[0][0]) / taken / 1000
            if not seen or now_ms - seen[-1][0] >= SPACING_MS:
                seen.append((now_ms, each.usable_bytes))
            self._seen[key] = seen
        known = {(each.broker, each.log_dir) for each in space}
        self._seen = {key: seen for key, seen in self._seen.items() if key in known or not space}
        return full
