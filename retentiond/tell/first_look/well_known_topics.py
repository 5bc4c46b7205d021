"""Topics that, by their names, belong to a system that reads them without committing.

Most of these systems read such a topic from the beginning whenever they start: Streams restores its
state, Debezium a database's schema, a registry all its schemas. The commits of consumer groups say
nothing about these reads. A name proves nothing, so it never enables anything: a first look doesn't
enable a topic that matches, and `doctor` names it.

The table of these names is `well_known_topics.toml`, whose comments say where they come from.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from retentiond.config import Config
from retentiond.config.policy import PolicyEntry
from retentiond.config.values import is_unknown
from retentiond.kafka.interface import INTERNAL_TOPICS


class KnownSystem(NamedTuple):
    """A system that owns topics, as the table has it."""

    short: str
    meaning: str
    example: str


def _table() -> list[dict[str, Any]]:
    file = Path(__file__).with_suffix(".toml")
    systems: list[dict[str, Any]] = tomllib.loads(file.read_text(encoding="utf-8"))["system"]
    return systems


SYSTEMS = [
    (
        re.compile("|".join([*each.get("names", ()), *each.get("signs", ())])),
        KnownSystem(each["short"], each["meaning"], each["example"]),
    )
    for each in _table()
]
"""Patterns for whole names. The first one that matches counts."""


def signs_of(short: str) -> re.Pattern[str]:
    """The names of topics which show that the system reads topics of the cluster."""
    return re.compile("|".join(next(each["signs"] for each in _table() if each["short"] == short)))


def system_of(topic: str) -> KnownSystem | None:
    """The system that owns the topic by its name, or None."""
    return next((system for names, system in SYSTEMS if names.fullmatch(topic)), None)


_LITERALLY = re.compile(r"\\(.)|(?:\.|\[[^]]*\])[*+?]?")
"""A character that a pattern takes literally, or what stands for any character."""


def risky_entries(config: Config) -> tuple[str, ...]:
    """A sentence for each entry that enables names which a first look would not enable."""
    sentences = (_risk(config, entry) for entry in config.entries if entry.policy.enabled)
    return tuple(sentence for sentence in sentences if sentence is not None)


def _risk(config: Config, entry: PolicyEntry) -> str | None:
    text, is_pattern = entry.about
    if is_unknown(text):
        return None
    names = [text]
    if is_pattern:  # what its literal parts say, and examples
        names = [_LITERALLY.sub(lambda found: found[1] or "x", text)]
        names += [system.example for _, system in SYSTEMS]
    found: dict[KnownSystem, str] = {}
    for name in names:
        system = None if name in INTERNAL_TOPICS else system_of(name)
        follows = not is_pattern or (entry.matches(name) and config.policy_for(name) is not None)
        if system is not None and follows:
            found.setdefault(system, name)
    if not found:
        return None
    system, name = next(iter(found.items()))
    if not is_pattern:
        return (
            f"{entry.source} enables {name}: {system.meaning}. A first look would not enable it. "
            "Leave the topic to Kafka, unless you know that nothing reads it so"
        )
    others = f" and of {len(found) - 1} other systems" if len(found) > 1 else ""
    return (
        f"{entry.source}: {text} also matches topics such as {name} ({system.short}){others}. A "
        "first look would not enable them, because their systems read them without committing. "
        "Name such topics under except, or switch them off by an entry of their own"
    )
