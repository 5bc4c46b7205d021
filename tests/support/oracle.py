"""The plan once more, in plain loops: what `retentiond.decide.plan.decide` must answer.

It shares no code with the plan or the guard, and knows nothing of Spark: dicts, sets and the
rule, in the words of KIP-68. Where evidence is missing it keeps data.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from retentiond.config import NoPolicy, PolicyUnreadable, TopicPolicy
from retentiond.model import GroupKind, PlanRow, Reason, Verdict
from retentiond.snapshot import VANISHED, GroupReading, PartitionReading, Snapshot, TopicReading

REASONS = (
    Reason.POLICY_CONFLICT,
    Reason.POLICY_UNREADABLE,
    Reason.NOT_DELETABLE,
    Reason.OFFSET_UNREADABLE,
    Reason.RETENTION_EXCEEDS_FORCED,
    Reason.TOPIC_RECREATED,
    Reason.EMPTY,
    Reason.GROUP_LIST_INCOMPLETE,
    Reason.GROUP_UNREADABLE,
    Reason.GROUP_VANISHED,
    Reason.REQUIRED_GROUP_MISSING,
    Reason.NO_GROUP,
    Reason.TOO_FEW_GROUPS,
    Reason.GROUP_WITHOUT_COMMIT,
    Reason.COMMIT_BEYOND_END,
    Reason.COMMIT_REWOUND,
    Reason.OPEN_TRANSACTION,
    Reason.CONSUMED,
    Reason.NOT_CONSUMED,
    Reason.TOO_YOUNG,
)
"""All that a plan can say; the guard and the limits have four more."""

Commits = dict[str, int | None]  # by group; None: there is a commit, and it is unreadable


@dataclass
class TopicFacts:
    """What holds for all partitions of a topic."""

    reading: TopicReading
    relevant: list[str] = field(default_factory=list)  # sorted by name
    failed: list[str] = field(default_factory=list)  # of those, the unreadable ones
    missing: list[str] = field(default_factory=list)  # required, and never seen to commit
    gone: list[str] = field(default_factory=list)  # seen by earlier cycles, and not listed now
    restoring: list[str] = field(default_factory=list)  # whose changelog it is, sorted by name
    foreign: list[str] = field(default_factory=list)  # external readers that other policies name


@dataclass
class PartitionFacts:
    """What the relevant groups did on one partition."""

    commits: Commits
    remembered: Commits
    replaced: set[str] = field(default_factory=set)  # have read records that the log has not
    min_group: str | None = None  # both None unless every relevant group has a readable commit
    min_committed_offset: int | None = None
    cutoff: int | None = None


@dataclass
class Decision:
    """``group`` is the one that causes a hold, if one does."""

    reason: Reason
    group: str | None = None
    committed_offset: int | None = None


def plan(snapshot: Snapshot) -> list[PlanRow]:
    """One row for each partition of the snapshot, without its detail."""
    commits, remembered = commits_of_partitions(snapshot)
    topics = [
        topic_facts(snapshot, number, commits, remembered) for number in range(len(snapshot.topics))
    ]
    kinds = {group.group_id: group.kind for group in snapshot.groups}
    rows = []
    for number, at in enumerate(snapshot.partitions):
        topic = topics[at.topic]
        facts = partition_facts(topic, at, commits[number], remembered[number])
        facts.replaced = groups_with_replaced_records(snapshot, number)
        decision = decide(snapshot, topic, at, facts)
        rows.append(row(topic, at, facts, decision, kinds))
    return rows


def commits_of_partitions(snapshot: Snapshot) -> tuple[list[Commits], list[Commits]]:
    """The commits now, and the remembered ones, for each partition in the snapshot's order."""
    commits: list[Commits] = [{} for _ in snapshot.partitions]
    remembered: list[Commits] = [{} for _ in snapshot.partitions]
    for entry in snapshot.commits.to_pylist():
        group, at = snapshot.groups[entry["group_id"]].group_id, entry["partition_id"]
        if entry["is_committed"]:
            commits[at][group] = entry["offset"]
        if entry["remembered_offset"] is not None:
            remembered[at][group] = entry["remembered_offset"]
    return commits, remembered


