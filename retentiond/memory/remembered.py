"""What earlier cycles saw of the groups, so that one that vanishes does not free its records.

Offsets expire, permissions change, coordinators move, and consumers crash before their first
commit: a group that is no longer listed looks just like one that never existed. Only a memory
tells them apart. So every group that was once seen to read a topic is remembered, whatever its
trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from retentiond.config import TopicPolicy
from retentiond.memory.readers import NOBODY, GroupOnTopic, Readers, RememberedReader
from retentiond.snapshot import Flags, Integers, TopicReading


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """``agreed``: how many complete readings in a row had these ``groups``, sorted by name."""

    topic_id: str
    groups: tuple[str, ...] = ()
    agreed: int = 0


@dataclass(frozen=True)  # without slots, because of the cached property
class Remembered:
    """The memory of earlier cycles.

    - ``topics``: by name.
    - ``lost``: a sentence that says why groups may be missing here.
    - ``cluster_id``: the cluster of these topics and groups; None if nothing was seen yet.
    - ``gone_ms``: topics that no longer exist, and for how long that was observed.
    """

    topics: Mapping[str, KnownTopic] = field(default_factory=dict)
    readers: Readers = field(default_factory=lambda: NOBODY)
    lost: str | None = None
    cluster_id: str | None = None
    gone_ms: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def commits(self) -> Mapping[GroupOnTopic, RememberedReader]:
        """All readers as objects, for those who show them."""
        return self.readers.by_name()

    def about(self, topics: Iterable[str]) -> Remembered:
        """The memory with the readers of these topics alone."""
        return replace(self, readers=self.readers.about(topics))

    def topic_names(self) -> frozenset[str]:
        """The names of all topics about which anything is remembered."""
        return frozenset({*self.topics, *self.gone_ms, *self.readers.topics})


NOTHING = Remembered()

FOR_EVER_MS = np.iinfo(np.int64).max


def are_forgotten(readers: Readers, topic_of: Integers, topics: Sequence[TopicReading]) -> Flags:
    """Which readers were observed to be absent for as long as ``forget_vanished_after``.
    ``topic_of``: the position of each row's topic in ``topics``, or `NOWHERE`."""
    policies = [topic.policy for topic in topics]
    patience_ms = [
        each.forget_vanished_after_ms if isinstance(each, TopicPolicy) else None
        for each in policies
    ]
    waits_ms = [FOR_EVER_MS if ms is None else ms for ms in [*patience_ms, None]]
    waited_ms = np.array(waits_ms, np.int64)[topic_of]  # the last one: of a topic not there
    is_forgotten: Flags = readers.is_absent & (readers.absent_ms >= waited_ms)
    is_forgotten &= waited_ms != FOR_EVER_MS
    return is_forgotten
