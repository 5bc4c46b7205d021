"""What the configuration says about topics: the file's sections, and a policy for each entry.

KIP-68's keys are literal: ``retention.commitoffset.hours`` is one key. A setting of None was not
set in its place. An entry refines ``defaults``, which refine what is built in, setting by setting.
An exact name beats every pattern; patterns that treat a topic differently are a conflict, never a
guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Self, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from retentiond.config.external_reader import ExternalReader
from retentiond.config.values import (
    INT64_MAX,
    Count,
    CountingPatterns,
    Duration,
    Flag,
    Pattern,
    Regex,
    Section,
    Text,
    TopicName,
    Visibility,
    refused,
    whole,
)
from retentiond.errors import ConfigError
from retentiond.formatting import HOUR_MS, MINUTE_MS

_T = TypeVar("_T")

_FLAG = re.compile(r"\(\?[a-zA-Z-]+\)")
"""A flag that holds for what follows it, as in ``(?i)orders``."""

# Kafka's times are int64 milliseconds.
Hours = Annotated[int, Field(ge=0, le=INT64_MAX // HOUR_MS), BeforeValidator(whole)]
Minutes = Annotated[int, Field(ge=0, le=INT64_MAX // MINUTE_MS), BeforeValidator(whole)]
Milliseconds = Annotated[int, Field(ge=0, le=INT64_MAX), BeforeValidator(whole)]


class GroupRules(Section):
    """Which groups decide over a topic."""

    required: tuple[Text, ...] | None = None
    """Groups that must have committed on the topic; it is held until they have. By default none."""

    exclude: tuple[Regex, ...] | None = None
    """Regular expressions (RE2 syntax); a group whose whole id matches one does not count.
    By default none."""

    only: CountingPatterns | None = None
    """Regular expressions (RE2 syntax), one or more; a group whose whole id matches none of them
    does not count: what it has not read may be deleted. A dot stands for a line break, too. By
    default every group counts."""

    external: tuple[ExternalReader, ...] | None = None
    """Readers that keep their position elsewhere than in Kafka; each counts as a group. By default
    none."""

    min: Count | None = None
    """The least number of groups that must count; with fewer the topic is held. By default 1."""

    forget_vanished_after_ms: Duration | None = Field(default=None, alias="forget_vanished_after")
    """How long a group that has vanished holds what it has not read: a number with its unit, as
    in 30d. Only time in which cycles saw that it was gone counts. By default it holds until an
    operator forgets it."""


class TopicRules(Section):
    """What holds for topics: for all of them under `defaults`, for some under `topics`."""

    enable: Flag | None = Field(default=None, alias="retention.commitoffset.enable")
    """Whether consumed records are deleted. By default false."""

    hours: Hours | None = Field(default=None, alias="retention.commitoffset.hours")
    """The consumed retention: how long a record stays at least, in hours. 0 is "as soon as
    consumed". By default 168; any unit set on a topic beats all units of `defaults`."""

    minutes: Minutes | None = Field(default=None, alias="retention.commitoffset.minutes")
    """The consumed retention in minutes; beats hours."""

    ms: Milliseconds | None = Field(default=None, alias="retention.commitoffset.ms")
    """The consumed retention in milliseconds; beats minutes and hours."""

    groups: GroupRules | None = None
    """Which groups count; each key set on a topic beats the same key of `defaults`."""

    allow_compacted: Flag | None = None
    """Whether records of a topic with cleanup.policy `compact,delete` may be deleted.
    By default false."""

    groups_visible: Visibility | None = None
    """`checked`: hold while Kafka may hide groups from retentiond's principal. `assumed`: go on,
    with a warning in each cycle. By default checked."""

    @property
    def consumed_retention_ms(self) -> int | None:
        """The consumed retention set here, None where no unit is."""
        if self.ms is not None:
            return self.ms
        if self.minutes is not None:
            return self.minutes * MINUTE_MS
        return None if self.hours is None else self.hours * HOUR_MS


