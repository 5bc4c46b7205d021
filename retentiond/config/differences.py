"""What changes from one configuration to another, and what that does to records: for a review.

Patterns that enable a topic and treat it differently hold it. So a change of one pattern may free
or hold topics that it shares with others, whatever the change itself says. Whether two patterns
share a topic can't be decided in general: beside another pattern the effect is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retentiond.config.config import Config
from retentiond.config.policy import PolicyEntry
from retentiond.config.settings import (
    ENABLE,
    Effect,
    TopicPolicy,
    changes,
    larger_is_sooner,
    smaller_is_sooner,
)
from retentiond.config.values import is_unknown
from retentiond.fields import TEXT, VALUE, WORD, described, said
from retentiond.formatting import parse_bytes, parse_duration

NOT_SHOWN = "(not shown)"
"""Stands for a value that may be a secret."""

_MAY_BE_SECRET = ("kafka.", "spark.conf.", "http.basic_auth.")
_ABOUT_TOPICS = {"topics", "defaults"}
_BOOTSTRAP = "kafka.bootstrap.servers"


def _more_free(before: str | None, after: str | None) -> Effect:
    """Of free space that is asked for, a percentage; None: none is."""
    was, becomes = (0.0 if value is None else float(value.rstrip("%")) for value in (before, after))
    return Effect.NONE if was == becomes else Effect.SOONER if becomes > was else Effect.LATER


def _shorter_wait(
    before: str | None, after: str | None, parse: Callable[[str], int | None]
) -> Effect:
    """Of what a deletion waits for, as a file writes it; None: nothing waits."""
    was, becomes = ((value and parse(value)) or 0 for value in (before, after))
    return smaller_is_sooner(was, becomes)


_EFFECTS: dict[str, Callable[[Any, Any], Effect]] = {
    "dry_run": lambda _before, after: Effect.LATER if after else Effect.SOONER,
    "limits.records_per_cycle": larger_is_sooner,
    "limits.partitions_per_cycle": larger_is_sooner,
    "limits.settle_cycles": smaller_is_sooner,
    "limits.worthwhile.bytes": lambda before, after: _shorter_wait(before, after, parse_bytes),
    "limits.worthwhile.after": lambda before, after: _shorter_wait(before, after, parse_duration),
    **dict.fromkeys(
        ("disk_pressure", "disk_pressure.below_free", "disk_pressure.until_free"), _more_free
    ),
    _BOOTSTRAP: lambda _before, _after: Effect.UNKNOWN,  # it may be another cluster
    "state_dir": lambda _before, _after: Effect.UNKNOWN,  # it may know other readers
    "policies": lambda _before, _after: Effect.UNKNOWN,  # its files are not known
}
"""Effects of settings that are not a topic's; all others of these have no effect."""


@described
class Difference:
    """One setting that differs."""

    entry: str | None = said(TEXT, "an entry's topic or pattern; null: a setting of the file")
    owner: str | None = said(TEXT, "the owner of the entry's policy file")
    setting: str = said(WORD, "the setting's name")
    before: Any = said(VALUE, "its value as a file writes it; null: not set")
    after: Any = said(VALUE, "the newer value")
    effect: Effect = said(WORD, f"when records may be deleted: {', '.join(Effect)}")


def differences(before: Config, after: Config) -> tuple[Difference, ...]:
    """By entry in the order of the newer files, then entries that are gone, then other settings."""
    return (*_of_entries(before, after), *_of_settings(before, after))


@dataclass(frozen=True, slots=True)
class EntryPair:
    """An entry before and after; None where it is missing. ``present``: the newer one if there is
    one."""

    old: PolicyEntry | None
    new: PolicyEntry | None
    present: PolicyEntry

    @property
    def is_pattern(self) -> bool:
        return self.present.entry.pattern is not None


def pair_entries(before: Iterable[PolicyEntry], after: Iterable[PolicyEntry]) -> list[EntryPair]:
    """In the order of the newer entries, then those that are gone. Several entries may have the
    same pattern: those of one file belong together."""
    older, newer = list(before), list(after)
    older_by_position: dict[int, PolicyEntry] = {}
    for same_file in (True, False):
        for number, new in enumerate(newer):
            if number in older_by_position:
                continue
            for old in older:
                if old.about == new.about and (old.file == new.file or not same_file):
                    older_by_position[number] = old
                    older.remove(old)
                    break
    pairs = [EntryPair(older_by_position.get(number), new, new) for number, new in enumerate(newer)]
    return [*pairs, *(EntryPair(old, None, old) for old in older)]


