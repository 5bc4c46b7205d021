"""What keeps an enabled topic from ever losing a record, or makes that unwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from retentiond.collect.topics import EnabledTopic
from retentiond.config import Config, PolicyConflict, TopicPolicy
from retentiond.config.duration import say_duration
from retentiond.doctor.finding import Finding, Level, about, ok, unchecked
from retentiond.look.special import owner

DELETABLE = "delete"
COMPACTED = "compact"


def check_topics(topics: Sequence[EnabledTopic], config: Config) -> Iterator[Finding]:
    """Their cleanup policy, their own retention, and whose they are by their names."""
    found = [
        finding
        for check in (_unread, _conflicts, _compacted, _exceeding, _owned)
        for finding in check(topics, config)
    ]
    yield from found
    if topics and not found:
        yield ok("enabled topics", "cleanup.policy and retention.ms of each go with the policy")


def deletable(topics: Sequence[EnabledTopic]) -> tuple[EnabledTopic, ...]:
    """Those from which something can ever be deleted: the others' readers and disks are no
    matter."""
    return tuple(
        topic
        for topic in topics
        if not topic.reading.is_internal
        and DELETABLE in topic.reading.cleanup_policy
        and isinstance(topic.reading.policy, TopicPolicy)
        and (COMPACTED not in topic.reading.cleanup_policy or topic.reading.policy.allow_compacted)
    )


def _unread(topics: Sequence[EnabledTopic], _: Config) -> Iterator[Finding]:
    for topic in topics:
        if topic.reading.failure is not None:
            yield unchecked(f"topic {topic.reading.name}", topic.reading.failure)


def _conflicts(topics: Sequence[EnabledTopic], _: Config) -> Iterator[Finding]:
    for topic in topics:
        if isinstance(topic.reading.policy, PolicyConflict):
            yield Finding(
                Level.PROBLEM,
                f"topic {topic.reading.name}",
                f"held: {' and '.join(topic.reading.policy.sources)} treat it differently",
                "give it an entry with its exact name, which wins",
                (topic.reading.name,),
            )


def _compacted(topics: Sequence[EnabledTopic], config: Config) -> Iterator[Finding]:
    """Held with ``not_deletable``. That is no surprise where a pattern caught the topic."""
    exact = {entry.name for entry in config.topics}
    undeletable: dict[Level, list[str]] = {Level.PROBLEM: [], Level.WARNING: []}
    unallowed: dict[Level, list[str]] = {Level.PROBLEM: [], Level.WARNING: []}
    for topic in topics:
        reading = topic.reading
        level = Level.PROBLEM if reading.name in exact else Level.WARNING
        allowed = isinstance(reading.policy, TopicPolicy) and reading.policy.allow_compacted
        if reading.is_internal or (
            reading.cleanup_policy and DELETABLE not in reading.cleanup_policy
        ):
            undeletable[level].append(reading.name)
        elif COMPACTED in reading.cleanup_policy and not allowed:
            unallowed[level].append(reading.name)
    for level, names in undeletable.items():
        yield from about(
            level,
            "topic",
            names,
            "held for good: internal, or without delete in cleanup.policy",
            "leave it out of the policy",
        )
    for level, names in unallowed.items():
        yield from about(
            level,
            "topic",
            names,
            "held for good: compacted too (cleanup.policy=compact,delete)",
            "set allow_compacted: true if the last value of each key may go, or leave it out",
        )


def _exceeding(topics: Sequence[EnabledTopic], _: Config) -> Iterator[Finding]:
    for topic in topics:
        policy, forced_ms = topic.reading.policy, topic.reading.forced_retention_ms
        if not isinstance(policy, TopicPolicy) or forced_ms is None:
            continue
        if policy.consumed_retention_ms > forced_ms:
            yield Finding(
                Level.PROBLEM,
                f"topic {topic.reading.name}",
                f"held for good: its consumed retention of "
                f"{say_duration(policy.consumed_retention_ms)} exceeds its own retention.ms of "
                f"{say_duration(forced_ms)}",
                f"lower retention.commitoffset.* of {' and '.join(policy.sources)}",
                (topic.reading.name,),
            )


def _owned(topics: Sequence[EnabledTopic], _: Config) -> Iterator[Finding]:
    by_meaning: dict[str, list[str]] = {}
    for topic in topics:
        if (whose := owner(topic.reading.name)) is not None:
            by_meaning.setdefault(whose.meaning, []).append(topic.reading.name)
    for meaning, names in by_meaning.items():
        yield from about(
            Level.WARNING,
            "topic",
            names,
            meaning.replace("by its name", "by name", 1),
            "leave it out of the policy, unless you know that nobody reads it from the beginning",
        )
