"""The first look: at a cluster without a configuration, or at the topics that no entry of a
configuration covers.

In comes a plan of all these topics; out go the topics, and the causes for which records stay. The
configuration of the look exists in memory only: nothing is ever deleted with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from retentiond.config import Config
from retentiond.config.rules import TopicEntry
from retentiond.config.values import can_name_a_reader
from retentiond.fields import FIRST_LOOK, document_of
from retentiond.formatting import HOUR_MS, MINUTE_MS, listed
from retentiond.kafka.interface import INTERNAL_TOPICS
from retentiond.kafka.settings.logins import AWS_MECHANISM, REGION
from retentiond.kafka.settings.properties import PROPERTIES, ClientSettings
from retentiond.model import Reason
from retentiond.reasons import REASONS
from retentiond.tell.figures.answers import TopicAnswer
from retentiond.tell.report import CycleReport, document
from retentiond.tell.unseen_readers import NOTHING_UNSEEN, UnseenReaders


def first_look(
    settings: ClientSettings, patterns: Sequence[str], consumed_retention_ms: int
) -> Config:
    """The configuration of a first look at a cluster. ``patterns``: valid regular expressions for
    whole topic names; none means all topics."""
    return Config.model_validate(
        {
            "kafka": kafka_section(settings),
            "dry_run": True,
            "topics": [
                *({"name": name} for name in sorted(INTERNAL_TOPICS)),  # so that none is enabled
                *(
                    {"pattern": pattern, **_looked_with(consumed_retention_ms)}
                    for pattern in patterns or [".*"]
                ),
            ],
        }
    )


def unmanaged_look(config: Config, topics: Iterable[str], consumed_retention_ms: int) -> Config:
    """The configuration of a look at topics that no entry of ``config`` covers, with the `defaults`
    of ``config``."""
    return config.looking_at(
        TopicEntry.model_validate({"name": topic, **_looked_with(consumed_retention_ms)})
        for topic in sorted(topics)
    )


def _looked_with(consumed_retention_ms: int) -> dict[str, Any]:
    return {
        "retention.commitoffset.enable": True,
        "retention.commitoffset.ms": consumed_retention_ms,
    }


def kafka_section(settings: ClientSettings) -> dict[str, str]:
    """The clients' settings that a configuration file may have, with their secrets."""
    section = {name: value for name, value in settings.confluent.items() if name in PROPERTIES}
    if REGION in settings.oauth:  # librdkafka itself logs in with a token
        section["sasl.mechanism"] = AWS_MECHANISM
    return {**section, **settings.oauth}


CONSOLE = re.compile("console-consumer-")
"""The names that kafka-console-consumer gives its groups begin so."""

UNITS_MS = (HOUR_MS, MINUTE_MS)

Readers: TypeAlias = Mapping[str, Iterable[str]]
"""The groups that read each topic."""