def _of_entries(before: Config, after: Config) -> Iterator[Difference]:
    pairs = pair_entries(before.entries, after.entries)
    some_name_unknown = any(is_unknown(pair.present.about) for pair in pairs)
    for pair in pairs:
        was, becomes = _policy(pair, pair.old, before), _policy(pair, pair.new, after)
        stays = pair.old is not None and pair.new is not None
        changed = changes(was, becomes) if stays or was.enabled or becomes.enabled else ()
        others_say_too = (
            any(other.is_pattern for other in pairs if other is not pair)
            if pair.is_pattern
            else some_name_unknown and not stays
        )
        # A trial deletes nothing, and yet it may have held what another pattern deletes now.
        has_held = pair.is_pattern and was.enabled
        for setting, old, new, effect in changed:
            unclear = others_say_too and (has_held or effect is not Effect.NONE)
            yield _difference(pair, setting, old, new, Effect.UNKNOWN if unclear else effect)
        of_entry = Effect.UNKNOWN if others_say_too else Effect.NONE
        if not (stays or changed):
            was_at, is_at = (entry and entry.source for entry in (pair.old, pair.new))
            yield _difference(pair, "entry", was_at, is_at, of_entry)
        yield from _of_entry(pair, of_entry)


def _of_entry(pair: EntryPair, effect: Effect) -> Iterator[Difference]:
    """What an entry that stays says beside its policy."""
    old, new = pair.old, pair.new
    if old is None or new is None:
        return
    said = (old.entry.enable, new.entry.enable)
    if (
        pair.is_pattern
        and old.policy.enabled == new.policy.enabled
        and said[0] != said[1]
        and False in said
    ):
        # A pattern that says false itself switches off. By default it is in conflict with others.
        yield _difference(pair, ENABLE, *said, effect)
    if old.policy.owner != new.policy.owner:
        yield _difference(pair, "owner", old.policy.owner, new.policy.owner, Effect.NONE)
    if old.excepted != new.excepted:
        # A topic that is excepted follows whatever else matches it.
        yield _difference(pair, "except", old.excepted, new.excepted, Effect.UNKNOWN)


def _difference(
    pair: EntryPair, setting: str, before: Any, after: Any, effect: Effect
) -> Difference:
    text, _ = pair.present.about
    return Difference(text, pair.present.policy.owner, setting, before, after, effect)


def _policy(pair: EntryPair, entry: PolicyEntry | None, config: Config) -> TopicPolicy:
    """What held where the entry is missing: for a topic's name, whatever else matches it."""
    if entry is not None:
        return entry.policy
    text, is_pattern = pair.present.about
    otherwise = None if is_pattern else config.policy_for(text)
    return otherwise if isinstance(otherwise, TopicPolicy) else TopicPolicy()


def _of_settings(before: Config, after: Config) -> Iterator[Difference]:
    old, new = _flat(before), _flat(after)
    for setting in sorted(old.keys() | new.keys()):
        was, becomes = old.get(setting), new.get(setting)
        if was == becomes:
            continue
        effect = _EFFECTS[setting](was, becomes) if setting in _EFFECTS else Effect.NONE
        if setting.startswith("policies.") and setting.endswith(".topics"):
            effect = Effect.UNKNOWN  # a fence decides whose entries count for its topics
        if setting.startswith(_MAY_BE_SECRET) and setting != _BOOTSTRAP:
            was, becomes = (None if value is None else NOT_SHOWN for value in (was, becomes))
        yield Difference(None, None, setting, was, becomes, effect)


def _flat(config: Config) -> dict[str, Any]:
    document = config.model_dump(by_alias=True, exclude=_ABOUT_TOPICS, warnings=False)
    if not is_unknown(config.policies):  # their entries are compared
        document["policies"] = {
            fence.file: fence.fence.model_dump(by_alias=True, mode="json", exclude={"file"})
            for fence in config.fences.every
        }
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
