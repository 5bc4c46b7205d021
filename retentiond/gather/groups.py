"""Every group of the cluster: what it committed, what its members read, what is missing.

A listing is complete only if nothing could have hidden a group from it (all of these hide
groups without an error): every broker answered, the principal may see all groups, every
partition of ``__consumer_offsets`` has a leader that has caught up since it leads, no leadership
moved meanwhile, and each leader answered as a coordinator right before the listing and right after
it. What was at work before and after, in the same leader epoch, was at work in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import lru_cache

from retentiond.background import IN_TURN
from retentiond.config.pattern import Pattern
from retentiond.errors import KafkaUnavailable
from retentiond.formatting import say_many, say_verb
from retentiond.kafka.interface import (
    NOT_ANSWERED,
    CoordinatorState,
    GroupMembers,
    Kafka,
    ListedGroup,
)
from retentiond.model import Commit, Failure, GroupKind
from retentiond.snapshot import GroupReading

STANDSTILL_S = 0.15
"""While a coordinator migrates, the listing lacks its groups for up to 114 ms without an
error, and the metadata may still show the old leader. So leadership must have stood still for
this long before the listing, and is read again this long after it."""

LONG_STANDSTILL_S = 1.0
"""For a principal that may not ask the coordinators: nothing proves then that they are at work, and
a busy broker takes longer."""

COMMITTING = (GroupKind.CLASSIC, GroupKind.CONSUMER, GroupKind.STREAMS)

READABLE = (*COMMITTING, GroupKind.SHARE)

CONNECT_PROTOCOL = "connect"
"""By which Kafka Connect's workers, MirrorMaker 2's among them, share out their connectors."""

HIDDEN_GROUPS = (
    "Kafka hides groups from this principal: grant it DESCRIBE on the cluster "
    "(kafka-acls --add --cluster --operation Describe)"
)

UNKNOWN_GROUP = Failure("UNKNOWN_KIND", "this version does not know groups of that kind")

NO_MEMBERS = GroupMembers(topics=frozenset())


class LastCoordinators:
    """How an earlier reading left the coordinators. Where they stand as they stood then, no
    migration is under way that the metadata shows, and a listing need not wait for one to end. One
    that it doesn't show yet comes out afterwards."""

    def __init__(self) -> None:
        self.last: CoordinatorState | None = None

    def before(self, kafka: Kafka) -> CoordinatorState:
        """Who leads, what may be seen, and who is at work. Who was at work after the last
        reading, and is after this one in the same leader epoch, was so all the time, and is not
        asked twice."""
        # Those that were not at work, or behind, may no longer be so; or they could not be asked.
        if self.last is None or self.last.not_at_work or self.last.behind:
            return kafka.coordinator_state()
        return kafka.coordinators_since(self.last)

    def get_ready(self, kafka: Kafka, wait_until: Callable[[float], None]) -> None:
        """Sees to it that a second reading finds how they stood before it."""
        if self.last is None:
            before = self.before(kafka)
            wait_until(time.monotonic() + standstill_s(before))
            self.last = before

    def seconds_to_wait(self, state: CoordinatorState) -> float:
        """How long after ``state`` was read a listing has to wait."""
        return 0.0 if state == self.last else standstill_s(state)


def standstill_s(state: CoordinatorState) -> float:
    """How long coordinators must stand still before a listing and after it."""
    return STANDSTILL_S if state.may_ask else LONG_STANDSTILL_S


@dataclass(frozen=True, slots=True)
class GroupListing:
    """Groups by name. ``commits`` lacks groups that failed; ``problems``, ``hidden``: see
    `Snapshot`. ``listed_at``: the `time.monotonic` instant at which the last broker had
    answered."""

    groups: Mapping[str, GroupReading] = field(default_factory=dict)
    commits: Mapping[str, Sequence[Commit]] = field(default_factory=dict)
    members: Mapping[str, GroupMembers] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    listed_at: float = 0.0

    def read_by(self, group: str, names: Set[str]) -> Set[str]:
        """Those of the topics that a live member is subscribed or assigned to, or that a topology
        reads."""
        members = self.members.get(group)
        if members is None:
            return frozenset()
        found = members.topics & names
        if not members.patterns:
            return found
        every = frozenset(names)
        return found.union(*(_matched(pattern, every) for pattern in members.patterns))


