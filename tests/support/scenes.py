"""Clusters as the status page may have to show them: plausible, huge and hostile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from retentiond.act.approved import Approved, CommitEvidence
from retentiond.disks.broker_disks import DiskReport
from retentiond.disks.stuck import Stuck, StuckCause
from retentiond.memory.readers import GroupOnTopic, RememberedReader
from retentiond.model import (
    VERDICT_OF,
    DeletionOutcome,
    GroupKind,
    Outcome,
    PlanRow,
    Reason,
    TopicPartition,
    Verdict,
)
from retentiond.state.audit import Audit
from retentiond.state.audit_records import CycleRecord
from retentiond.tell.report import CycleReport, GroupState
from tests.support.builders import reports
from tests.support.builders.group_memories import add_readers

NOW_MS = 1_790_000_000_000
HOUR_MS = 3_600_000
RECORD_BYTES = 3 * 412  # three replicas

HOSTILE_TOPIC = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>/../%2e?a=b#c&amp;"
HOSTILE_GROUP = "</bdi></style>{{ 7 * 7 }}\N{RIGHT-TO-LEFT OVERRIDE}gro\x00up'\"\N{SNOWMAN}\udc80"

GROUP_STATES = {
    "archive": GroupState("classic", "empty"),
    "nightly": GroupState("classic", "vanished"),
    "billing": GroupState("consumer", "live"),
    "search": GroupState("share", "live"),
}


def partition(
    topic: str,
    number: int,
    reason: Reason = Reason.CONSUMED,
    *,
    start: int = 0,
    committed: int | None = None,
    young: int | None = None,
    end: int = 1_000,
    group: str | None = "billing",
    detail: str | None = None,
) -> PlanRow:
    """Offsets in the order of the log. What is consumed goes up to the smaller of ``committed``
    and ``young``, the retention offset."""
    bounds = [each for each in (committed, young, end) if each is not None]
    is_deleted = VERDICT_OF[reason] is Verdict.DELETE
    records = max(0, min(bounds) - start) if is_deleted else 0
    return replace(
        reports.row(topic, number, reason),
        log_start_offset=start,
        high_watermark=end,
        min_committed_offset=committed,
        binding_group=group,
        binding_committed_offset=committed,
        retention_offset=young,
        cutoff=min(bounds),
        records=records,
        detail=detail,
        predicted_bytes=records * RECORD_BYTES if is_deleted else None,
    )


def report(
    rows: Iterable[PlanRow],
    *,
    dry_run: bool = False,
    problems: tuple[str, ...] = (),
    stuck: tuple[Stuck, ...] = (),
    outcomes: Mapping[TopicPartition, DeletionOutcome] | None = None,
    planned_at_ms: int = NOW_MS - 72_000,
) -> CycleReport:
    """Of a cycle that did what it planned, unless ``outcomes`` say otherwise."""
    sorted_rows = tuple(sorted(rows, key=lambda row: (row.topic, row.partition)))
    made = reports.report(
        sorted_rows, dry_run=dry_run, problems=problems, planned_at_ms=planned_at_ms
    )
    plan = replace(made.plan, cycle_id="5f0c9a71be24", cluster_id="MkU3OEVBNTcwNTJENDM2Qk")
    what = Outcome.NOT_ATTEMPTED if dry_run else Outcome.DELETED
    done = {
        at: DeletionOutcome(*at, what, None if dry_run else row.cutoff)
        for row in sorted_rows
        if row.verdict is Verdict.DELETE and (at := TopicPartition(row.topic, row.partition))
    }
    sizes = {
        TopicPartition(row.topic, row.partition): (row.high_watermark - row.log_start_offset)
        * RECORD_BYTES
        for row in sorted_rows
        if row.high_watermark is not None and row.log_start_offset is not None
    }
    disk = DiskReport(size_bytes=sizes, stuck=stuck)
    return CycleReport(
        plan, done | dict(outcomes or {}), {"gather": 0.4}, disk, group_states=GROUP_STATES
    )


def plausible(*, dry_run: bool = True) -> CycleReport:
    """A dozen topics of a company that streams its orders."""
    rows = [
        partition(topic, number, Reason.CONSUMED, start=start + number * 811,
                  committed=start + size * 8 // 10 + number * 977, young=start + size * 7 // 10,
                  end=start + size + number * 1_311, group=group)
        for topic, partitions, start, size, group in (
            ("orders.enriched", 12, 48_211_904, 31_800_000, "billing"),
            ("clicks.sessionized", 24, 901_442_100, 9_400_000, "recommender"),
            ("payments.checked", 6, 7_730_112, 2_100_000, "ledger-writer"),
            ("stage.geo-lookup", 8, 1_204_331, 640_000, "search-indexer"),
            ("stage.dedup", 8, 0, 220_000, "search-indexer"),
        )
        for number in range(partitions)
    ]  # fmt: skip
    rows += [
        partition("orders.enriched", 12 + number, Reason.NOT_CONSUMED, start=50_000_000,
                  committed=50_000_000, young=78_000_000, end=80_100_000 + number,
                  group="fraud-detector", detail="it has stood still since Thursday")
        for number in range(4)
    ]  # fmt: skip
    for topic, reason, size, group, detail in (
        ("inventory.deltas", Reason.GROUP_VANISHED, 14_000_000, "warehouse-sync", None),
        ("emails.rendered", Reason.TOO_YOUNG, 1_900_000, "mailer", None),
        ("audit.trail", Reason.NO_GROUP, 5_200_000, None, None),
        ("orders-store-changelog", Reason.NOT_DELETABLE, 3_100_000, None, "cleanup.policy=compact"),
        ("prices.ticks", Reason.OPEN_TRANSACTION, 820_000, "pricer", None),
        ("empty.new", Reason.EMPTY, 0, None, None),
        ("shipments.tracked", Reason.GROUP_WITHOUT_COMMIT, 410_000, "tracking-ui",
         "it has committed on 3 of 4 partitions"),
    ):  # fmt: skip
        for number in range(4):
            rows.append(
                partition(topic, number, reason, start=1_000, committed=1_000 + size // 3,
                          young=1_000 if reason is Reason.TOO_YOUNG else 1_000 + size * 9 // 10,
                          end=1_000 + size, group=group, detail=detail)
            )  # fmt: skip
    stuck = Stuck(
        "prices.ticks",
        2,
        StuckCause.FUTURE_REPLICA,
        "its move to /data-2 on broker 1 has stood at 4096 bytes for 35 minutes",
    )
    states = {
        row.binding_group: GroupState(
            "consumer", "vanished" if row.reason is Reason.GROUP_VANISHED else "live"
        )
        for row in rows
        if row.binding_group is not None
    }
    return replace(report(rows, dry_run=dry_run, stuck=(stuck,)), group_states=states)


def many_partitions(count: int) -> CycleReport:
    """One topic with all of them."""
    reasons = (Reason.CONSUMED, Reason.NOT_CONSUMED, Reason.TOO_YOUNG, Reason.GROUP_WITHOUT_COMMIT)
    return report(
        partition("firehose", number, reasons[number % 4], committed=400 + number % 7,
                  young=900, group=f"group-{number % 3}")
        for number in range(count)
    )  # fmt: skip


def many_topics(count: int) -> CycleReport:
    """One partition each, so that `topic-00042` frees more than `topic-00041`."""
    return report(
        partition(f"topic-{number:05}", 0, committed=1 + number, young=count + 1, end=count + 2)
        for number in range(count)
    )


def hostile() -> CycleReport:
    """Names and sentences that try to be markup, script, style, a path or a template."""
    row = partition(HOSTILE_TOPIC, 0, Reason.NOT_CONSUMED, committed=10, group=HOSTILE_GROUP,
                    detail=f"<b>{HOSTILE_GROUP}</b>")  # fmt: skip
    failed = partition(HOSTILE_TOPIC, 1, committed=500, group=HOSTILE_GROUP)
    at = TopicPartition(HOSTILE_TOPIC, 1)
    stuck = Stuck(*at, StuckCause.REPLICA_GROWS, "<i>stuck</i>")
    return replace(
        report(
            [row, failed],
            problems=("<u>a broker</u> is down",),
            stuck=(stuck,),
            outcomes={at: DeletionOutcome(*at, Outcome.FAILED, error="<s>refused</s>")},
        ),
    )


def remember(
    state_dir: Path,
    topic: str,
    commits: Mapping[str, Mapping[int, int]],
    *,
    moved_at_ms: int = NOW_MS - HOUR_MS,
    vanished: Iterable[str] = (),
) -> None:
    """Groups with their commits by partition, as earlier cycles saw them."""
    gone = set(vanished)
    readers = {
        GroupOnTopic(group, topic): RememberedReader(
            GroupKind.CONSUMER,
            offsets,
            NOW_MS - 2 * HOUR_MS if group in gone else None,
            dict.fromkeys(offsets, moved_at_ms),
        )
        for group, offsets in commits.items()
    }
    add_readers(state_dir, readers)


def deleted(state_dir: Path, topic: str, at_ms: Iterable[int], records: int = 1_000) -> None:
    """A cycle at each of these times that deleted so many records of partition 0."""
    audit = Audit.open(state_dir)
    with closing(audit):
        for number, moment_ms in enumerate(at_ms):
            cycle_id = f"{topic}-{number}"
            cycle = CycleRecord(cycle_id, "cluster-a", moment_ms, False, True, 1, 1, 0)
            start = number * records
            row = partition(topic, 0, start=start, committed=start + records, end=start + records)
            evidence = CommitEvidence((("billing", GroupKind.CLASSIC),), (start + records,))
            approved = Approved(topic, 0, f"id-of-{topic}", start + records, start, evidence, row)
            audit.record_cycle(cycle)
            audit.intend(cycle_id, [approved], moment_ms, evidence_at_ms=moment_ms)
            outcome = DeletionOutcome(topic, 0, Outcome.DELETED, start + records)
            audit.settle(cycle_id, [outcome], moment_ms)
            audit.record_cycle(
                replace(cycle, finished_at_ms=moment_ms, result="ok", deleted=1,
                        records_deleted=records)
            )  # fmt: skip
