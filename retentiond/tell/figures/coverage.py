"""How far the configuration reaches: topics without an entry, entries without a topic, and topics
with a setting that weakens the protection of their records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from retentiond.config import Config, TopicPolicy
from retentiond.kafka.interface import INTERNAL_TOPICS
from retentiond.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Coverage:
    """- ``entries_without_topic``: by owner, how many enabled entries match no topic of the
      cluster; 0 for an owner whose entries all match one.
    - ``unmanaged``: the topics that no entry is about, internal ones apart.
    - ``weakened``: by owner and setting, how many enabled topics have it.

    An owner is empty if the topic or the entry has none.
    """

    entries_without_topic: Mapping[str, int] = field(default_factory=dict)
    unmanaged: frozenset[str] = frozenset()
    weakened: Mapping[tuple[str, str], int] = field(default_factory=dict)


NOTHING_COVERED = Coverage()


class CoverageReader:
    """Compares names with patterns only if the topics or the configuration have changed."""

    def __init__(self) -> None:
        self._last: tuple[Config, frozenset[str], Coverage] | None = None

    def coverage(self, config: Config, snapshot: Snapshot) -> Coverage:
        topics = snapshot.visible_topics | {topic.name for topic in snapshot.topics}
        if self._last is None or self._last[0] is not config or self._last[1] != topics:
            self._last = (config, topics, _coverage(config, topics))
        return self._last[2]


def _coverage(config: Config, topics: frozenset[str]) -> Coverage:
    enabled = [placed for placed in config.entries if placed.policy.enabled]
    without_topic = {placed.policy.owner or "": 0 for placed in enabled}
    for entry in enabled:
        name, is_pattern = entry.about
        if not (any(map(entry.matches, topics)) if is_pattern else name in topics):
            without_topic[entry.policy.owner or ""] += 1
    named = topics - INTERNAL_TOPICS
    policies = map(config.policy_for, named)
    weakened = Counter(
        (policy.owner or "", by)
        for policy in policies
        if isinstance(policy, TopicPolicy)
        for by in _weakened_by(policy)
    )
    unmanaged = frozenset(topic for topic in named if not config.matches(topic))
    return Coverage(without_topic, unmanaged, weakened)


def _weakened_by(policy: TopicPolicy) -> Iterator[str]:
    if policy.only:
        yield "only"
    if policy.excluded:
        yield "exclude"
    if policy.assumes_visible_groups:
        yield "groups_visible"
    if policy.allow_compacted:
        yield "allow_compacted"
