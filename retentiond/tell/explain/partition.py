"""Why the partitions of a topic stand where they do: what an explanation adds to their answers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from retentiond.config import TopicPolicy
from retentiond.model import PlanRow
from retentiond.snapshot import PartitionReading, TopicReading
from retentiond.tell.answers import PartitionAnswer, SimilarPartitions, TopicAnswer
from retentiond.tell.explain.evidence import ExplainedPlan, doubts, stalled_by
from retentiond.tell.explain.freeing import cleaner_intervals, on_disk
from retentiond.tell.explain.readers import topic_readers
from retentiond.tell.group_answers import GroupAnswer, group_answers
from retentiond.tell.reasons import remedy


@dataclass(frozen=True, slots=True)
class Explanation:
    """One partition.

    ``end`` is the smaller of last stable offset and high watermark, None where one is unread.
    ``on_disk`` and ``ages`` are sentences; ``ages`` says what is proven of the time stamps.
    """

    answer: PartitionAnswer
    end: int | None
    on_disk: tuple[str, ...]
    ages: tuple[str, ...]

    @property
    def row(self) -> PlanRow:
        return self.answer.row


@dataclass(frozen=True, slots=True)
class TopicExplanation:
    """``answer``: of the partitions that are explained, and so are ``groups``: those that count.
    ``excluded`` are groups that would count but for the policy. ``tool_options``: as of
    `CycleReport`."""

    answer: TopicAnswer
    partitions: tuple[Explanation, ...]
    groups: tuple[GroupAnswer, ...]
    excluded: tuple[str, ...]
    tool_options: str = ""

    @property
    def reasons(self) -> tuple[SimilarPartitions, ...]:
        """The partitions of one verdict and reason, the most first."""
        return self.answer.alike(lambda row: row.reason)

    def remedy(self, row: PlanRow) -> str:
        return remedy(row, self.tool_options)


def explained(
    evidence: ExplainedPlan, topic: str, only: Collection[int] | None = None
) -> TopicExplanation:
    """A topic of the plan, ``only`` those partitions if given."""
    snapshot = evidence.snapshot
    position, reading = next(
        (at, each) for at, each in enumerate(snapshot.topics) if each.name == topic
    )
    readings = {each.partition: each for each in snapshot.partitions if each.topic == position}
    answer = next(each for each in evidence.report.answers.topics if each.topic == topic)
    answer = TopicAnswer(
        topic,
        tuple(each for each in answer.partitions if only is None or each.row.partition in only),
        answer.freed_bytes,
    )
    counting, excluded = topic_readers(snapshot, evidence.remembered, topic)
    return TopicExplanation(
        answer,
        tuple(
            _explained(evidence, each, reading, readings[each.row.partition])
            for each in answer.partitions
        ),
        group_answers(answer, counting),
        excluded,
        evidence.report.tool_options,
    )


def _explained(
    evidence: ExplainedPlan,
    answer: PartitionAnswer,
    topic: TopicReading,
    partition: PartitionReading,
) -> Explanation:
    ends = (partition.last_stable_offset, partition.high_watermark)
    clearing = cleaner_intervals(evidence.brokers, topic.config)
    return Explanation(
        answer,
        end=None if None in ends else min(each for each in ends if each is not None),
        on_disk=tuple(on_disk(answer, topic.config, clearing)),
        ages=_ages(evidence, answer, topic, partition),
    )


def _ages(
    evidence: ExplainedPlan,
    answer: PartitionAnswer,
    topic: TopicReading,
    partition: PartitionReading,
) -> tuple[str, ...]:
    policy = topic.policy
    if not isinstance(policy, TopicPolicy) or not policy.consumed_retention_ms:
        return ()
    retention_ms = policy.consumed_retention_ms
    if (ahead := evidence.ahead.get(answer.at)) is not None:
        return (stalled_by(ahead, retention_ms),)  # its arrival proves no more
    known = evidence.remembered.topics.get(topic.name)
    ends = known.ends if known is not None and known.topic_id == topic.topic_id else ()
    return doubts(partition, ends, retention_ms, evidence.snapshot.taken_at_ms)
