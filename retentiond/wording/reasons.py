"""Each reason in a few words, and what an operator does about it.

One table for every place that explains a partition: the first look, `explain`, the page.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import NamedTuple

from retentiond.model import PlanRow, Reason


class Wording(NamedTuple):
    """``short``: what keeps the records, as a cell of a table; ``remedy``: what to do, in whole
    sentences. ``{group}`` is the group that binds, ``{shell}`` the same quoted for a shell, and
    ``{topic}`` and ``{partition}`` say where."""

    short: str
    remedy: str


WORDINGS: Mapping[Reason, Wording] = {
    Reason.CONSUMED: Wording(
        "consumed",
        "Nothing to do: the next cycle of `retentiond run` deletes them, unless dry_run is true.",
    ),
    Reason.EMPTY: Wording("no record", "Nothing to do: there is nothing to delete."),
    Reason.TOO_YOUNG: Wording(
        "too young",
        "Wait, or shorten the topic's retention.commitoffset.* if its records may go sooner.",
    ),
    Reason.NOT_CONSUMED: Wording(
        "{group} has yet to read them",
        "See whether group {group} is running and keeps up. If it will never come back, delete it "
        "(`kafka-consumer-groups --delete --group {shell}`) and then let go of it "
        "(`retentiond groups forget {shell}`); or, if it need not read everything, name it under "
        "groups.exclude.",
    ),
    Reason.NO_GROUP: Wording(
        "no group reads the topic",
        "Nobody has committed on the topic. If its reader keeps its position elsewhere than in "
        "Kafka, name it under groups.external. If nobody reads it, leave it to Kafka's own "
        "retention (retention.ms, retention.bytes).",
    ),
    Reason.TOO_FEW_GROUPS: Wording(
        "too few groups",
        "Wait until the missing groups have committed, or lower groups.min of the topic's entry.",
    ),
    Reason.REQUIRED_GROUP_MISSING: Wording(
        "{group} is required and missing",
        "Start group {group}; or, if it has been renamed or retired, take it out of "
        "groups.required.",
    ),
    Reason.GROUP_WITHOUT_COMMIT: Wording(
        "{group} has not committed",
        "Have group {group} commit on this partition too; a consumer that has read nothing there "
        "commits nothing. If it is stopped, give it an offset: `kafka-consumer-groups "
        "--reset-offsets --group {shell} --topic {topic}:{partition} --to-earliest --execute`. "
        "Or name it under groups.exclude, if it need not read everything.",
    ),
    Reason.GROUP_VANISHED: Wording(
        "{group} has vanished",
        "Bring group {group} back, or make it visible again; if it is gone for good, let go of it "
        "(`retentiond groups forget {shell}`).",
    ),
    Reason.GROUP_UNREADABLE: Wording(
        "{group} can't be read",
        "See that retentiond's principal may DESCRIBE group {group}, and that the group's "
        "coordinator is up; a group that doesn't concern the topic may be named under "
        "groups.exclude.",
    ),
    Reason.GROUP_LIST_INCOMPLETE: Wording(
        "not every group was seen",
        "Mend what the sentence above names, mostly a broker that is down or a missing DESCRIBE "
        "on the cluster; deletion goes on by itself with the next complete listing.",
    ),
    Reason.COMMIT_BEYOND_END: Wording(
        "{group} committed beyond the end",
        "The commit of group {group} belongs to records that are not there: the topic was "
        "recreated, has lost records, or somebody set a wrong offset. Reset it, to the oldest "
        "record or to the end: `kafka-consumer-groups --reset-offsets --group {shell} "
        "--topic {topic}:{partition} --to-earliest --execute` (or --to-latest).",
    ),
    Reason.COMMIT_REWOUND: Wording(
        "{group} went back",
        "Group {group} asks for records that are gone. Let it read on, or reset it to the oldest "
        "record: `kafka-consumer-groups --reset-offsets --group {shell} "
        "--topic {topic}:{partition} --to-earliest --execute`.",
    ),
    Reason.OFFSET_UNREADABLE: Wording(
        "offsets can't be read",
        "See that the partition has a leader, and that retentiond's principal has DESCRIBE and "
        "DESCRIBE_CONFIGS on the topic; every cycle tries again.",
    ),
    Reason.TOPIC_RECREATED: Wording(
        "the topic was recreated",
        "Nothing to do: the hold ends with the next cycle. See that its groups don't go on from "
        "the offsets of the topic of that name that is gone.",
    ),
    Reason.NOT_DELETABLE: Wording(
        "its cleanup.policy forbids it",
        "Take the topic out of the policy; or, if its cleanup.policy is compact,delete and the "
        "last value of a key may go too, say allow_compacted: true.",
    ),
    Reason.RETENTION_EXCEEDS_FORCED: Wording(
        "Kafka's retention is shorter",
        "Set the topic's retention.commitoffset.* to no more than its retention.ms, which Kafka "
        "keeps records for whoever has read them; or raise retention.ms.",
    ),
    Reason.POLICY_CONFLICT: Wording(
        "patterns disagree",
        "Give the topic an entry by its exact name, which beats every pattern, or have only one "
        "pattern match it.",
    ),
    Reason.OPEN_TRANSACTION: Wording(
        "an open transaction",
        "Wait for the transaction to end. If its producer is gone, find and abort it: "
        "`kafka-transactions find-hanging --topic {topic} --partition {partition}`, "
        "then `kafka-transactions abort`.",
    ),
    Reason.EVIDENCE_CHANGED: Wording(
        "the second reading differed",
        "Nothing to do if it happens now and then: the next cycle looks anew. If it stays, the "
        "sentence above names what moves between two readings.",
    ),
    Reason.LIMIT_REACHED: Wording(
        "a limit is reached",
        "Nothing to do: the next cycles go on with it. If that takes too long, raise the limit "
        "under limits.",
    ),
    Reason.PAUSED: Wording("paused", "Once the cause is mended, say `retentiond resume`."),
}


def short(reason: Reason, group: str | None) -> str:
    """What keeps records, in a few words."""
    return WORDINGS[reason].short.format(group=group or "a group")


def remedy(row: PlanRow) -> str:
    """What to do about a row of the plan, in whole sentences."""
    group = row.binding_group
    return WORDINGS[row.reason].remedy.format(
        group=group or "of the sentence above",
        shell=shlex.quote(group) if group else "GROUP",
        topic=row.topic,
        partition=row.partition,
    )