@dataclass(frozen=True, slots=True)
class FirstLook:
    """The result of a first look. ``retention_ms``: the consumed retention of its plan.
    ``outside``: the configuration whose entries cover none of these topics, or None. ``required``:
    groups that the `defaults` of that configuration require on every topic; ``pressure_ms``: their
    pressure retention. ``is_dry``: whether that configuration deletes nothing. ``idle``: groups
    that have no live member and were not seen to move within a day. ``forced_retention_ms``: by
    topic, where it is limited. ``external``: readers that policies of other topics name; one that
    a topic's own policy does not name can't be required there."""

    report: CycleReport
    retention_ms: int
    unseen: UnseenReaders = NOTHING_UNSEEN
    readers: Readers = field(default_factory=dict)
    outside: str | None = None
    required: frozenset[str] = frozenset()
    pressure_ms: int | None = None
    is_dry: bool = True
    idle: frozenset[str] = frozenset()
    forced_retention_ms: Mapping[str, int] = field(default_factory=dict)
    external: frozenset[str] = frozenset()

    @property
    def topics(self) -> tuple[TopicAnswer, ...]:
        """The topics: those that free most come first; beside a configuration, the largest ones."""
        answers = self.report.answers
        return answers.by_frees if self.outside is None else answers.by_size

    def why_not_enabled(self, topic: TopicAnswer) -> str | None:
        """Why ``--write-config`` leaves the topic disabled; None if it enables it."""
        return why_not(topic) or self.doubt(topic)

    def doubt(self, topic: TopicAnswer) -> str | None:
        """Why the topic may have readers that can't be seen; None if nothing says so."""
        return self.unseen.doubt(topic.topic, self.groups_of(topic))

    def groups_of(self, topic: TopicAnswer) -> list[str]:
        return sorted(self.readers.get(topic.topic, ()))

    def required_groups(self, topic: TopicAnswer) -> list[str]:
        """The groups that ``--write-config`` requires: those of the `defaults`, and those that read
        the topic and are in use. A configuration doesn't take every id."""
        readers = {*self.groups_of(topic)} - self.external
        groups = self.required.union(readers) - self.unrequired(topic)
        return sorted(group for group in groups if can_name_a_reader(group))

    def unrequired(self, topic: TopicAnswer) -> set[str]:
        """The groups that read the topic and are not required: consoles, and those that may never
        come back."""
        return {
            group
            for group in self.groups_of(topic)
            if group not in self.required and (group in self.idle or CONSOLE.match(group))
        }

    def retention_of(self, topic: TopicAnswer) -> int:
        """The consumed retention that ``--write-config`` writes: that of the look, or half of the
        topic's own ``retention.ms`` if that is not longer, because then it would free nothing."""
        forced_ms = self.forced_retention_ms.get(topic.topic)
        if forced_ms is None or self.retention_ms < forced_ms:
            return self.retention_ms
        half_ms = forced_ms // 2
        return next((half_ms - half_ms % unit for unit in UNITS_MS if half_ms >= unit), half_ms)


def first_look_document(look: FirstLook) -> dict[str, Any]:
    """The look as JSON. ``unseen_readers``: a sentence for every sign of readers that commit
    nothing. ``not_enabled``: why ``--write-config`` leaves a topic disabled; null if it enables
    it."""
    answers = look.report.answers
    return {
        **document(look.report, with_outcomes=False),
        "consumed_retention_ms": look.retention_ms,
        "unseen_readers": list(look.unseen.evidence),
        "topics": [
            {
                **document_of(topic, FIRST_LOOK),
                "retention_unlimited": topic.topic in look.unseen.unlimited,
                "not_enabled": look.why_not_enabled(topic),
            }
            for topic in look.topics
        ],
        "total": document_of(answers, FIRST_LOOK),
    }


def why_not(topic: TopicAnswer) -> str | None:
    """Why the topic is not one to begin with; None if nothing speaks against it."""
    if topic.system is not None:
        return topic.system.meaning
    rows = [partition.row for partition in topic.partitions]
    if not any(row.groups for row in rows):
        return REASONS[Reason.NO_GROUP].not_enabled
    reasons = {row.reason for row in rows} - {Reason.EMPTY}  # which says nothing of the groups
    if reasons and all(REASONS[reason].not_enabled for reason in reasons):
        return listed([_why_disabled(reason, topic) for reason in sorted(reasons)])
    return None


def _why_disabled(reason: Reason, topic: TopicAnswer) -> str:
    """The reason in words. For an undeletable topic these are the plan's, which name its
    cleanup.policy or a group."""
    rows = (partition.row for partition in topic.partitions)
    details = {row.detail for row in rows if row.reason is Reason.NOT_DELETABLE}
    sentences = sorted(detail for detail in details if detail)
    is_said = reason is Reason.NOT_DELETABLE and sentences
    return sentences[0] if is_said else REASONS[reason].not_enabled or reason
