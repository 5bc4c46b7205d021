"""Spark's answer as rows of Python, and each decision in words: which bound, failure or missing
commit decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from retentiond.config import NoPolicy
from retentiond.formatting import (
    say_duration,
    say_foreign,
    say_many,
    say_negative_commit,
    say_reader,
    say_verb,
)
from retentiond.kafka.interface import AGE_UNKNOWN, EpochEnd
from retentiond.model import Reason, TopicPartition
from retentiond.reasons import CAUSED_BY_A_GROUP, sentence
from retentiond.snapshot import GroupReading, GroupTopic, PartitionReading, Snapshot, TopicReading


def detail(
    snapshot: Snapshot,
    at: PartitionReading,
    decided: Decided,
    group: GroupReading | None,
    replaced: Mapping[tuple[int, int | None], str],
) -> str:
    """A sentence about a row of `judged_partitions`. ``group`` is the binding group, and
    ``replaced`` is the result of `replaced_records`."""
    topic, binding = snapshot.topics[at.topic], decided.binding_group_id
    restores = binding is not None and GroupTopic(binding, at.topic) in snapshot.changelogs
    if decided.reason is Reason.NOT_DELETABLE and group and restores:
        who = say_reader(group.group_id, group.kind)
        return f"the topic is a changelog of {who}, which restores its state from it"
    if about_topic := _about_topic(topic, decided.reason):
        return about_topic
    commit = (decided.partition_id, binding)
    if decided.reason is Reason.COMMIT_BEYOND_END and commit in replaced:
        return replaced[commit]
    is_remembered_reader = (binding, at.topic) in snapshot.remembered_readers
    if group and decided.reason is Reason.GROUP_UNREADABLE and group.failure is None:
        partition = TopicPartition(topic.name, at.partition)
        negative = snapshot.negative_commits.get((group.group_id, partition))
        if negative is not None:
            return say_negative_commit(say_reader(group.group_id, group.reader_kind), negative)
    if group and (about_group := _about_group(group, at, decided, is_remembered_reader)):
        return about_group
    return _about_partition(snapshot, topic, at, decided)


def _about_topic(topic: TopicReading, reason: Reason) -> str | None:
    """Why every partition of the topic is held; None if the reason isn't the topic's."""
    policy = topic.policy
    if isinstance(policy, NoPolicy):
        return policy.sentence
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
            return sentence(reason)
    return None


def _about_group(
    group: GroupReading, at: PartitionReading, decided: Decided, is_remembered_reader: bool
) -> str | None:
    """What the binding group does or fails to do; None if something else is the bound.

    ``is_remembered_reader``: earlier cycles saw the group read the topic, without a commit."""
    name = say_reader(group.group_id, group.reader_kind)
    committed = decided.binding_committed_offset
    match decided.reason:
        case Reason.GROUP_UNREADABLE:
            why = group.failure or group.problem or "its commit on this partition"
            return f"{name} could not be read ({why})"
        case Reason.GROUP_VANISHED if is_remembered_reader:
            return f"{name} was seen to read the topic, has no commit on it, and is gone"
        case Reason.GROUP_WITHOUT_COMMIT if is_remembered_reader:
            return f"{name} was seen to read the topic and has no commit on it"
        case Reason.CONSUMED if committed == decided.cutoff == at.retention_offset:
            return "everything older than the consumed retention is consumed"
        case Reason.CONSUMED if committed == decided.cutoff:
            return f"{name} has consumed the least"
    if decided.reason not in CAUSED_BY_A_GROUP:
        return None
    return sentence(decided.reason, name, committed)


def replaced_records(
    snapshot: Snapshot, decided: Iterable[Decided]
) -> dict[tuple[int, int | None], str]:
    """Sentences for `Reason.COMMIT_BEYOND_END`, by the positions of partition and group: what
    became of the records that the group has read, or why its commit proves nothing. A group that
    has simply committed beyond the end has no sentence here."""
    held = [row.partition_id for row in decided if row.reason is Reason.COMMIT_BEYOND_END]

    commits = snapshot.commits
    is_doubtful = pc.or_(commits["is_replaced"], commits["is_stale"])
    is_held = pc.is_in(commits["partition_id"], value_set=pa.array(held, pa.int32()))
    sentences: dict[tuple[int, int | None], str] = {}
    for row in commits.filter(pc.and_(is_doubtful, is_held)).to_pylist():
        at, offset, epoch = row["partition_id"], row["offset"], row["leader_epoch"]
        group = snapshot.groups[row["group_id"]]
        name = say_reader(group.group_id, group.kind)
        if row["is_replaced"]:
            sentences[at, row["group_id"]] = (
                f"{name} has committed {offset} in leader epoch {epoch}, "
                f"{_say_epoch(epoch, snapshot.epoch_ends[at, epoch])}: what it has read was lost, "
                "and other records are in its place"
            )
        if row["is_stale"] and offset <= (snapshot.partitions[at].high_watermark or 0):
            sentences[at, row["group_id"]] = (
                f"{name} has committed {offset} before this log had so many records, or on "
                "an earlier topic of that name: it counts when it moves"
            )
    return sentences


def _say_epoch(epoch: int, end: EpochEnd) -> str:
    if end.end_offset is None:
        return "of which this log knows nothing"
    if end.known_epoch == epoch:
        return f"and in this log that epoch ended at {end.end_offset}"
    return (
        f"and this log knows none between epoch {end.known_epoch}, which ended at "
        f"{end.end_offset}, and a later one"
    )


def _about_partition(
    snapshot: Snapshot, topic: TopicReading, at: PartitionReading, decided: Decided
) -> str:
    policy = topic.policy
    if isinstance(policy, NoPolicy):
        raise TypeError("`_about_topic` speaks about topics without a policy")
    match decided.reason:
        case Reason.OFFSET_UNREADABLE:
            is_age_unknown = at.failure == AGE_UNKNOWN
            why = f"the partition's offsets could not be read ({at.failure or 'no answer'})"
            return AGE_UNKNOWN.message if is_age_unknown else why
        case Reason.GROUP_LIST_INCOMPLETE:
            problems = "; ".join((*snapshot.problems, *snapshot.hidden))
            return f"not every group may have been seen: {problems}"
        case Reason.NO_GROUP if not policy.counts_everybody:
            return (
                "no group that counts reads the topic (groups.only and groups.exclude say who does "
                "not), and readers that commit nothing can't be seen"
            )
        case Reason.TOO_FEW_GROUPS:
            every = decided.groups or 0
            groups = every if decided.own_groups is None else decided.own_groups
            count = say_verb(groups, "counts", "count")
            least = f"{policy.min_groups} must{say_foreign(every - groups)}"
            return f"{say_many(groups, 'group')} {count}, and at least {least}"
        case Reason.OPEN_TRANSACTION:
            return f"a transaction is open since offset {at.last_stable_offset}"
        case Reason.TOO_YOUNG:  # never under a retention of 0, which bounds nothing
            age = say_duration(at.retention_ms(policy))
            return f"the oldest record is dated less than {age} ago, or in the future"
        case Reason.CONSUMED if decided.cutoff == at.high_watermark:
            return "everything up to the end is consumed"
        case Reason.CONSUMED if decided.cutoff == at.last_stable_offset:
            return f"a transaction is open since offset {decided.cutoff}"
        case Reason.CONSUMED:
            return f"records from {decided.cutoff} on are too young"
    return sentence(decided.reason)


REASONS = {reason.value: reason for reason in Reason}


class Decided(NamedTuple):
    partition_id: int
    reason: Reason
    groups: int | None
    min_committed_offset: int | None
    cutoff: int | None
    binding_group_id: int | None
    binding_committed_offset: int | None
    records: int
    own_groups: int | None = None


def decided_rows(judged: pa.Table) -> Iterator[Decided]:
    """Sorted by partition. Without ``own_groups`` in the table, all groups are the policy's own."""
    names = [name for name in Decided._fields if name in judged.column_names]
    selected = judged.select(names).sort_by("partition_id")
    columns = (column.to_pylist() for column in selected.columns)
    for partition_id, reason, *rest in zip(*columns, strict=True):
        yield Decided(partition_id, REASONS[reason], *rest)
