"""The commits of a reading: all of each group, or those that bear on the guard's topics.

A coordinator tells all commits of a group, or says of named partitions what it has there. The
guard's reading asks each listed group, whether or not it has been seen on these topics, and
whichever way has less to tell: a group that had few commits for the plan tells all of them, and one
that had many is asked about the partitions of these topics. A group that the plan's reading did not
show tells all.

What names leave out, beside other topics, is a commit on a partition that the metadata did not show
yet. So they are read once more after the commits, and a topic that has got partitions meanwhile is
one that could not be read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace

from retentiond.gather.topics import EnabledTopic
from retentiond.kafka.interface import NOT_ANSWERED, Kafka
from retentiond.model import Commit, Failure, TopicPartition

MORE_PARTITIONS = Failure("PARTITIONS_ADDED", "it has got partitions while the groups were read")


class CommitReader:
    """``counts``: how many commits each group had for the plan. ``topics`` waits for those that the
    reading is about."""

    def __init__(
        self,
        kafka: Kafka,
        counts: Mapping[str, int],
        topics: Callable[[], Sequence[EnabledTopic]],
        executor: Executor,
    ) -> None:
        self._kafka = kafka
        self._counts = counts
        self._topics = topics
        self._executor = executor
        self._has_named = False

    def read(self, groups: Collection[str]) -> Mapping[str, Sequence[Commit] | Failure]:
        """Raises `KafkaUnavailable`."""
        named = [
            TopicPartition(topic.reading.name, number)
            for topic in self._topics()
            for number in topic.partitions
        ]
        tell_less = {group for group in groups if self._counts.get(group, 0) > len(named) > 0}
        self._has_named = bool(tell_less)
        tell_all = [group for group in groups if group not in tell_less]
        of_named = (
            self._executor.submit(self._kafka.commits, sorted(tell_less), named)
            if tell_less
            else None
        )
        commits = dict(self._kafka.commits(tell_all)) if tell_all else {}
        if of_named is not None:
            commits |= of_named.result()
        return commits

    def unless_more_partitions(self, topics: Sequence[EnabledTopic]) -> tuple[EnabledTopic, ...]:
        """The same topics; each that has more partitions than were named has a failure.

        Raises `KafkaUnavailable`.
        """
        if not self._has_named:
            return tuple(topics)
        now = self._kafka.describe_topics([topic.reading.name for topic in topics])
        found: list[EnabledTopic] = []
        for topic in topics:
            failure = topic.reading.failure
            described = now.get(topic.reading.name, NOT_ANSWERED)
            if isinstance(described, Failure):
                failure = failure or described
            elif not {*described.partitions} <= {*topic.partitions}:
                failure = failure or MORE_PARTITIONS
            found.append(replace(topic, reading=replace(topic.reading, failure=failure)))
        return tuple(found)
