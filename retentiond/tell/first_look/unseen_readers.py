"""Signs of readers that commit nothing to Kafka.

Some systems read topics of others without committing. All that can be seen is that such a system
uses the cluster. A topic with unlimited retention is another sign: somebody may read it from the
beginning. The topics of these systems themselves are known by name (`well_known_topics`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from retentiond.formatting import HOUR_MS, say_name
from retentiond.model import GroupKind
from retentiond.snapshot import GroupReading, TopicReading
from retentiond.tell.first_look.well_known_topics import signs_of

CONNECT, MIRRORS = signs_of("Kafka Connect's own"), signs_of("MirrorMaker's own")

MIRROR_GROUPS = re.compile(r".+-mm2")
"""Groups of MirrorMaker 2's workers if it runs on its own; on the cluster to which it writes."""

SPARK_GROUPS = re.compile(r"spark-kafka-(?:source|relation)-.*")

INTERNAL_TO_STREAMS = re.compile(r".*-(?:changelog|repartition)")


CONNECTORS_MAY_READ = "whose connectors may read topics without committing"

MAY_RESTORE = (
    "which may have no other changelog of a table than the topic (topology.optimization), and then "
    "restores its state from it, from the beginning"
)


UNLIMITED_MS = 10 * 365 * 24 * HOUR_MS
"""A longer ``retention.ms`` counts as unlimited: somebody who keeps ten years keeps them for a
reader that starts at the beginning. (Debezium creates its schema history with the largest possible
number.)"""

MAY_REPLAY = (
    "its retention.ms is unlimited, so something may read it from the beginning at each start "
    "(event sourcing, a journal); --include-unlimited enables it"
)


@dataclass(frozen=True, slots=True)
class UnseenReaders:
    """Signs of readers that commit nothing.

    - ``evidence``: sentences without a full stop; each names a system and the name that shows it.
    - ``streams``: groups of Kafka Streams whose changelogs are not known.
    - ``unlimited``: topics with unlimited retention.
    """

    evidence: tuple[str, ...] = ()
    streams: frozenset[str] = frozenset()
    unlimited: frozenset[str] = frozenset()

    def doubt(self, topic: str, readers: Iterable[str]) -> str | None:
        """Why the topic may have more readers than these; None if nothing says so."""
        if topic in self.unlimited:
            return MAY_REPLAY
        if streams := sorted(self.streams.intersection(readers)):
            return f"group {say_name(streams[0])} looks like Kafka Streams, {MAY_RESTORE}"
        return f"somebody may read it unseen: {self.evidence[0]}" if self.evidence else None


NOTHING_UNSEEN = UnseenReaders()


def unlimited_topics(topics: Iterable[TopicReading]) -> frozenset[str]:
    """The topics whose ``retention.ms`` is unlimited, or at least ten years. An unknown one counts
    as unlimited."""
    return frozenset(
        each.name
        for each in topics
        if each.forced_retention_ms is None or each.forced_retention_ms >= UNLIMITED_MS
    )


def unseen_readers(topics: Iterable[str], groups: Iterable[GroupReading]) -> UnseenReaders:
    """The signs in the names of all topics and groups of the cluster."""
    names, all_groups = sorted(topics), list(groups)
    return UnseenReaders(
        tuple(_signs_of_systems(names, all_groups)), frozenset(_streams_groups(names, all_groups))
    )


def _signs_of_systems(topics: Iterable[str], groups: Sequence[GroupReading]) -> Iterator[str]:
    """One sentence for each system. The workers of Kafka Connect are recognised by the protocol by
    which they assign their connectors, whatever the names of their group and topics."""
    mirror_workers = [name for name in _group_ids(groups) if MIRROR_GROUPS.fullmatch(name)]
    if mirrors := next(filter(MIRRORS.fullmatch, topics), None):
        yield f"topic {mirrors} is MirrorMaker 2's, which reads topics without committing"
    elif mirror_workers:
        yield (
            f"group {say_name(mirror_workers[0])} is MirrorMaker 2's, which reads topics without "
            "committing"
        )
    workers = [each for each in groups if each.is_connect and each.group_id not in mirror_workers]
    if connects := next(filter(CONNECT.fullmatch, topics), None):
        yield f"topic {connects} is Kafka Connect's, {CONNECTORS_MAY_READ}"
    elif workers:
        yield f"group {say_name(workers[0].group_id)} is Kafka Connect's, {CONNECTORS_MAY_READ}"
    if spark := next(filter(SPARK_GROUPS.fullmatch, _group_ids(groups)), None):
        yield f"group {say_name(spark)} is Spark's, which reads topics without committing"


def _group_ids(groups: Iterable[GroupReading]) -> Iterator[str]:
    return (group.group_id for group in groups)


def _streams_groups(topics: Iterable[str], groups: Iterable[GroupReading]) -> Iterator[str]:
    """Groups of Kafka Streams, recognised by their members, or by their internal topics, whose
    names begin with the application's id. Groups of Streams' own protocol (KIP-1071) are left out:
    they tell their changelogs."""
    others = {group.group_id: group for group in groups if group.kind is not GroupKind.STREAMS}
    yield from (name for name, group in others.items() if group.is_streams_classic)
    for topic in filter(INTERNAL_TO_STREAMS.fullmatch, topics):
        ends = (position for position, char in enumerate(topic) if char == "-")
        yield from (topic[:end] for end in ends if topic[:end] in others)
