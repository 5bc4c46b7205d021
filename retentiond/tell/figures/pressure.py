"""Log directories under pressure, in words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from retentiond.config import TopicPolicy
from retentiond.decide.pressure import say_sooner
from retentiond.disks.broker_disks import DiskReport
from retentiond.disks.log_dirs import LogDirCapacity
from retentiond.disks.pressure import LogDirRelief, say_log_dir
from retentiond.formatting import listed, say_bytes, say_duration, say_name, say_ranges
from retentiond.model import PlanRow, Reason, Verdict

MOST_KEEPERS = 10
"""How many groups are named for a log directory: those that keep most there."""

ON_TRIAL = "the topic is on trial (dry_run), so nothing of it is deleted, and it relieves no disk"

FEW_KEEPERS = 3
"""How many of them a sentence names."""


SUGGEST_ABOVE = 0.7
"""A first look suggests disk pressure for disks that are fuller than this part."""


def well_filled(disk: DiskReport) -> list[LogDirCapacity]:
    """The log directories on such disks, the fullest first."""
    return [
        log_dir
        for log_dir in disk.fullest_first
        if log_dir.usable_bytes < (1 - SUGGEST_ABOVE) * log_dir.total_bytes
    ]


def suggest_pressure(disk: DiskReport) -> str | None:
    """A sentence that suggests ``disk_pressure``; None if no disk is well filled."""
    full = well_filled(disk)
    if not full:
        return None
    used = 100 - 100 * full[0].usable_share
    more = f" (and {len(full) - 1} more)" if len(full) > 1 else ""
    return (
        f"{full[0].log_dir} of broker {full[0].broker}{more} is {used:.0f}% full: with "
        "disk_pressure consumed records stay as long as there is room, and go sooner where there "
        "is none"
    )


def say_relief(relief: LogDirRelief) -> str:
    """What the plan does for the directory, in a sentence."""
    log_dir = relief.log_dir
    parts = [
        f"{say_log_dir(log_dir)} ({say_bytes(log_dir.usable_bytes)}), and "
        f"{say_bytes(log_dir.needed_bytes)} must still be freed before the pressure ends"
        if log_dir.needed_bytes
        else f"{say_log_dir(log_dir)} ({say_bytes(log_dir.usable_bytes)}), and what was deleted "
        f"before will free enough ({say_bytes(log_dir.awaited_bytes)})"
    ]
    if relief.planned_bytes:
        parts.append(f"the plan frees {say_bytes(relief.planned_bytes)} there")
    if relief.short_bytes:
        keepers = listed(
            [
                f"{say_name(group)} ({say_bytes(kept)})"
                for group, kept in islice(relief.kept_bytes.items(), FEW_KEEPERS)
            ]
        )
        kept = f"; most is kept for {keepers}" if keepers else ""
        parts.append(f"{say_bytes(relief.short_bytes)} of that can't be deleted{kept}")
    if relief.waiting_bytes:
        what = "the end of the pause" if Reason.PAUSED in relief.delayed else "a limit"
        parts.append(f"{say_bytes(relief.waiting_bytes)} more can be deleted and wait for {what}")
    return "; ".join(parts)


def say_pressure_on_topic(
    rows: Sequence[PlanRow], policy: TopicPolicy, relief: LogDirRelief
) -> str:
    """What pressure does to these rows of a topic with replicas in the directory."""
    sooner = [
        row.partition
        for row in rows
        if row.topic_partition in relief.sizes and _goes_sooner(row, policy)
    ]
    what = "no record of the topic goes sooner"
    if policy.dry_run:
        what = ON_TRIAL
    elif policy.pressure_retention_ms is None:
        what = "the topic has no pressure retention: its records stay as long as ever"
    elif sooner:
        whose = f"partition{'s' if len(sooner) > 1 else ''} {say_ranges(sooner)}"
        what = say_sooner(whose, policy.pressure_retention_ms, policy.consumed_retention_ms)
    return f"{say_relief(relief)}; {what}."


def _goes_sooner(row: PlanRow, policy: TopicPolicy) -> bool:
    return row.consumed_retention_ms != policy.consumed_retention_ms


def say_pressure_on(
    row: PlanRow, policy: TopicPolicy, segment_bytes: int | None, relief: LogDirRelief
) -> str:
    """What pressure does to a partition with a replica in the directory."""
    says = say_log_dir(relief.log_dir)
    if policy.dry_run:
        return f"{says}; {ON_TRIAL}."
    if policy.pressure_retention_ms is None:
        return f"{says}, and the topic has no pressure retention: its records stay as long as ever."
    if _goes_sooner(row, policy):
        pressure_ms, normal_ms = policy.pressure_retention_ms, policy.consumed_retention_ms
        return f"{says}: {say_sooner('this partition', pressure_ms, normal_ms)}."
    if row.reason is Reason.EMPTY:
        return f"{says}, and pressure can't help: the partition has no records."
    if row.verdict is Verdict.HOLD or row.reason is Reason.NOT_CONSUMED:
        return f"{says}, and pressure can't help: see above what keeps the records."
    if not relief.short_bytes:
        normal = say_duration(policy.consumed_retention_ms)
        return f"{says}: records of this partition still stay for {normal}, as others free enough."
    bound = _say_eager_bound(row, policy.pressure_retention_ms, relief)
    if bound is not None:
        return f"{says}, and {bound}."
    if row.verdict is Verdict.DELETE:
        return f"{says}, and pressure frees no more of this partition than the plan does."
    segment = "" if segment_bytes is None else f" of up to {say_bytes(segment_bytes)}"
    size = say_bytes(relief.sizes.get(row.topic_partition, 0))
    return (
        f"{says}, and deleting from this partition frees nothing: its {size} there are in "
        f"segments{segment}, which Kafka removes only whole, and never while active; a smaller "
        "segment.bytes or segment.ms helps."
    )


def _say_eager_bound(row: PlanRow, pressure_ms: int, relief: LogDirRelief) -> str | None:
    """What keeps the partition's records by the pressure retention, too; None if nothing does but
    the segments that they lie in.

    Without an answer of how old they are by that time, the row went by the consumed retention.
    """
    eager = relief.eager_rows.get(row.topic_partition)
    if eager is None:
        return None
    if eager.consumed_retention_ms != pressure_ms:
        return "which records are older than the pressure retention could not be read"
    if eager.reason is Reason.TOO_YOUNG:
        return (
            "pressure can't help yet: the oldest record is younger than the pressure retention "
            f"({say_duration(pressure_ms)}), too"
        )
    if eager.reason is Reason.NOT_CONSUMED:
        reader = "a group" if eager.binding_group is None else say_name(eager.binding_group)
        return f"pressure can't help: {reader} has not read the records"
    if eager.verdict is Verdict.HOLD:
        return f"pressure can't help: {eager.detail or eager.reason.value}"
    if Reason.PAUSED in relief.delayed:
        return "what can be deleted there waits for the end of the pause"
    if Reason.LIMIT_REACHED in relief.delayed:
        return "what can be deleted there waits for a limit (limits.*)"
    return None
