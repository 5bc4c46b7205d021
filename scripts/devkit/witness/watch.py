"""Judges what passes as it goes, for as long as somebody likes."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterable

from devkit.witness.frames import Exchange, Frame, Pairs
from devkit.witness.judge import MAX_AGE_S, Memory, Verdict, WordsFor, judge

ANSWER_S = 15.0
"""What was asked longer ago stays unanswered: three times as long as a request may take."""

INTRODUCTIONS = {"api_versions", "metadata", "describe_cluster"}
"""Their answers say whose a connection is, for as long as it lasts."""

IDLE_S = 3600.0
"""No connection lasts that carries nothing for so long: brokers close it after ten minutes."""


class Watch:
    """Of one cluster. ``verdict``: about all that was judged so far, also of earlier processes
    that called themselves the same."""

    def __init__(self, words_for: WordsFor) -> None:
        self.verdict = Verdict()
        self._words_for = words_for
        self._pairs, self._memory = Pairs(), Memory()
        self._recent: list[Exchange] = []
        self._introductions: defaultdict[int, dict[str, Exchange]] = defaultdict(dict)
        self._unjudged: list[Exchange] = []

    def look(self, frames: Iterable[Frame], *, is_last: bool = False) -> list[str]:
        """The faults of what came meanwhile. What waits for an answer is judged when that is there,
        unless this ``is_last``: whatever comes later rests on none of these answers."""
        now = time.monotonic()
        paired = self._pairs.add(frames, math.inf if is_last else now - ANSWER_S)
        self._recent += paired
        self._unjudged += paired
        until = min(now, self._pairs.open_since)
        introductions = (each for told in self._introductions.values() for each in told.values())
        known = {id(each): each for each in (*introductions, *self._recent)}
        ordered = sorted(known.values(), key=lambda each: each.asked)
        new = [each for each in self._unjudged if each.asked < until]
        self._unjudged = [each for each in self._unjudged if each.asked >= until]
        found = judge(ordered, self._words_for, self._memory, new, until)
        self.verdict.add(found)
        self._forget(now, math.inf if is_last else until - MAX_AGE_S - ANSWER_S)
        return found.faults

    def _forget(self, now: float, needed_from: float) -> None:
        for each in self._recent:
            if each.answered is not None:
                kind = each.api if each.api in INTRODUCTIONS else "the last of the others"
                self._introductions[each.connection][kind] = each
        for connection, told in list(self._introductions.items()):
            if max(each.asked for each in told.values()) < now - IDLE_S:
                del self._introductions[connection]
        self._recent = [each for each in self._recent if each.asked >= needed_from]