def topic_facts(
    snapshot: Snapshot, number: int, commits: list[Commits], remembered: list[Commits]
) -> TopicFacts:
    reading = snapshot.topics[number]
    facts = TopicFacts(reading)
    committed = set()
    for position, at in enumerate(snapshot.partitions):
        if at.topic == number:
            committed |= set(commits[position]) | set(remembered[position])
    readers = set()
    for reader in [*snapshot.readers, *snapshot.remembered_readers]:
        if reader.topic == number:
            readers.add(snapshot.groups[reader.group].group_id)
    gone = {group.group_id for group in snapshot.groups if group.state == VANISHED}
    failed = {group.group_id for group in snapshot.groups if group.failure is not None}
    required = set()
    own = set()
    if not isinstance(reading.policy, NoPolicy):  # a conflict requires and excludes nobody
        own = {each.name for each in reading.policy.external_readers}
        for name in reading.policy.required_groups:
            required |= {
                group.group_id
                for group in snapshot.groups
                if group.name == name and (group.kind is GroupKind.EXTERNAL) == (name in own)
            }
    by_id = {group.group_id: group for group in snapshot.groups}
    for group in sorted(committed | readers | failed | required):
        if excludes(reading, by_id[group]):
            continue
        facts.relevant.append(group)
        if by_id[group].kind is GroupKind.EXTERNAL and by_id[group].name not in own:
            facts.foreign.append(group)
        if group in failed:
            facts.failed.append(group)
        if group in required and group not in committed:
            facts.missing.append(group)
        if group in gone:
            facts.gone.append(group)
    restoring = {
        snapshot.groups[each.group].group_id for each in snapshot.changelogs if each.topic == number
    }
    facts.restoring = sorted(group for group in restoring if not excludes(reading, by_id[group]))
    return facts


def groups_with_replaced_records(snapshot: Snapshot, number: int) -> set[str]:
    """Whose commit is not in the history of a partition's log, as its leader or memory tells it."""
    found = set()
    for entry in snapshot.commits.to_pylist():
        group = snapshot.groups[entry["group_id"]]
        committed, epoch = entry["offset"], entry["leader_epoch"]
        if entry["partition_id"] != number or committed is None:
            continue
        if entry["is_stale"]:
            found.add(group.group_id)
        if (number, epoch) in snapshot.epoch_ends:
            known, end = snapshot.epoch_ends[number, epoch]
            is_there = end is not None and end >= committed
            if group.kind is not GroupKind.SHARE and known != epoch:
                is_there = end == committed
            if not is_there:
                found.add(group.group_id)
    return found


def excludes(topic: TopicReading, group: GroupReading) -> bool:
    """Nobody leaves out a reader that somebody else has named."""
    policy = topic.policy
    if isinstance(policy, NoPolicy):
        return False
    own = {each.name for each in policy.external_readers}
    is_foreign = group.kind is GroupKind.EXTERNAL and group.name not in own
    return not is_foreign and not counts(policy, group.name)


def counts(policy: TopicPolicy, group: str) -> bool:
    """In Python's own regular expressions."""
    if any(re.fullmatch(each.pattern, group) for each in policy.excluded):
        return False
    return not policy.only or any(re.fullmatch(each.pattern, group) for each in policy.only)


