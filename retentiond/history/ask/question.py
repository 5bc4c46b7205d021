"""The questions about the past: under which policy a topic is tried.

The record has the results of the policy in force: which groups count, what is compacted, what is
hidden. So a policy with other groups is judged by the recorded commits themselves. A policy that is
more careful in other respects, or has an external reader whose positions were not read, can't be
judged: then all records count as kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
from pydantic import ValidationError

from retentiond.config import Config, ExternalReader, NoPolicy, TopicPolicy
from retentiond.config.document import read_document
from retentiond.config.parsing import path_of, sentence_of
from retentiond.config.policy import PolicyEntry
from retentiond.config.rules import PRESSURE, TopicEntry
from retentiond.config.settings import SETTINGS, Effect, PolicySetting, changes, refined
from retentiond.decide.star_schema import RULE_SETTINGS
from retentiond.errors import ConfigError, UsageError
from retentiond.formatting import say_duration, say_name

PolicyFor: TypeAlias = Callable[[str], TopicPolicy | NoPolicy | None]


@dataclass(frozen=True, slots=True)
class TopicQuestion:
    """The question about a topic.

    - ``policy``: the policy that is tried; ``in_force``: the policy of the record. None if there is
      none.
    - ``is_known``: whether the record tells what the tried policy would have done.
    """

    topic: str
    policy: TopicPolicy | None
    in_force: TopicPolicy | None
    conflict: bool

    @property
    def retention_ms(self) -> int | None:
        """The tried policy's; None if it doesn't enable the topic, or contradicts itself."""
        return self.policy.consumed_retention_ms if self.policy else None

    @property
    def is_known(self) -> bool:
        if self.policy is None:
            return False
        then = self.in_force.external_readers if self.in_force else ()
        if not self._external <= set(map(_position, then)):
            return False
        return self.in_force is None or all(
            getattr(self.policy, permission) or not getattr(self.in_force, permission)
            for permission in ("allow_compacted", "assumes_visible_groups")
        )

    @property
    def has_other_groups(self) -> bool:
        """Whether other groups count than did then, so that commits have to be read."""
        if self.policy is None or self.in_force is None:
            return self.policy is not None
        return self.waits_longer or any(
            setting.chooses_readers and setting.of(self.policy) != setting.of(self.in_force)
            for setting in SETTINGS
        )

    @property
    def waits_longer(self) -> bool:
        """Whether the tried policy waits longer for groups that have vanished."""
        if self.policy is None or self.in_force is None:
            return False
        then_ms = self.in_force.forget_vanished_after_ms
        now_ms = self.policy.forget_vanished_after_ms
        return then_ms is not None and (now_ms is None or now_ms > then_ms)

    @property
    def _external(self) -> frozenset[str]:
        return frozenset(map(_position, self.policy.external_readers if self.policy else ()))

    def drops(self, name: str) -> bool:
        """Whether an external reader of that name counted then, and doesn't count any more."""
        readers = self.in_force.external_readers if self.in_force else ()
        return any(
            reader.name == name and _position(reader) not in self._external for reader in readers
        )

    def counts(self, group: str, *, was_external: bool = False) -> bool:
        """Whether one of the policies lets the group count. Records that such a group misses are a
        loss. ``was_external``: whether an external reader had that name."""
        policies = [policy for policy in (self.policy, self.in_force) if policy]
        return not policies or not all(
            policy.excludes(group, is_external=was_external) for policy in policies
        )

    def excludes(self, group: str) -> bool:
        return self.policy is not None and self.policy.excludes(group)


def _position(reader: ExternalReader) -> str:
    """Whose position it is and where it is kept, however one logs in there."""
    written = {
        key: value for key, value in reader.written().items() if key not in ("headers", "ca")
    }
    return json.dumps(written | {"max_age": reader.max_age_ms}, sort_keys=True)


def _setting(setting: PolicySetting, question: TopicQuestion) -> Any:
    return setting.of(question.policy or TopicPolicy())


POLICY_COLUMNS: dict[str, tuple[pa.DataType, Callable[[TopicQuestion], int | bool | None]]] = {
    "consumed_retention_ms": (pa.int64(), lambda question: question.retention_ms),
    **{rule.attribute: (kind, partial(_setting, rule)) for rule, kind in RULE_SETTINGS.items()},
    "conflict": (pa.bool_(), lambda question: question.conflict),
    "policy_unreadable": (pa.bool_(), lambda _asked: False),
    "is_known": (pa.bool_(), lambda question: question.is_known),
    "assumes_visible_groups": (
        pa.bool_(),
        lambda question: question.policy is not None and question.policy.assumes_visible_groups,
    ),
}
"""What the rule needs of the tried policy, by its columns in `retentiond.decide.rule`."""


def questions(
    topics: Iterable[str], policy_for: PolicyFor, in_force: PolicyFor
) -> tuple[TopicQuestion, ...]:
    """A question for each topic, sorted by name."""
    by_name = []
    for topic in sorted(topics):
        tried, then = policy_for(topic), in_force(topic)
        by_name.append(
            TopicQuestion(
                topic,
                tried if isinstance(tried, TopicPolicy) else None,
                then if isinstance(then, TopicPolicy) else None,
                isinstance(tried, NoPolicy),
            )
        )
    return tuple(by_name)


