"""Targets that are worked out: records before a time, records that groups have consumed.

Each bound only ever lowers the target. It starts from the end (the last stable offset, at most
the high watermark), which is read *before* the look-ups by time and after the commits: "no
record is younger" (Kafka's -1) means that end, and never what was written since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from retentiond.delete_records.cluster import Cluster
from retentiond.delete_records.item import Item
from retentiond.delete_records.lookup import describe
from retentiond.errors import UsageError
from retentiond.kafka.port import OffsetBound, TopicDescription
from retentiond.model import Failure, TopicPartition

Commits = Mapping[str, Mapping[TopicPartition, int | None]]
"""By group; None where a commit could not be read."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What may go: records before ``before_ms`` (epoch), below every commit of each group.

    Without a group, or without a time, there is no such bound; without both, no deletion.
    """

    before_ms: int | None = None
    commits: Commits = field(default_factory=dict)


def work_out(cluster: Cluster, topics: Sequence[str], bounds: Bounds) -> list[Item]:
    """An item for each partition of the topics. Raises `UsageError`, `KafkaUnavailable`."""
    if bounds.before_ms is None and not bounds.commits:
        raise ValueError("without a bound everything would go")
    items = _all_partitions(cluster, topics)
    partitions = [item.at for item in items]
    starts = cluster.offsets(partitions, OffsetBound.LOG_START)
    high = cluster.offsets(partitions, OffsetBound.HIGH_WATERMARK)
    stable = cluster.offsets(partitions, OffsetBound.LAST_STABLE)
    times: Mapping[TopicPartition, int | Failure | None] = {}
    if bounds.before_ms is not None:
        times = cluster.offsets_at(dict.fromkeys(partitions, bounds.before_ms))
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


def _all_partitions(cluster: Cluster, topics: Sequence[str]) -> list[Item]:
    items = []
    for name, topic in describe(cluster, list(dict.fromkeys(topics))).items():
        if not isinstance(topic, TopicDescription):
            raise UsageError(f"topic {name!a}: {topic}; nothing was deleted")
        items += [Item(name, each, None, topic_id=topic.topic_id) for each in topic.partitions]
    return items


def _bounded(
    item: Item,
    commits_by_group: Commits,
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
