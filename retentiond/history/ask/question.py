"""What is asked of each topic of the past: which policy it is tried under.

What the policy in force has decided by (who counts, what is compacted, what is hidden) stands in
the record as its result. So a policy with other groups is judged by the commits themselves. One
that is more careful elsewhere, or with an external reader whose positions nobody has read, can't be
judged: then everything counts as kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa
from pydantic import ValidationError

from retentiond.config import Config, ExternalReader, PolicyConflict, TopicPolicy
from retentiond.config.disk_pressure import DiskPressure
from retentiond.config.document import read_document
from retentiond.config.reader import path_of, sentence_of
from retentiond.config.rules import TopicEntry
from retentiond.config.settings import SETTINGS, refined
from retentiond.errors import ConfigError, UsageError

PolicyFor: TypeAlias = Callable[[str], TopicPolicy | PolicyConflict | None]


@dataclass(frozen=True, slots=True)
class TopicQuestion:
    """``retention_ms``: None where the policy enables nothing, or contradicts itself.

    ``policy``: the one that is tried, ``in_force``: the one that the record was made under, None
    where there is none. ``is_known``: whether the record tells what such a policy would have done.
    """

    topic: str
    retention_ms: int | None
    policy: TopicPolicy | None
    in_force: TopicPolicy | None
    conflict: bool

    @property
    def min_groups(self) -> int:
        return self.policy.min_groups if self.policy else 1

    @property
    def pressure_ms(self) -> int | None:
        """The pressure retention; None where disk pressure changes nothing."""
        return self.policy.pressure_retention_ms if self.policy else None

    @property
    def is_known(self) -> bool:
        if self.policy is None or not self._external <= self._external_then:
            return False
        return self.in_force is None or all(
            getattr(self.policy, each) or not getattr(self.in_force, each)
            for each in ("allow_compacted", "assumes_visible_groups")
        )

    @property
    def has_other_groups(self) -> bool:
        """Whether other groups count than did, so that their commits have to be looked at."""
        if self.policy is None or self.in_force is None:
            return self.policy is not None
        return self.waits_longer or any(
            setting.chooses_readers and setting.of(self.policy) != setting.of(self.in_force)
            for setting in SETTINGS
        )

    @property
    def waits_longer(self) -> bool:
        """Whether it waits longer for groups that have vanished."""
        if self.policy is None or self.in_force is None:
            return False
        then_ms = self.in_force.forget_vanished_after_ms
        now_ms = self.policy.forget_vanished_after_ms
        return then_ms is not None and (now_ms is None or now_ms > then_ms)

    @property
    def _external(self) -> frozenset[ExternalReader]:
        return frozenset(self.policy.external_readers if self.policy else ())

    @property
    def _external_then(self) -> frozenset[ExternalReader]:
        return frozenset(self.in_force.external_readers if self.in_force else ())

    def drops(self, name: str) -> bool:
        """Whether an external reader of that name counted, and does so no more."""
        return name in {each.name for each in self._external_then - self._external}

    def counts(self, group: str) -> bool:
        """Whether either policy lets the group count: what it misses is a loss."""
        policies = [each for each in (self.policy, self.in_force) if each]
        return not policies or not all(each.excludes(group) for each in policies)

    def excludes(self, group: str) -> bool:
        return self.policy is not None and self.policy.excludes(group)


POLICY_COLUMNS: dict[str, tuple[pa.DataType, Callable[[TopicQuestion], int | bool | None]]] = {
    "consumed_retention_ms": (pa.int64(), lambda asked: asked.retention_ms),
    "min_groups": (pa.int32(), lambda asked: asked.min_groups),
    "conflict": (pa.bool_(), lambda asked: asked.conflict),
    "is_known": (pa.bool_(), lambda asked: asked.is_known),
}
"""What the rule takes of the policy that is tried, by the columns of `retentiond.decide.rule`."""


def questions(
    topics: Iterable[str], policy_for: PolicyFor, in_force: PolicyFor
) -> tuple[TopicQuestion, ...]:
    """One for each topic, in the order of the names."""
    return tuple(_question(topic, policy_for(topic), in_force(topic)) for topic in sorted(topics))


def _question(
    topic: str,
    tried: TopicPolicy | PolicyConflict | None,
    in_force: TopicPolicy | PolicyConflict | None,
) -> TopicQuestion:
    policy = tried if isinstance(tried, TopicPolicy) else None
    return TopicQuestion(
        topic,
        policy.consumed_retention_ms if policy else None,
        policy,
        in_force if isinstance(in_force, TopicPolicy) else None,
        isinstance(tried, PolicyConflict),
    )


@dataclass(frozen=True, slots=True)
class TriedPolicy:
    """``changes``: of single topics, which beat those of the configuration. ``under_pressure``: as
    if every disk had been under pressure all the time."""

    config: Config
    changes: dict[str, TopicPolicy]
    under_pressure: bool = False

    def policy_for(self, topic: str) -> TopicPolicy | PolicyConflict | None:
        """As `Config.policy_for`."""
        policy = self.changes.get(topic) or self.config.policy_for(topic)
        if not isinstance(policy, TopicPolicy):
            return policy
        if self.under_pressure and policy.pressure_retention_ms is not None:
            policy = replace(policy, consumed_retention_ms=policy.pressure_retention_ms)
        return policy if policy.enabled else None

    @property
    def disk_pressure(self) -> DiskPressure | None:
        """When a disk is under pressure; None where it is not asked when."""
        return None if self.under_pressure else self.config.disk_pressure

    @property
    def longest_ms(self) -> int:
        """The longest retention that it knows."""
        policies = [each.policy for each in self.config.entries]
        every = (*policies, *self.changes.values())
        return max(each.consumed_retention_ms for each in every)


def tried_policy(config: Config, changes: Sequence[str]) -> TriedPolicy:
    """The configuration's policy with ``changes``, each as TOPIC:KEY=VALUE with a key and a value
    of an entry of ``topics``. Raises `UsageError` and `ConfigError`."""
    of_topics: dict[str, dict[str, Any]] = {}
    for written in changes:
        topic, colon, setting = written.partition(":")
        key, equals, value = setting.partition("=")
        if not (topic and colon and key and equals):
            raise UsageError(
                f"--set {written!a} is not TOPIC:KEY=VALUE, as in "
                "orders:retention.commitoffset.hours=6"
            )
        settings = of_topics.setdefault(topic, {})
        if key.startswith("groups."):
            settings, key = settings.setdefault("groups", {}), key.removeprefix("groups.")
        try:
            settings[key] = read_document(value)
        except ConfigError as error:
            raise ConfigError(error.message, path=f"--set {topic}:{setting}") from error
    return TriedPolicy(
        config, {topic: _changed(config, topic, each) for topic, each in of_topics.items()}
    )


def _changed(config: Config, topic: str, settings: dict[str, Any]) -> TopicPolicy:
    """The topic's policy, or that of ``defaults`` where it has none of its own."""
    for key in ("name", "pattern"):
        if key in settings:
            raise ConfigError(
                "expected a setting of the topic's policy, not its name",
                path=f"--set {topic}:{key}",
            )
    try:
        entry = TopicEntry.model_validate({"name": topic, **settings})
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(sentence_of(first), path=f"--set {topic}:{path_of(first)}") from None
    policy = config.policy_for(topic)
    if not isinstance(policy, TopicPolicy):
        policy = refined(TopicPolicy(), config.defaults)
    return refined(policy, entry)