@dataclass(frozen=True, slots=True)
class TriedPolicy:
    """A policy to try. ``changes``: policies of single topics, which replace those of the
    configuration. ``under_pressure``: as if every disk had been under pressure all the time."""

    config: Config
    changes: dict[str, TopicPolicy]
    under_pressure: bool = False

    def policy_for(self, topic: str) -> TopicPolicy | NoPolicy | None:
        policy = self.changes.get(topic) or self.config.policy_for(topic)
        if not isinstance(policy, TopicPolicy):
            return policy
        if self.under_pressure and policy.pressure_retention_ms is not None:
            policy = replace(policy, consumed_retention_ms=policy.pressure_retention_ms)
        return policy if policy.enabled else None

    def differs(self, topic: str, in_force: Config) -> bool:
        """Whether it treats the topic's records differently from what is in force. A trial deletes
        nothing, and neither does anything in a dry run that this policy ends. One that it does not
        end is no difference."""
        ends_dry_run = in_force.dry_run and not self.config.dry_run
        before, after = (
            policy if isinstance(policy, TopicPolicy) else TopicPolicy()
            for policy in (
                None
                if ends_dry_run
                else replace(self, config=in_force, changes={}).policy_for(topic),
                self.policy_for(topic),
            )
        )
        return any(effect is not Effect.NONE for *_, effect in changes(before, after))

    def differs_in(self, entry: PolicyEntry, in_force: Config) -> bool:
        """The same of an entry whose topics are not known."""
        name, is_pattern = entry.about
        if not is_pattern:
            return self.differs(name, in_force)
        return (in_force.dry_run and not self.config.dry_run) or not any(
            (old.about, old.excepted, old.policy) == (entry.about, entry.excepted, entry.policy)
            for old in in_force.entries
        )

    @property
    def longest_ms(self) -> int:
        policies = (*(entry.policy for entry in self.config.entries), *self.changes.values())
        return max(policy.consumed_retention_ms for policy in policies)


def tried_policy(config: Config, changes: Sequence[str]) -> TriedPolicy:
    """The configuration's policy with ``changes``. A change is TOPIC:KEY=VALUE, with a key and a
    value as in an entry of ``topics``. Raises `UsageError` and `ConfigError`."""
    by_topic: dict[str, dict[str, Any]] = {}
    for written in changes:
        topic, colon, setting = written.partition(":")
        key, equals, value = setting.partition("=")
        if not (topic and colon and key and equals):
            raise UsageError(
                f"--set {written!a} is not TOPIC:KEY=VALUE, as in "
                "orders:retention.commitoffset.hours=6"
            )
        settings = by_topic.setdefault(topic, {})
        if key.startswith("groups."):
            settings, key = settings.setdefault("groups", {}), key.removeprefix("groups.")
        try:
            settings[key] = read_document(value)
        except ConfigError as error:
            raise ConfigError(error.message, path=f"--set {topic}:{setting}") from error
    return TriedPolicy(
        config, {topic: _changed(config, topic, settings) for topic, settings in by_topic.items()}
    )


def _changed(config: Config, topic: str, settings: dict[str, Any]) -> TopicPolicy:
    """The topic's policy with these settings, also if it enables nothing. They refine ``defaults``
    if no entry is about the topic. Raises `ConfigError`, also if patterns contradict each other."""
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
    policies = _policies_about(config, topic) or [refined(TopicPolicy(), config.defaults)]
    if len(policies) > 1:
        raise ConfigError(
            "several patterns treat the topic differently; try a file that names it, with --policy",
            path=f"--set {topic}",
        )
    policy = refined(policies[0], entry)
    declared = (*policy.required_groups, *(reader.name for reader in policy.external_readers))
    for name in declared:
        if policy.excludes(name):
            raise ConfigError(
                f"expected groups that count: {say_name(name)} is required or declared, and does "
                "not count",
                path=f"--set {topic}:groups",
            )
    return _with_pressure_at_most(policy, topic, entry.key_of_retention(PRESSURE))


def _policies_about(config: Config, topic: str) -> list[TopicPolicy]:
    """The different policies of the entries about the topic: those that enable it, or else all of
    them."""
    exact = [entry.policy for entry in config.entries if entry.entry.name == topic]
    policies = exact or [entry.policy for entry in config.entries if entry.matches(topic)]
    enabling = [policy for policy in policies if policy.enabled] or policies
    return [policy for at, policy in enumerate(enabling) if policy not in enabling[:at]]


def _with_pressure_at_most(policy: TopicPolicy, topic: str, written: str | None) -> TopicPolicy:
    """The policy with a pressure retention of its consumed retention at most, as a configuration
    must have it. ``written``: the change's own key of a pressure retention, whose value is refused
    instead. Raises `ConfigError`."""
    pressure_ms, consumed_ms = policy.pressure_retention_ms, policy.consumed_retention_ms
    if pressure_ms is None or pressure_ms <= consumed_ms:
        return policy
    if written is not None:
        raise ConfigError(
            f"expected the topic's consumed retention ({say_duration(consumed_ms) or 'none'}) or "
            f"less, not {say_duration(pressure_ms)}",
            path=f"--set {topic}:{written}",
        )
    return replace(policy, pressure_retention_ms=consumed_ms)
