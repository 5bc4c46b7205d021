"""The settings of a policy, each defined once.

A `PolicySetting` says how the file's rules set it, how a file writes it, how it reads in words, and
what a change of it does to records. Putting policies together (`refined`), describing one
(`sentence`), writing one (`entry_document`) and comparing two (`changes`) go through
`SETTINGS`, and so does everything else that asks for all settings of a policy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from retentiond.config.external_reader import ExternalReader
from retentiond.config.pattern import Pattern
from retentiond.config.rules import RETENTION_UNITS_MS, GroupRules, TopicRules
from retentiond.formatting import HOUR_MS, format_duration, listed, say_duration

_FLAG = re.compile(r"\(\?[a-zA-Z-]+\)")
"""A flag that holds for what follows it, as in ``(?i)orders``."""


@dataclass(frozen=True, slots=True)
class TopicPolicy:
    """How a topic is treated. Policies are equal if they treat it alike, whatever their sources.

    ``consumed_retention_ms``: 0 is "as soon as consumed". ``pressure_retention_ms``: the one while
    a disk is nearly full, at most that; None: the same. ``sources``: the entries that say so, as
    ``topics[2]``. ``owner``: who is asked about the topic; None: nobody in particular. ``fence``:
    the policy file whose fence the topic is in. ``dry_run``: the topic is on trial:
    planned and recorded, and nothing is requested.
    """

    enabled: bool = False
    consumed_retention_ms: int = 168 * HOUR_MS  # as in KIP-68
    pressure_retention_ms: int | None = None
    required_groups: tuple[str, ...] = ()
    excluded: tuple[Pattern, ...] = ()
    only: tuple[Pattern, ...] = ()  # empty: all groups
    min_groups: int = 1
    allow_compacted: bool = False
    forget_vanished_after_ms: int | None = None  # None: never
    external_readers: tuple[ExternalReader, ...] = ()
    assumes_visible_groups: bool = False
    dry_run: bool = False
    sources: tuple[str, ...] = field(default=(), compare=False)
    owner: str | None = field(default=None, compare=False)
    fence: str | None = field(default=None, compare=False)

    def names_external(self, reader: str) -> bool:
        return any(external.name == reader for external in self.external_readers)

    def speaks_of(self, reader: str, *, is_external: bool) -> bool:
        """Whether what ``groups`` says of names and numbers is about this reader. It is about
        groups of Kafka, and about external readers that the policy itself names. Any other external
        reader counts by its offset alone."""
        return not is_external or self.names_external(reader)

    def excludes(self, reader: str, *, is_external: bool = False) -> bool:
        if not self.speaks_of(reader, is_external=is_external):
            return False
        if self.only and not any(regex.fullmatch(reader) for regex in self.only):
            return True
        return any(regex.fullmatch(reader) for regex in self.excluded)

    def required_readers(self) -> tuple[tuple[str, bool], ...]:
        """The names of ``required``, and whether each is that of an external reader: of one that
        the policy itself names."""
        return tuple((name, self.names_external(name)) for name in self.required_groups)

    @property
    def only_groups(self) -> str | None:
        """Its patterns ``only`` as one; None where there are none."""
        patterns = [regex.pattern for regex in self.only]
        if len(patterns) > 1:  # a flag holds for its own pattern: (?i)bill and web
            patterns = [
                f"(?:{pattern})" if _FLAG.search(pattern) else pattern for pattern in patterns
            ]
        return "|".join(patterns) or None

    @property
    def deletes(self) -> bool:
        """Whether it lets records be deleted: it enables the topic, and not as a trial."""
        return self.enabled and not self.dry_run

    @property
    def counts_everybody(self) -> bool:
        return not (self.only or self.excluded)

    @property
    def who_counts(self) -> Hashable:
        """Equal for policies that exclude the same readers."""
        return self.only, self.excluded, tuple(reader.name for reader in self.external_readers)


class Effect(StrEnum):
    """What a change of a policy does to records."""

    SOONER = "sooner"
    """Records can be deleted earlier, or more of them."""

    LATER = "later"
    """Records can be deleted later, or fewer of them."""

    NONE = "none"
    """It makes no difference to when records can be deleted."""

    UNKNOWN = "unknown"
    """It depends on what is in the cluster."""


@dataclass(frozen=True, slots=True)
class PolicySetting:
    """One setting of a policy.

    ``key``: its name in the file. ``attribute``: where `TopicPolicy` has it. ``rule``: what rules
    say of it; None where they don't. ``normal``: its value in the form in which equal values are
    equal. ``written``: the value as a file has it. ``says``: what it means, in words; None where it
    need not be said. ``effect``: of a change from the first value to the second.
    ``chooses_readers``: whether it says which readers count. ``in_rule``: whether the plan's rule
    has it as a column (`retentiond.decide.rule`), called like the attribute.
    """

    key: str
    attribute: str
    rule: Callable[[TopicRules], Any]
    effect: Callable[[Any, Any], Effect]
    says: Callable[[Any], str | None] = lambda _value: None
    normal: Callable[[Any], Any] = lambda value: value
    written: Callable[[Any], Any] = lambda value: value
    chooses_readers: bool = False
    in_rule: bool = False

    def of(self, policy: TopicPolicy) -> Any:
        return getattr(policy, self.attribute)


def _groups(rules: TopicRules) -> GroupRules:
    return rules.groups or GroupRules()


_ASSUMES = {"assumed": True, "checked": False, None: None}


def smaller_is_sooner(before: int | None, after: int | None) -> Effect:
    """None is more than any figure."""
    if before is None or after is None:
        return Effect.SOONER if before is None else Effect.LATER
    return Effect.SOONER if after < before else Effect.LATER


def larger_is_sooner(before: int | None, after: int | None) -> Effect:
    return smaller_is_sooner(after, before)


def _true_is_sooner(before: bool, after: bool) -> Effect:
    return Effect.SOONER if after and not before else Effect.LATER


def _more_is(more: Effect, fewer: Effect) -> Callable[[Collection[Any], Collection[Any]], Effect]:
    """The effect of values that come or go; where some come and others go, nobody knows."""

    def effect(before: Collection[Any], after: Collection[Any]) -> Effect:
        if set(before) < set(after):
            return more
        return fewer if set(after) < set(before) else Effect.UNKNOWN

    return effect


def _only_effect(before: Collection[Pattern], after: Collection[Pattern]) -> Effect:
    """Without a pattern every group counts: the first one leaves groups out."""
    if not (before and after):
        return Effect.LATER if before else Effect.SOONER
    return _more_is(Effect.LATER, Effect.SOONER)(before, after)


def _sorted_patterns(patterns: Iterable[Pattern]) -> tuple[Pattern, ...]:
    return tuple(sorted(set(patterns), key=lambda regex: regex.pattern))


def _texts(patterns: Iterable[Pattern]) -> list[str]:
    return [regex.pattern for regex in patterns]


def _say_when(consumed_retention_ms: int) -> str:
    once = "every group that reads the topic has committed past them"
    if consumed_retention_ms == 0:
        return f"records can be deleted as soon as {once}"
    age = say_duration(consumed_retention_ms)
    return f"records can be deleted {age} after they were written, once {once}"


ENABLE = "retention.commitoffset.enable"

SETTINGS: tuple[PolicySetting, ...] = (
    PolicySetting(
        ENABLE,
        "enabled",
        lambda rules: rules.enable,
        _true_is_sooner,
    ),
    PolicySetting(
        "dry_run",
        "dry_run",
        lambda rules: rules.dry_run,
        lambda before, after: _true_is_sooner(after, before),
        says=lambda on_trial: "on trial (dry_run): nothing is deleted" if on_trial else None,
    ),
    PolicySetting(
        "retention.commitoffset.ms",
        "consumed_retention_ms",
        lambda rules: rules.consumed_retention_ms,
        smaller_is_sooner,
        says=_say_when,
    ),
    PolicySetting(
        "retention.commitoffset.pressure.ms",
        "pressure_retention_ms",
        lambda rules: rules.pressure_retention_ms,
        smaller_is_sooner,
        says=lambda ms: (
            None
            if ms is None
            else f"{say_duration(ms) or 'at once'} while a disk under them is nearly full"
        ),
    ),
    PolicySetting(
        "groups.required",
        "required_groups",
        lambda rules: _groups(rules).required,
        _more_is(Effect.LATER, Effect.SOONER),
        says=lambda groups: f"{listed(groups)} must have committed" if groups else None,
        normal=lambda groups: tuple(sorted(set(groups))),
        written=list,
        chooses_readers=True,
    ),
    PolicySetting(
        "groups.exclude",
        "excluded",
        lambda rules: _groups(rules).exclude,
        _more_is(Effect.SOONER, Effect.LATER),
        says=lambda patterns: (
            f"groups matching {listed(_texts(patterns), 'or')} do not count" if patterns else None
        ),
        normal=_sorted_patterns,
        written=_texts,
        chooses_readers=True,
    ),
    PolicySetting(
        "groups.only",
        "only",
        lambda rules: _groups(rules).only,
        _only_effect,
        says=lambda patterns: (
            f"ONLY groups matching {listed(_texts(patterns), 'or')} count" if patterns else None
        ),
        normal=_sorted_patterns,
        written=lambda patterns: _texts(patterns) or None,
        chooses_readers=True,
    ),
    PolicySetting(
        "groups.external",
        "external_readers",
        lambda rules: _groups(rules).external,
        _more_is(Effect.LATER, Effect.SOONER),
        says=lambda readers: (
            f"{listed([reader.name for reader in readers])} must have gone past them elsewhere "
            "than in Kafka"
            if readers
            else None
        ),
        normal=lambda readers: tuple(sorted(set(readers), key=lambda reader: reader.name)),
        written=lambda readers: [reader.written() for reader in readers],
        chooses_readers=True,
    ),
    PolicySetting(
        "groups.forget_vanished_after",
        "forget_vanished_after_ms",
        lambda rules: _groups(rules).forget_vanished_after_ms,
        smaller_is_sooner,
        says=lambda ms: (
            None
            if ms is None
            else f"a group that vanishes holds for {say_duration(ms) or 'no time'}"
        ),
        written=lambda ms: None if ms is None else format_duration(ms),
    ),
    PolicySetting(
        "groups_visible",
        "assumes_visible_groups",
        lambda rules: _ASSUMES[rules.groups_visible],
        _true_is_sooner,
        says=lambda assumed: (
            "groups that Kafka may hide from retentiond are taken not to exist" if assumed else None
        ),
        written=lambda assumed: "assumed" if assumed else "checked",
    ),
    PolicySetting(
        "allow_compacted",
        "allow_compacted",
        lambda rules: rules.allow_compacted,
        _true_is_sooner,
        says=lambda allowed: (
            "also where the topic is compacted as well as deleted from" if allowed else None
        ),
        in_rule=True,
    ),
    PolicySetting(
        "groups.min",
        "min_groups",
        lambda rules: _groups(rules).min,
        smaller_is_sooner,
        says=lambda least: f"at least {least} group{'s' if least > 1 else ''}",
        chooses_readers=True,
        in_rule=True,
    ),
)
"""All settings, in the order in which a policy is described."""


def refined(policy: TopicPolicy, rules: TopicRules) -> TopicPolicy:
    """The policy with what the rules set in its place."""
    values = {
        setting.attribute: setting.of(policy) if said is None else said
        for setting in SETTINGS
        for said in (setting.rule(rules),)
    }
    return TopicPolicy(
        **{setting.attribute: setting.normal(values[setting.attribute]) for setting in SETTINGS}
    )


def sentence(policy: TopicPolicy) -> str:
    if not policy.enabled:
        return "not enabled, so nothing is deleted."
    parts = (setting.says(setting.of(policy)) for setting in SETTINGS)
    return "; ".join(part for part in parts if part) + "."


def changes(before: TopicPolicy, after: TopicPolicy) -> tuple[tuple[str, Any, Any, Effect], ...]:
    """How two policies of a topic differ: each setting, both values as a file writes them (a
    retention in the coarsest unit that gives whole numbers), and the effect. If one of them deletes
    nothing (it does not enable the topic, or only as a trial), only what makes the other one delete
    has an effect."""
    deleting = before.deletes + after.deletes
    return tuple(
        (
            *_in_words(setting, old, new),
            setting.effect(old, new)
            if deleting == 2 or (deleting and setting.attribute in ("enabled", "dry_run"))
            else Effect.NONE,
        )
        for setting in SETTINGS
        for old, new in ((setting.of(before), setting.of(after)),)
        if old != new
    )


def _in_words(setting: PolicySetting, old: Any, new: Any) -> tuple[str, Any, Any]:
    """The setting's key, and both values under it: a retention in a unit that suits both."""
    key, is_retention, _ = setting.key.rpartition(".ms")
    for unit, unit_ms in reversed(RETENTION_UNITS_MS.items()) if is_retention else ():
        if all(value is None or value % unit_ms == 0 for value in (old, new)):
            before, after = (None if value is None else value // unit_ms for value in (old, new))
            return f"{key}.{unit}", before, after
    return setting.key, setting.written(old), setting.written(new)


def entry_document(
    topic: str, policy: TopicPolicy, rules: TopicRules | None = None
) -> dict[str, Any]:
    """An entry of ``topics`` with all that a policy says, because the entry of an exact name takes
    nothing from others. ``rules``: with what these say alone, for a file whose defaults say the
    rest."""
    document: dict[str, Any] = {"name": topic}
    for setting in SETTINGS:
        if rules is not None and setting.rule(rules) is None:
            continue
        section, key = document, setting.key
        if key.startswith("groups."):
            section, key = document.setdefault("groups", {}), key.removeprefix("groups.")
        if (value := setting.written(setting.of(policy))) is not None:
            section[key] = value
    return document
