"""What is shown of a group: in the table and the JSON of ``retentiond groups``, in ``/api/groups``
and on the group's page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from retentiond.fields import (
    BYTES,
    COMMAND,
    FLAG,
    GROUP,
    GROUP_LIST,
    MILLISECONDS,
    OFFSETS,
    PARTITIONS,
    RECORDS,
    TEXT,
    TIME,
    TIMES,
    TOPIC_COUNT,
    WORD,
    FiguresOf,
    described,
    figure,
    said,
)
from retentiond.memory.readers import RememberedReader
from retentiond.model import PlanRow, Verdict
from retentiond.tell.figures.answers import TopicAnswer
from retentiond.tell.figures.group_answers import GroupAnswer, TopicReader, group_answers

if TYPE_CHECKING:
    from retentiond.tell.report import CycleReport

API_OF_GROUPS = (GROUP_LIST, GROUP)
READING = (GROUP, COMMAND)

OF_TOPICS = FiguresOf("answers")


@described
class GroupRow:
    """A group, or an external reader.

    - ``reads``: its last commits, by topic; None if it is not known what it reads.
    - ``bound``: the plan's rows that it binds.
    - ``on``: the topics of the plan that it reads or binds. Those on which it keeps most come
      first, then those on which it lags most.
    """

    group: str = said(TEXT, "the id of the group", columns={COMMAND: "GROUP"})
    kind: str | None = said(
        WORD,
        "its kind, such as classic or external; null: not known",
        columns={COMMAND: "KIND"},
    )
    state: str | None = said(
        WORD,
        "live, empty, vanished or unreadable; null: the last cycle did not see it",
        API_OF_GROUPS,
        default=None,
    )
    vanished_ms: int | None = said(
        MILLISECONDS,
        "for how long it has been seen to be missing; null: it is not missing",
        API_OF_GROUPS,
        default=None,
    )
    reads: Mapping[str, RememberedReader] | None = None
    bound: tuple[PlanRow, ...] = ()
    on: tuple[tuple[TopicAnswer, GroupAnswer], ...] = ()

    @figure(PARTITIONS, "how many partitions it binds", API_OF_GROUPS)
    def binds_partitions(self) -> int:
        return len(self.bound)

    @figure(PARTITIONS, "how many of these are held", API_OF_GROUPS)
    def holds_partitions(self) -> int:
        return sum(row.verdict is Verdict.HOLD for row in self.bound)

    @figure(TOPIC_COUNT, "how many topics it reads", (), columns={COMMAND: "TOPICS"})
    def topic_count(self) -> int | None:
        return None if self.reads is None else len(self.reads)

    @figure(
        TOPIC_COUNT,
        "on how many topics it has never committed",
        (),
        columns={COMMAND: "WITHOUT COMMIT"},
        is_dash=True,
    )
    def without_commit_count(self) -> int | None:
        return None if self.without_commit is None else len(self.without_commit)

    remembered: bool | None = said(
        FLAG,
        "whether it is remembered as a reader; null: what is remembered can't be read",
        READING,
        default=True,
        columns={COMMAND: "REMEMBERED"},
    )

    @figure(
        TIME,
        "since when it has been missing on all topics that it is remembered on; null: it is not",
        READING,
        columns={COMMAND: "VANISHED SINCE"},
    )
    def vanished_since_ms(self) -> int | None:
        absent = [last.absent_since_ms for last in (self.reads or {}).values()]
        known = [since_ms for since_ms in absent if since_ms is not None]
        return max(known, default=None) if len(known) == len(absent) else None

    @figure(OFFSETS, "its last commits; null: what it reads is not known", READING)
    def topics(self) -> dict[str, dict[int, int]] | None:
        if self.reads is None:
            return None
        return {
            topic: dict(sorted(last.offsets.items())) for topic, last in sorted(self.reads.items())
        }

    @figure(
        TIMES,
        "the topics that it reads and has never committed on, with since when that is known (null: "
        "it is not); null: what it reads is not known",
        READING,
    )
    def without_commit(self) -> dict[str, int | None] | None:
        if self.reads is None:
            return None
        return {
            topic: last.seen_at_ms for topic, last in sorted(self.reads.items()) if not last.offsets
        }

    kept_records = OF_TOPICS.sum(RECORDS, "records that stay because of it", (GROUP,))
    kept_bytes = OF_TOPICS.total(
        BYTES,
        "about what these take on the disks of all replicas; null if that is not known",
        (GROUP,),
    )
    known_lag = OF_TOPICS.known(
        RECORDS,
        "records that it has yet to read, where that is known; null: it is known nowhere",
        (GROUP,),
        name="lag_records",
    )

    @property
    def answers(self) -> tuple[GroupAnswer, ...]:
        return tuple(answer for _, answer in self.on)

    @property
    def keeps_since_ms(self) -> int | None:
        """Since when the group has not moved, on the topic where it has kept records longest. None
        if it keeps none, or if that was not observed."""
        since_ms = (answer.stands_since_ms for answer in self.answers if answer.kept_records)
        return min((since for since in since_ms if since is not None), default=None)


def remembered_group(group_id: str, reads: Mapping[str, RememberedReader]) -> GroupRow:
    """``reads``: at least one topic."""
    return GroupRow(group_id, next(iter(reads.values())).kind.value, reads=reads)


def groups_of(report: CycleReport) -> Iterator[GroupRow]:
    """The groups that the cycle saw, by name."""
    bound: defaultdict[str | None, list[PlanRow]] = defaultdict(list)
    for row in report.plan.rows:
        bound[row.binding_group].append(row)
    for group_id, (kind, state) in sorted(report.group_states.items()):
        vanished_ms = report.standing.vanished_ms.get(group_id)
        yield GroupRow(group_id, kind, state, vanished_ms, bound=tuple(bound[group_id]))


def group_of(
    report: CycleReport, group_id: str, reads: Mapping[str, RememberedReader] | None
) -> GroupRow:
    """A group with what it keeps. ``reads``: what is remembered of it, by topic; None if that can't
    be read."""
    kind, state = report.group_states.get(group_id, (None, None))
    kinds = (last.kind.value for last in (reads or {}).values())
    return GroupRow(
        group_id,
        kind or next(kinds, None),
        state,
        report.standing.vanished_ms.get(group_id),
        reads=reads or None,
        bound=tuple(row for row in report.plan.rows if row.binding_group == group_id),
        on=tuple(sorted(_on_topics(report, group_id, reads or {}), key=_keeps_most_first)),
        remembered=None if reads is None else bool(reads),
    )


def groups_on(
    topic: TopicAnswer, readers: Mapping[str, RememberedReader]
) -> tuple[GroupAnswer, ...]:
    """The topic's groups. They include groups that the plan names and that are not remembered,
    because they have never committed."""
    known = [_reader(group_id, last) for group_id, last in readers.items()]
    only_in_plan = {partition.row.binding_group for partition in topic.partitions} - {
        None,
        *readers,
    }
    known += [TopicReader(group_id, None) for group_id in only_in_plan if group_id is not None]
    return group_answers(topic, known)


def _reader(group_id: str, last: RememberedReader) -> TopicReader:
    return TopicReader(
        group_id,
        last.kind,
        last.offsets,
        last.moved_at_ms,
        absent_since_ms=last.absent_since_ms,
    )


def _on_topics(
    report: CycleReport, group_id: str, reads: Mapping[str, RememberedReader]
) -> Iterable[tuple[TopicAnswer, GroupAnswer]]:
    for topic in report.answers.topics:
        if topic.topic in reads:
            reader = _reader(group_id, reads[topic.topic])
        elif any(partition.row.binding_group == group_id for partition in topic.partitions):
            reader = TopicReader(group_id, None)
        else:
            continue
        yield from ((topic, answer) for answer in group_answers(topic, [reader]))


def _keeps_most_first(pair: tuple[TopicAnswer, GroupAnswer]) -> tuple[int, int, int, int]:
    _, answer = pair
    return (
        -(answer.kept_bytes or 0),
        -answer.kept_records,
        -len(answer.binds),
        -(answer.known_lag or 0),
    )
