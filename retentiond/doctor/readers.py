"""Who reads the enabled topics, and whether all groups can be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from retentiond.collect.census import Census
from retentiond.collect.topics import EnabledTopic
from retentiond.config import TopicPolicy
from retentiond.config.phrases import listed
from retentiond.doctor.finding import Finding, Level, about, ok
from retentiond.model import Failure
from retentiond.wording.figures import say_many

REMEDIES = {
    "GROUP_AUTHORIZATION_FAILED": "grant this principal DESCRIBE on GROUP",
    "TOPIC_AUTHORIZATION_FAILED": "grant this principal DESCRIBE on every topic that it reads",
    "REBALANCE_IN_PROGRESS": "wait for the rebalance to end",
    "UNKNOWN_KIND": "upgrade retentiond",
}
"""By the error's code."""


def check_groups(census: Census) -> Iterator[Finding]:
    """Each group can be read; one that can't holds every topic that it may read."""
    for problem in census.problems:
        yield Finding(
            Level.PROBLEM,
            "groups",
            f"can't be listed in full, so nothing is deleted: {problem}",
            "mend the broker that is named",
        )
    if census.problems:
        return
    by_failure: dict[Failure, list[str]] = {}
    for group in census.groups.values():
        if group.failure is not None:
            by_failure.setdefault(group.failure, []).append(group.group_id)
    for failure, groups in by_failure.items():
        yield from about(
            Level.PROBLEM,
            "group",
            groups,
            f"can't be read, so whatever may be read by it is held ({failure})",
            f"{REMEDIES.get(failure.code, 'see the broker that coordinates it')}; or name it in "
            "groups.exclude if it need not count",
        )
    readable = Counter(group.kind for group in census.groups.values() if group.failure is None)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(readable.items()))
    yield ok(
        "groups", f"{say_many(readable.total(), 'group')} can be read" + f" ({kinds})" * bool(kinds)
    )


def check_readers(topics: Sequence[EnabledTopic], census: Census) -> Iterator[Finding]:
    """Each enabled topic is read by somebody, and by whom the policy requires."""
    if census.problems:  # said by `check_groups`; what is missing here may be hidden there
        return
    unread: list[str] = []
    readers_of = _committed(census)
    for topic in topics:
        policy, name = topic.reading.policy, topic.reading.name
        if not isinstance(policy, TopicPolicy):
            continue
        candidates = readers_of.get(name, set()) | {
            group for group in census.members if census.may_read(group, name)
        }
        groups = {group for group in candidates if not policy.excludes(group)}
        readers = groups | {reader.name for reader in policy.external_readers}
        missing = [group for group in policy.required_groups if group not in groups]
        if not readers:
            unread.append(name)
        if missing:
            yield Finding(
                Level.WARNING,
                f"topic {name}",
                f"held: {listed(missing)} must have committed on it, and "
                f"{'has' if len(missing) == 1 else 'have'} not",
                f"start {'it' if len(missing) == 1 else 'them'}, or mend groups.required",
                (name,),
            )
        elif readers and len(readers) < policy.min_groups:
            yield Finding(
                Level.WARNING,
                f"topic {name}",
                f"held: {say_many(len(readers), 'group')} counted on it, and groups.min is "
                f"{policy.min_groups}",
                "start the others, or lower groups.min",
                (name,),
            )
    yield from about(
        Level.WARNING,
        "topic",
        unread,
        "held: read by no group that counts",
        "start its readers, name an external one (groups.external), or leave the topic out",
    )
    if topics and not unread:
        yield ok("readers", "every enabled topic is read by a group")


def _committed(census: Census) -> dict[str, set[str]]:
    groups: dict[str, set[str]] = {}
    for group, commits in census.commits.items():
        for commit in commits:
            groups.setdefault(commit.topic, set()).add(group)
    return groups
