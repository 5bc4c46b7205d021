"""A row's reason in a few words, and what an operator can do about it, for all places that explain
a partition: the first look, `explain`, the page. The words are those of `retentiond.reasons`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from retentiond.formatting import (
    NEGATIVE_COMMIT,
    printable,
    say_name,
    say_names,
    shell_argument,
    shell_word,
)
from retentiond.model import GroupKind, PlanRow, Reason
from retentiond.reasons import REASONS

UNSEEN_READERS_NOTE = (
    "Readers that commit nothing to Kafka can't be seen: retentiond waits only for those that "
    "commit there, and for those that groups.external names."
)
"""Shown wherever retentiond says which groups read a topic."""


MOST_TOPICS = 3


def say_groups_only(pattern: str, topics: Sequence[str]) -> str:
    """A sentence about the groups that don't count on these topics, where only those that match
    the pattern do."""
    return (
        f"On {say_names(topics, MOST_TOPICS)} only groups that match {printable(pattern)} count "
        "(groups.only): what any other group has not read can be deleted."
    )


def say_compacted(topics: Sequence[str]) -> str:
    """A sentence about what a number of records means on these compacted topics."""
    are = "is" if len(topics) == 1 else "are"
    return (
        f"{say_names(topics, MOST_TOPICS)} {are} compacted: RECORDS counts offsets there, and as "
        "many records or fewer exist."
    )


NEGATIVE_COMMIT_REMEDY = (
    "Group {group} itself has committed that offset: no right is missing. Have it commit where it "
    "stands; or stop it, and reset it to the oldest record: `{reset} --to-earliest --execute`."
)
"""The remedy if the commit can't be read because it is negative."""


class Tool(NamedTuple):
    """Kafka's own tool for groups of a kind, and its option that names a topic."""

    command: str
    topic_option: str = "--topic"


TOOLS: Mapping[GroupKind, Tool] = {
    GroupKind.SHARE: Tool("kafka-share-groups"),
    GroupKind.STREAMS: Tool("kafka-streams-groups", "--input-topic"),
}

OTHER_GROUP_TOOL = Tool("kafka-consumer-groups")

PLAIN = "PLAINTEXT"

COMMAND_CONFIG = "--command-config FILE"

COMMAND_CONFIG_NOTE = (
    " FILE stands for a file with a client's security settings, as Kafka's own tools take it."
)

WHOLE_ID_NOTE = " GROUP stands for the whole group id: take it from `--output json`."
"""Added if the group id can't be quoted for a shell."""


def short(reason: Reason, group: str | None) -> str:
    return REASONS[reason].short.format(group="a group" if group is None else say_name(group))


def tool_options(properties: Mapping[str, str]) -> str:
    """The options with which Kafka's own tools reach the cluster, quoted for a shell."""
    servers = f"--bootstrap-server {shlex.quote(properties['bootstrap.servers'])}"
    protocol = properties.get("security.protocol", PLAIN).upper()
    return servers if protocol == PLAIN else f"{servers} {COMMAND_CONFIG}"


GRANT = "kafka-acls --add"
"""A command in the sentences of failures, which don't know the cluster's address.

A row, an outcome, a group and a snapshot's problem keep only the sentence of a failure, and so do
the audit log and the history. So `with_address` completes the command when the sentence is shown.
"""


def with_address(sentence: str, options: str) -> str:
    """The sentence with the complete `GRANT` command, if it has one. ``options``: the result of
    `tool_options`."""
    command = f"kafka-acls {options} --add --allow-principal User:NAME"
    return sentence.replace(GRANT, command) if options else sentence


END_OF_TRIAL = (
    "Nothing is deleted while `dry_run` is true. Ask `retentiond simulate` what the policy would "
    "have cost, and then take `dry_run` out of it."
)
"""The remedy for records of a trial that can be deleted."""


def remedy(row: PlanRow, options: str = "") -> str:
    """What to do about a row of the plan, in whole sentences. ``options``: the result of
    `tool_options`."""
    if row.dry_run and row.reason is Reason.CONSUMED:
        return END_OF_TRIAL
    group, kind = row.binding_group, row.binding_kind
    entry = REASONS[row.reason]
    of_kind = {GroupKind.EXTERNAL: entry.external, GroupKind.STREAMS: entry.streams}
    sentences = (of_kind.get(kind) if kind else None) or entry.remedy
    if row.reason is Reason.GROUP_UNREADABLE and (row.detail or "").endswith(NEGATIVE_COMMIT):
        sentences = NEGATIVE_COMMIT_REMEDY
    tool = TOOLS.get(kind, OTHER_GROUP_TOOL) if kind else OTHER_GROUP_TOOL
    quoted = None if group is None else shell_word(group)
    command = f"{tool.command} {options}".strip()
    group_option = f"--group {quoted or 'GROUP'}"
    topic_option = f"{tool.topic_option} {row.topic}:{row.partition}"
    text = sentences.format(
        group="of the sentence above" if group is None else say_name(group),
        shell=quoted or "GROUP",
        argument=(None if group is None else shell_argument(group)) or "GROUP",
        tool=command,
        reset=f"{command} --reset-offsets {group_option} {topic_option}",
        transactions=f"kafka-transactions {options}".strip(),
        topic=row.topic,
        partition=row.partition,
        start="START" if row.log_start_offset is None else row.log_start_offset,
    )
    names_group = any(field in sentences for field in ("{shell}", "{argument}", "{reset}"))
    if names_group and group is not None and quoted is None:
        text += WHOLE_ID_NOTE
    has_command = any(field in sentences for field in ("{tool}", "{reset}", "{transactions}"))
    return text + COMMAND_CONFIG_NOTE if has_command and COMMAND_CONFIG in options else text
