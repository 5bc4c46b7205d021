"""The few words of a configuration by which a deletion is judged, read with PyYAML alone."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

PREFIX = "retention.commitoffset."
UNITS = {"ms": 1, "minutes": 60_000, "hours": 3_600_000}


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
        if any(re.fullmatch(pattern, group) for pattern in self.exclude):
            return False
        return not self.only or any(re.fullmatch(pattern, group) for pattern in self.only)


BY_HAND = Words(by_hand=True)


def documents(file: Path) -> Iterator[Mapping[str, Any]]:
    """Of a configuration file and of its teams' files; each team's with what it has of the main
    file's."""
    main = yaml.safe_load(file.read_text()) or {}
    yield main
    globs = main.get("policies", ())
    for entry in [globs] if isinstance(globs, str) else globs:
        pattern = entry["file"] if isinstance(entry, Mapping) else entry
        for found in sorted(file.parent.glob(pattern)):
            team = yaml.safe_load(found.read_text()) or {}
            defaults = {**main.get("defaults", {}), **team.get("defaults", {})}
            yield {"dry_run": main.get("dry_run", True), **team, "defaults": defaults}


class Configured:
    """What a file says of a topic, and has said; `read` it again now and then. Raises OSError,
    ValueError at first."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: list[list[Mapping[str, Any]]] = []
        self._read()

    def read(self) -> None:
        """While somebody writes it, what it said before counts."""
        with contextlib.suppress(OSError, ValueError):
            self._read()

    def _read(self) -> None:
        try:
            said = list(documents(self._file))
        except (yaml.YAMLError, AttributeError, TypeError) as error:
            raise ValueError(f"{self._file} holds no configuration: {error}") from error
        if said not in self._known:
            self._known.append(said)

    @property
    def protocol(self) -> str:
        kafka = self._known[0][0].get("kafka") or {}
        return str(kafka.get("security.protocol", "PLAINTEXT"))

    def __call__(self, topic: str) -> list[Words]:
        return by(document for said in self._known for document in said)(topic)


def by(documents: Iterable[Mapping[str, Any]]) -> Callable[[str], list[Words]]:
    """What each of the configurations says of a topic."""
    every = list(documents)
    return lambda topic: [found for document in every for found in words_for(topic, document)]


def words_for(topic: str, document: Mapping[str, Any]) -> Iterator[Words]:
    """Of each entry of the document that enables the topic."""
    for entry in document.get("topics") or ():
        if entry.get("name", topic) != topic or (
            "pattern" in entry and not re.fullmatch(entry["pattern"], topic)
        ):
            continue
        if any(re.fullmatch(pattern, topic) for pattern in entry.get("except", ())):
            continue
        defaults = document.get("defaults") or {}
        setting = {**defaults, **entry}
        groups = {**(defaults.get("groups") or {}), **(entry.get("groups") or {})}
        if not setting.get(f"{PREFIX}enable"):
            continue
        yield Words(
            age_ms=min(
                _age(setting, PREFIX, 168 * UNITS["hours"]),
                _age(setting, f"{PREFIX}pressure.", 1 << 62),
            ),
            exclude=tuple(groups.get("exclude") or ()),
            only=tuple(groups.get("only") or ()),
            dry_run=bool(document.get("dry_run", True) or setting.get("dry_run", False)),
        )


def _age(setting: Mapping[str, Any], prefix: str, otherwise: int) -> int:
    for unit, factor in UNITS.items():
        if setting.get(prefix + unit) is not None:
            return int(setting[prefix + unit]) * factor
    return otherwise
