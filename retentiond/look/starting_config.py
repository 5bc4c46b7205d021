"""From a first look to a configuration to start from: commented, and deleting nothing.

Only topics that have readers, and nothing else against them, are enabled; any other stands
there disabled, with the reason. Secrets are left out: the file names where they are expected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from retentiond.config.duration import HOUR_MS, MINUTE_MS
from retentiond.config.phrases import listed
from retentiond.look.summary import ClusterLook, TopicLook
from retentiond.model import Reason
from retentiond.wording.figures import say_bytes, say_count
from retentiond.wording.printable import printable

SECRETS = ("sasl.password", "ssl.key.password")

MOST_NAMED = 8
"""Groups that a comment names."""

DISABLING = {
    Reason.NO_GROUP: "no group reads it",
    Reason.NOT_DELETABLE: "its cleanup.policy lacks delete, or has compact too",
    Reason.RETENTION_EXCEEDS_FORCED: "its own retention.ms is shorter than this consumed retention",
    Reason.GROUP_LIST_INCOMPLETE: "not every group could be seen",
    Reason.OFFSET_UNREADABLE: "its offsets could not be read",
}
"""Why a topic is none to begin with, if it is true of all its partitions."""

HEAD = """\
# Made by `retentiond plan --write-config` at {written_at}
# from the Kafka cluster {cluster_id}.
#
# It deletes nothing: dry_run is true. `retentiond check` says in words what it means,
# `retentiond plan` what would be deleted, and `retentiond explain TOPIC` why.

kafka:
{kafka}

# false: what `retentiond plan` shows is deleted.
dry_run: true

# The audit log and the remembered groups: a folder of its own that survives restarts.
state_dir: /var/lib/retentiond

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
    return tuple(_variable(name) for name in SECRETS if name in kafka)


def starting_config(look: ClusterLook, readers: Mapping[str, Iterable[str]], origin: Origin) -> str:
    """The file's text. ``readers``: each topic's groups."""
    enabled = [topic for topic in look.topics if why_not(topic) is None]
    others = [topic for topic in look.topics if why_not(topic) is not None]
    lines: list[str] = []
    for topic in enabled:
        lines += _enabled(topic, sorted(readers.get(topic.topic, ())))
    if others:
        lines += ["  # Not to begin with, each with the reason:"]
    for topic in others:
        lines += _disabled(topic)
    return _head(origin) + "\n".join(lines) + "\n"


def why_not(topic: TopicLook) -> str | None:
    """Why a topic is not enabled to begin with; None where nothing speaks against it."""
    if topic.owner is not None:
        return topic.owner.meaning
    if not any(row.groups for row in topic.rows):
        return DISABLING[Reason.NO_GROUP]
    reasons = {row.reason for row in topic.rows}
    if reasons <= DISABLING.keys():
        return listed([DISABLING[reason] for reason in sorted(reasons)])
    return None


def _head(origin: Origin) -> str:
    retention_ms = origin.consumed_retention_ms
    unit = next(unit for unit, unit_ms in _UNITS_MS.items() if retention_ms % unit_ms == 0)
    return HEAD.format(
        written_at=origin.written_at,
        cluster_id=printable(origin.cluster_id),
        kafka="\n".join(_kafka(origin)),
        unit=unit,
        count=retention_ms // _UNITS_MS[unit],
    )


def _kafka(origin: Origin) -> Iterator[str]:
    for name, value in origin.kafka.items():
        if name in SECRETS:
            yield f"  {name}: ${{{_variable(name)}}}   # from the environment"
        else:
            yield f"  {name}: {_scalar(value)}"
    if origin.left_out:
        yield f"  # Left out, as it can't stand here: {printable(', '.join(origin.left_out))}"


def _enabled(topic: TopicLook, groups: Sequence[str]) -> Iterator[str]:
    yield f"  # {_figures(topic)}"
    if groups:
        yield f"  # Read by {printable(_named(groups))}."
    yield f"  - name: {_name(topic.topic)}"
    yield "    retention.commitoffset.enable: true"
    if groups:
        yield "    # With this the topic is held unless each of them has committed:"
        yield "    # groups:"
        yield f"    #   required: [{', '.join(map(_scalar, groups))}]"
    yield ""


def _disabled(topic: TopicLook) -> Iterator[str]:
    yield f"  # {why_not(topic)}"
    yield f"  - name: {_name(topic.topic)}"
    yield "    retention.commitoffset.enable: false"


def _figures(topic: TopicLook) -> str:
    records = f"{say_count(topic.freed_records)} of {say_count(topic.records)} records would go now"
    if topic.freed_bytes is None or topic.size_bytes is None:
        return f"{records}."
    return f"{records}: {say_bytes(topic.freed_bytes)} of {say_bytes(topic.size_bytes)} on disk."


def _named(groups: Sequence[str]) -> str:
    if len(groups) <= MOST_NAMED:
        return listed(groups)
    return f"{', '.join(groups[:MOST_NAMED])} and {len(groups) - MOST_NAMED} more"


def _variable(name: str) -> str:
    return f"RETENTIOND_{name.upper().replace('.', '_')}"


def _name(topic: str) -> str:
    return topic if _PLAIN.fullmatch(topic) else _scalar(topic)


def _scalar(text: str) -> str:
    """As YAML that is read back as this text: ``${`` would be substituted."""
    literal = text.replace("${", "$${")
    if literal.isprintable():
        return "'" + literal.replace("'", "''") + "'"
    return '"' + "".join(map(_escaped, literal)) + '"'


def _escaped(char: str) -> str:
    if char.isprintable():
        return json.dumps(char, ensure_ascii=False)[1:-1]
    return f"\\U{ord(char):08x}"
