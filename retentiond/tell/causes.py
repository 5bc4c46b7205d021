"""Why cycles fail, in one sentence, and when that is news."""

from __future__ import annotations

import re

from retentiond.errors import KafkaUnavailable, RetentiondError

FIGURES = re.compile(r"\d+")
"""A time that differs by a second is no other cause."""


def sentence_of(error: BaseException) -> str:
    """The sentence of one of retentiond's own errors; a bug is named by its class as well."""
    said = " ".join(str(error).split())
    if isinstance(error, RetentiondError) and said:
        return said
    return ": ".join(part for part in (type(error).__name__, said) if part)


class Causes:
    """The causes of one series of failures. A cause is news when it first comes, and when it comes
    back after one of another kind. During an outage connections are refused and unanswered in
    turn: such a cause that comes back is news only if it comes twice in a row."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._in_force: str | None = None  # what was told last
        self._last: str | None = None
        self._group: tuple[type, str | None] | None = None
        self._untold = 0

    def repeats_before(self, error: BaseException) -> int | None:
        """None: it is no news. Else how many failures nobody was told of since the last news."""
        kind = _kind(error)
        cause = kind or FIGURES.sub("#", sentence_of(error))
        group = (type(error), kind)
        is_back = cause in self._told and group == self._group and cause != self._last
        is_known = cause == self._in_force or is_back
        self._last, self._group = cause, group
        if is_known:
            self._untold += 1
            return None
        repeats, self._untold = self._untold, 0
        self._told.add(cause)
        self._in_force = cause
        return repeats


def _kind(error: BaseException) -> str | None:
    """The same for as long as the same thing is wrong, whatever else the sentence tells."""
    return error.kind if isinstance(error, KafkaUnavailable) else None