@lru_cache(maxsize=256)
def _matched(pattern: str, names: frozenset[str]) -> frozenset[str]:
    """Each reading asks about the same topics, and many groups have the same pattern."""
    compiled = _compiled(pattern)
    if compiled is None:
        return names
    return frozenset(name for name in names if compiled.fullmatch(name))


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Pattern | None:
    """None: it may match anything, because the coordinator speaks RE2/J, and RE2 refuses the
    pattern or reads it otherwise."""
    if "\\C" in pattern:  # a byte to RE2, and nothing that RE2/J knows
        return None
    try:
        return Pattern(pattern)
    except ValueError:
        return None


ReadCommits = Callable[[Collection[str]], Mapping[str, Sequence[Commit] | Failure]]


def read_groups(
    kafka: Kafka,
    between: Callable[[float], None] = lambda _listed_at: None,
    read_commits: ReadCommits | None = None,
    executor: Executor = IN_TURN,
    *,
    had_commits: Set[str] | None = None,
) -> GroupListing:
    """All groups; whether none was hidden is for `with_completeness` to say.

    ``read_commits`` is asked about each listed group that commits, in place of all that it has
    committed. ``between`` is called between the listing and the commits, for example to wait.
    ``had_commits``: the groups that had commits a moment ago; without it, who has none shows only
    when the commits are read, and takes a round trip more.

    A group without a commit is described, also if it has no members: a coordinator that has lost
    sight of it, as when __consumer_offsets got partitions, tells no commit and no error, and then
    says that it is dead.

    Never raises `KafkaUnavailable`: what can't be asked makes the listing incomplete.
    """
    listed: Sequence[ListedGroup] = ()
    commits: dict[str, Sequence[Commit] | Failure] = {}
    members: Mapping[str, GroupMembers | Failure] = {}
    described: set[str] = set()
    listed_at = 0.0
    problems: tuple[str, ...] = ()
    try:
        listed = kafka.list_groups()
        listed_at = time.monotonic()
        between(listed_at)
        committing = [g.group_id for g in listed if g.kind in COMMITTING]
        shares = [g.group_id for g in listed if g.kind is GroupKind.SHARE]
        readable = [g for g in listed if g.kind in READABLE]
        described = {g.group_id for g in readable if _reads(g)}
        if had_commits is not None:
            described |= {g.group_id for g in readable} - had_commits
        live = [g for g in readable if g.group_id in described]
        shares_to_come = executor.submit(kafka.share_offsets, shares)
        members_to_come = executor.submit(kafka.members, live)
        commits |= (read_commits or kafka.commits)(committing)
        commits |= shares_to_come.result()
        members = members_to_come.result()
        if had_commits is None:
            bare = [g for g in readable if g.group_id not in described and _has_none(g, commits)]
            described |= {g.group_id for g in bare}
            if bare:
                members = {**members, **kafka.members(bare)}
    except KafkaUnavailable as error:
        problems = (str(error),)  # who has been seen by then is to be remembered all the same
    return GroupListing(
        groups={
            g.group_id: _reading(
                g,
                commits.get(g.group_id, NOT_ANSWERED),
                members.get(g.group_id, NOT_ANSWERED) if g.group_id in described else NO_MEMBERS,
            )
            for g in listed
        },
        commits={
            group: found for group, found in commits.items() if not isinstance(found, Failure)
        },
        members={
            group: found for group, found in members.items() if not isinstance(found, Failure)
        },
        problems=problems,
        listed_at=listed_at,
    )


def with_completeness(
    listing: GroupListing,
    kafka: Kafka,
    before: CoordinatorState,
    coordinators: LastCoordinators,
    wait_until: Callable[[float], None],
) -> GroupListing:
    """The listing with what speaks against its completeness. ``before``: how the coordinators stood
    for at least `standstill_s` when the listing began."""
    coordinators.last = None
    if listing.problems:
        return listing
    wait_until(listing.listed_at + standstill_s(before))
    try:
        after = kafka.coordinator_state(before)
    except KafkaUnavailable as error:
        return replace(listing, problems=(str(error),))
    if after == before:  # else a migration may have begun a moment ago
        coordinators.last = after
    # Granted only afterwards, it does not bring back what the listing lacks.
    sees_all = before.may_describe_cluster and after.may_describe_cluster
    hidden = () if sees_all else (HIDDEN_GROUPS,)
    return replace(listing, problems=problems(before, after), hidden=hidden)


