"""What a group can claim at a moment: the offsets that its commits may have stood at."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from devkit.ledger.book import Commit

LONGEST_COMMIT_MS = 120_000.0
"""No client of the bench waits longer for an answer, so none asked earlier is still on its way."""


class Claims:
    """One group's commits on one partition.

    A commit counts from when it was asked for until another one, asked for after its answer,
    is acknowledged. Commits overlap where their order at the coordinator can't be told.
    """

    def __init__(self, commits: Sequence[Commit]) -> None:
        self._commits = sorted(commits, key=lambda each: each.sent_ms)
        self._sent_ms = [each.sent_ms for each in self._commits]

    @property
    def start(self) -> int | None:
        """The offset of the first acknowledged commit: what lies below was never claimed."""
        return next((each.offset for each in self._commits if each.acknowledged), None)

    def at(self, since_ms: float, until_ms: float) -> list[int]:
        """The offsets that may have stood at some moment in between, those two included.

        Empty when no commit was acknowledged before: then the group claims nothing yet.
        """
        anchor_sent_ms = self._last_acknowledged(since_ms)
        if anchor_sent_ms is None:
            return []
        offsets = []
        for each in self._back_from(until_ms):
            if each.sent_ms < anchor_sent_ms - LONGEST_COMMIT_MS:
                break
            if each.ended_ms >= anchor_sent_ms:  # else it was replaced by that one before
                offsets.append(each.offset)
        return offsets

    def _last_acknowledged(self, before_ms: float) -> float | None:
        """When the last one was asked for that was answered by then."""
        for each in self._back_from(before_ms):
            if each.acknowledged and each.ended_ms <= before_ms:
                return each.sent_ms
        return None

    def _back_from(self, at_ms: float) -> Iterator[Commit]:
        """All that were asked for by then, the last one first."""
        for index in range(bisect_right(self._sent_ms, at_ms) - 1, -1, -1):
            yield self._commits[index]
