"""The rule for one reading: every objection to a deletion.

    cutoff <= min(every relevant group's committed offset, retention offset, end)

Invariant: what is not known permits nothing. Every check raises the first `Objection` it finds. A
figure or a group that is missing, unreadable or contradictory is an objection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from retentiond.act.evidence import Evidence
from retentiond.config import NoPolicy, TopicPolicy
from retentiond.formatting import say_foreign, say_many, say_negative_commit, say_reader, say_verb
from retentiond.model import PlanRow, TopicPartition
from retentiond.snapshot import Integers, PartitionReading, TopicReading

NOBODY_READS = "no group reads the topic"


class Objection(Exception):
    """Why nothing can be deleted: a sentence, and the group that is the cause, if there is one."""

    def __init__(
        self, sentence: str, group_id: str | None = None, committed_offset: int | None = None
    ) -> None:
        self.sentence = sentence
        self.group_id = group_id
        self.committed_offset = committed_offset


def check_reading(evidence: Evidence) -> None:
    if evidence.problems:
        raise Objection(f"the listing of groups is not complete: {evidence.problems[0]}")
    if evidence.is_ambiguous:
        raise Objection("the reading contradicts itself: a group or a commit is in it twice")


def policy_of(evidence: Evidence, topic: str) -> TopicPolicy:
    reading = evidence.topics.get(topic)
    if reading is None:
        raise Objection("the topic is not there")
    return _policy_of(reading)


def _policy_of(reading: TopicReading) -> TopicPolicy:
    if isinstance(reading.policy, NoPolicy):
        raise Objection(f"the topic has no policy: {reading.policy.sentence}")
    return reading.policy


def relevant_groups(evidence: Evidence, topic: str) -> tuple[str, ...]:
    """The groups that count for an existing topic, sorted by name."""
    return counting(evidence, topic, candidates(evidence, topic))


def candidates(evidence: Evidence, topic: str) -> frozenset[str]:
    """Every group that has left a trace on the topic, that its policy requires, or that is
    unreadable and so may read any topic."""
    required = evidence.required_by(evidence.topics[topic].policy)
    return evidence.readers_of(topic).union(required, evidence.unreadable)


class TopicGroups(NamedTuple):
    """The relevant groups of a topic, sorted by name, and their `Evidence.commits_of_all`."""

    names: tuple[str, ...]
    committed: Mapping[TopicPartition, Integers]


def check_topic(evidence: Evidence, topic: str) -> TopicGroups:
    """The topic's `relevant_groups`: at least one, and all of them readable."""
    policy = policy_of(evidence, topic)
    check_settings(evidence.topics[topic])
    for group_id in counting(evidence, topic, evidence.restorers_of(topic)):
        raise Objection(
            f"the topic is a changelog of {_called(evidence, group_id)}, "
            "which restores its state from it",
            group_id,
        )
    if evidence.hidden and not policy.assumes_visible_groups:
        raise Objection(evidence.hidden[0])
    if (unreadable := evidence.first_unreadable(policy)) is not None:
        failure = evidence.unreadable[unreadable]  # the group's topics are unknown: it may read any
        who = _called(evidence, unreadable)
        raise Objection(f"{who} could not be read ({failure})", unreadable)
    read_or_required = evidence.readers_of(topic).union(evidence.required_by(policy))
    relevant = counting(evidence, topic, read_or_required)
    if not relevant:
        raise Objection(NOBODY_READS)
    _check_number(evidence, policy, relevant)
    return TopicGroups(relevant, evidence.commits_of_all(topic, relevant))


def counting(evidence: Evidence, topic: str, groups: Iterable[str]) -> tuple[str, ...]:
    """The groups without those that the topic's policy excludes, sorted by name. A topic without a
    policy excludes none."""
    return tuple(sorted(evidence.counting(groups, evidence.topics[topic].policy)))


def _check_number(evidence: Evidence, policy: TopicPolicy, relevant: tuple[str, ...]) -> None:
    """An external reader that another policy names stands for none of the groups that must count
    here."""
    external = [evidence.groups[at].name for at in evidence.external.intersection(relevant)]
    foreign = sum(not policy.names_external(name) for name in external)
    own = len(relevant) - foreign
    if own < policy.min_groups:
        groups, count = say_many(own, "group"), say_verb(own, "counts", "count")
        raise Objection(
            f"{groups} {count}, and at least {policy.min_groups} must{say_foreign(foreign)}"
        )


def check_settings(reading: TopicReading) -> None:
    """The topic's policy and its own settings allow deletion, whoever reads it."""
    policy = _policy_of(reading)
    if reading.failure is not None:
        raise Objection(f"the topic could not be read ({reading.failure})")
    if not policy.enabled:
        raise Objection("the policy does not enable the topic")
    if reading.recreated:
        raise Objection("the topic was recreated")
    if reading.is_internal:
        raise Objection("the topic is internal")
    if "delete" not in reading.cleanup_policy:
        raise Objection("the topic's cleanup.policy lacks delete")
    if "compact" in reading.cleanup_policy and not policy.allow_compacted:
        raise Objection("the topic is compacted, and its policy does not say allow_compacted")
    forced_ms, consumed_ms = reading.forced_retention_ms, policy.consumed_retention_ms
    if forced_ms is not None and consumed_ms > forced_ms:
        raise Objection(
            f"the consumed retention ({consumed_ms} ms) exceeds "
            f"the topic's retention.ms ({forced_ms})"
        )