def problems(before: CoordinatorState, after: CoordinatorState) -> tuple[str, ...]:
    """Why a listing taken between the two readings may lack groups, a sentence each."""
    sentences: list[str] = []
    if before.cluster_id != after.cluster_id:
        sentences.append(
            f"the cluster was {before.cluster_id} before the groups were listed, and is "
            f"{after.cluster_id} after it: see that kafka.bootstrap.servers name one cluster only"
        )
    if not after.may_describe_offsets:
        sentences.append(
            "Kafka hides __consumer_offsets from this principal, so groups could go missing "
            "unnoticed: grant it DESCRIBE on that topic "
            "(kafka-acls --add --topic __consumer_offsets --operation Describe)"
        )
    leaderless = sorted({*before.leaderless, *after.leaderless})
    if leaderless:
        sentences.append(
            f"{say_many(len(leaderless), 'partition')} of __consumer_offsets "
            f"{say_verb(len(leaderless), 'has', 'have')} no leader "
            f"({', '.join(map(str, leaderless[:5]))}): their groups can't be seen"
        )
    partitions = {partition for partition, _, _ in after.leaders}
    moved = before.leaders != after.leaders or len(after.leaders) > len(partitions)
    if moved:
        sentences.append("group coordinators moved while the groups were listed")
    not_at_work = sorted({*before.not_at_work, *after.not_at_work} - {*leaderless})
    if not_at_work and not moved and before.may_ask and after.may_ask:
        sentences.append(
            f"{say_many(len(not_at_work), 'group coordinator')} "
            f"{say_verb(len(not_at_work), 'is', 'are')} not available "
            f"({say_verb(len(not_at_work), 'partition', 'partitions')} "
            f"{', '.join(map(str, not_at_work[:5]))} of __consumer_offsets): "
            "their groups can't be seen"
        )
    behind = sorted({*before.behind, *after.behind})
    if behind and not moved:
        sentences.append(
            f"{say_many(len(behind), 'leader')} of __consumer_offsets "
            f"{say_verb(len(behind), 'has', 'have')} not caught up yet "
            f"({say_verb(len(behind), 'partition', 'partitions')} "
            f"{', '.join(map(str, behind[:5]))}): their groups can't be seen"
        )
    return tuple(sentences)


def _reads(group: ListedGroup) -> bool:
    """Whether it tells what it reads beside its commits: a topology outlives the members."""
    return group.kind is GroupKind.STREAMS or group.state not in ("Empty", "Dead")


def _has_none(group: ListedGroup, commits: Mapping[str, Sequence[Commit] | Failure]) -> bool:
    answer = commits.get(group.group_id, NOT_ANSWERED)
    return not isinstance(answer, Failure) and not len(answer)


def _reading(
    group: ListedGroup,
    commits: Sequence[Commit] | Failure,
    members: GroupMembers | Failure,
) -> GroupReading:
    return GroupReading(
        group_id=group.group_id,
        kind=group.kind,
        state=group.state,
        failure=_failure(group, commits, members),
        is_streams_classic=isinstance(members, GroupMembers) and members.is_streams_classic,
        is_connect=group.protocol_type == CONNECT_PROTOCOL,
    )


def _failure(
    group: ListedGroup,
    commits: Sequence[Commit] | Failure,
    members: GroupMembers | Failure,
) -> Failure | None:
    """Why the group as a whole is unreadable.

    Members that hide their subscriptions (a classic group in the midst of a rebalance does) may
    read any topic, whatever the group has committed so far. So may a streams group that hides its
    topology: that alone tells which topics it restores its state from.
    """
    if group.kind not in READABLE:
        return UNKNOWN_GROUP
    if isinstance(commits, Failure):
        return commits
    return members if isinstance(members, Failure) else None
