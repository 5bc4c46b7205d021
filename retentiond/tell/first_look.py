"""The first look at a cluster without a configuration.

In comes a plan of everything; out go its topics, who keeps the rest, and a configuration to start
from. The configuration of the look itself lives in memory only: nothing is ever deleted with it.

The one to start from is commented, and deletes nothing. Only topics that have readers, and nothing
else against them, are enabled; any other stands there disabled, with the reason. So do topics with
unlimited retention, and all topics where readers may be at work that nobody can see. Secrets are
left out: the file names where they are expected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from retentiond.config import Config
from retentiond.config.values import Pattern
from retentiond.errors import UsageError
from retentiond.formatting import (
    HOUR_MS,
    MINUTE_MS,
    listed,
    printable,
    say_bytes,
    say_count,
    say_estimate,
    say_name,
)
from retentiond.kafka.interface import INTERNAL_TOPICS
from retentiond.kafka.settings.logins import AWS_MECHANISM, CLIENT_SECRET, REGION
from retentiond.kafka.settings.properties import PROPERTIES, ClientSettings
from retentiond.model import Reason
from retentiond.tell.answers import ClusterAnswer, KeptRecords, TopicAnswer
from retentiond.tell.reasons import UNSEEN
from retentiond.tell.report import CycleReport, document
from retentiond.tell.unseen_readers import NOTHING_UNSEEN, UnseenReaders


def first_look(
    settings: ClientSettings, patterns: Sequence[str], consumed_retention_ms: int
) -> Config:
    """``patterns``: regular expressions, one of which a topic's whole name matches; all topics
    if there is none. Raises `UsageError` for one that is no regular expression."""
    for pattern in patterns:
        try:
            Pattern(pattern)
        except ValueError as error:
            raise UsageError(
                f"--topic {pattern!a} is no regular expression of RE2's syntax ({error}); "
                "give a topic's name, or a pattern such as 'stage\\..*'"
            ) from error
    return Config.model_validate(
        {
            "kafka": kafka_section(settings),
            "dry_run": True,
            "topics": [
                *({"name": name} for name in sorted(INTERNAL_TOPICS)),  # which enables none
                *(
                    {
                        "pattern": pattern,
                        "retention.commitoffset.enable": True,
                        "retention.commitoffset.ms": consumed_retention_ms,
                    }
                    for pattern in patterns or [".*"]
                ),
            ],
        }
    )


def kafka_section(settings: ClientSettings) -> dict[str, str]:
    """What of the clients' settings can stand in a configuration file. It holds secrets."""
    section = {name: value for name, value in settings.confluent.items() if name in PROPERTIES}
    if REGION in settings.oauth:  # to librdkafka it is a login by token
        section["sasl.mechanism"] = AWS_MECHANISM
    return {**section, **settings.oauth}


def first_look_document(
    report: CycleReport,
    retention_ms: int,
    unseen: UnseenReaders = NOTHING_UNSEEN,
    readers: Readers | None = None,
) -> dict[str, Any]:
    """``unseen_readers``: what speaks for readers that commit nothing, a sentence each.
    ``not_enabled``: why ``--write-config`` leaves a topic disabled; null where it enables it."""
    look = report.answers
    return {
        **document(report, with_outcomes=False),
        "consumed_retention_ms": retention_ms,
        "unseen_readers": list(unseen.evidence),
        "topics": [
            {
                **_topic_document(topic),
                "retention_unlimited": topic.topic in unseen.unlimited,
                "not_enabled": why_not_enabled(topic, (readers or {}).get(topic.topic, ()), unseen),
            }
            for topic in look.by_frees
        ],
        "total": {
            "topics": len(look.topics),
            "partitions": len(look.partitions),
            "records": look.records,
            "records_on_disk": look.log_records,
            "predicted_bytes": look.known_frees.local,
            "predicted_remote_bytes": look.known_frees.remote,
            "is_bytes_known_of_all": look.is_bytes_known,
            "log_bytes": look.log_bytes,
            "kept_by": _kept_documents(look.kept),
        },
    }


