"""Each decision in words: what exactly bounds, failed or is missing."""

from __future__ import annotations

from retentiond.collect.snapshot import GroupReading, PartitionReading, Snapshot, TopicReading
from retentiond.config import PolicyConflict
from retentiond.config.duration import say_duration
from retentiond.model import Reason
from retentiond.plan.decided import Decided


def detail(
    snapshot: Snapshot, at: PartitionReading, decided: Decided, group: GroupReading | None
) -> str:
    """A sentence about a row of `judged_partitions`. ``group`` is the one that binds."""
    topic = snapshot.topics[at.topic]
    if of_topic := _of_topic(topic, decided.reason):
        return of_topic
    if group and (of_group := _of_group(group, at, decided)):
        return of_group
    return _of_partition(snapshot, topic, at, decided)


def _of_topic(topic: TopicReading, reason: Reason) -> str | None:
    """What holds every partition of the topic."""
    policy = topic.policy
    if isinstance(policy, PolicyConflict):
        return f"{' and '.join(policy.sources)} treat the topic differently"
    match reason:
        case Reason.NOT_DELETABLE if topic.is_internal:
            return "internal topics are never touched"
        case Reason.NOT_DELETABLE:
            return (
                f"cleanup.policy is {','.join(sorted(topic.cleanup_policy)) or 'empty'}: "
                "only topics with delete are touched, with compact only under allow_compacted"
            )
        case Reason.OFFSET_UNREADABLE if topic.failure:
            return f"the topic could not be read ({topic.failure})"
        case Reason.RETENTION_EXCEEDS_FORCED:
            return (
                f"the consumed retention ({policy.consumed_retention_ms} ms) is longer than "
                f"the topic's retention.ms ({topic.forced_retention_ms})"
            )
        case Reason.TOPIC_RECREATED:
            return "the topic has another id than before: what was known of it is void"
    return None


def _of_group(group: GroupReading, at: PartitionReading, decided: Decided) -> str | None:
    """What the group that binds does, or fails to do; None where something else is the bound."""
    name = f"group {group.group_id}"
    committed = decided.binding_committed_offset
    match decided.reason:
        case Reason.GROUP_UNREADABLE:
            why = group.failure or group.trouble or "its commit on this partition"
            return f"{name} could not be read ({why})"
        case Reason.GROUP_VANISHED:
            return f"{name} once committed here and has no commit any more"
        case Reason.REQUIRED_GROUP_MISSING:
            return f"{name} is required and has never committed on the topic"
        case Reason.GROUP_WITHOUT_COMMIT:
            return f"{name} counts for the topic and has no commit on this partition"
        case Reason.COMMIT_BEYOND_END:
            return f"{name} has committed {committed}, beyond the high watermark"
        case Reason.COMMIT_REWOUND:
            return f"{name} went back to {committed}, below the log start offset"
        case Reason.NOT_CONSUMED:
            return f"{name} has consumed nothing from the log start offset on"
        case Reason.CONSUMED if committed == decided.cutoff == at.retention_offset:
            return "everything older than the consumed retention is consumed"
        case Reason.CONSUMED if committed == decided.cutoff:
            return f"{name} has consumed the least"
    return None


def _of_partition(
    snapshot: Snapshot, topic: TopicReading, at: PartitionReading, decided: Decided
) -> str:
    policy = topic.policy
    assert not isinstance(policy, PolicyConflict)  # `_of_topic` has spoken about those
    match decided.reason:
        case Reason.OFFSET_UNREADABLE:
            return f"the partition's offsets could not be read ({at.failure or 'no answer'})"
        case Reason.EMPTY:
            return "there is no record"
        case Reason.GROUP_LIST_INCOMPLETE:
            problems = "; ".join((*snapshot.problems, *snapshot.hidden))
            return f"not every group may have been seen: {problems}"
        case Reason.NO_GROUP:
            return "no group reads the topic"
        case Reason.TOO_FEW_GROUPS:
            return f"{decided.groups} groups count, and at least {policy.min_groups} must"
        case Reason.OPEN_TRANSACTION:
            return f"a transaction is open since offset {at.last_stable_offset}"
        case Reason.TOO_YOUNG:  # never under a retention of 0, which bounds nothing
            age = say_duration(policy.consumed_retention_ms)
            return f"the oldest record is dated less than {age} ago, or in the future"
        case Reason.CONSUMED if decided.cutoff == at.retention_offset:
            return f"records from {decided.cutoff} on are too young"
        case Reason.CONSUMED if decided.cutoff != at.high_watermark:
            return f"a transaction is open since offset {decided.cutoff}"
    return "everything up to the end is consumed"