def check_partition(
    evidence: Evidence,
    row: PlanRow,
    cutoff: int,
    groups: TopicGroups,
    before: Evidence | None = None,
) -> tuple[int, list[int]]:
    """The log start offset, and the committed offset of each group, that allow the row's cutoff.

    ``groups``: the result of `check_topic`. ``before``: an earlier reading, which only makes a
    sentence clearer.
    """
    at = row.topic_partition
    topic_id = evidence.topics[at.topic].topic_id
    if topic_id != row.topic_id:
        raise Objection(f"the topic's id is {topic_id}, and the plan's is {row.topic_id}")
    reading = evidence.partitions.get(at)
    if reading is None:
        raise Objection("the partition is not there")
    _check_retention(reading, policy_of(evidence, at.topic), row.consumed_retention_ms)
    log_start, high_watermark = _check_bounds(reading, cutoff)
    proven = groups.committed.get(at)
    if proven is not None and cutoff <= proven.min() and proven.max() <= high_watermark:
        return log_start, proven.tolist()
    on_replaced_records = evidence.commits_on_replaced_records(at)
    by_group = evidence.commits(at)
    for group_id in groups.names:
        committed = by_group.get(group_id)
        if committed is None:
            raise _without_commit(evidence, at, group_id)
        if committed < cutoff:
            earlier = None if before is None else before.commits(at).get(group_id)
            raise _too_low(evidence, group_id, committed, earlier, cutoff)
        if committed > high_watermark:
            raise Objection(
                f"{_called(evidence, group_id)} has committed {committed}, "
                f"beyond the high watermark {high_watermark}",
                group_id,
                committed,
            )
        if group_id in on_replaced_records:
            raise Objection(on_replaced_records[group_id], group_id, committed)
    raise Objection(NOBODY_READS)


def _check_retention(
    reading: PartitionReading, policy: TopicPolicy, retention_ms: int | None
) -> None:
    """Checks that plan and reading use the same retention, and that the policy allows it."""
    pressure_ms = reading.pressure_retention_ms
    if pressure_ms is not None and pressure_ms != policy.pressure_retention_ms:
        raise Objection(f"the policy has no pressure retention of {pressure_ms} ms")
    in_force_ms = policy.consumed_retention_ms if pressure_ms is None else pressure_ms
    if retention_ms != in_force_ms or in_force_ms > policy.consumed_retention_ms:
        raise Objection(
            f"the plan goes by a consumed retention of {retention_ms} ms, and the reading by "
            f"{in_force_ms} ms"
        )


def _check_bounds(reading: PartitionReading, cutoff: int) -> tuple[int, int]:
    """Checks the cutoff against the partition's offsets. Returns the log start offset and the high
    watermark."""
    if reading.failure is not None:
        raise Objection(f"the partition's offsets could not be read ({reading.failure})")
    log_start = reading.log_start_offset
    if log_start is None or log_start < 0:
        raise Objection("the log start offset is unreadable")
    if reading.high_watermark is None:
        raise Objection("the high watermark is unreadable")
    if reading.last_stable_offset is None:
        raise Objection("the last stable offset is unreadable")
    if reading.retention_offset is None:
        raise Objection("the retention offset is unreadable")
    if log_start >= cutoff:
        raise Objection(f"the log start offset is already {log_start}")
    end = min(reading.last_stable_offset, reading.high_watermark)
    if cutoff > end:
        raise Objection(f"the end is {end}, below the cutoff {cutoff}")
    if cutoff > reading.retention_offset:
        raise Objection(
            f"records from offset {reading.retention_offset} on are younger than the consumed "
            f"retention, and the cutoff is {cutoff}"
        )
    return log_start, reading.high_watermark


def _without_commit(evidence: Evidence, at: TopicPartition, group_id: str) -> Objection:
    who = _called(evidence, group_id)
    negative = evidence.negative_commits.get((group_id, at))
    if negative is not None:
        return Objection(say_negative_commit(who, negative), group_id)
    if group_id in evidence.commits(at):
        group = evidence.groups.get(group_id)
        why = f" ({group.problem})" if group and group.problem else ""
        return Objection(f"the commit of {who} could not be read{why}", group_id)
    remembered = evidence.remembered(at).get(group_id)
    if remembered is not None:
        sentence = f"{who} had committed {remembered} and has no commit any more"
        return Objection(sentence, group_id, remembered)
    if group_id in evidence.vanished:
        return Objection(f"{who} was seen to read the topic and is not there any more", group_id)
    return Objection(f"{who} has no commit on the partition", group_id)


def _too_low(
    evidence: Evidence, group_id: str, committed: int, before: int | None, cutoff: int
) -> Objection:
    who = _called(evidence, group_id)
    if before is not None and committed < before:
        sentence = f"{who} moved back from {before} to {committed}"
    else:
        sentence = f"{who} has committed {committed}, below the cutoff {cutoff}"
    return Objection(sentence, group_id, committed)


def _called(evidence: Evidence, group_id: str) -> str:
    """``group billing``, ``external reader etl``"""
    group = evidence.groups.get(group_id)
    return say_reader(group_id, group.kind if group else None)
