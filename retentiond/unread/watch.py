"""What a cycle finds out about what groups have not read; it remembers what it has asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from retentiond.collect.remembered import GroupOnTopic
from retentiond.collect.snapshot import Snapshot, partitions_of
from retentiond.errors import KafkaUnavailable
from retentiond.kafka.port import Kafka
from retentiond.model import Failure, PlanRow
from retentiond.unread.curve import TimeCurve
from retentiond.unread.kept import kept_by_one
from retentiond.unread.margins import bounds, questions, smallest, unread
from retentiond.unread.positions import Positions, positions

ROUNDS = 10
"""How often a cycle looks up times, one for each partition in doubt; the next cycle goes on."""


@dataclass(frozen=True, slots=True)
class UnreadReport:
    """``kept``: records by the group that alone keeps them; ``margins``: seconds until Kafka's
    forced retention reaches what the group has not read; ``problem``: why some may be missing."""

    kept: Mapping[GroupOnTopic, int] = field(default_factory=dict)
    margins: Mapping[GroupOnTopic, float] = field(default_factory=dict)
    problem: str | None = None


NOT_LOOKED = UnreadReport()


class UnreadWatch:
    """For one cluster. It asks little where it has asked before."""

    def __init__(self) -> None:
        self._curve = TimeCurve()

    def look(
        self,
        kafka: Kafka,
        snapshot: Snapshot,
        rows: Sequence[PlanRow],
        is_stopping: Callable[[], bool],
    ) -> UnreadReport:
        """After the deletions: nothing waits for it, and whatever goes wrong is only told.

        ``rows`` are the plan's, one for each partition of the snapshot.
        """
        try:
            where = positions(snapshot)
            kept = kept_by_one(snapshot, rows, where)
            return self._with_margins(UnreadReport(kept), kafka, snapshot, where, is_stopping)
        except Exception as error:  # noqa: BLE001 - it decides nothing, so it must stop nothing
            return UnreadReport(
                problem=f"what groups have not read can't be told ({type(error).__name__}: "
                f"{error}); please report this"
            )

    def _with_margins(
        self,
        report: UnreadReport,
        kafka: Kafka,
        snapshot: Snapshot,
        where: Positions,
        is_stopping: Callable[[], bool],
    ) -> UnreadReport:
        now_ms = snapshot.taken_at_ms
        names = partitions_of(snapshot)
        ends = [each.high_watermark or 0 for each in snapshot.partitions]
        topic_ids = (snapshot.topics[each.topic].topic_id for each in snapshot.partitions)
        self._curve.rearrange([*zip(topic_ids, names, strict=True)], np.array(ends, dtype=np.int64))
        rows = unread(snapshot, where)
        known = bounds(rows, self._curve, now_ms)
        silent: set[int] = set()
        for _ in range(ROUNDS):
            asked = {
                partition: time_ms
                for partition, time_ms in questions(rows, known, now_ms).items()
                if partition not in silent
            }
            if not asked or is_stopping():
                break
            try:
                answers = kafka.offsets_at({names[at]: time_ms for at, time_ms in asked.items()})
            except KafkaUnavailable as error:
                report = replace(report, problem=str(error))
                break
            for at, time_ms in asked.items():
                found = answers.get(names[at], NOT_ANSWERED)
                if isinstance(found, Failure):
                    silent.add(at)
                else:
                    self._curve.learn(at, time_ms, found, ends[at])
            known = bounds(rows, self._curve, now_ms)
        return replace(report, margins=smallest(rows, known))


NOT_ANSWERED = Failure("NOT_ANSWERED", "the broker left the partition out of its answer")