def partition_facts(
    topic: TopicFacts, at: PartitionReading, commits: Commits, remembered: Commits
) -> PartitionFacts:
    """Commits of groups that don't count are left out here, once and for all."""
    facts = PartitionFacts(
        commits={group: commits[group] for group in topic.relevant if group in commits},
        remembered={group: remembered[group] for group in topic.relevant if group in remembered},
    )
    everyone_has_committed = bool(topic.relevant)
    for group in topic.relevant:
        if facts.commits.get(group) is None:
            everyone_has_committed = False
    if everyone_has_committed:
        for group in topic.relevant:
            offset = facts.commits[group]
            assert offset is not None
            if facts.min_committed_offset is None or offset < facts.min_committed_offset:
                facts.min_group, facts.min_committed_offset = group, offset
    bounds = [
        facts.min_committed_offset,
        retention_offset(topic.reading, at),
        at.last_stable_offset,
        at.high_watermark,
    ]
    known = [bound for bound in bounds if bound is not None]
    if len(known) == len(bounds):
        facts.cutoff = min(known)
    return facts


def retention_offset(topic: TopicReading, at: PartitionReading) -> int | None:
    """None under a conflict: there is no single retention to look up."""
    return None if isinstance(topic.policy, NoPolicy) else at.retention_offset


def decide(
    snapshot: Snapshot, topic: TopicFacts, at: PartitionReading, facts: PartitionFacts
) -> Decision:
    """The first reason that applies. Nothing else than `Reason.CONSUMED` deletes."""
    if reason := topic_hold(topic.reading, topic.restoring):
        restored = reason is Reason.NOT_DELETABLE and topic.restoring
        return Decision(reason, topic.restoring[0]) if restored else Decision(reason)
    start, high_watermark = at.log_start_offset, at.high_watermark
    stable, young = at.last_stable_offset, at.retention_offset
    if start is None or high_watermark is None or stable is None or young is None:
        return Decision(Reason.OFFSET_UNREADABLE)
    if at.failure is not None:
        return Decision(Reason.OFFSET_UNREADABLE)
    if start >= high_watermark:
        return Decision(Reason.EMPTY)
    if snapshot.problems or hides_groups(snapshot, topic.reading):
        return Decision(Reason.GROUP_LIST_INCOMPLETE)
    if hold := group_hold(topic, facts, start, high_watermark):
        return hold
    lowest, cutoff = facts.min_committed_offset, facts.cutoff
    assert lowest is not None  # every other case is a hold
    assert cutoff is not None
    if stable <= start:
        return Decision(Reason.OPEN_TRANSACTION)
    if cutoff > start:
        return Decision(Reason.CONSUMED)
    return Decision(Reason.NOT_CONSUMED if lowest <= young else Reason.TOO_YOUNG)


def hides_groups(snapshot: Snapshot, topic: TopicReading) -> bool:
    """Whether groups may be hidden, and the policy doesn't vouch for their absence."""
    policy = topic.policy
    vouched = not isinstance(policy, NoPolicy) and policy.assumes_visible_groups
    return len(snapshot.hidden) > 0 and not vouched


def topic_hold(topic: TopicReading, restoring: list[str]) -> Reason | None:
    policy = topic.policy
    if isinstance(policy, NoPolicy):
        unreadable = isinstance(policy, PolicyUnreadable)
        return Reason.POLICY_UNREADABLE if unreadable else Reason.POLICY_CONFLICT
    if topic.is_internal or restoring:
        return Reason.NOT_DELETABLE
    if topic.failure is None:  # else its configs may be unreadable, and say nothing
        if "delete" not in topic.cleanup_policy:
            return Reason.NOT_DELETABLE
        if "compact" in topic.cleanup_policy and not policy.allow_compacted:
            return Reason.NOT_DELETABLE
    if topic.failure is not None:
        return Reason.OFFSET_UNREADABLE
    forced = topic.forced_retention_ms
    if forced is not None and policy.consumed_retention_ms > forced:
        return Reason.RETENTION_EXCEEDS_FORCED
    if topic.recreated:
        return Reason.TOPIC_RECREATED
    return None


