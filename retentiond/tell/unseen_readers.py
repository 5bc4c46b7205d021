"""Readers that commit nothing to Kafka, and what speaks for them.

Some systems read others' topics without committing: that they are in the cluster is all that can
be seen. And what is kept without a limit is kept for somebody who begins at its beginning. Topics
of such systems themselves are known by name (`well_known_topics`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from retentiond.formatting import HOUR_MS, say_name
from retentiond.model import GroupKind
from retentiond.snapshot import GroupReading, TopicReading
from retentiond.tell.well_known_topics import CONNECT, MIRRORS

MIRROR_GROUPS = re.compile(r".+-mm2")
"""MirrorMaker 2's workers, where it runs by itself: on the cluster that it writes to."""

SPARK_GROUPS = re.compile(r"spark-kafka-(?:source|relation)-.*")

INTERNAL_TO_STREAMS = re.compile(r".*-(?:changelog|repartition)")


CONNECTORS_MAY_READ = "whose connectors may read topics without committing"

MAY_RESTORE = (
    "which may have no other changelog of a table than the topic (topology.optimization), and then "
    "restores its state from it, from the beginning"
)


UNLIMITED_MS = 10 * 365 * 24 * HOUR_MS
"""A ``retention.ms`` from here on counts as unlimited, too: who keeps ten years keeps them for a
reader that begins at the beginning. (Debezium makes its schema history with the largest number that
there is.)"""

MAY_REPLAY = (
    "its retention.ms is unlimited, so something may read it from the beginning at each start "
    "(event sourcing, a journal); --include-unlimited enables it"
)


@dataclass(frozen=True, slots=True)
class UnseenReaders:
    """What speaks for readers that commit nothing. ``evidence``: a system and the name that gives
    it away, each in a sentence without a full stop. ``streams``: groups of Kafka Streams whose
    changelogs nothing tells. ``unlimited``: topics that are kept without a limit."""

    evidence: tuple[str, ...] = ()
    streams: frozenset[str] = frozenset()
    unlimited: frozenset[str] = frozenset()

    def doubt(self, topic: str, readers: Iterable[str]) -> str | None:
        """Why a topic of these readers may be read by more than is seen; None: nothing says so."""
        if topic in self.unlimited:
            return MAY_REPLAY
        if streams := sorted(self.streams.intersection(readers)):
            return f"group {say_name(streams[0])} looks like Kafka Streams, {MAY_RESTORE}"
        return f"somebody may read it unseen: {self.evidence[0]}" if self.evidence else None


NOTHING_UNSEEN = UnseenReaders()


def unlimited_topics(topics: Iterable[TopicReading]) -> frozenset[str]:
    """Those whose ``retention.ms`` deletes nothing in ten years. What is not known of a topic that
    could not be read counts as unlimited."""
    return frozenset(
        each.name
        for each in topics
        if each.forced_retention_ms is None or each.forced_retention_ms >= UNLIMITED_MS
    )


def unseen_readers(topics: Iterable[str], groups: Iterable[GroupReading]) -> UnseenReaders:
    """``topics`` and ``groups``: all of the cluster."""
    names, every = sorted(topics), list(groups)
    return UnseenReaders(
        tuple(_signs_of_systems(names, every)), frozenset(_streams_groups(names, every))
    )


def _signs_of_systems(topics: Iterable[str], groups: Sequence[GroupReading]) -> Iterator[str]:
    """One for each system. The workers of Kafka Connect are known by the protocol that they share
    out their connectors by, whatever their group and their topics are called."""
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
    """By their members, or else by their topics, which begin with the application's id. The
    groups of Kafka Streams' own protocol (KIP-1071) tell their changelogs."""
    silent = {group.group_id: group for group in groups if group.kind is not GroupKind.STREAMS}
    yield from (name for name, group in silent.items() if group.is_streams_classic)
    for topic in filter(INTERNAL_TO_STREAMS.fullmatch, topics):
        ends = (at for at, char in enumerate(topic) if char == "-")
        yield from (topic[:end] for end in ends if topic[:end] in silent)
