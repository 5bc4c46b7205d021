"""Signs of readers that commit nothing to Kafka.

Some systems read topics without committing. Topics of their own are known by name: most of these
systems read such a topic from the beginning whenever they start (Streams restores its state,
Debezium a database's schema, a registry all its schemas), and the commits of consumer groups say
nothing about these reads. A name proves nothing, so it never enables anything: a first look doesn't
enable a topic that matches, and `doctor` names it. The table of these names is
`well_known_topics.toml`, whose comments say where they come from.

Of the topics of others, which such a system reads too, all that can be seen is that the system uses
the cluster. A topic with unlimited retention is another sign: somebody may read it from the
beginning.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from retentiond.config import Config
from retentiond.config.policy import PolicyEntry
from retentiond.config.values import is_unknown
from retentiond.formatting import HOUR_MS, say_name
from retentiond.kafka.interface import INTERNAL_TOPICS
from retentiond.model import GroupKind

if TYPE_CHECKING:
    from retentiond.snapshot import GroupReading, TopicReading


class KnownSystem(NamedTuple):
    """A system that owns topics, as the table has it."""

    short: str
    meaning: str
    example: str


_TABLE = Path(__file__).with_name("well_known_topics.toml")
_SYSTEMS: list[dict[str, Any]] = tomllib.loads(_TABLE.read_text(encoding="utf-8"))["system"]

SYSTEMS = [
    (
        re.compile("|".join([*system.get("names", ()), *system.get("signs", ())])),
        KnownSystem(system["short"], system["meaning"], system["example"]),
    )
    for system in _SYSTEMS
]
"""Patterns for whole names. The first one that matches counts."""


def signs_of(short: str) -> re.Pattern[str]:
    """The names of topics which show that the system reads topics of the cluster."""
    return re.compile(
        "|".join(next(system["signs"] for system in _SYSTEMS if system["short"] == short))
    )


def system_of(topic: str) -> KnownSystem | None:
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
        topic.name
        for topic in topics
        if topic.forced_retention_ms is None or topic.forced_retention_ms >= UNLIMITED_MS
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
    workers = [
        group for group in groups if group.is_connect and group.group_id not in mirror_workers
    ]
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
