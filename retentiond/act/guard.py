"""The last look before records are deleted.

Invariant: no record is deleted that, by the plan's reading *or* by a second one, lies at or above a
relevant group's committed offset, is younger than the consumed retention, or belongs to an open
transaction. Missing, partial, failed or contradictory evidence is an objection; it never shrinks
the set of groups. A row of a trial is judged, and never approved.

`retentiond.act.rule` states the rule once more, in plain Python and without any code of
`retentiond.decide`: a mistake in one of the two costs a hold and no record. This module alone
makes `Approved` values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from retentiond.act.approved import Approved, CommitEvidence
from retentiond.act.evidence import Evidence
from retentiond.act.rule import (
    Objection,
    TopicGroups,
    check_partition,
    check_reading,
    check_topic,
    counting,
    policy_of,
)
from retentiond.formatting import say_reader
from retentiond.model import GroupKind, PlanRow, Reason, Verdict
from retentiond.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Verified:
    """``rows``: the plan's rows, with a hold for every deletion that met an objection.
    ``approved``: the deletions that met none, in the same order."""

    approved: tuple[Approved, ...]
    rows: tuple[PlanRow, ...]


def arranged(rows: Iterable[PlanRow], reading: Snapshot) -> Evidence:
    return Evidence(reading, {row.topic for row in rows if row.verdict is Verdict.DELETE})


def verify(
    rows: Iterable[PlanRow], first: Snapshot, second: Snapshot, by_plan: Evidence | None = None
) -> Verified:
    """Holds every deletion that one of the two readings does not prove.

    ``first`` is the plan's reading. ``second`` was read later. It has the topics of the planned
    deletions, all their partitions (with offsets only where a deletion is planned), and the groups
    with their commits on all of them. Rows of a trial or a dry run have the first reading only,
    which is passed twice: they are judged, and nothing is approved. ``by_plan``: ``first``,
    `arranged` for these rows. It is made before the second reading, because that grows old
    meanwhile.
    """
    planned = tuple(rows)
    by_plan = by_plan or arranged(planned, first)
    is_read_once = second is first
    guard = _Guard(by_plan, by_plan if is_read_once else arranged(planned, second))
    approved: list[Approved] = []
    verified: list[PlanRow] = []
    for row in planned:
        if row.verdict is not Verdict.DELETE:
            verified.append(row)
            continue
        try:
            judged = guard.judge(row)
            if not (is_read_once or row.dry_run):
                approved.append(guard.approve(judged))
        except Objection as objection:
            verified.append(_held(row, objection, guard.kind_of(objection.group_id)))
        else:
            verified.append(judged.row)
    return Verified(tuple(approved), tuple(verified))


class _Judged(NamedTuple):
    """A row to which there is no objection, with what proves it."""

    row: PlanRow
    topic_id: str
    cutoff: int
    log_start: int
    committed_offsets: tuple[int, ...]


class _Guard:
    """Judges rows by both readings. What concerns a whole topic is checked once."""

    def __init__(self, first: Evidence, second: Evidence) -> None:
        self._first = first
        self._second = second
        self._unlisted = first.listed - second.listed
        # Groups that go by the same id in both; the other readers are compared by their names.
        self._same = {
            group for group in first.groups if first.reader(group) == second.reader(group)
        }
        self._kinds: dict[tuple[str, ...], tuple[tuple[str, GroupKind], ...]] = {}
        self._groups: dict[str, _Groups | Objection] = {}

    def judge(self, row: PlanRow) -> _Judged:
        """Raises `Objection`. If the two readings are one, it is judged once."""
        cutoff, topic_id = row.cutoff, row.topic_id
        if cutoff is None or topic_id is None:
            raise Objection("the plan gives no cutoff or no topic id")
        groups = self._groups_of(row.topic)
        with _by_the_plan():
            log_start, offsets = check_partition(self._first, row, cutoff, groups.by_first)
        if self._second is not self._first:
            log_start, offsets = check_partition(
                self._second, row, cutoff, groups.by_second, self._first
            )
        records = cutoff - log_start
        if (row.log_start_offset, row.records) != (log_start, records):
            row = replace(row, log_start_offset=log_start, records=records)
        return _Judged(row, topic_id, cutoff, log_start, tuple(offsets))

    def approve(self, judged: _Judged) -> Approved:
        """Raises `Objection` if a reading has the topic on trial, whatever the plan says."""
        topic = judged.row.topic
        for evidence in (self._first, self._second):
            if policy_of(evidence, topic).dry_run:
                raise Objection("the policy has the topic on trial (dry_run)")
        return Approved(
            topic=topic,
            partition=judged.row.partition,
            topic_id=judged.topic_id,
            cutoff=judged.cutoff,
            log_start_offset=judged.log_start,
            evidence=CommitEvidence(self._groups_of(topic).kinds, judged.committed_offsets),
            row=judged.row,
        )

    def kind_of(self, group_id: str | None) -> GroupKind | None:
        """None if no reading has the group."""
        for evidence in (self._second, self._first):
            if group_id is not None and group_id in evidence.groups:
                return evidence.groups[group_id].reader_kind
        return None

    def _groups_of(self, topic: str) -> _Groups:
        if topic not in self._groups:
            try:
                self._groups[topic] = self._compare_groups(topic)
            except Objection as objection:
                self._groups[topic] = objection
        groups = self._groups[topic]
        if isinstance(groups, Objection):
            raise groups.with_traceback(None)
        return groups

    def _compare_groups(self, topic: str) -> _Groups:
        if self._first.cluster_id != self._second.cluster_id:
            raise Objection(
                f"the cluster is {self._second.cluster_id}, "
                f"and the plan was made on {self._first.cluster_id}"
            )
        with _by_the_plan():
            check_reading(self._first)
        check_reading(self._second)
        with _by_the_plan():
            by_first = by_second = check_topic(self._first, topic)
        if self._second is not self._first:
            by_second = check_topic(self._second, topic)
        same = self._same.intersection(by_second.names)
        if others := [group_id for group_id in by_first.names if group_id not in same]:
            still_there = {self._second.reader(group_id) for group_id in by_second.names}
        for group_id in others:
            if self._first.reader(group_id) in still_there:
                continue
            who = say_reader(group_id, self.kind_of(group_id))
            raise Objection(f"{who} was there for the plan and is gone", group_id)
        # Rights that were taken and given back meanwhile may hide a group from the second listing
        # alone, and it may have begun to read the topic.
        for group_id in counting(self._second, topic, self._unlisted):
            who = say_reader(group_id, self.kind_of(group_id))
            raise Objection(f"{who} was listed for the plan and is no longer listed", group_id)
        return _Groups(by_first, by_second, self._kinds_of(by_second.names))

    def _kinds_of(self, names: tuple[str, ...]) -> tuple[tuple[str, GroupKind], ...]:
        """Once for all topics of the same groups: the journal writes such a list once."""
        if names not in self._kinds:
            groups = self._second.groups
            self._kinds[names] = tuple(
                (name, groups[name].kind) for name in names if name in groups
            )
        return self._kinds[names]


class _Groups(NamedTuple):
    """Those of a topic by each reading, and their kinds by the second."""

    by_first: TopicGroups
    by_second: TopicGroups
    kinds: tuple[tuple[str, GroupKind], ...]


@contextmanager
def _by_the_plan() -> Iterator[None]:
    """Adds to an objection that the plan's own reading shows it already."""
    try:
        yield
    except Objection as objection:
        raise Objection(
            f"by the plan's own reading, {objection.sentence}",
            objection.group_id,
            objection.committed_offset,
        ) from None


def _held(row: PlanRow, objection: Objection, kind: GroupKind | None) -> PlanRow:
    """``kind``: of the group that the objection names."""
    held = replace(
        row,
        verdict=Verdict.HOLD,
        reason=Reason.EVIDENCE_CHANGED,
        records=0,
        detail=objection.sentence,
    )
    if objection.group_id is None:
        return held
    return replace(
        held,
        binding_group=objection.group_id,
        binding_committed_offset=objection.committed_offset,
        binding_since=None,
        binding_kind=kind,
    )
