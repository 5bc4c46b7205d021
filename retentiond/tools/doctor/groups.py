"""Checks whether every group can be seen and read, and which groups read the enabled topics.

The guard's code (`retentiond.act.rule`) says which groups count on a topic.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from retentiond.act.evidence import Evidence
from retentiond.act.rule import check_topic, counting
from retentiond.config import Config, ExternalReader, TopicPolicy
from retentiond.formatting import say_many, say_name, say_verb
from retentiond.gather.assemble import unnamed_readers
from retentiond.gather.external_positions import Position
from retentiond.gather.groups import GroupListing, problems
from retentiond.gather.topics import EnabledTopic
from retentiond.kafka.interface import OFFSETS_TOPIC, CoordinatorState
from retentiond.kafka.remedies import GROUP_REFUSED, TOPIC_REFUSED
from retentiond.model import Commit, Failure, TopicPartition
from retentiond.tell.reasons import tool_options
from retentiond.tell.unseen_readers import MAY_RESTORE, unseen_readers
from retentiond.tools.doctor.finding import (
    Finding,
    Level,
    PartitionLog,
    about,
    about_held,
    first_names,
    grant_command,
    objection,
    ok,
    problem,
    warning,
)

REMEDIES = {
    GROUP_REFUSED: "grant this principal DESCRIBE on GROUP",
    TOPIC_REFUSED: "grant this principal DESCRIBE on every topic that it reads",
    "REBALANCE_IN_PROGRESS": "wait for the rebalance to end",
    "UNKNOWN_KIND": "upgrade retentiond",
    "MEMBERS_UNREADABLE": "see which client its members use, and upgrade or correct it: it does "
    "not write its topics as the consumer protocol wants it",
    "MEMBERS_HIDDEN": "wait for the rebalance to end",
    "TOPOLOGY_HIDDEN": "start the application, which tells the broker its topology",
    "NOT_OF_ITS_KIND": "upgrade the brokers to Kafka 3.8 or newer, which say what kind a group is, "
    "or have its consumers use group.protocol=classic",
}
"""What to do about a group that can't be read, by the error's code."""


def check_groups_visible(state: CoordinatorState, config: Config) -> Iterator[Finding]:
    """Rights and coordinators allow every group to be seen."""
    options = tool_options(config.kafka)
    level = Level.WARNING if _assumes_visible(config) else Level.PROBLEM
    if not state.may_describe_cluster:
        yield Finding(
            level,
            "DESCRIBE on CLUSTER",
            "is not granted: Kafka hides groups from this principal, so nothing is deleted"
            if level is Level.PROBLEM
            else "is not granted: Kafka may hide groups from this principal, as the policy assumes "
            "it does not",
            grant_command(options, "Describe", "--cluster"),
        )
    if not state.may_ask:
        yield problem(
            "DESCRIBE on GROUP *",
            "is not granted: a group that can't be read holds every topic that it may read",
            grant_command(options, "Describe", "--group '*'"),
        )
    if not state.may_describe_offsets:
        yield problem(
            f"DESCRIBE on {OFFSETS_TOPIC}",
            "is not granted, so groups could go missing unnoticed, and nothing is deleted",
            grant_command(options, "Describe", f"--topic {OFFSETS_TOPIC}"),
        )
    other_state = replace(state, may_describe_offsets=True)  # the finding above covers this right
    for sentence in problems(other_state, other_state):
        yield problem(
            "group coordinators",
            f"{sentence}, and nothing is deleted",
            "start the brokers that hold __consumer_offsets, or wait until they have loaded it",
        )
    if state.may_describe_cluster and state.may_ask and state.may_describe_offsets:
        yield ok("rights on cluster and groups", "DESCRIBE is granted, so no group is hidden")


def _assumes_visible(config: Config) -> bool:
    enabled = [entry.policy for entry in config.entries if entry.policy.enabled]
    return bool(enabled) and all(policy.assumes_visible_groups for policy in enabled)


def check_groups(listing: GroupListing) -> Iterator[Finding]:
    """Every group can be read. A group that can't be read holds every topic that it may read."""
    for sentence in listing.problems:
        yield problem(
            "groups",
            f"can't be listed in full, so nothing is deleted: {sentence}",
            "fix the broker that is named",
        )
    if listing.problems:
        return
    by_failure: dict[Failure, list[str]] = {}
    for group in listing.groups.values():
        if group.failure is not None:
            by_failure.setdefault(group.failure, []).append(group.group_id)
    for failure, groups in by_failure.items():
        yield from about(
            Level.PROBLEM,
            "group",
            groups,
            f"can't be read, so whatever may be read by it is held ({failure})",
            REMEDIES.get(failure.code, "see the broker that coordinates it"),
        )
    readable = Counter(group.kind for group in listing.groups.values() if group.failure is None)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(readable.items()))
    yield ok(
        "groups", f"{say_many(readable.total(), 'group')} can be read" + f" ({kinds})" * bool(kinds)
    )


def check_readers(topics: Sequence[EnabledTopic], evidence: Evidence) -> Iterator[Finding]:
    """Every topic has readers, among them the groups that the policy requires, and no group
    restores its state from it."""
    if evidence.problems:  # another check reports them; a missing reader may just be hidden
        return
    held: list[tuple[str, str]] = []
    for topic in topics:
        policy, name = topic.reading.policy, topic.reading.name
        if not isinstance(policy, TopicPolicy):
            continue
        readers = evidence.readers_of(name)
        yield from _not_waited_for(
            policy, name, readers.difference(counting(evidence, name, readers))
        )
        if (sentence := objection(check_topic, evidence, name)) is not None:
            held.append((name, sentence))
        else:
            committed = evidence.committed_on(name)
            held += [
                (name, f"group {say_name(group)} is required, and has never committed on it")
                for group in evidence.required_by(policy)
                if group not in committed
            ]
    yield from about_held(Level.WARNING, held)
    if topics and not held:
        yield ok(
            "readers",
            "every enabled topic is read by a group, or by an external reader that is named; "
            "readers that commit nothing can't be seen",
        )


