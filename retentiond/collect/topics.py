"""Which topics the policy enables, and what they are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from retentiond.collect.snapshot import TopicReading
from retentiond.config import Config, PolicyConflict, TopicPolicy
from retentiond.kafka.port import Kafka, TopicConfig, TopicDescription
from retentiond.model import Failure


@dataclass(frozen=True, slots=True)
class EnabledTopic:
    """A topic's reading and its partitions, ascending; none where the metadata is unread."""

    reading: TopicReading
    partitions: tuple[int, ...]


def enabled_topics(
    kafka: Kafka, config: Config, only: Collection[str] | None = None
) -> tuple[EnabledTopic, ...]:
    """The topics that the policy enables, sorted by name, ``only`` those if given: of these, one
    that is gone is a topic with a failure.

    A topic in conflict between two patterns counts as enabled: its row says so.
    Raises `KafkaUnavailable` when the topics can't be listed.
    """
    wanted = kafka.topic_names() if only is None else only
    policies = {
        name: policy for name in sorted(wanted) if (policy := config.policy_for(name)) is not None
    }
    described = kafka.describe_topics(policies.keys())
    configs = kafka.topic_configs(policies.keys())
    return tuple(
        _topic(name, policy, described.get(name, _UNREAD), configs.get(name, _UNREAD))
        for name, policy in policies.items()
    )


_UNREAD = Failure("NOT_ANSWERED", "the broker left the topic out of its answer")


def _topic(
    name: str,
    policy: TopicPolicy | PolicyConflict,
    description: TopicDescription | Failure,
    config: TopicConfig | Failure,
) -> EnabledTopic:
    described = description if isinstance(description, TopicDescription) else None
    configured = config if isinstance(config, TopicConfig) else None
    failures = [part for part in (description, config) if isinstance(part, Failure)]
    reading = TopicReading(
        name=name,
        policy=policy,
        topic_id=described.topic_id if described else None,
        is_internal=described.is_internal if described else False,
        cleanup_policy=configured.cleanup_policy if configured else frozenset(),
        forced_retention_ms=configured.retention_ms if configured else None,
        failure=failures[0] if failures else None,
        config=configured,
    )
    return EnabledTopic(reading, described.partitions if described else ())
