"""What a group's page shows: where it binds, how much it keeps, and since when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from retentiond.formatting import label
from retentiond.memory.remembered import LastCommits
from retentiond.model import Verdict
from retentiond.tell.answers import TopicAnswer
from retentiond.tell.group_answers import GroupAnswer, GroupOnTopics, group_on_topics
from retentiond.tell.page.overview import Paged, paged
from retentiond.tell.page.topic import reader
from retentiond.tell.report import CycleReport


@dataclass(frozen=True, slots=True)
class GroupItem:
    """``state`` and ``kind`` None: the last cycle did not see it. ``holds``: of the partitions that
    it binds, those that are held. ``absent_since_ms``: since when it has vanished from every topic
    where it was; None: it has not."""

    group_id: str
    kind: str | None
    state: str | None
    answer: GroupOnTopics
    holds: int
    absent_since_ms: int | None
    topics: Paged[tuple[TopicAnswer, GroupAnswer]]


def find(report: CycleReport, name: str) -> str | None:
    """The group that an address means, of those that the cycle saw or that bind a partition."""
    binding = (row.binding_group for row in report.plan.rows)
    known = dict.fromkeys((*report.group_states, *binding))
    return next((each for each in known if each is not None and address(each) == name), None)


def address(group_id: str) -> str:
    """The name by which an address means it: short, and without what no address can hold."""
    return label(group_id).encode(errors="replace").decode()


def group_item(
    report: CycleReport, group_id: str, reads: Mapping[str, LastCommits], page: str | None
) -> GroupItem:
    """``reads``: its last commits that are remembered, by topic."""
    readers = {topic: reader(group_id, last) for topic, last in reads.items()}
    answer = group_on_topics(report.answers, group_id, readers)
    holds = sum(
        each.row.binding_group == group_id and each.row.verdict is Verdict.HOLD
        for topic, _ in answer.topics
        for each in topic.partitions
    )
    state = report.group_states.get(group_id)
    absent = [each.absent_since_ms for each in reads.values()]
    return GroupItem(
        group_id,
        state.kind if state else next((last.kind.value for last in reads.values()), None),
        state.state if state else None,
        answer,
        holds,
        None if None in absent else max(filter(None, absent), default=None),
        paged(answer.topics, len(answer.topics), page),
    )