def _not_waited_for(policy: TopicPolicy, name: str, uncounted: Iterable[str]) -> Iterator[Finding]:
    """Readers that don't count because of ``groups.only``. Groups that ``groups.exclude`` names are
    left out: they were excluded on purpose."""
    not_in_only = sorted(
        group
        for group in uncounted
        if policy.only and not any(regex.fullmatch(group) for regex in policy.excluded)
    )
    if not_in_only:
        yield warning(
            f"topic {name}",
            f"does not wait for {first_names(not_in_only)}, which "
            f"{'reads' if len(not_in_only) == 1 else 'read'} it: only groups that match "
            f"{policy.only_groups} count (groups.only)",
            "take groups.only out of the policy, or give it a pattern for each group that has to "
            "have read the records",
            (name,),
        )


def check_unseen(names: frozenset[str], evidence: Evidence) -> Iterator[Finding]:
    """Nothing suggests that enabled topics have readers that commit nothing. ``names``: all visible
    topics."""
    unseen = unseen_readers(names, evidence.groups.values())
    for sign in unseen.evidence if evidence.topics else ():
        yield warning(
            "readers that commit nothing",
            f"can't be seen, and there may be some: {sign}",
            "see that none of them reads an enabled topic; name those that keep their position in "
            "a file, at an address or in Kafka Connect's offsets topic (groups.external), and "
            "leave out of the policy what others read",
        )
    topics_by_group: defaultdict[str, list[str]] = defaultdict(list)
    for name in evidence.topics:
        for group in counting(evidence, name, unseen.streams & evidence.readers_of(name)):
            topics_by_group[group].append(name)
    for group, topics in sorted(topics_by_group.items()):
        yield from about(
            Level.WARNING,
            "topic",
            topics,
            f"read by group {say_name(group)}, which looks like Kafka Streams, {MAY_RESTORE}",
            "leave it out of the policy, unless the application keeps no table of it, or has "
            "changelog topics of its own; the same goes for the topics of its global tables, "
            "whose readers can't be seen",
        )


def check_external(
    topics: Sequence[EnabledTopic],
    external: Mapping[ExternalReader, Position],
    groups: Container[str],
    logs: Mapping[TopicPartition, PartitionLog | Failure],
) -> Iterator[Finding]:
    """The position of every external reader is readable and fits the topics whose policy names it.
    ``groups``: the groups of the cluster. ``logs``: read after the positions."""
    for sentence in unnamed_readers(topics, external):
        yield warning(
            "external readers",
            sentence,
            "name it under groups.external of that topic too, unless it no longer reads the topic",
        )
    for reader, position in sorted(external.items(), key=lambda item: item[0].name):
        subject = f"external reader {say_name(reader.name)}"
        named = {
            topic.reading.name: set(topic.partitions)
            for topic in topics
            if isinstance(topic.reading.policy, TopicPolicy)
            and reader in topic.reading.policy.external_readers
        }
        if not named:
            continue
        if reader.name in groups:
            yield problem(
                subject,
                f"has the name of a group of the cluster, so {_are_held(named)}",
                "give it another name under groups.external",
                tuple(sorted(named)),
            )
        if isinstance(position, Failure):
            yield problem(
                subject,
                f"can't be read, so {_are_held(named)}: {position.message}",
                "see that the place under groups.external is right, that this user may read it, "
                "and that the reader writes it at least every max_age",
                tuple(sorted(named)),
            )
            continue
        lacking = {
            name: partitions - {commit.partition for commit in position if commit.topic == name}
            for name, partitions in named.items()
        }
        yield from about(
            Level.WARNING,
            "topic",
            [name for name, partitions in lacking.items() if partitions],
            f"held: the position of {subject} does not name every partition",
            "see that it reads the topic and has begun with each of its partitions; else take it "
            "out of the topic's groups.external",
        )
        if beyond := _beyond_end(position, named, logs):
            held = sorted({at.topic for at in beyond})
            yield problem(
                subject,
                f"its position lies beyond the end, so {_are_held(held)}: "
                f"{'; '.join(sorted(beyond.values())[:MOST_SHOWN])}",
                "see that the place under groups.external tells next offsets of this very cluster, "
                "and whether the topic was recreated",
                tuple(held),
            )
            continue
        yield ok(
            subject,
            f"its position is read: {say_many(len(position), 'partition')} of "
            f"{say_many(len({commit.topic for commit in position}), 'topic')}",
        )


def _are_held(topics: Collection[str]) -> str:
    return f"{first_names(sorted(topics))} {say_verb(len(topics), 'is', 'are')} held"


MOST_SHOWN = 3
"""How many partitions of a reader are named."""


def _beyond_end(
    position: Sequence[Commit],
    topics: Container[str],
    logs: Mapping[TopicPartition, PartitionLog | Failure],
) -> dict[TopicPartition, str]:
    """The partitions where the position is beyond the end of the log, with words for each. A log
    that couldn't be read proves nothing."""
    beyond = {}
    for commit in position:
        at = TopicPartition(commit.topic, commit.partition)
        log = logs.get(at)
        if commit.topic not in topics or not isinstance(log, PartitionLog):
            continue
        if commit.offset is not None and commit.offset > log.high_watermark:
            beyond[at] = f"{at} ends at {log.high_watermark}, its position is {commit.offset}"
    return beyond
