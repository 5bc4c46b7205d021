"""What there is to know of each reason: one entry.

Its condition in the plan stands in `retentiond.decide.rule`, and what objects to a deletion in
`retentiond.act.rule`. Everything else that knows reasons by name asks the entries for a class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from retentiond.model import Reason


class Class(Enum):
    GROUP = "the row names the group that is the cause"
    COUNTED = "it depends on which groups count, and no single one is the cause"
    AGAIN = "a hold by the policy in force, or by the moment: the past is judged again without it"
    POSITIONLESS = "the row doesn't tell the readers' positions"
    BEFORE_HIDDEN = "given before the rule has ruled out that hidden groups matter to the topic"
    NO_ALERT = "no topic is told for it (RetentiondPartitionsHeld): meant so, or told otherwise"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonEntry:
    """- ``short``: what keeps the records, for a cell of a table.
    - ``sentence``: why, where the reading has nothing to add; with ``{group}``, the binding group
      with its kind, and ``{committed}``, its commit. By default the reason's name.
    - ``not_enabled``: why a first look leaves a topic disabled whose partitions all have such a
      reason; None if it doesn't.
    - ``remedy``: what to do, in whole sentences; ``external`` and ``streams``: the same for an
      external reader, which Kafka's own tools don't know, and for a streams group. The fields:

      - ``{group}``: the binding group; ``{shell}`` and ``{argument}``: its id quoted for a shell,
        as the value of an option and as an argument of its own;
      - ``{tool}``: Kafka's own tool for groups of this kind, and ``{transactions}``: its tool for
        transactions, both with the cluster's address;
      - ``{reset}``: the command of ``{tool}`` that sets an offset;
      - ``{topic}``, ``{partition}`` and ``{start}``, the log start offset.
    """

    short: str
    remedy: str
    classes: frozenset[Class] = frozenset()
    sentence: str | None = None
    external: str | None = None
    streams: str | None = None
    not_enabled: str | None = None


REASONS: Mapping[Reason, ReasonEntry] = {
    Reason.CONSUMED: ReasonEntry(
        short="consumed",
        remedy=(
            "Nothing to do: the next cycle of `retentiond run` deletes them, unless dry_run is "
            "true."
        ),
    ),
    Reason.EMPTY: ReasonEntry(
        classes=frozenset({Class.BEFORE_HIDDEN}),
        sentence="there is no record",
        short="no record",
        remedy="Nothing to do: there is nothing to delete.",
    ),
    Reason.TOO_YOUNG: ReasonEntry(
        short="too young",
        remedy=(
            "Wait, or shorten the topic's retention.commitoffset.* if its records can be "
            "deleted sooner."
        ),
    ),
    Reason.NOT_CONSUMED: ReasonEntry(
        classes=frozenset({Class.GROUP}),
        sentence="{group} has consumed nothing from the log start offset on",
        short="{group} has yet to read them",
        remedy=(
            "See whether group {group} is running and keeps up. If it will never come back, "
            "delete it (`{tool} --delete --group {shell}`) and then forget it (`retentiond "
            "groups forget {argument}`)."
        ),
        external=(
            "See whether external reader {group} is running and keeps up. If it will never come"
            " back, take it out of groups.external and then forget it (`retentiond groups "
            "forget --kind external {argument}`)."
        ),
    ),
    Reason.NOT_WORTHWHILE: ReasonEntry(
        short="too little to free",
        remedy=(
            "Nothing to do: they go once that frees something, after limits.worthwhile.after at "
            "the latest, and at once under disk pressure."
        ),
    ),
    Reason.NO_GROUP: ReasonEntry(
        classes=frozenset({Class.COUNTED, Class.NO_ALERT}),
        sentence="no group reads the topic, and readers that commit nothing can't be seen",
        short="no group reads the topic",
        remedy=(
            "No group that counts has committed on the topic. If one has, take it out of "
            "groups.exclude, or name it under groups.only where that is set. A reader that "
            "commits nothing can't be seen. If one keeps its position elsewhere than in Kafka, "
            "name it under groups.external. If nobody reads the topic, leave it to Kafka's own "
            "retention (retention.ms, retention.bytes)."
        ),
        not_enabled="no group reads it",
    ),
    Reason.TOO_FEW_GROUPS: ReasonEntry(
        classes=frozenset({Class.COUNTED, Class.NO_ALERT}),
        short="too few groups",
        remedy=(
            "Wait until the missing groups have committed, or lower groups.min of the topic's "
            "entry."
        ),
    ),
    Reason.REQUIRED_GROUP_MISSING: ReasonEntry(
        classes=frozenset({Class.GROUP}),
        sentence="{group} is required and has never committed on the topic",
        short="{group} is required and missing",
        remedy=(
            "Start group {group}; or, if it has been renamed or retired, take it out of "
            "groups.required."
        ),
        external=(
            "See that the position of external reader {group} names topic {topic}; or take it "
            "out of groups.required."
        ),
    ),
    Reason.GROUP_WITHOUT_COMMIT: ReasonEntry(
        classes=frozenset({Class.GROUP}),
        sentence="{group} counts for the topic and has no commit on this partition",
        short="{group} has not committed",
        remedy=(
            "Have group {group} commit on this partition too; a consumer that has read nothing "
            "there commits nothing. If it is stopped, give it an offset: `{reset} --to-earliest"
            " --execute`. If it does not read the topic any more, end its members there and "
            "forget it there (`retentiond groups forget {shell} --topic {topic}`)."
        ),
        external=(
            "See that the position of external reader {group} names partition {partition} of "
            "topic {topic}: a Spark query names one once it has begun to read it. If the reader"
            " does not read the topic, take it out of the topic's groups.external."
        ),
        streams=(
            "Have group {group} commit on this partition too, which it does once it has read "
            "something there. If it is stopped, start it: Kafka's own tool resets only offsets "
            "that it has committed. If it does not read the topic any more, forget it there "
            "(`retentiond groups forget {shell} --topic {topic}`)."
        ),
    ),
    Reason.GROUP_VANISHED: ReasonEntry(
        classes=frozenset({Class.GROUP, Class.NO_ALERT}),
        sentence="{group} once committed here and has no commit any more",
        short="{group} has vanished",
        remedy=(
            "Bring group {group} back, or make it visible again; if it is gone for good, forget"
            " it (`retentiond groups forget {argument}`)."
        ),
        external=(
            "Name external reader {group} under groups.external again, or see that its position"
            " names partition {partition} of topic {topic}; if it is gone for good, forget it "
            "(`retentiond groups forget --kind external {argument}`)."
        ),
    ),
    Reason.GROUP_UNREADABLE: ReasonEntry(
        classes=frozenset({Class.GROUP, Class.NO_ALERT}),
        short="{group} can't be read",
        remedy=(
            "Fix what the sentence above names; every cycle tries again. Until then all records"
            " that group {group} may have yet to read are kept."
        ),
        external=(
            "Fix what the sentence above names: what groups.external says of {group} must be "
            "there, readable for retentiond's user, written by the reader within max_age, and "
            "its name no group's of the cluster; `retentiond doctor` reads it once. If the "
            "reader is gone for good, take it out of groups.external, and then forget it "
            "(`retentiond groups forget --kind external {argument}`)."
        ),
    ),
    Reason.GROUP_LIST_INCOMPLETE: ReasonEntry(
        classes=frozenset({Class.POSITIONLESS, Class.BEFORE_HIDDEN, Class.NO_ALERT}),
        short="not every group was seen",
        remedy=(
            "Fix what the sentence above names, mostly a broker that is down or a missing "
            "DESCRIBE on the cluster; deletion goes on by itself with the next complete "
            "listing."
        ),
        not_enabled="not every group could be seen",
    ),
    Reason.COMMIT_BEYOND_END: ReasonEntry(
        classes=frozenset({Class.GROUP}),
        sentence="{group} has committed {committed}, beyond the high watermark",
        short="{group} committed beyond the end",
        remedy=(
            "The commit of group {group} belongs to records that are not there: the topic was "
            "recreated or has lost records (an unclean election), or somebody set a wrong "
            "offset. If the group has nothing to read again, let it read on; else reset it to "
            "the oldest record (`{reset} --to-earliest --execute`) or to the end (`{reset} "
            "--to-latest --execute`)."
        ),
        external=(
            "The position of external reader {group} belongs to records that are not there: the"
            " topic was recreated, has lost records, or the position is another cluster's. Have"
            " the reader start from the beginning, or correct its file."
        ),
    ),
    Reason.COMMIT_REWOUND: ReasonEntry(
        classes=frozenset({Class.GROUP, Class.NO_ALERT}),
        sentence="{group} went back to {committed}, below the log start offset",
        short="{group} went back",
        remedy=(
            "Group {group} asks for records that are gone. Let it read on, or reset it to the "
            "oldest record: `{reset} --to-earliest --execute`."
        ),
        external=(
            "External reader {group} asks for records that are gone: its position went back. "
            "Let it read on, or have it begin at the oldest record."
        ),
    ),
    Reason.OFFSET_UNREADABLE: ReasonEntry(
        classes=frozenset({Class.POSITIONLESS, Class.BEFORE_HIDDEN}),
        short="offsets can't be read",
        remedy=(
            "Fix what the sentence above names, mostly a partition without a leader, or a "
            "missing DESCRIBE or DESCRIBE_CONFIGS on the topic. If the sentence says when it "
            "ends, just wait: every cycle tries again. If records have no timestamp, fix their "
            "producers, or set message.timestamp.type=LogAppendTime on the topic; if their age "
            "does not matter, set retention.commitoffset.ms: 0."
        ),
        not_enabled="its offsets could not be read",
    ),
    Reason.TOPIC_RECREATED: ReasonEntry(
        classes=frozenset({Class.BEFORE_HIDDEN}),
        sentence="the topic has another id than before: what was known of it is void",
        short="the topic was recreated",
        remedy=(
            "Nothing to do: the hold ends with the next cycle. See that its groups don't go on "
            "from the offsets of the earlier topic of the same name."
        ),
    ),
    Reason.NOT_DELETABLE: ReasonEntry(
        classes=frozenset({Class.BEFORE_HIDDEN, Class.NO_ALERT}),
        short="compacted, internal or a changelog",
        remedy=(
            "Take the topic out of the policy; or, if its cleanup.policy is compact,delete and "
            "the last value of a key can be deleted too, set allow_compacted: true. Nothing is "
            "deleted from a changelog as long as a group that counts restores its state from "
            "it."
        ),
        not_enabled="its cleanup.policy lacks delete, or has compact too",
    ),
    Reason.RETENTION_EXCEEDS_FORCED: ReasonEntry(
        classes=frozenset({Class.AGAIN, Class.BEFORE_HIDDEN, Class.NO_ALERT}),
        short="Kafka's retention is shorter",
        remedy=(
            "Set the topic's retention.commitoffset.* to no more than its retention.ms, after "
            "which Kafka deletes records whether or not they were read; or raise retention.ms."
        ),
        not_enabled="its own retention.ms is shorter than this consumed retention",
    ),
    Reason.POLICY_CONFLICT: ReasonEntry(
        classes=frozenset({Class.AGAIN, Class.BEFORE_HIDDEN}),
        short="patterns or fences disagree",
        remedy=(
            "If it is in two fences, have it in one only. Else give the topic an entry by its "
            "exact name, which beats every pattern, or have only one pattern match it."
        ),
    ),
    Reason.POLICY_UNREADABLE: ReasonEntry(
        classes=frozenset({Class.AGAIN, Class.BEFORE_HIDDEN, Class.NO_ALERT}),
        short="its policy file can't be used",
        remedy=(
            "Correct the policy file that the sentence above names, or put it back, and check "
            "it with `retentiond check`. Then send the daemon SIGHUP, unless reload.watch is "
            "true. Until then all topics of its fence are on hold."
        ),
    ),
    Reason.OPEN_TRANSACTION: ReasonEntry(
        classes=frozenset({Class.AGAIN}),
        short="an open transaction",
        remedy=(
            "Wait for the transaction to end; where its producer is gone, Kafka ends it after "
            "the producer's transaction.timeout.ms. If it hangs, find it with `{transactions} "
            "find-hanging --topic {topic} --partition {partition}` and end it with "
            "`{transactions} abort --topic {topic} --partition {partition} --start-offset "
            "{start}`."
        ),
    ),
    Reason.EVIDENCE_CHANGED: ReasonEntry(
        classes=frozenset({Class.AGAIN}),
        short="the second reading differed",
        remedy=(
            "Nothing to do if it happens now and then: the next cycle reads everything again. "
            "If it stays, the sentence above names what changes between two readings."
        ),
    ),
    Reason.LIMIT_REACHED: ReasonEntry(
        classes=frozenset({Class.AGAIN, Class.NO_ALERT}),
        short="a limit is reached",
        remedy=(
            "Nothing to do: these partitions come first in the next cycle. If that takes too "
            "long, change the setting under limits that the detail names."
        ),
    ),
    Reason.PAUSED: ReasonEntry(
        classes=frozenset({Class.AGAIN, Class.NO_ALERT}),
        short="paused",
        remedy="Once the cause of the pause is gone, run `retentiond resume`.",
    ),
}


def reasons_of(wanted: Class) -> tuple[Reason, ...]:
    return tuple(reason for reason, entry in REASONS.items() if wanted in entry.classes)


CAUSED_BY_A_GROUP = frozenset(reasons_of(Class.GROUP))


def sentence(reason: Reason, group: str | None = None, committed: int | None = None) -> str:
    said = REASONS[reason].sentence or reason.value.replace("_", " ")
    return said.format(group=group, committed=committed)
