"""What changes from one configuration to another, and what that does to records: for a review."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retentiond.config.config import Config
from retentiond.config.policy import PolicyEntry
from retentiond.config.settings import Effect, TopicPolicy, changes
from retentiond.config.values import is_unknown

NOT_SHOWN = "(not shown)"
"""Stands for a value that may be a secret."""

_MAY_BE_SECRET = ("kafka.", "spark.conf.", "http.basic_auth.")
_ABOUT_TOPICS = {"topics", "defaults"}
_BOOTSTRAP = "kafka.bootstrap.servers"


def _null_is_most(before: int | None, after: int | None) -> Effect:
    """The effect of a limit: a higher one lets more records go."""
    if before is None or after is None:
        return Effect.LATER if before is None else Effect.SOONER
    return Effect.SOONER if after > before else Effect.LATER


def _more_free(before: str | None, after: str | None) -> Effect:
    """Of free space that is asked for, a percentage; None: none is."""
    was, becomes = (0.0 if each is None else float(each.rstrip("%")) for each in (before, after))
    return Effect.NONE if was == becomes else Effect.SOONER if becomes > was else Effect.LATER


_EFFECTS: dict[str, Callable[[Any, Any], Effect]] = {
    "dry_run": lambda _before, after: Effect.LATER if after else Effect.SOONER,
    "limits.records_per_cycle": _null_is_most,
    "limits.partitions_per_cycle": _null_is_most,
    "limits.settle_cycles": lambda before, after: Effect.LATER if after > before else Effect.SOONER,
    **dict.fromkeys(
        ("disk_pressure", "disk_pressure.below_free", "disk_pressure.until_free"), _more_free
    ),
    _BOOTSTRAP: lambda _before, _after: Effect.UNKNOWN,  # it may be another cluster
    "state_dir": lambda _before, _after: Effect.UNKNOWN,  # it may know other readers
    "policies": lambda _before, _after: Effect.UNKNOWN,  # its files are not known
}
"""Effects of settings that are not a topic's; all others of these have no effect."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One setting that differs. ``entry``: the name or pattern of an entry of topics; None: it is a
    setting of the file. ``before`` and ``after``: as a file writes them, None where not set."""

    entry: str | None
    owner: str | None
    setting: str
    before: Any
    after: Any
    effect: Effect


def differences(before: Config, after: Config) -> tuple[Difference, ...]:
    """By entry in the order of the newer files, then entries that are gone, then other settings."""
    return (*_of_entries(before, after), *_of_settings(before, after))


def _of_entries(before: Config, after: Config) -> Iterator[Difference]:
    old, new = ({_key(each): each for each in config.entries} for config in (before, after))
    for key in (*new, *(key for key in old if key not in new)):
        yield from _of_entry(key, old.get(key), new.get(key), before, after)


def _key(entry: PolicyEntry) -> tuple[str, bool]:
    """The name or the pattern, and which of both it is."""
    if entry.entry.pattern is not None:
        return entry.entry.pattern.pattern, True
    return str(entry.entry.name), False


def _of_entry(
    key: tuple[str, bool],
    old: PolicyEntry | None,
    new: PolicyEntry | None,
    before: Config,
    after: Config,
) -> Iterator[Difference]:
    text, is_pattern = key
    present = new or old
    owner = present.policy.owner if present else None
    was, becomes = _policy(old, text, is_pattern, before), _policy(new, text, is_pattern, after)
    for change in changes(was, becomes):
        yield Difference(text, owner, change.setting, change.before, change.after, change.effect)
    if old is None or new is None:
        if not changes(was, becomes):
            yield Difference(text, owner, "entry", _presence(old), _presence(new), Effect.NONE)
        return
    if old.policy.owner != new.policy.owner:
        yield Difference(text, owner, "owner", old.policy.owner, new.policy.owner, Effect.NONE)
    excepted, excepts = (
        [regex.pattern for regex in each.entry.exceptions or ()] for each in (old, new)
    )
    if excepted != excepts:
        # A topic that is excepted follows whatever else matches it.
        yield Difference(text, owner, "except", excepted, excepts, Effect.UNKNOWN)


def _presence(entry: PolicyEntry | None) -> str | None:
    return None if entry is None else entry.source


def _policy(entry: PolicyEntry | None, text: str, is_pattern: bool, config: Config) -> TopicPolicy:
    """What held where the entry is missing: for a topic's name, whatever else matches it."""
    if entry is not None:
        return entry.policy
    otherwise = None if is_pattern else config.policy_for(text)
    return otherwise if isinstance(otherwise, TopicPolicy) else TopicPolicy()


def _of_settings(before: Config, after: Config) -> Iterator[Difference]:
    old, new = _flat(before), _flat(after)
    for setting in sorted(old.keys() | new.keys()):
        was, becomes = old.get(setting), new.get(setting)
        if was == becomes:
            continue
        effect = _effect(setting, was, becomes)
        if setting.startswith(_MAY_BE_SECRET) and setting != _BOOTSTRAP:
            was, becomes = (None if value is None else NOT_SHOWN for value in (was, becomes))
        yield Difference(None, None, setting, was, becomes, effect)


def _effect(setting: str, before: Any, after: Any) -> Effect:
    if setting not in _EFFECTS:
        return Effect.NONE
    unknown = is_unknown((before, after))
    return Effect.UNKNOWN if unknown else _EFFECTS[setting](before, after)


def _flat(config: Config) -> dict[str, Any]:
    document = config.model_dump(by_alias=True, exclude=_ABOUT_TOPICS, warnings=False)
    if not is_unknown(config.policies):
        del document["policies"]  # their entries are compared
    unmasked = {"kafka": config.kafka, "spark": {**document["spark"], "conf": config.spark.conf}}
    users = config.http.basic_auth or {}
    unmasked["http"] = {**document["http"], "basic_auth": users}
    return dict(_leaves({**document, **unmasked}, ""))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield path, str(value) if isinstance(value, Path) else value
        return
    for key, below in value.items():
        yield from _leaves(below, f"{path}.{key}" if path else str(key))
