"""Targets that are worked out, and what deleting up to them would do.

Each bound only ever lowers the target. It starts from the end (the last stable offset, at most
the high watermark), which is read *before* the look-ups by time and after the commits: "no
record is younger" (Kafka's -1) means that end, and never what was written since.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from retentiond.errors import KafkaUnavailable, UsageError
from retentiond.kafka.interface import AGE_NOT_YET_KNOWN, OffsetBound, TopicConfig, TopicDescription
from retentiond.model import Commit, Failure, TopicPartition
from retentiond.tools.delete_records.partitions import Item, TopicSource, describe


class LookUps(TopicSource, Protocol):
    """The part of `retentiond.kafka.interface.Kafka` that is asked here."""

    def topic_configs(self, names: Collection[str]) -> Mapping[str, TopicConfig | Failure]: ...

    def offsets(
        self, partitions: Collection[TopicPartition], bound: OffsetBound
    ) -> Mapping[TopicPartition, int | Failure]: ...

    def offsets_at(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Failure | None]: ...

    def commits(self, groups: Collection[str]) -> Mapping[str, Sequence[Commit] | Failure]: ...


CommitsByGroup = Mapping[str, Mapping[TopicPartition, int | None]]
"""By group; None where a commit could not be read."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What may go: records before ``before_ms`` (epoch), below every commit of each group.

    Without a group, or without a time, there is no such bound; without both, no deletion.
    """

    before_ms: int | None = None
    commits: CommitsByGroup = field(default_factory=dict)


def read_commits(kafka: LookUps, groups: Collection[str]) -> CommitsByGroup:
    """Of each group. Raises `KafkaUnavailable` if one can't be read."""
    answers = kafka.commits(groups)
    found: dict[str, dict[TopicPartition, int | None]] = {}
    for group in groups:
        answer = answers.get(group, Failure("NO_ANSWER", "its coordinator does not mention it"))
        if isinstance(answer, Failure):
            raise KafkaUnavailable(
                f"the commits of group {group!a} can't be read ({answer}); nothing was deleted: "
                "try again, or see to DESCRIBE on the group"
            )
        found[group] = {TopicPartition(each.topic, each.partition): each.offset for each in answer}
    return found


def work_out(kafka: LookUps, topics: Sequence[str], bounds: Bounds) -> list[Item]:
    """An item for each partition of the topics. Raises `UsageError`, `KafkaUnavailable`."""
    if bounds.before_ms is None and not bounds.commits:
        raise ValueError("without a bound everything would go")
    items = _all_partitions(kafka, topics)
    partitions = [item.at for item in items]
    starts = kafka.offsets(partitions, OffsetBound.LOG_START)
    high = kafka.offsets(partitions, OffsetBound.HIGH_WATERMARK)
    stable = kafka.offsets(partitions, OffsetBound.LAST_STABLE)
    times: Mapping[TopicPartition, int | Failure | None] = {}
    if bounds.before_ms is not None:
        times = _offsets_at(kafka, dict.fromkeys(partitions, bounds.before_ms))
    return [
        _bounded(
            item,
            bounds.commits,
            start=starts[item.at],
            high=high[item.at],
            stable=stable[item.at],
            by_time=times.get(item.at),
        )
        for item in items
    ]


def _offsets_at(
    kafka: LookUps, times_ms: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | Failure | None]:
    """As in the interface. A topic whose configuration can't be read may be in remote storage,
    where an answer proves something only if the client knows that it is."""
    configs = kafka.topic_configs({at.topic for at in times_ms})
    found: dict[TopicPartition, int | Failure | None] = {
        at: config for at in times_ms if isinstance(config := configs[at.topic], Failure)
    }
    asked = [at for at in times_ms if at not in found]
    while asked:
        found |= kafka.offsets_at({at: times_ms[at] for at in asked})
        waiting = [at for at in asked if _waits(found[at])]
        if len(waiting) == len(asked):
            break
        asked = waiting
    return found


def _waits(answer: int | Failure | None) -> bool:
    """For its turn: look-ups in remote storage are made a few at a time."""
    return isinstance(answer, Failure) and answer.code == AGE_NOT_YET_KNOWN


def _all_partitions(kafka: LookUps, topics: Sequence[str]) -> list[Item]:
    items = []
    for name, topic in describe(kafka, list(dict.fromkeys(topics))).items():
        if not isinstance(topic, TopicDescription):
            raise UsageError(f"topic {name!a}: {topic}; nothing was deleted")
        items += [Item(name, each, None, topic_id=topic.topic_id) for each in topic.partitions]
    return items


def _bounded(
    item: Item,
    commits_by_group: CommitsByGroup,
    *,
    start: int | Failure,
    high: int | Failure,
    stable: int | Failure,
    by_time: int | Failure | None,
) -> Item:
    if isinstance(start, Failure):
        return item.failed(f"its log start offset can't be read ({start})")
    if isinstance(high, Failure):
        return item.failed(f"its high watermark can't be read ({high})")
    if isinstance(stable, Failure):
        return item.failed(f"its last stable offset can't be read ({stable})")
    if isinstance(by_time, Failure):
        return item.failed(f"its offset by time can't be read ({by_time})")
    seen = replace(item, log_start_offset=start, high_watermark=high)
    end = min(stable, high)
    target = end if by_time is None else min(end, by_time)
    for group, commits in commits_by_group.items():
        committed = commits.get(item.at)
        if committed is None:
            what = "its commit can't be read" if item.at in commits else "it has no commit here"
            return seen.left_out(f"group {group!a}: {what}")
        if committed > high:
            return seen.left_out(
                f"group {group!a}: its commit {committed} is beyond the high watermark {high}"
            )
        target = min(target, committed)
    if target <= start:
        return seen.left_out(f"nothing to delete: it begins at {start}, and {target} is the bound")
    return replace(seen, target=target)


def preview(kafka: LookUps, items: Sequence[Item]) -> list[Item]:
    """The pending items with log start offset and high watermark, where they can be read."""
    pending = [item.at for item in items if item.is_pending]
    if not pending:
        return list(items)
    starts = kafka.offsets(pending, OffsetBound.LOG_START)
    ends = kafka.offsets(pending, OffsetBound.HIGH_WATERMARK)
    return [
        replace(
            item,
            log_start_offset=_known(starts[item.at]),
            high_watermark=_known(ends[item.at]),
        )
        if item.is_pending
        else item
        for item in items
    ]


def refuse_hopeless(items: Sequence[Item]) -> list[Item]:
    """In a dry run, where no broker is asked: what one would refuse, or can't be seen."""
    return [_refused(item) if item.is_pending else item for item in items]


def _refused(item: Item) -> Item:
    if item.log_start_offset is None or item.high_watermark is None:
        return item.failed("its offsets can't be read now; see to its leader")
    if isinstance(item.target, int) and item.target > item.high_watermark:
        return item.failed(
            f"OFFSET_OUT_OF_RANGE: offset {item.target} is beyond the high watermark "
            f"{item.high_watermark}; nothing would be deleted"
        )
    return item


def _known(answer: int | Failure) -> int | None:
    return None if isinstance(answer, Failure) else answer
