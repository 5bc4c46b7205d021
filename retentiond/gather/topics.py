"""Which topics the policy enables, and what they are."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Executor
from dataclasses import dataclass

from retentiond.background import IN_TURN
from retentiond.config import Config, NoPolicy, TopicPolicy
from retentiond.kafka.interface import (
    NO_SUCH_TOPIC,
    NOT_ANSWERED,
    Kafka,
    TopicConfig,
    TopicDescription,
)
from retentiond.model import Failure
from retentiond.snapshot import TopicReading


@dataclass(frozen=True, slots=True)
class EnabledTopic:
    """A topic's reading and its partitions, ascending; where the metadata show none, the first:
    every topic has that, and its row says what is the matter."""

    reading: TopicReading
    partitions: tuple[int, ...]

    @property
    def is_gone(self) -> bool:
        """Or not there yet; what may not be seen has another failure."""
        return _is_no_topic(self.reading.failure)


def enabled_topics(
    kafka: Kafka,
    config: Config,
    only: Collection[str] | None = None,
    executor: Executor = IN_TURN,
) -> tuple[EnabledTopic, ...]:
    """The topics that the policy enables, sorted by name, ``only`` those if given: of these, one
    that is gone, or may not be seen, is a topic with a failure.

    A topic in conflict between two patterns counts as enabled: its row says so.
    Raises `KafkaUnavailable` when the topics can't be listed.
    """
    wanted = kafka.topic_names() if only is None else only
    policies = {
        name: policy for name in sorted(wanted) if (policy := config.policy_for(name)) is not None
    }
    configs_to_come = executor.submit(kafka.topic_configs, policies.keys())
    described = kafka.describe_topics(policies.keys())
    configs = configs_to_come.result()
    return tuple(
        _topic(name, policy, described.get(name, NOT_ANSWERED), configs.get(name, NOT_ANSWERED))
        for name, policy in policies.items()
    )


def topics_gone(kafka: Kafka, unlisted: Collection[str]) -> frozenset[str]:
    """Those that are not there, of topics that a listing lacks.

    A listing also lacks what the principal may not see, without a word. Asked for by its name, only
    a topic that is not there has this answer, and only for a principal that may see it.
    """
    if not unlisted:
        return frozenset()
    answers = kafka.describe_topics(unlisted)
    return frozenset(
        name
        for name, answer in answers.items()
        if isinstance(answer, Failure) and _is_no_topic(answer)
    )


def _is_no_topic(failure: Failure | None) -> bool:
    return failure is not None and failure.code == NO_SUCH_TOPIC


FIRST_PARTITION = (0,)

NO_ID = Failure(
    "NO_TOPIC_ID",
    "the cluster gives topics no id, so a recreated topic could not be recognized: raise "
    "inter.broker.protocol.version to 2.8 or later",
)


def _topic(
    name: str,
    policy: TopicPolicy | NoPolicy,
    description: TopicDescription | Failure,
    config: TopicConfig | Failure,
) -> EnabledTopic:
    described = description if isinstance(description, TopicDescription) else None
    configured = config if isinstance(config, TopicConfig) else None
    failures = [part for part in (description, config) if isinstance(part, Failure)]
    if described and described.topic_id is None:
        failures.append(NO_ID)
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
    partitions = described.partitions if described else ()
    return EnabledTopic(reading, partitions or FIRST_PARTITION)