def _topic_document(topic: TopicAnswer) -> dict[str, Any]:
    frees = topic.frees_of_size
    return {
        "topic": topic.topic,
        "partitions": len(topic.partitions),
        "groups": max(each.row.groups for each in topic.partitions),
        "records": topic.records,
        "records_on_disk": topic.log_records,
        "predicted_bytes": frees.local,
        "size_bytes": topic.size.local,
        "predicted_remote_bytes": frees.remote,
        "remote_bytes": topic.size.remote,
        "unread_partitions": topic.unreadable,
        "belongs_to": None if topic.owner is None else topic.owner.short,
        "kept_by": _kept_documents(topic.kept),
    }


def _kept_documents(kept: Iterable[KeptRecords]) -> list[dict[str, Any]]:
    return [
        {
            "reason": keeper.reason.value,
            "binding_group": keeper.group,
            "records": records,
            "approximate_bytes": size.local,
            "approximate_remote_bytes": size.remote,
        }
        for keeper, records, size in kept
    ]


SECRETS = ("sasl.password", "ssl.key.password", CLIENT_SECRET)

Readers: TypeAlias = Mapping[str, Iterable[str]]
"""Each topic's groups."""

MOST_NAMED = 8
"""Groups that a comment names."""

DISABLING = {
    Reason.NO_GROUP: "no group reads it",
    Reason.NOT_DELETABLE: "its cleanup.policy lacks delete, or has compact too",
    Reason.RETENTION_EXCEEDS_FORCED: "its own retention.ms is shorter than this consumed retention",
    Reason.GROUP_LIST_INCOMPLETE: "not every group could be seen",
    Reason.OFFSET_UNREADABLE: "its offsets could not be read",
}
"""Why one does not begin with a topic, if it is true of all its partitions."""

HEAD = """\
# Made by `retentiond plan --write-config` at {written_at}
# from the Kafka cluster {cluster_id}.
#
# It deletes nothing: dry_run is true. `retentiond check` says in words what it means,
# `retentiond plan` what would be deleted, and `retentiond explain TOPIC` why.
#
# {unseen}
# Nor does Kafka's admin API tell who fetches just now without a group, so a reader at work shows no
# more than one that is stopped.
# Name those that keep their position elsewhere under groups.external (Spark, Flink, Druid,
# MirrorMaker 2), and leave out what others read, as the global tables of Kafka Streams.

kafka:
{kafka}

# false: what `retentiond plan` shows is deleted.
dry_run: true

# The audit log and the remembered groups: a folder of its own that survives restarts. By default
# it is /var/lib/retentiond where that is, or can be made; else ~/.local/state/retentiond.
# state_dir: /var/lib/retentiond

# What every topic starts from. The consumed retention: a record stays at least this long, even
# if every group has read it.
defaults:
  retention.commitoffset.enable: false
  retention.commitoffset.{unit}: {count}

topics:
"""

_UNITS_MS = {"hours": HOUR_MS, "minutes": MINUTE_MS, "ms": 1}

