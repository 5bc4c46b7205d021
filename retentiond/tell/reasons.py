"""Every reason in a few words, and what an operator can do about it.

All places that explain a partition use this table: the first look, `explain`, the page.
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


class ReasonText(NamedTuple):
    """A reason in words. ``short``: what keeps the records, for a cell of a table. ``remedy``: what
    to do, in whole sentences with these fields:

    - ``{group}``: the binding group; ``{shell}`` and ``{argument}``: its id quoted for a shell, as
      the value of an option and as an argument of its own;
    - ``{tool}``: Kafka's own tool for groups of this kind, and ``{transactions}``: its tool for
      transactions, both with the cluster's address;
    - ``{reset}``: the command of ``{tool}`` that sets an offset;
    - ``{topic}``, ``{partition}`` and ``{start}``, the log start offset.
    """

    short: str
    remedy: str


REASON_TEXTS: Mapping[Reason, ReasonText] = {
    Reason.CONSUMED: ReasonText(
        "consumed",
        "Nothing to do: the next cycle of `retentiond run` deletes them, unless dry_run is true.",
    ),
    Reason.EMPTY: ReasonText("no record", "Nothing to do: there is nothing to delete."),
    Reason.TOO_YOUNG: ReasonText(
        "too young",
        "Wait, or shorten the topic's retention.commitoffset.* if its records can be deleted "
        "sooner.",
    ),
    Reason.NOT_CONSUMED: ReasonText(
        "{group} has yet to read them",
        "See whether group {group} is running and keeps up. If it will never come back, delete it "
        "(`{tool} --delete --group {shell}`) and then forget it "
        "(`retentiond groups forget {argument}`).",
    ),
    Reason.NO_GROUP: ReasonText(
        "no group reads the topic",
        "No group that counts has committed on the topic. If one has, take it out of "
        "groups.exclude, or name it under groups.only where that is set. A reader that commits "
        "nothing can't be seen. If one keeps its position elsewhere than in Kafka, name it under "
        "groups.external. If nobody reads the topic, leave it to Kafka's own retention "
        "(retention.ms, retention.bytes).",
    ),
    Reason.TOO_FEW_GROUPS: ReasonText(
        "too few groups",
        "Wait until the missing groups have committed, or lower groups.min of the topic's entry.",
    ),
    Reason.REQUIRED_GROUP_MISSING: ReasonText(
        "{group} is required and missing",
        "Start group {group}; or, if it has been renamed or retired, take it out of "
        "groups.required.",
    ),
    Reason.GROUP_WITHOUT_COMMIT: ReasonText(
        "{group} has not committed",
        "Have group {group} commit on this partition too; a consumer that has read nothing there "
        "commits nothing. If it is stopped, give it an offset: `{reset} --to-earliest --execute`. "
        "If it does not read the topic any more, end its members there and forget it there "
        "(`retentiond groups forget {shell} --topic {topic}`).",
    ),
    Reason.GROUP_VANISHED: ReasonText(
        "{group} has vanished",
        "Bring group {group} back, or make it visible again; if it is gone for good, forget it "
        "(`retentiond groups forget {argument}`).",
    ),
    Reason.GROUP_UNREADABLE: ReasonText(
        "{group} can't be read",
        "Fix what the sentence above names; every cycle tries again. Until then all records that "
        "group {group} may have yet to read are kept.",
    ),
    Reason.GROUP_LIST_INCOMPLETE: ReasonText(
        "not every group was seen",
        "Fix what the sentence above names, mostly a broker that is down or a missing DESCRIBE "
        "on the cluster; deletion goes on by itself with the next complete listing.",
    ),
    Reason.COMMIT_BEYOND_END: ReasonText(
        "{group} committed beyond the end",
        "The commit of group {group} belongs to records that are not there: the topic was "
        "recreated or has lost records (an unclean election), or somebody set a wrong offset. If "
        "the group has nothing to read again, let it read on; else reset it to the oldest record "
        "(`{reset} --to-earliest --execute`) or to the end (`{reset} --to-latest --execute`).",
    ),
    Reason.COMMIT_REWOUND: ReasonText(
        "{group} went back",
        "Group {group} asks for records that are gone. Let it read on, or reset it to the oldest "
        "record: `{reset} --to-earliest --execute`.",
    ),
    Reason.OFFSET_UNREADABLE: ReasonText(
        "offsets can't be read",
        "Fix what the sentence above names, mostly a partition without a leader, or a missing "
        "DESCRIBE or DESCRIBE_CONFIGS on the topic. If the sentence says when it ends, just wait: "
        "every cycle tries again. If records have no timestamp, fix their producers, or set "
        "message.timestamp.type=LogAppendTime on the topic; if their age does not matter, set "
        "retention.commitoffset.ms: 0.",
    ),
    Reason.TOPIC_RECREATED: ReasonText(
        "the topic was recreated",
        "Nothing to do: the hold ends with the next cycle. See that its groups don't go on from "
        "the offsets of the earlier topic of the same name.",
    ),
    Reason.NOT_DELETABLE: ReasonText(
        "compacted, internal or a changelog",
        "Take the topic out of the policy; or, if its cleanup.policy is compact,delete and the "
        "last value of a key can be deleted too, set allow_compacted: true. Nothing is deleted "
        "from a changelog as long as a group that counts restores its state from it.",
    ),
    Reason.RETENTION_EXCEEDS_FORCED: ReasonText(
        "Kafka's retention is shorter",
        "Set the topic's retention.commitoffset.* to no more than its retention.ms, after which "
        "Kafka deletes records whether or not they were read; or raise retention.ms.",
    ),
    Reason.POLICY_CONFLICT: ReasonText(
        "patterns or fences disagree",
        "If it is in two fences, have it in one only. Else give the topic an entry by its exact "
        "name, which beats every pattern, or have only one pattern match it.",
    ),
    Reason.POLICY_UNREADABLE: ReasonText(
        "its policy file can't be used",
        "Correct the policy file that the sentence above names, or put it back, and check it with "
        "`retentiond check`. Then send the daemon SIGHUP, unless reload.watch is true. Until then "
        "all topics of its fence are on hold.",
    ),
    Reason.OPEN_TRANSACTION: ReasonText(
        "an open transaction",
        "Wait for the transaction to end; where its producer is gone, Kafka ends it after the "
        "producer's transaction.timeout.ms. If it hangs, find it with "
        "`{transactions} find-hanging --topic {topic} --partition {partition}` and end it with "
        "`{transactions} abort --topic {topic} --partition {partition} --start-offset {start}`.",
    ),
    Reason.EVIDENCE_CHANGED: ReasonText(
        "the second reading differed",
        "Nothing to do if it happens now and then: the next cycle reads everything again. If it "
        "stays, the sentence above names what changes between two readings.",
    ),
    Reason.LIMIT_REACHED: ReasonText(
        "a limit is reached",
        "Nothing to do: these partitions come first in the next cycle. If that takes too long, "
        "change the setting under limits that the detail names.",
    ),
    Reason.PAUSED: ReasonText(
        "paused", "Once the cause of the pause is gone, run `retentiond resume`."
    ),
}


EXTERNAL_REMEDIES: Mapping[Reason, str] = {
    Reason.NOT_CONSUMED: (
        "See whether external reader {group} is running and keeps up. If it will never come back, "
        "take it out of groups.external and then forget it "
        "(`retentiond groups forget --kind external {argument}`)."
    ),
    Reason.REQUIRED_GROUP_MISSING: (
        "See that the position of external reader {group} names topic {topic}; or take it out of "
        "groups.required."
    ),
    Reason.GROUP_WITHOUT_COMMIT: (
        "See that the position of external reader {group} names partition {partition} of topic "
        "{topic}: a Spark query names one once it has begun to read it. If the reader does not "
        "read the topic, take it out of the topic's groups.external."
    ),
    Reason.GROUP_VANISHED: (
        "Name external reader {group} under groups.external again, or see that its position names "
        "partition {partition} of topic {topic}; if it is gone for good, forget it "
        "(`retentiond groups forget --kind external {argument}`)."
    ),
    Reason.GROUP_UNREADABLE: (
        "Fix what the sentence above names: what groups.external says of {group} must be there, "
        "readable for retentiond's user, written by the reader within max_age, and its name no "
        "group's of the cluster; `retentiond doctor` reads it once. If the reader is gone for "
        "good, take it out of groups.external, and then forget it "
        "(`retentiond groups forget --kind external {argument}`)."
    ),
    Reason.COMMIT_BEYOND_END: (
        "The position of external reader {group} belongs to records that are not there: the topic "
        "was recreated, has lost records, or the position is another cluster's. Have the reader "
        "start from the beginning, or correct its file."
    ),
    Reason.COMMIT_REWOUND: (
        "External reader {group} asks for records that are gone: its position went back. Let it "
        "read on, or have it begin at the oldest record."
    ),
}
"""Remedies for external readers, which Kafka's own tools don't know."""

STREAMS_REMEDIES: Mapping[Reason, str] = {
    Reason.GROUP_WITHOUT_COMMIT: (
        "Have group {group} commit on this partition too, which it does once it has read something "
        "there. If it is stopped, start it: Kafka's own tool resets only offsets that it "
        "has committed. If it does not read the topic any more, forget it there "
        "(`retentiond groups forget {shell} --topic {topic}`)."
    ),
}
"""Remedies for streams groups."""

NEGATIVE_COMMIT_REMEDY = (
    "Group {group} itself has committed that offset: no right is missing. Have it commit where it "
    "stands; or stop it, and reset it to the oldest record: `{reset} --to-earliest --execute`."
)
"""The remedy if the commit can't be read because it is negative."""

REMEDIES_OF_KIND: Mapping[GroupKind | None, Mapping[Reason, str]] = {
    GroupKind.EXTERNAL: EXTERNAL_REMEDIES,
    GroupKind.STREAMS: STREAMS_REMEDIES,
}
"""Remedies that differ from those in `REASON_TEXTS`, by kind of group."""


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
    return REASON_TEXTS[reason].short.format(group="a group" if group is None else say_name(group))


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
    sentences = REMEDIES_OF_KIND.get(kind, {}).get(row.reason, REASON_TEXTS[row.reason].remedy)
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
