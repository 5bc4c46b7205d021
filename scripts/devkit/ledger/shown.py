"""Whom the daemon has seen: no program that lists can protect a reader that no listing showed.

It is not asked for that. The bench knows when its members had partitions and what they had
committed, and when the daemon said that a cycle is over.
"""

import threading
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable

from devkit.ledger.record import now_ms

FOREVER = float("inf")
LISTED_AFTER_MS = 1000.0
"""A member that has its assignment is shown with it within this time."""


class Shown:
    """Times are epoch milliseconds by the bench's own clock. May be asked at any time.

    ``listening``: the daemon's cycles are of this cluster, as far as one knows.
    """

    def __init__(self) -> None:
        self.members: defaultdict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
        self.cycles: list[float] = []
        self.disturbances: list[float] = []
        self.listening = True
        self._since: dict[tuple[str, str], float] = {}
        self._lock = threading.Lock()

    def was_member(self, group: str, topic: str, since_ms: float, until_ms: float) -> None:
        """It had partitions of the topic all that time."""
        with self._lock:
            self.members[group, topic].append((since_ms, until_ms))

    def cycle(self, at_ms: float) -> None:
        """The daemon told that a cycle of it is over, and well."""
        if self.listening:
            with self._lock:
                self.cycles.append(at_ms)

    def disturb(self) -> None:
        """What was listed until now may not be from now on, or not to the daemon: nobody counts
        as shown by a cycle that ends after this and began before."""
        with self._lock:
            self.disturbances.append(now_ms())

    def since(self, group: str, topic: str, visible: Iterable[tuple[float, float]]) -> float | None:
        """When a whole undisturbed cycle was over in which the group was all the time a member
        with partitions of the topic, or ``visible`` by its commits there. It stays so."""
        with self._lock:
            if (group, topic) not in self._since:
                spans = [*self.members[group, topic], *visible]
                found = [each for each in map(self._whole_cycle, spans) if each is not None]
                if not found:
                    return None
                self._since[group, topic] = min(found)
            return self._since[group, topic]

    def _whole_cycle(self, span: tuple[float, float]) -> float | None:
        """The end of the first one that began and ended in it."""
        since_ms, until_ms = span
        first = bisect_right(self.cycles, since_ms + LISTED_AFTER_MS)
        for before, end in zip(self.cycles[first:], self.cycles[first + 1 :], strict=False):
            if end > until_ms:
                return None
            began = max(since_ms, before - LISTED_AFTER_MS)  # it was over before it was heard of
            if not any(began <= each <= end for each in self.disturbances):
                return end
        return None
