"""Who counts for one topic of a snapshot, by what trace, and since when each stands where it is.

That a group counts is the guard's to say (`retentiond.act.rule`); here is why, in words.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from retentiond.act.evidence import Evidence
from retentiond.act.rule import candidates, counting
from retentiond.config import TopicPolicy
from retentiond.memory.remembered import GroupOnTopic, LastCommits, Remembered
from retentiond.snapshot import GroupTopic, Snapshot
from retentiond.tell.group_answers import TopicReader

UNREADABLE = "can't be read, so it may read any topic"
REQUIRED = "is required by the policy"
SUBSCRIBED = "is subscribed to the topic"
SEEN = "was seen to read the topic"
REMEMBERED = "committed here before"
COMMITTED = "commits on the topic"


class TopicReaders(NamedTuple):
    """``excluded``: the groups that would count if the policy didn't exclude them. Both are sorted
    by name."""

    counting: tuple[TopicReader, ...]
    excluded: tuple[str, ...]


def topic_readers(snapshot: Snapshot, remembered: Remembered, topic: str) -> TopicReaders:
    evidence = Evidence(snapshot, [topic])
    every = candidates(evidence, topic)
    counting_groups = counting(evidence, topic, every)
    traces = _traces(snapshot, evidence, topic)
    return TopicReaders(
        tuple(
            _reader(
                evidence,
                group_id,
                traces[group_id],
                remembered.commits.get(GroupOnTopic(group_id, topic)),
                now_ms=snapshot.taken_at_ms,
            )
            for group_id in counting_groups
        ),
        tuple(sorted(every.difference(counting_groups))),
    )


def _traces(snapshot: Snapshot, evidence: Evidence, topic: str) -> dict[str, str]:
    """By group, the strongest trace."""
    policy = evidence.topics[topic].policy

    def of_topic(readers: Iterable[GroupTopic]) -> Iterable[str]:
        return (
            snapshot.groups[reader.group].group_id
            for reader in readers
            if snapshot.topics[reader.topic].name == topic
        )

    return {
        **dict.fromkeys(evidence.unreadable, UNREADABLE),
        **dict.fromkeys(
            policy.required_groups if isinstance(policy, TopicPolicy) else (), REQUIRED
        ),
        **dict.fromkeys(of_topic(snapshot.remembered_readers), SEEN),
        **dict.fromkeys(of_topic(snapshot.readers), SUBSCRIBED),
        **{group: REMEMBERED for at in evidence.partitions for group in evidence.remembered(at)},
        **{group: COMMITTED for at in evidence.partitions for group in evidence.commits(at)},
    }


def _reader(
    evidence: Evidence, group_id: str, trace: str, last: LastCommits | None, *, now_ms: int
) -> TopicReader:
    """``last``: what is remembered of it on the topic."""
    group = evidence.groups[group_id]
    committed: dict[int, int] = {}
    remembered: dict[int, int | None] = {}
    stands_since_ms: dict[int, int] = {}
    for at in evidence.partitions:
        now, before = (
            found.get(group_id) for found in (evidence.commits(at), evidence.remembered(at))
        )
        if now is not None:
            committed[at.partition] = now
        if before is None:
            continue  # one that nobody has seen before may have stood there for long
        remembered[at.partition] = before
        if now in (None, before):
            if last is not None and at.partition in last.moved_at_ms:
                stands_since_ms[at.partition] = last.moved_at_ms[at.partition]
        elif now is not None and now > before:  # seen there for the first time now
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