class TopicEntry(TopicRules):
    """One entry of `topics`: a topic by its name, or all whose name matches a pattern."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["name"]}, {"required": ["pattern"]}]}
    )

    name: TopicName | None = None
    """The topic's exact name; beats every pattern."""

    pattern: Regex | None = None
    """A regular expression (RE2 syntax) that must match a topic's whole name."""

    @model_validator(mode="after")
    def _one_of_name_and_pattern(self) -> Self:
        if (self.name is None) == (self.pattern is None):
            both_or_none = "not both" if self.name else "here are neither"
            raise refused(f"expected either a name or a pattern, {both_or_none}")
        return self


@dataclass(frozen=True, slots=True)
class TopicPolicy:
    """How a topic is treated. Policies are equal if they treat it alike, whatever their sources.

    ``consumed_retention_ms``: 0 is "as soon as consumed". ``sources``: the entries of the file
    that say so, as ``topics[2]``.
    """

    enabled: bool = False
    consumed_retention_ms: int = 168 * HOUR_MS  # as in KIP-68
    required_groups: tuple[str, ...] = ()
    excluded: tuple[Pattern, ...] = ()
    only: tuple[Pattern, ...] = ()  # empty: all groups
    min_groups: int = 1
    allow_compacted: bool = False
    forget_vanished_after_ms: int | None = None  # None: never
    external_readers: tuple[ExternalReader, ...] = ()
    assumes_visible_groups: bool = False
    sources: tuple[str, ...] = field(default=(), compare=False)

    def excludes(self, group_id: str) -> bool:
        """Whether the group does not count."""
        if self.only and not any(regex.fullmatch(group_id) for regex in self.only):
            return True
        return any(regex.fullmatch(group_id) for regex in self.excluded)

    @property
    def only_groups(self) -> str | None:
        """Its patterns ``only`` as one; None where there are none."""
        patterns = [regex.pattern for regex in self.only]
        if len(patterns) > 1:  # a flag holds for its own pattern: (?i)bill and web
            patterns = [f"(?:{each})" if _FLAG.search(each) else each for each in patterns]
        return "|".join(patterns) or None

    @property
    def counts_everybody(self) -> bool:
        """Whether there is no group that it excludes."""
        return not (self.only or self.excluded)


@dataclass(frozen=True, slots=True)
class PolicyConflict:
    """Patterns match the topic that would treat it differently; ``sources`` are their entries."""

    sources: tuple[str, ...]

    def excludes(self, group_id: str) -> bool:
        """No group: as long as nobody knows how the topic is to be treated, each counts."""
        return False


@dataclass(frozen=True, slots=True)
class Policies:
    """The policy of every entry, ready to be asked for thousands of topics."""

    of_entries: tuple[TopicPolicy, ...]  # in the file's order, disabled ones included
    by_name: dict[str, TopicPolicy]
    by_pattern: tuple[tuple[Pattern, TopicPolicy], ...]
    _of_topics: dict[str, TopicPolicy | PolicyConflict | None] = field(
        default_factory=dict, repr=False, compare=False
    )

    def policy_for(self, topic: str) -> TopicPolicy | PolicyConflict | None:
        """The policy of an enabled topic; None where nothing enables it. Worked out once."""
        if topic not in self._of_topics:
            self._of_topics[topic] = self._work_out(topic)
        return self._of_topics[topic]

    def _work_out(self, topic: str) -> TopicPolicy | PolicyConflict | None:
        if topic in self.by_name:
            exact = self.by_name[topic]
            return exact if exact.enabled else None
        matches = [policy for regex, policy in self.by_pattern if regex.fullmatch(topic)]
        if not any(policy.enabled for policy in matches):
            return None
        first, *others = matches
        if not others:
            return first
        sources = tuple(source for policy in matches for source in policy.sources)
        if any(policy != first for policy in others):
            return PolicyConflict(sources)
        return replace(first, sources=sources)


