"""Readers that commit nothing to Kafka: topics that have such by their names, and signs of others.

What reads a topic that belongs to a system of its own need not commit (Streams restores from a
changelog, Connect starts from its topics' beginning), so "every group has read it" says less there
than elsewhere. And some systems read others' topics without committing: that they are in the
cluster is all that can be seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from retentiond.formatting import say_name
from retentiond.model import GroupKind
from retentiond.snapshot import GroupReading


class Owner(NamedTuple):
    """The system whose topic it is. ``short``: for a cell of a table; ``meaning``: why one does not
    begin with this topic."""

    short: str
    meaning: str


CONNECT = (
    r"(?:.*[._-])?connect(?:ors?)?(?:[._-].*)?[._-](?:configs?|offsets?|status(?:es)?)"
    r"|__(?:amazon_)?msk_connect_(?:configs|offsets|status)_.*"
)

MIRRORS = re.compile(
    # With replication.policy.separator, _ or - stand where a dot is by default.
    r"mm2-(?:offset-syncs|offsets|configs|status)[._-].*|.*[._-]checkpoints[._-]internal"
    r"|mirrormaker2-cluster-(?:offsets|configs|status)"  # Strimzi's default
    r"|(?:.*\.)?heartbeats"
)

OWNERS = (
    (
        re.compile(r".*-changelog"),
        Owner(
            "changelog of Streams",
            "by its name a changelog of Kafka Streams, which restores its state from it without "
            "committing",
        ),
    ),
    (
        re.compile(r".*-repartition"),
        Owner(
            "repartition topic of Streams",
            "by its name a repartition topic of Kafka Streams, which deletes what it has read",
        ),
    ),
    (
        re.compile(CONNECT, re.IGNORECASE),
        Owner(
            "Kafka Connect's own",
            "by its name Kafka Connect's own, which reads it from the beginning without committing",
        ),
    ),
    (
        re.compile(rf"mm2-.*|.*\.internal|{MIRRORS.pattern}"),
        Owner(
            "MirrorMaker's own",
            "by its name MirrorMaker's own, which reads it from the beginning without committing",
        ),
    ),
    (
        re.compile(r"_.*"),
        Owner(
            "some system's own",
            "by its name internal to some system, which may read it without committing",
        ),
    ),
)
"""Patterns that the whole name matches; the first that does counts."""


def owner(topic: str) -> Owner | None:
    """The system whose topic it is; None for any other."""
    return next((found for names, found in OWNERS if names.fullmatch(topic)), None)


MIRROR_GROUPS = re.compile(r".+-mm2")
"""MirrorMaker 2's workers, where it runs by itself: on the cluster that it writes to."""

SPARKS = re.compile(r"spark-kafka-(?:source|relation)-.*")

INTERNAL_TO_STREAMS = re.compile(r".*-(?:changelog|repartition)")


CONNECTORS_MAY_READ = "whose connectors may read topics without committing"

MAY_RESTORE = (
    "which may have no other changelog of a table than the topic (topology.optimization), and then "
    "restores its state from it, from the beginning"
)


@dataclass(frozen=True, slots=True)
class UnseenReaders:
    """What speaks for readers that commit nothing. ``evidence``: a system and the name that gives
    it away, each in a sentence without a full stop. ``streams``: groups of Kafka Streams whose
    changelogs nothing tells."""

    evidence: tuple[str, ...] = ()
    streams: frozenset[str] = frozenset()

    def doubt(self, readers: Iterable[str]) -> str | None:
        """Why a topic of these readers may be read by more than is seen; None: nothing says so."""
        if streams := sorted(self.streams.intersection(readers)):
            return f"group {say_name(streams[0])} looks like Kafka Streams, {MAY_RESTORE}"
        return f"somebody may read it unseen: {self.evidence[0]}" if self.evidence else None


NOTHING_UNSEEN = UnseenReaders()


def unseen_readers(topics: Iterable[str], groups: Iterable[GroupReading]) -> UnseenReaders:
    """``topics`` and ``groups``: all of the cluster."""
    names, every = sorted(topics), list(groups)
    return UnseenReaders(
        tuple(_signs_of_systems(names, every)), frozenset(_streams_groups(names, every))
    )


def _signs_of_systems(topics: Iterable[str], groups: Sequence[GroupReading]) -> Iterator[str]:
    """One for each system. The workers of Kafka Connect are known by the protocol that they share
    out their connectors by, whatever their group and their topics are called."""
    connect = re.compile(CONNECT, re.IGNORECASE)
    mirror_workers = [name for name in _group_ids(groups) if MIRROR_GROUPS.fullmatch(name)]
    if mirrors := next(filter(MIRRORS.fullmatch, topics), None):
        yield f"topic {mirrors} is MirrorMaker 2's, which reads topics without committing"
    elif mirror_workers:
        yield (
            f"group {say_name(mirror_workers[0])} is MirrorMaker 2's, which reads topics without "
            "committing"
        )
    workers = [each for each in groups if each.is_connect and each.group_id not in mirror_workers]
    if connects := next(filter(connect.fullmatch, topics), None):
        yield f"topic {connects} is Kafka Connect's, {CONNECTORS_MAY_READ}"
    elif workers:
        yield f"group {say_name(workers[0].group_id)} is Kafka Connect's, {CONNECTORS_MAY_READ}"
    if spark := next(filter(SPARKS.fullmatch, _group_ids(groups)), None):
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