def group_hold(
    topic: TopicFacts, facts: PartitionFacts, log_start_offset: int, high_watermark: int
) -> Decision | None:
    """What a group does, or fails to do, that holds the partition; of several the first by name."""
    policy = topic.reading.policy
    assert not isinstance(policy, NoPolicy)
    for group in topic.relevant:
        unreadable = group in facts.commits and facts.commits[group] is None
        if group in topic.failed or unreadable:
            return Decision(Reason.GROUP_UNREADABLE, group, facts.commits.get(group))
    for group in topic.relevant:
        was_here = group in facts.remembered or group in topic.gone
        if was_here and group not in facts.commits:
            return Decision(Reason.GROUP_VANISHED, group, facts.remembered.get(group))
    if topic.missing:
        return Decision(Reason.REQUIRED_GROUP_MISSING, topic.missing[0])
    if not topic.relevant:
        return Decision(Reason.NO_GROUP)
    if len(topic.relevant) - len(topic.foreign) < policy.min_groups:
        return Decision(Reason.TOO_FEW_GROUPS)
    for group in topic.relevant:
        if group not in facts.commits:
            return Decision(Reason.GROUP_WITHOUT_COMMIT, group)
    return commit_hold(topic, facts, log_start_offset, high_watermark)


def commit_hold(
    topic: TopicFacts, facts: PartitionFacts, log_start_offset: int, high_watermark: int
) -> Decision | None:
    """A commit that contradicts the log. Every relevant group has a readable one."""
    highest = max(offset for offset in facts.commits.values() if offset is not None)
    if highest > high_watermark:
        for group in topic.relevant:
            if facts.commits[group] == highest:
                return Decision(Reason.COMMIT_BEYOND_END, group, highest)
    for group in topic.relevant:
        if group in facts.replaced:
            return Decision(Reason.COMMIT_BEYOND_END, group, facts.commits[group])
    assert facts.min_group is not None
    assert facts.min_committed_offset is not None
    before = facts.remembered.get(facts.min_group)
    is_below = facts.min_committed_offset < log_start_offset
    if is_below and before is not None and facts.min_committed_offset < before:
        return Decision(Reason.COMMIT_REWOUND, facts.min_group, facts.min_committed_offset)
    return None


def row(
    topic: TopicFacts,
    at: PartitionReading,
    facts: PartitionFacts,
    decision: Decision,
    kinds: dict[str, GroupKind],
) -> PlanRow:
    reason = decision.reason
    verdict = Verdict.HOLD
    records = 0
    if reason in (Reason.EMPTY, Reason.TOO_YOUNG, Reason.NOT_CONSUMED):
        verdict = Verdict.NOTHING
    if reason is Reason.CONSUMED:
        verdict = Verdict.DELETE
        assert facts.cutoff is not None
        assert at.log_start_offset is not None
        records = facts.cutoff - at.log_start_offset
    group, committed = decision.group, decision.committed_offset
    if group is None and reason is not Reason.TOO_FEW_GROUPS:  # there, those who are not there bind
        group, committed = facts.min_group, facts.min_committed_offset
    return PlanRow(
        topic=topic.reading.name,
        partition=at.partition,
        topic_id=topic.reading.topic_id,
        log_start_offset=at.log_start_offset,
        high_watermark=at.high_watermark,
        min_committed_offset=facts.min_committed_offset,
        binding_group=group,
        binding_committed_offset=committed,
        retention_offset=retention_offset(topic.reading, at),
        cutoff=facts.cutoff,
        verdict=verdict,
        reason=reason,
        groups=len(topic.relevant),
        records=records,
        binding_kind=None if group is None else kinds[group],
        consumed_retention_ms=(
            None
            if isinstance(topic.reading.policy, NoPolicy)
            else topic.reading.policy.consumed_retention_ms
            if at.pressure_retention_ms is None
            else at.pressure_retention_ms
        ),
        owner=topic.reading.policy.owner,
        fence=topic.reading.policy.fence,
        dry_run=topic.reading.policy.dry_run,
        is_compacted="compact" in topic.reading.cleanup_policy,
        only_groups=(
            None
            if isinstance(topic.reading.policy, NoPolicy) or not topic.reading.policy.only
            else "|".join(each.pattern for each in topic.reading.policy.only)
        ),
    )
