"""What the entries of a configuration mean, in words."""

from __future__ import annotations

from retentiond.config.config import Config
from retentiond.config.duration import say_duration
from retentiond.config.phrases import listed
from retentiond.config.policy import TopicPolicy
from retentiond.config.topics import TopicEntry


def describe(config: Config) -> list[tuple[str, str]]:
    """Per entry of ``topics``, in the file's order: which topics it is about, and a sentence."""
    return [
        (_topics_of(entry), _sentence(policy))
        for entry, policy in zip(config.topics, config.policies, strict=True)
    ]


def _topics_of(entry: TopicEntry) -> str:
    if entry.pattern is not None:
        return f"topics matching {entry.pattern.pattern}"
    return str(entry.name)


def _sentence(policy: TopicPolicy) -> str:
    if not policy.enabled:
        return "not enabled, so nothing is deleted."
    parts = [_when(policy.consumed_retention_ms)]
    if policy.required_groups:
        parts.append(f"{listed(policy.required_groups)} must have committed")
    if policy.excluded:
        patterns = [regex.pattern for regex in policy.excluded]
        parts.append(f"groups matching {listed(patterns, 'or')} do not count")
    if policy.external_readers:
        names = [reader.name for reader in policy.external_readers]
        parts.append(f"{listed(names)} must have gone past them elsewhere than in Kafka")
    if policy.forget_vanished_after_ms is not None:
        parts.append(
            "a group that vanishes holds for "
            f"{say_duration(policy.forget_vanished_after_ms) or 'no time'}"
        )
    if policy.assumes_visible_groups:
        parts.append("groups that Kafka may hide from retentiond are taken not to exist")
    if policy.allow_compacted:
        parts.append("also where the topic is compacted as well as deleted from")
    parts.append(f"at least {policy.min_groups} group{'s' if policy.min_groups > 1 else ''}")
    return "; ".join(parts) + "."


def _when(consumed_retention_ms: int) -> str:
    once = "every group that reads the topic has committed past them"
    if consumed_retention_ms == 0:
        return f"records may go as soon as {once}"
    age = say_duration(consumed_retention_ms)
    return f"records may go {age} after they were written, once {once}"
