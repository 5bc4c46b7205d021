"""The few words of a configuration by which a deletion is judged, read with PyYAML alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Document = Mapping[str, Any]
"""What a configuration file holds."""

PREFIX = "retention.commitoffset."
UNITS = {"ms": 1, "minutes": 60_000, "hours": 3_600_000}

BY_HAND: Document = {"by_hand": True}
"""Stands for `retentiond delete-records`, which no configuration bounds."""


@dataclass(frozen=True, slots=True)
class Words:
    """What counts for a topic. ``age_ms``: the shortest that a deleted record may have.
    ``by_hand``: `retentiond delete-records`, which asks for no group."""

    age_ms: int = 0
    exclude: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    dry_run: bool = False
    by_hand: bool = False

    def counts(self, group: str) -> bool:
        if _matches(group, self.exclude):
            return False
        return not self.only or _matches(group, self.only)


def documents(file: Path) -> Iterator[Document]:
    """Of a configuration file and of its teams' files; each team's with what it has of the main
    file's. Raises OSError, ValueError."""
    try:
        main = yaml.safe_load(file.read_text()) or {}
        yield main
        globs = main.get("policies", ())
        for entry in [globs] if isinstance(globs, str) else globs:
            pattern = entry["file"] if isinstance(entry, Mapping) else entry
            for found in sorted(file.parent.glob(pattern)):
                team = yaml.safe_load(found.read_text()) or {}
                defaults = {**main.get("defaults", {}), **team.get("defaults", {})}
                yield {"dry_run": main.get("dry_run", True), **team, "defaults": defaults}
    except (yaml.YAMLError, AttributeError, TypeError) as error:
        raise ValueError(f"{file} holds no configuration: {error}") from error


def words_for(topic: str, configured: Iterable[Document]) -> list[Words]:
    """Of each entry that enables the topic."""
    return [words for document in configured for words in _words(topic, document)]


def _words(topic: str, document: Document) -> Iterator[Words]:
    if document == BY_HAND:
        yield Words(by_hand=True)
    defaults = document.get("defaults") or {}
    for entry in document.get("topics") or ():
        setting = {**defaults, **entry}
        if (
            entry.get("name", topic) != topic
            or not _matches(topic, [entry.get("pattern", ".*")])
            or _matches(topic, entry.get("except", ()))
            or not setting.get(f"{PREFIX}enable")
        ):
            continue
        groups = {**(defaults.get("groups") or {}), **(entry.get("groups") or {})}
        yield Words(
            age_ms=min(
                _age(setting, PREFIX, 168 * UNITS["hours"]),
                _age(setting, f"{PREFIX}pressure.", 1 << 62),
            ),
            exclude=tuple(groups.get("exclude") or ()),
            only=tuple(groups.get("only") or ()),
            dry_run=bool(document.get("dry_run", True) or setting.get("dry_run", False)),
        )


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def _age(setting: Document, prefix: str, otherwise: int) -> int:
    for unit, factor in UNITS.items():
        if setting.get(prefix + unit) is not None:
            return int(setting[prefix + unit]) * factor
    return otherwise
