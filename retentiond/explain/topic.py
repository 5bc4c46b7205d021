"""All partitions of a topic at a glance: by reason, and by group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from retentiond.explain.partition import Explanation
from retentiond.explain.standings import Standing
from retentiond.model import Reason, Verdict


@dataclass(frozen=True, slots=True)
class Alike:
    """The partitions of one verdict and reason. The sentences are the first one's."""

    verdict: Verdict
    reason: Reason
    explanations: tuple[Explanation, ...]

    @property
    def partitions(self) -> tuple[int, ...]:
        return tuple(each.row.partition for each in self.explanations)

    @property
    def records(self) -> int:
        return sum(each.row.records for each in self.explanations)

    @property
    def groups(self) -> tuple[str, ...]:
        """Those that bind any of them, sorted by name."""
        found = {each.row.binding_group for each in self.explanations}
        return tuple(sorted(group for group in found if group is not None))


@dataclass(frozen=True, slots=True)
class GroupOnTopic:
    """A relevant group over all partitions. ``standing`` is the one where it stood the longest
    with records yet to read, else any. ``lag`` is None where a partition's is not known; ``binds``
    are the partitions that it binds. ``kept_records`` stay on its account alone, and take about
    ``kept_bytes`` on the disks, None where a size is not known."""

    standing: Standing
    lag: int | None
    binds: tuple[int, ...]
    without_commit: tuple[int, ...]
    kept_records: int
    kept_bytes: int | None


def by_reason(explanations: Sequence[Explanation]) -> tuple[Alike, ...]:
    """The most partitions first."""
    alike: defaultdict[tuple[Verdict, Reason], list[Explanation]] = defaultdict(list)
    for each in explanations:
        alike[each.row.verdict, each.row.reason].append(each)
    found = [Alike(*key, tuple(these)) for key, these in alike.items()]
    return tuple(sorted(found, key=lambda each: (-len(each.explanations), each.reason)))


def by_group(explanations: Sequence[Explanation]) -> tuple[GroupOnTopic, ...]:
    """Those that bind the most partitions first."""
    of_group: defaultdict[str, list[tuple[Explanation, Standing]]] = defaultdict(list)
    for each in explanations:
        for standing in each.standings:
            of_group[standing.group_id].append((each, standing))
    found = [_on_topic(pairs) for pairs in of_group.values()]
    return tuple(sorted(found, key=lambda each: (-len(each.binds), each.standing.group_id)))


def _on_topic(pairs: Sequence[tuple[Explanation, Standing]]) -> GroupOnTopic:
    lags = [explanation.lag(standing) for explanation, standing in pairs]
    behind = [standing for (_, standing), lag in zip(pairs, lags, strict=True) if lag != 0]
    waiting = [each for each in behind if each.stands_since_ms is not None]
    kept = [(each, _kept_by(standing, each)) for each, standing in pairs]
    sizes = [each.size_of(records) for each, records in kept if records]
    return GroupOnTopic(
        standing=min(waiting, key=lambda each: each.stands_since_ms or 0)
        if waiting
        else pairs[0][1],
        lag=None if None in lags else sum(lag for lag in lags if lag is not None),
        binds=tuple(each.row.partition for each, standing in pairs if each.binds(standing)),
        without_commit=tuple(
            each.row.partition for each, standing in pairs if standing.committed_offset is None
        ),
        kept_records=sum(records for _, records in kept),
        kept_bytes=None if None in sizes else sum(size for size in sizes if size is not None),
    )


def _kept_by(standing: Standing, explanation: Explanation) -> int:
    return sum(
        records for keeper, records in explanation.kept.items() if keeper.group == standing.group_id
    )


def ranges(partitions: Sequence[int]) -> str:
    """``0-3, 7``, of ascending numbers."""
    runs: list[list[int]] = []
    for number in partitions:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
