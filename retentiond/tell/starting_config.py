"""The files that a first look writes: a configuration to start from, or a policy file for an
existing configuration.

The files have comments. A topic is enabled if it has readers and nothing speaks against it. Every
other topic is in the file, disabled, with the reason: for example, unlimited retention, or signs of
readers that can't be seen. The configuration deletes nothing. It has no secrets, but names the
environment variables in which it expects them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from retentiond.config.document import dumped_text
from retentiond.config.rules import RETENTION_UNITS_MS
from retentiond.formatting import (
    listed,
    printable,
    say_bytes,
    say_count,
    say_name,
    say_names,
)
from retentiond.kafka.settings.logins import CLIENT_SECRET
from retentiond.tell.figures.answers import TopicAnswer
from retentiond.tell.figures.pressure import suggest_pressure
from retentiond.tell.first_look import FirstLook, why_not
from retentiond.tell.reasons import UNSEEN_READERS_NOTE

SECRETS = ("sasl.password", "ssl.key.password", CLIENT_SECRET)

MOST_NAMED = 8
"""How many groups a comment names."""

CONFIG_HEAD = """\
# Made by `retentiond plan --write-config` at {written_at}
# from the Kafka cluster {cluster_id}.
#
# It deletes nothing: dry_run is true. `retentiond check` says in words what it means,
# `retentiond plan` what would be deleted, and `retentiond explain TOPIC` why.
#
{unseen}

kafka:
{kafka}

# false: what `retentiond plan` shows is deleted.
dry_run: true

# The audit log and the remembered groups: a folder of its own that survives restarts. By default
# /var/lib/retentiond if it exists or can be created. Otherwise a folder in your home, and then you
# must set state_dir before you turn dry_run off.
# state_dir: /var/lib/retentiond

# A broker frees whole segments, so a deletion within one frees nothing: what would free less
# than this waits until it frees as much, or could have gone for so long.
limits: {{worthwhile: {{bytes: 1MiB, after: 1h}}}}

{pressure}# What every topic starts from. The consumed retention: a record stays at least
# this long, even if every group has read it.
defaults:
  retention.commitoffset.enable: false
  retention.commitoffset.{unit}: {count}

topics:
"""

PRESSURE = """\
# {suggestion}.
# disk_pressure: {{below_free: 20%, until_free: 25%}}
# It needs retention.commitoffset.pressure.minutes, under defaults or in entries of topics.

"""

POLICY_HEAD = """\
# Made by `retentiond plan --unmanaged --write-config` at {written_at}
# from the Kafka cluster {cluster_id}:
# the topics that no entry of {config} was about.
#
# It has no effect until `policies` in that configuration leads to it. `retentiond check` says in
# words what it means, `retentiond plan` what would be deleted, and `retentiond explain TOPIC` why.
#
{unseen}

# Who is asked about these topics.
owner: {owner}

# These settings refine the defaults of that configuration, for this file alone. The consumed
# retention: a record stays at least this long, even if every group has read it.
defaults:
{trial}  retention.commitoffset.{unit}: {count}

topics:
"""

TRIAL = """\
  # On trial: planned and recorded, and nothing is deleted. After two weeks ask `retentiond
  # simulate` what the policy would have cost, and then take this line away.
  dry_run: true
"""

UNSEEN_READERS = f"""\
# {UNSEEN_READERS_NOTE}
# Kafka's admin API doesn't show who fetches without a group, so such a reader stays unseen even
# while it runs.
# Name readers that keep their position elsewhere (Spark, Flink, Druid, MirrorMaker 2) under
# groups.external. Leave topics out that other such readers read, such as the global tables of
# Kafka Streams."""

