"""The evidence of an explanation: a plan, its reading, and the groups that count.

The guard's code (`retentiond.act.rule`) says which groups count. This module says because of which
trace, in words, and since when a group has not moved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from retentiond.act.evidence import Evidence
from retentiond.act.rule import candidates, counting
from retentiond.disks.predictions import is_tiered
from retentiond.errors import KafkaUnavailable, UsageError
from retentiond.formatting import DAY_MS, HOUR_MS, MINUTE_MS
from retentiond.kafka.interface import Kafka
from retentiond.memory.readers import GroupOnTopic, RememberedReader
from retentiond.memory.remembered import Remembered
from retentiond.model import Failure, TopicPartition
from retentiond.snapshot import GroupTopic, Snapshot, partitions_of
from retentiond.tell.figures.group_answers import TopicReader
from retentiond.tell.report import CycleReport


@dataclass(frozen=True, slots=True)
class Ahead:
    """The first record that is dated in the future, and at least how far, in milliseconds."""

    offset: int
    by_ms: int


@dataclass(frozen=True, slots=True)
class ExplainedPlan:
    """A plan with its evidence. ``ahead``: records that are dated in the future."""

    report: CycleReport
    snapshot: Snapshot
    remembered: Remembered
    ahead: Mapping[TopicPartition, Ahead]


def evidence(
    kafka: Kafka,
    report: CycleReport,
    snapshot: Snapshot,
    remembered: Remembered,
    partitions: Collection[TopicPartition],
) -> ExplainedPlan:
    """The plan with evidence that only an explanation needs: it is read now, for these
    ``partitions``. A missing answer is no error."""
    ahead: Mapping[TopicPartition, Ahead] = {}
    try:
        # Of a tiered topic a look-up may find a lower offset, and would read remote storage.
        tiered = {topic.name for topic in snapshot.topics if is_tiered(topic)}
        local = [at for at in partitions if at.topic not in tiered]
        ahead = dated_ahead(kafka, local, snapshot.taken_at_ms)
    except KafkaUnavailable:
        pass  # the explanation says so, or leaves the subject out
    return ExplainedPlan(report, snapshot, remembered, ahead)


def refuse_unknown(topic: str, topics: Collection[str]) -> None:
    """Raises `UsageError` unless the topic is one of ``topics``."""
    if topic not in topics:
        raise UsageError(
            f"there is no topic {topic} in the cluster, or this principal may not DESCRIBE it; "
            "`retentiond plan` shows those that are"
        )


def partitions_at(
    snapshot: Snapshot, topic: str, partition: int | None
) -> tuple[TopicPartition, ...]:
    """All partitions of the topic, or only the given one.

    Raises `UsageError` for a partition that doesn't exist. Raises `KafkaUnavailable` if it may
    exist: a plan has only the first partition of a topic that can't be read.
    """
    readings = {reading.name: reading for reading in snapshot.topics}
    refuse_unknown(topic, readings)
    all_partitions = [at for at in partitions_of(snapshot) if at.topic == topic]
    wanted = tuple(at for at in all_partitions if partition in (None, at.partition))
    if not wanted and readings[topic].failure:
        raise KafkaUnavailable(
            f"topic {topic} can't be read ({readings[topic].failure}); see that its brokers are "
            "up, and that this principal may DESCRIBE it"
        )
    if not wanted:
        numbers = f"0 to {all_partitions[-1].partition}" if len(all_partitions) > 1 else "0"
        raise UsageError(f"topic {topic} has no partition {partition}, only {numbers}")
    return wanted


AHEAD_MS = (MINUTE_MS, HOUR_MS, DAY_MS, 30 * DAY_MS, 365 * DAY_MS)
"""How far ahead of the clock to look for records, step by step."""


def dated_ahead(
    kafka: Kafka, partitions: Iterable[TopicPartition], now_ms: int
) -> Mapping[TopicPartition, Ahead]:
    """The first record that is dated in the future, for the partitions that have one. A partition
    whose look-up fails is left out."""
    asked = list(partitions)
    first: dict[TopicPartition, Ahead] = {}
    for by_ms in AHEAD_MS:
        answers = kafka.offsets_at(dict.fromkeys(asked, now_ms + by_ms)) if asked else {}
        ahead = {
            at: Ahead(offset, by_ms)
            for at, offset in answers.items()
            if offset is not None and not isinstance(offset, Failure)
        }
        asked = [
            at
            for at, record in ahead.items()
            if at not in first or first[at].offset == record.offset
        ]
        first |= {at: ahead[at] for at in asked}
    return first


UNREADABLE = "can't be read, so it may read any topic"
REQUIRED = "is required by the policy"
SUBSCRIBED = "is subscribed to the topic"
SEEN = "was seen to read the topic"
REMEMBERED = "committed here before"
COMMITTED = "commits on the topic"


def topic_readers(
    snapshot: Snapshot, remembered: Remembered, topic: str
) -> tuple[tuple[TopicReader, ...], tuple[str, ...]]:
    """The groups that count on a topic, and those that would count if the policy didn't exclude
    them. Both are sorted by name."""
    evidence = Evidence(snapshot, [topic])
    all_candidates = candidates(evidence, topic)
    counting_groups = counting(evidence, topic, all_candidates)
    traces = _traces(snapshot, evidence, topic)
    known = remembered.about([topic]).commits
    readers = tuple(
        _topic_reader(
            evidence,
            group_id,
            traces[group_id],
            known.get(GroupOnTopic(group.name, topic, group.is_external)),
            now_ms=snapshot.taken_at_ms,
        )
        for group_id in counting_groups
        for group in (evidence.groups[group_id],)
    )
    return readers, tuple(sorted(all_candidates.difference(counting_groups)))


def _traces(snapshot: Snapshot, evidence: Evidence, topic: str) -> dict[str, str]:
    """The strongest trace of each group."""

    def groups_on_topic(readers: Iterable[GroupTopic]) -> Iterable[str]:
        return (
            snapshot.groups[reader.group].group_id
            for reader in readers
            if snapshot.topics[reader.topic].name == topic
        )

    return {
        **dict.fromkeys(evidence.unreadable, UNREADABLE),
        **dict.fromkeys(evidence.required_by(evidence.topics[topic].policy), REQUIRED),
        **dict.fromkeys(groups_on_topic(snapshot.remembered_readers), SEEN),
        **dict.fromkeys(groups_on_topic(snapshot.readers), SUBSCRIBED),
        **{group: REMEMBERED for at in evidence.partitions for group in evidence.remembered(at)},
        **{group: COMMITTED for at in evidence.partitions for group in evidence.commits(at)},
    }


def _topic_reader(
    evidence: Evidence, group_id: str, trace: str, last: RememberedReader | None, *, now_ms: int
) -> TopicReader:
    """A reader of the topic. ``last``: what is remembered of the group on the topic."""
    group = evidence.groups[group_id]
    committed: dict[int, int] = {}
    remembered: dict[int, int | None] = {}
    stands_since_ms: dict[int, int] = {}
    for at in evidence.partitions:
        now = evidence.commits(at).get(group_id)
        before = evidence.remembered(at).get(group_id)
        if now is not None:
            committed[at.partition] = now
        if before is None:
            continue  # seen for the first time: since when it stands there is not known
        remembered[at.partition] = before
        if now in (None, before):
            if last is not None and at.partition in last.moved_at_ms:
                stands_since_ms[at.partition] = last.moved_at_ms[at.partition]
        elif now is not None and now > before:  # it has moved since the last cycle
            stands_since_ms[at.partition] = now_ms
    problem = group.failure or group.problem
    return TopicReader(
        group_id=group_id,
        kind=group.kind,
        committed=committed,
        stands_since_ms=stands_since_ms,
        absent_since_ms=last.absent_since_ms if last and trace != COMMITTED else None,
        remembered=remembered,
        state=group.state,
        trace=trace,
        problem=None if problem is None else str(problem),
    )
