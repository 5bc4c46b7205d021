"""Why records of a topic go or stay: an explanation, and the same as JSON.

An explanation has the plan's answers, the groups that count, and sentences about the disks and the
timestamps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from retentiond.config import TopicPolicy
from retentiond.disks.predictions import is_tiered
from retentiond.disks.pressure import say_log_dir
from retentiond.fields import API, EXPLAINED, PARTITION, document_of, rfc3339, rfc3339_or_none
from retentiond.formatting import say_about, say_bytes
from retentiond.kafka.interface import TopicConfig
from retentiond.model import Outcome, PlanRow, Reason, Verdict
from retentiond.snapshot import PartitionReading, TopicReading
from retentiond.state.audit_records import LastRequests
from retentiond.tell.explained_evidence import Ahead, ExplainedPlan, topic_readers
from retentiond.tell.figures.answers import PartitionAnswer, SimilarPartitions, TopicAnswer
from retentiond.tell.figures.group_answers import GroupAnswer, group_answers
from retentiond.tell.figures.pressure import say_pressure_on, say_pressure_on_topic
from retentiond.tell.reasons import remedy
from retentiond.tell.report import outcome_document, partition_document


@dataclass(frozen=True, slots=True)
class Explanation:
    """A partition explained.

    ``end`` is the smaller of last stable offset and high watermark; None if one is not known.
    ``on_disk`` and ``ages`` are sentences; ``ages`` is about records that are dated in the future.
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
    """A topic explained. ``answer`` and ``groups`` (those that count) are about the explained
    partitions. ``excluded``: groups that would count if the policy did not exclude them.
    ``is_tiered``: it has remote storage. ``under_pressure``: a sentence for each log directory
    under pressure that has a replica.
    ``tool_options``: as in `CycleReport`. ``last_requests``: the latest requests, if they went
    wrong. ``required``: who requires a group that binds, by its id (`Config.said_of_required`).
    ``age_ms``: of the daemon's last cycle, which made the plan; None: the cluster was read for
    this."""

    answer: TopicAnswer
    partitions: tuple[Explanation, ...]
    groups: tuple[GroupAnswer, ...]
    excluded: tuple[str, ...]
    is_tiered: bool = False
    under_pressure: tuple[str, ...] = ()
    tool_options: str = ""
    last_requests: LastRequests | None = None
    required: Mapping[str, str] = field(default_factory=dict)
    age_ms: int | None = None

    @property
    def reasons(self) -> tuple[SimilarPartitions, ...]:
        """The partitions, grouped by reason, the largest group first."""
        return self.answer.alike(lambda row: row.reason)

    def remedy(self, row: PlanRow) -> str:
        if row.verdict is Verdict.DELETE and self.last_requests is not None:
            return REQUESTED_AGAIN
        said = remedy(row, self.tool_options)
        required = self.required.get(row.binding_group or "")
        if row.reason is not Reason.GROUP_VANISHED or required is None:
            return said
        return f"{said} But {required}."


REQUESTED_AGAIN = (
    "The next cycle requests it again. The error of the last requests says what keeps going wrong; "
    "`retentiond audit` shows each."
)


def say_last_requests(last: LastRequests) -> str:
    """Such as: The last 5 requests failed: ..., since 2026-11-25T02:04:00.000Z."""
    which = "request" if last.count == 1 else f"{last.count} requests"
    if last.outcome is Outcome.FAILED:
        became = "failed"
    else:
        became = "has an unknown outcome" if last.count == 1 else "have unknown outcomes"
    error, since = last.error or "no error was told", rfc3339(last.since_ms)
    return f"The last {which} {became}: {error}, since {since}."


def explained(
    evidence: ExplainedPlan, topic: str, only: Collection[int] | None = None
) -> TopicExplanation:
    """Explains a topic of the plan, or ``only`` these partitions of it."""
    snapshot = evidence.snapshot
    position, reading = next(
        (at, known) for at, known in enumerate(snapshot.topics) if known.name == topic
    )
    readings = {
        partition.partition: partition
        for partition in snapshot.partitions
        if partition.topic == position
    }
    answer = next(shown for shown in evidence.report.answers.topics if shown.topic == topic)
    answer = TopicAnswer(
        topic,
        tuple(
            partition
            for partition in answer.partitions
            if only is None or partition.row.partition in only
        ),
    )
    counting, excluded = topic_readers(snapshot, evidence.remembered, topic)
    return TopicExplanation(
        answer,
        tuple(
            _partition_explained(evidence, partition, reading, readings[partition.row.partition])
            for partition in answer.partitions
        ),
        group_answers(answer, counting),
        excluded,
        is_tiered(reading),
        tuple(_pressure_on_topic(answer, reading)),
        evidence.report.tool_options,
    )


def _partition_explained(
    evidence: ExplainedPlan,
    answer: PartitionAnswer,
    topic: TopicReading,
    partition: PartitionReading,
) -> Explanation:
    ends = (partition.last_stable_offset, partition.high_watermark)
    return Explanation(
        answer,
        end=None if None in ends else min(end for end in ends if end is not None),
        on_disk=(*on_disk(answer, topic.config), *_under_pressure(answer, topic)),
        ages=_about_time_stamps(evidence, answer, topic),
    )


def _pressure_on_topic(answer: TopicAnswer, topic: TopicReading) -> Iterator[str]:
    rows = [partition.row for partition in answer.partitions]
    for relief in answer.partitions[0].disk.under_pressure:
        is_here = not relief.sizes.keys().isdisjoint(row.topic_partition for row in rows)
        if is_here and isinstance(topic.policy, TopicPolicy):
            yield say_pressure_on_topic(rows, topic.policy, relief)


