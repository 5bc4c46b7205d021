"""Figures as people read them."""

from __future__ import annotations

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def say_bytes(count: int) -> str:
    """``12.4 GiB``: at least two digits that count, and never more than four."""
    scaled, unit = float(count), 0
    while round(scaled) >= 1024 and unit < len(UNITS) - 1:
        scaled /= 1024
        unit += 1
    digits = 1 if unit and scaled < 99.95 else 0
    return f"{scaled:.{digits}f} {UNITS[unit]}"


def say_count(count: int) -> str:
    """``1,204,331``"""
    return f"{count:,}"


def say_share(part: int, whole: int) -> str:
    """``19%``. Some is never shown as none, nor as all."""
    if not whole or not part:
        return "0%"
    percent = 100 * part / whole
    if percent < 1:
        return "<1%"
    return "99%" if part < whole and percent > 99 else f"{percent:.0f}%"


def say_many(count: int, one: str, several: str | None = None) -> str:
    """``1 topic``, ``2,000 topics``"""
    return f"{say_count(count)} {one if count == 1 else several or one + 's'}"


def say_about(ms: int) -> str:
    """A duration by its largest unit, rounded down: ``3 days``, ``12 minutes``, ``0 seconds``."""
    for unit_ms, unit in ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute")):
        if ms >= unit_ms:
            return say_many(ms // unit_ms, unit)
    return say_many(ms // 1_000, "second")