def work_out_policies(defaults: TopicRules, topics: Sequence[TopicEntry]) -> Policies:
    """Raises ConfigError where entries contradict each other or themselves."""
    every_topic = refined(TopicPolicy(), defaults)
    _refuse_namesakes(defaults, "defaults")
    of_entries: list[TopicPolicy] = []
    by_name: dict[str, TopicPolicy] = {}
    by_pattern: list[tuple[Pattern, TopicPolicy]] = []
    for index, entry in enumerate(topics):
        source = f"topics[{index}]"
        _refuse_contradiction(defaults, entry, source)
        _refuse_namesakes(entry, source)
        policy = replace(refined(every_topic, entry), sources=(source,))
        of_entries.append(policy)
        if entry.pattern is not None:
            by_pattern.append((entry.pattern, policy))
        elif entry.name is not None:
            if entry.name in by_name:
                (first,) = by_name[entry.name].sources
                raise ConfigError(
                    f"{first} has this name, too; keep one entry for the topic",
                    path=f"{source}.name",
                )
            by_name[entry.name] = policy
    return Policies(tuple(of_entries), by_name, tuple(by_pattern))


def refined(policy: TopicPolicy, rules: TopicRules) -> TopicPolicy:
    """The policy with what the rules set in its place."""
    groups = rules.groups or GroupRules()
    required: tuple[str, ...] = _set(groups.required, policy.required_groups)
    excluded: tuple[Pattern, ...] = _set(groups.exclude, policy.excluded)
    return TopicPolicy(
        enabled=_set(rules.enable, policy.enabled),
        consumed_retention_ms=_set(rules.consumed_retention_ms, policy.consumed_retention_ms),
        # Order and repetition make no difference to a topic, so they make none to equality.
        required_groups=tuple(sorted(set(required))),
        excluded=_sorted(excluded),
        only=_sorted(_set(groups.only, policy.only)),
        min_groups=_set(groups.min, policy.min_groups),
        allow_compacted=_set(rules.allow_compacted, policy.allow_compacted),
        forget_vanished_after_ms=_set(
            groups.forget_vanished_after_ms, policy.forget_vanished_after_ms
        ),
        external_readers=tuple(
            sorted(set(_set(groups.external, policy.external_readers)), key=lambda each: each.name)
        ),
        assumes_visible_groups=(
            policy.assumes_visible_groups
            if rules.groups_visible is None
            else rules.groups_visible == "assumed"
        ),
    )


def _sorted(patterns: Iterable[Pattern]) -> tuple[Pattern, ...]:
    return tuple(sorted(set(patterns), key=lambda regex: regex.pattern))


def _refuse_namesakes(rules: TopicRules, source: str) -> None:
    """Two external readers of one name would count as one."""
    readers = (rules.groups or GroupRules()).external or ()
    names = [reader.name for reader in readers]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise ConfigError(
                "another external reader here has this name; give each its own",
                path=f"{source}.groups.external[{at}].name",
            )


def _set(value: _T | None, otherwise: _T) -> _T:
    return otherwise if value is None else value


def _refuse_contradiction(defaults: TopicRules, entry: TopicEntry, source: str) -> None:
    """A group can't be excluded and required, or declared, by what holds for one entry."""
    own, general = entry.groups or GroupRules(), defaults.groups or GroupRules()
    excluded_by = source if own.exclude is not None else "defaults"
    excluded = _set(own.exclude, general.exclude or ())
    only_by = source if own.only is not None else "defaults"
    only = _set(own.only, general.only or ())

    def refuse_excluded(group: str, what: str, path: str) -> None:
        if only and not any(regex.fullmatch(group) for regex in only):
            raise ConfigError(
                f"expected {what} that counts for {source}, but {only_by}.groups.only has no "
                "pattern that matches this one; change one of the two",
                path=path,
            )
        for index, regex in enumerate(excluded):
            if regex.fullmatch(group):
                raise ConfigError(
                    f"expected {what} that counts for {source}, but "
                    f"{excluded_by}.groups.exclude[{index}] excludes this one; change one of the "
                    "two",
                    path=path,
                )

    by = source if own.required is not None else "defaults"
    for at, group in enumerate(_set(own.required, general.required or ())):
        refuse_excluded(group, "a group", f"{by}.groups.required[{at}]")
    by = source if own.external is not None else "defaults"
    for at, reader in enumerate(_set(own.external, general.external or ())):
        refuse_excluded(reader.name, "an external reader", f"{by}.groups.external[{at}].name")
