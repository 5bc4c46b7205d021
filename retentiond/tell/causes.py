"""Why cycles fail, in one sentence, and when to log it."""

from __future__ import annotations

import re

from retentiond.errors import KafkaUnavailable, RetentiondError

FIGURES = re.compile(r"\d+")
"""Ignored when causes are compared: a time that differs by a second is no new cause."""


def sentence_of(error: BaseException) -> str:
    """The error's sentence on one line. A bug, which is no `RetentiondError`, is named by its class
    as well."""
    sentence = " ".join(str(error).split())
    if isinstance(error, RetentiondError) and sentence:
        return sentence
    return ": ".join(part for part in (type(error).__name__, sentence) if part)


class Causes:
    """The causes of one series of failures. A cause is logged when it first comes, and when it
    comes back after a cause of another kind. During an outage, connections are refused and
    unanswered in turn; a cause that comes back like that is logged only if it comes twice in a
    row."""

    def __init__(self) -> None:
        self._logged: set[str] = set()
        self._logged_last: str | None = None
        self._last: str | None = None
        self._last_group: tuple[type, str | None] | None = None
        self._not_logged = 0

    def repeats_before(self, error: BaseException) -> int | None:
        """None if the error need not be logged. Else how many failures were not logged since the
        last one that was."""
        kind = error.kind if isinstance(error, KafkaUnavailable) else None
        cause = kind or FIGURES.sub("#", sentence_of(error))
        group = (type(error), kind)
        is_back = cause in self._logged and group == self._last_group and cause != self._last
        is_known = cause == self._logged_last or is_back
        self._last, self._last_group = cause, group
        if is_known:
            self._not_logged += 1
            return None
        repeats, self._not_logged = self._not_logged, 0
        self._logged.add(cause)
        self._logged_last = cause
        return repeats