def _under_pressure(answer: PartitionAnswer, topic: TopicReading) -> Iterator[str]:
    """A sentence for each log directory under pressure that has a replica, unless the row's own
    sentence names it."""
    segment_bytes = topic.config.segment_bytes if topic.config else None
    for relief in answer.disk.under_pressure:
        is_said = say_log_dir(relief.log_dir) in answer.why
        if answer.at in relief.sizes and isinstance(topic.policy, TopicPolicy) and not is_said:
            yield say_pressure_on(answer.row, topic.policy, segment_bytes, relief)


def _about_time_stamps(
    evidence: ExplainedPlan, answer: PartitionAnswer, topic: TopicReading
) -> tuple[str, ...]:
    policy = topic.policy
    if not isinstance(policy, TopicPolicy) or not policy.consumed_retention_ms:
        return ()
    ahead = evidence.ahead.get(answer.at)
    return () if ahead is None else (stalled_by(ahead, policy.consumed_retention_ms),)


def stalled_by(ahead: Ahead, consumed_retention_ms: int) -> str:
    """A sentence that says what a record dated in the future means for its partition."""
    return (
        f"The record at offset {ahead.offset} is dated more than {say_about(ahead.by_ms)} in the "
        f"future: no cutoff passes it until its timestamp is {say_about(consumed_retention_ms)} "
        "old. Correct the producer's clock, or have brokers stamp the topic's records "
        "(message.timestamp.type=LogAppendTime); once it is consumed, "
        "retentiond delete-records --offset-json-file deletes past it."
    )


TIERED = (
    "The topic is tiered (remote.storage.enable): what it has in remote storage is deleted, too, "
    "but not counted."
)

WHEN_IT_IS_FREED = (
    "The brokers free it when they have next looked at their logs "
    "(log.retention.check.interval.ms) and waited (file.delete.delay.ms)."
)


def on_disk(answer: PartitionAnswer, config: TopicConfig | None) -> Iterator[str]:
    """Sentences about the partition's size, what its deletion frees and when, and what is stuck."""
    if answer.size_bytes is None:
        why = f": {'; '.join(answer.disk.problems)}" if answer.disk.problems else ""
        yield f"How much it takes on disk is not known{why}."
    else:
        yield f"It takes {say_bytes(answer.size_bytes)} on the disks of all replicas."
    if config is not None and config.remote_storage:
        yield TIERED
    if answer.row.verdict is Verdict.DELETE:
        yield _freed_by_deletion(answer.predicted_bytes, config)
        yield WHEN_IT_IS_FREED
    else:
        yield "As it stands, nothing is deleted, and nothing is freed."
    for stuck in answer.stuck:
        yield stuck.sentence


def _freed_by_deletion(frees_bytes: int | None, config: TopicConfig | None) -> str:
    if frees_bytes is None:
        return "What deleting up to the cutoff would free is not known."
    rule = (
        "a broker frees whole segments that are deleted to their last record, and never the one "
        f"that it writes to{_segment_settings(config)}"
    )
    if not frees_bytes:
        return f"Deleting up to the cutoff frees no disk space yet: {rule}."
    return f"Deleting up to the cutoff frees about {say_bytes(frees_bytes)}: {rule}."


def _segment_settings(config: TopicConfig | None) -> str:
    if config is None or config.segment_bytes is None or config.segment_ms is None:
        return ""
    return (
        f"; a segment holds up to {say_bytes(config.segment_bytes)}, or what arrives in "
        f"{say_about(config.segment_ms)} (segment.bytes, segment.ms)"
    )


def topic_document(explained: TopicExplanation) -> dict[str, Any]:
    return {
        **document_of(explained.answer, API),
        **_last_requests_document(explained),
        "reasons": [_similar_document(similar, explained) for similar in explained.reasons],
        "groups": [document_of(group, EXPLAINED) for group in explained.groups],
        "partitions": [
            explanation_document(explained, partition) for partition in explained.partitions
        ],
    }


def _last_requests_document(explained: TopicExplanation) -> dict[str, Any]:
    """Only where they went wrong."""
    last = explained.last_requests
    return {} if last is None else {"last_requests": document_of(last)}


def explanation_document(explained: TopicExplanation, of: Explanation) -> dict[str, Any]:
    return {
        **partition_document(of.answer),
        **_last_requests_document(explained),
        "end": of.end,
        "why": of.answer.why,
        "remedy": explained.remedy(of.row),
        "on_disk": list(of.on_disk),
        "timestamps": list(of.ages),
        "kept_by": [document_of(kept, PARTITION) for kept in of.answer.kept],
        "relevant_groups": [
            _partition_group_document(answer, of.row)
            for answer in sorted(explained.groups, key=lambda group: group.group_id)
        ],
        "excluded_groups": list(explained.excluded),
        **({} if explained.age_ms is None else outcome_document(of.answer.outcome)),
    }


def _similar_document(alike: SimilarPartitions, explained: TopicExplanation) -> dict[str, Any]:
    return {
        "verdict": alike.first.verdict.value,
        "reason": alike.first.reason.value,
        "partitions": list(alike.numbers),
        "records": alike.records,
        "binding_groups": list(alike.binding_groups),
        "why": alike.partitions[0].why,
        "remedy": explained.remedy(alike.first),
    }


def _partition_group_document(group: GroupAnswer, row: PlanRow) -> dict[str, Any]:
    reader, number = group.reader, row.partition
    return {
        **document_of(reader, PARTITION),
        "committed_offset": reader.committed.get(number),
        "remembered_offset": reader.remembered.get(number),
        "lag": group.lags[number],
        "stands_since": rfc3339_or_none(reader.stands_since_ms.get(number)),
        "binds": number in group.binds,
    }