_PLAIN = re.compile(r"(?!(?:null|Null|NULL)$)[A-Za-z][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Origin:
    """The cluster of a first look, and how it was reached. ``kafka``: the ``kafka:`` section, with
    its secrets. ``left_out``: client properties that the section can't have. ``written_at``: RFC
    3339."""

    cluster_id: str
    kafka: Mapping[str, str]
    left_out: Sequence[str]
    written_at: str


def environment_of(kafka: Mapping[str, str]) -> tuple[str, ...]:
    """The environment variables in which the file expects the secrets."""
    return tuple(_environment_variable(name) for name in SECRETS if name in kafka)


def starting_config(look: FirstLook, origin: Origin) -> str:
    suggestion = suggest_pressure(look.report.disk) or ""
    head = CONFIG_HEAD.format(
        written_at=origin.written_at,
        cluster_id=printable(origin.cluster_id),
        kafka="\n".join(_kafka_lines(origin)),
        unseen=UNSEEN_READERS,
        pressure=suggestion and PRESSURE.format(suggestion=printable(suggestion)),
        **_retention(look.retention_ms),
    )
    return head + _topics(look)


def policy_file(look: FirstLook, owner: str, cluster_id: str, written_at: str) -> str:
    """The text of a policy file. ``written_at``: RFC 3339."""
    head = POLICY_HEAD.format(
        written_at=written_at,
        cluster_id=printable(cluster_id),
        config=printable(look.outside or ""),
        owner=dumped_text(owner),
        trial="" if look.is_dry else TRIAL,
        unseen=UNSEEN_READERS,
        **_retention(look.retention_ms),
    )
    return head + _topics(look)


def _retention(ms: int) -> dict[str, str | int]:
    coarsest_first = reversed(RETENTION_UNITS_MS.items())
    unit, unit_ms = next(pair for pair in coarsest_first if ms % pair[1] == 0)
    return {"unit": unit, "count": ms // unit_ms}


def _topics(look: FirstLook) -> str:
    lines: list[str] = []
    others: list[str] = []
    for topic in look.topics:
        if (why := why_not(topic)) is None:
            lines += _enabled_topic(topic, look)
        else:
            others.append(f"  # {printable(why)}")
            others.append(f"  - name: {_topic_name(topic.topic)}")
            others.append("    retention.commitoffset.enable: false")
            others += _retention_lines(topic, look)
    if others:
        lines.append("  # Not topics to begin with; the reason is above each:")
    return "\n".join(lines + others) + "\n"


def _kafka_lines(origin: Origin) -> Iterator[str]:
    for name, value in origin.kafka.items():
        if name in SECRETS:
            yield f"  {name}: ${{{_environment_variable(name)}}}   # from the environment"
        else:
            yield f"  {name}: {dumped_text(value)}"
    if origin.left_out:
        yield f"  # Left out, as it can't stand here: {printable(', '.join(origin.left_out))}"


def _enabled_topic(topic: TopicAnswer, look: FirstLook) -> Iterator[str]:
    """An entry that enables the topic, unless there is a doubt about its readers."""
    groups, doubt = look.groups_of(topic), look.doubt(topic)
    required, unrequired = look.required_groups(topic), sorted(look.unrequired(topic))
    yield f"  # {_figures(topic)}"
    if groups:
        yield f"  # Read by {_group_names(groups)}."
    if unrequired:
        yield (
            f"  # Not required, because they may not come back: {_group_names(unrequired)}. What "
            "they have yet to read stays all the same."
        )
    if doubt is not None:
        yield f"  # Not enabled: {printable(doubt)}."
    yield f"  - name: {_topic_name(topic.topic)}"
    yield f"    retention.commitoffset.enable: {'true' if doubt is None else 'false'}"
    yield from _retention_lines(topic, look)
    if required:
        yield "    groups:"
        yield "      # The topic is held unless each of them has committed:"
        yield f"      required: [{', '.join(map(dumped_text, required))}]"
    yield ""


def _retention_lines(topic: TopicAnswer, look: FirstLook) -> Iterator[str]:
    retention_ms = look.retention_of(topic)
    written = "{unit}: {count}".format(**_retention(retention_ms))
    yield f"    retention.commitoffset.{written}"
    if look.pressure_ms is not None and look.pressure_ms > retention_ms:
        yield f"    retention.commitoffset.pressure.{written}"  # a longer one would be refused


def _figures(topic: TopicAnswer) -> str:
    frees_bytes, size_bytes = topic.predicted_of_size, topic.size_bytes
    records = f"{say_count(topic.records)} of {say_count(topic.log_records)} records would go now"
    if frees_bytes is None or size_bytes is None:
        return f"{records}."
    return f"{records}: {say_bytes(frees_bytes)} of {say_bytes(size_bytes)} on disk."


def _group_names(groups: Sequence[str]) -> str:
    is_few = len(groups) <= MOST_NAMED
    return listed([*map(say_name, groups)]) if is_few else say_names(groups, MOST_NAMED)


def _environment_variable(name: str) -> str:
    return f"RETENTIOND_{name.upper().replace('.', '_')}"


def _topic_name(topic: str) -> str:
    return topic if _PLAIN.fullmatch(topic) else dumped_text(topic)
