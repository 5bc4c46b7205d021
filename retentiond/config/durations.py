"""Durations: ``90s`` in the file, ``1 minute 30 seconds`` in a sentence, milliseconds inside."""

from __future__ import annotations

import re

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

_UNITS_MS = {"d": DAY_MS, "h": HOUR_MS, "m": MINUTE_MS, "s": SECOND_MS, "ms": 1}
_WORDS = {"d": "day", "h": "hour", "m": "minute", "s": "second", "ms": "millisecond"}
DURATION = re.compile(r"(0|[1-9][0-9]{0,17})(ms|s|m|h|d)")


def parse_duration(text: str) -> int | None:
    """Milliseconds of ``500ms``, ``1s``, ``5m``, ``6h`` or ``7d``; None for anything else."""
    written = DURATION.fullmatch(text)
    return int(written[1]) * _UNITS_MS[written[2]] if written else None


def format_duration(ms: int) -> str:
    """The shortest text that `parse_duration` reads back as ``ms`` (0 or more)."""
    unit = next(unit for unit, unit_ms in _UNITS_MS.items() if ms % unit_ms == 0)
    return f"{ms // _UNITS_MS[unit]}{unit}"


def say_duration(ms: int) -> str:
    """``ms`` (1 or more) in words, the largest units first: ``1 day 12 hours``."""
    words = []
    for unit, unit_ms in _UNITS_MS.items():
        count, ms = divmod(ms, unit_ms)
        if count:
            words.append(f"{count} {_WORDS[unit]}{'s' if count > 1 else ''}")
    return " ".join(words)
