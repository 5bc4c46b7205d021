"""Which entry of one configuration is which of another, and what becomes of topics that several
patterns match.

Patterns that enable a topic and treat it differently hold it. So a change of one pattern may free
or hold topics that it shares with others, whatever the change itself says. Whether two patterns
share a topic can't be decided in general. They are taken to share one unless the texts that their
matches begin with rule it out. It is enough to look at two patterns at a time: records of a topic
that several match go if each two of them let them go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from retentiond.config.policy import PolicyEntry
from retentiond.config.settings import SETTINGS, Effect
from retentiond.config.values import is_unknown

_LITERAL = re.compile(r"(?:[A-Za-z0-9_-]|\\[.-])*(?![*+?{])")


@dataclass(frozen=True)
class EntryPair:
    """An entry before and after; None where it is missing."""

    old: PolicyEntry | None
    new: PolicyEntry | None

    @cached_property
    def present(self) -> PolicyEntry:
        """The newer one if there is one."""
        return next(each for each in (self.new, self.old) if each is not None)

    @property
    def sources(self) -> tuple[str | None, str | None]:
        """Where it stands, before and after."""
        old, new = (None if each is None else each.source for each in (self.old, self.new))
        return old, new

    @cached_property
    def is_pattern(self) -> bool:
        return self.present.entry.pattern is not None

    @cached_property
    def beginning(self) -> str:
        """What each match of its pattern begins with, as far as it is plain."""
        pattern, _ = self.present.about
        literal = _LITERAL.match(pattern)
        if literal is None or "|" in pattern or is_unknown(pattern):
            return ""
        return literal[0].replace("\\", "")


_ALIKE: tuple[Callable[[PolicyEntry], Any], ...] = (
    lambda each: (each.policy, each.policy.owner, each.switches_off, each.excepted),
    lambda each: each.file,
    lambda each: each.policy.owner,
    lambda _: None,
)
"""By what entries about the same topics are paired, the surest first."""


def pair_entries(before: Iterable[PolicyEntry], after: Iterable[PolicyEntry]) -> list[EntryPair]:
    """In the order of the newer entries, then those that are gone. A pattern may have several."""
    newer, left = list(after), dict[tuple[str, bool], list[PolicyEntry]]()
    for each in before:
        left.setdefault(each.about, []).append(each)
    found: dict[str, PolicyEntry] = {}
    for alike in _ALIKE:
        for new in newer:
            older = left.get(new.about, [])
            at = next((at for at, old in enumerate(older) if alike(old) == alike(new)), None)
            if at is not None and new.source not in found:
                found[new.source] = older.pop(at)
    gone = (each for of_topics in left.values() for each in of_topics)
    return [
        *(EntryPair(found.get(new.source), new) for new in newer),
        *(EntryPair(old, None) for old in gone),
    ]


def effects_on_shared(pair: EntryPair, pairs: Iterable[EntryPair]) -> Iterator[Effect]:
    """What becomes of topics that the pattern shares with each other one."""
    for other in pairs:
        if other is pair or not (other.is_pattern and _may_share(pair, other)):
            continue
        before, after = _deletes(pair.old, other.old), _deletes(pair.new, other.new)
        if before is None or after is None:
            yield Effect.UNKNOWN
        elif before != after:
            yield Effect.SOONER if after else Effect.LATER


def _may_share(one: EntryPair, other: EntryPair) -> bool:
    begins, also_begins = one.beginning, other.beginning
    return begins.startswith(also_begins) or also_begins.startswith(begins)


def _deletes(*entries: PolicyEntry | None) -> bool | None:
    """Whether records are deleted from a topic that these patterns match, and no other; None if
    that is not known."""
    policies = [each.policy for each in entries if each is not None]
    if not policies or not all(policy.enabled for policy in policies):
        return False
    if policies[0] == policies[-1]:
        return True
    values = ((setting.of(policies[0]), setting.of(policies[-1])) for setting in SETTINGS)
    surely_differ = any(one != other and not is_unknown((one, other)) for one, other in values)
    return False if surely_differ else None