_PLAIN = re.compile(r"(?!(?:null|Null|NULL)$)[A-Za-z][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Origin:
    """What was looked at, and how. ``kafka``: the ``kafka:`` section, with its secrets;
    ``left_out``: properties of the clients that can't stand there; ``written_at``: RFC 3339."""

    cluster_id: str
    kafka: Mapping[str, str]
    left_out: Sequence[str]
    consumed_retention_ms: int
    written_at: str


def environment_of(kafka: Mapping[str, str]) -> tuple[str, ...]:
    """The environment's variables that the file expects the secrets in."""
    return tuple(_environment_variable(name) for name in SECRETS if name in kafka)


def starting_config(
    look: ClusterAnswer,
    readers: Readers,
    origin: Origin,
    unseen: UnseenReaders = NOTHING_UNSEEN,
) -> str:
    """The file's text."""
    others = [topic for topic in look.by_frees if why_not(topic) is not None]
    lines: list[str] = []
    for topic in look.by_frees:
        if why_not(topic) is None:
            groups = sorted(readers.get(topic.topic, ()))
            lines += _enabled_topic(topic, groups, unseen.doubt(topic.topic, groups))
    if others:
        lines += ["  # Not to begin with, each with the reason:"]
    for topic in others:
        lines += _disabled_topic(topic)
    return _head(origin) + "\n".join(lines) + "\n"


def why_not_enabled(topic: TopicAnswer, groups: Iterable[str], unseen: UnseenReaders) -> str | None:
    """Why the starting configuration leaves it disabled; None where it enables it."""
    return why_not(topic) or unseen.doubt(topic.topic, groups)


def why_not(topic: TopicAnswer) -> str | None:
    """Why a topic is not enabled to begin with; None where nothing speaks against it."""
    if topic.owner is not None:
        return topic.owner.meaning
    rows = [each.row for each in topic.partitions]
    if not any(row.groups for row in rows):
        return DISABLING[Reason.NO_GROUP]
    reasons = {row.reason for row in rows}
    if reasons <= DISABLING.keys():
        return listed([_why_disabled(reason, topic) for reason in sorted(reasons)])
    return None


def _why_disabled(reason: Reason, topic: TopicAnswer) -> str:
    """What makes a topic undeletable is the plan's sentence: its cleanup.policy, or a group."""
    rows = (each.row for each in topic.partitions)
    details = {row.detail for row in rows if row.reason is Reason.NOT_DELETABLE}
    known = sorted(each for each in details if each)
    return known[0] if reason is Reason.NOT_DELETABLE and known else DISABLING[reason]


def _head(origin: Origin) -> str:
    retention_ms = origin.consumed_retention_ms
    unit = next(unit for unit, unit_ms in _UNITS_MS.items() if retention_ms % unit_ms == 0)
    return HEAD.format(
        written_at=origin.written_at,
        cluster_id=printable(origin.cluster_id),
        kafka="\n".join(_kafka_lines(origin)),
        unit=unit,
        count=retention_ms // _UNITS_MS[unit],
        unseen=UNSEEN,
    )


def _kafka_lines(origin: Origin) -> Iterator[str]:
    for name, value in origin.kafka.items():
        if name in SECRETS:
            yield f"  {name}: ${{{_environment_variable(name)}}}   # from the environment"
        else:
            yield f"  {name}: {_yaml_string(value)}"
    if origin.left_out:
        yield f"  # Left out, as it can't stand here: {printable(', '.join(origin.left_out))}"


def _enabled_topic(topic: TopicAnswer, groups: Sequence[str], doubt: str | None) -> Iterator[str]:
    """A topic that is enabled but for a ``doubt``. An empty id can't be required."""
    named = [group for group in groups if group]
    yield f"  # {_figures(topic)}"
    if groups:
        yield f"  # Read by {_group_names(groups)}."
    if doubt is not None:
        yield f"  # Not enabled: {printable(doubt)}."
    yield f"  - name: {_topic_name(topic.topic)}"
    yield f"    retention.commitoffset.enable: {'true' if doubt is None else 'false'}"
    if named:
        yield "    groups:"
        yield "      # The topic is held unless each of them has committed:"
        yield f"      required: [{', '.join(map(_yaml_string, named))}]"
    yield ""


def _disabled_topic(topic: TopicAnswer) -> Iterator[str]:
    yield f"  # {printable(why_not(topic) or '')}"
    yield f"  - name: {_topic_name(topic.topic)}"
    yield "    retention.commitoffset.enable: false"


def _figures(topic: TopicAnswer) -> str:
    frees, size = topic.frees_of_size, topic.size
    records = f"{say_count(topic.records)} of {say_count(topic.log_records)} records would go now"
    if frees.local is None or size.local is None:
        return f"{records}."
    on_disk = f"{records}: {say_bytes(frees.local)} of {say_bytes(size.local)} on disk"
    if not topic.is_tiered:
        return f"{on_disk}."
    remote = map(say_estimate, (frees.remote, size.remote))
    return f"{on_disk}, {' of '.join(remote)} in remote storage."


def _group_names(groups: Sequence[str]) -> str:
    if len(groups) <= MOST_NAMED:
        return listed([say_name(group) for group in groups])
    return f"{', '.join(map(say_name, groups[:MOST_NAMED]))} and {len(groups) - MOST_NAMED} more"


def _environment_variable(name: str) -> str:
    return f"RETENTIOND_{name.upper().replace('.', '_')}"


def _topic_name(topic: str) -> str:
    return topic if _PLAIN.fullmatch(topic) else _yaml_string(topic)


def _yaml_string(text: str) -> str:
    """As YAML that is read back as this text: ``${`` would be substituted."""
    literal = text.replace("${", "$${")
    if literal.isprintable():
        return "'" + literal.replace("'", "''") + "'"
    return '"' + "".join(map(_escaped, literal)) + '"'


def _escaped(char: str) -> str:
    if char.isprintable():
        return json.dumps(char, ensure_ascii=False)[1:-1]
    return f"\\U{ord(char):08x}"
