"""Points in time as operators write them: an age, or a date with or without a time."""

from __future__ import annotations

from datetime import UTC, datetime

from retentiond.config.duration import parse_duration
from retentiond.errors import UsageError


def epoch_ms(text: str, option: str, now_ms: int) -> int:
    """``2h`` is that long before ``now_ms``; a time without a zone is UTC. Raises `UsageError`."""
    age_ms = parse_duration(text)
    if age_ms is not None:
        return now_ms - age_ms
    try:
        moment = datetime.fromisoformat(text)
        return round(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{option} {text!a}: expected an age as in 2h, or a time as in 2026-02-01T12:00:00Z"
        ) from error
