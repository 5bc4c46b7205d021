"""How it goes, in one line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from retentiond.disks.broker_disks import DiskReport
from retentiond.formatting import say_bytes, say_many
from retentiond.state.operator_actions import Pause
from retentiond.tell.report import CycleReport
from retentiond.tell.web import DaemonStatus

GOOD, INFO, WARN, BAD = "good", "info", "warn", "bad"
"""How much a finding matters."""

MOST_NOTES = 8


class HealthFinding(NamedTuple):
    """``level`` is one of those above; ``word`` names the state, ``why`` is a sentence on it."""

    level: str
    word: str
    why: str


@dataclass(frozen=True, slots=True)
class Health:
    """``main`` is what matters most, ``notes`` what else is to be known, ``more`` of which there
    is no room for. Times are epoch milliseconds: of the last cycle that brought a plan, and about
    when the next is due; None: at any moment.
    """

    main: HealthFinding
    notes: tuple[HealthFinding, ...]
    more: int
    last_ms: int | None
    next_ms: int | None


def judge(status: DaemonStatus, pause: Pause | None) -> Health:
    """``pause``: as it stands now, not as the last cycle found it."""
    report = status.report
    main, *notes = _findings(status, report, pause)
    return Health(
        main,
        tuple(notes[:MOST_NOTES]),
        max(0, len(notes) - MOST_NOTES),
        report.plan.planned_at_ms if report else None,
        report.plan.planned_at_ms + status.interval_ms if report and not status.problem else None,
    )


def _findings(
    status: DaemonStatus, report: CycleReport | None, pause: Pause | None
) -> Iterator[HealthFinding]:
    """The gravest first; at least one."""
    found = [*_of_cycle(status, report)]
    if pause is not None:
        since_by_why = str(pause).removeprefix("paused").lstrip(" :")
        found.append(HealthFinding(WARN, "Paused", f"{since_by_why}; `retentiond resume` ends it"))
    if report is not None and report.undone:
        level = BAD if status.unready() else WARN
        found.append(HealthFinding(level, "Deletions not done", "; ".join(report.undone)))
    if report is not None and report.plan.dry_run:
        found.append(HealthFinding(INFO, "Dry run", "it plans and explains, and deletes nothing"))
    yield from found or [
        HealthFinding(GOOD, "Healthy", "the last cycle saw every group and did what it had planned")
    ]
    if report is not None:
        yield from _of_disks(report.disk)
        for sign in report.unseen:
            yield HealthFinding(INFO, "Unseen readers", f"there may be some: {sign}")
        for sentence in report.answers.only_groups:
            yield HealthFinding(INFO, "Not every group counts", sentence)
    if beside := status.beside():
        yield HealthFinding(INFO, "History", beside)


def _of_cycle(status: DaemonStatus, report: CycleReport | None) -> Iterator[HealthFinding]:
    unready = status.unready()
    if (stuck := status.stuck()) is not None:
        yield HealthFinding(BAD, "Stuck", f"{stuck}; restart retentiond")
    if status.needs_restart:
        yield HealthFinding(BAD, "Stopped", status.needs_restart)
    elif status.problem:
        yield HealthFinding(
            BAD,
            "Failing",
            f"the last cycle brought no plan ({status.problem}); the log says why, and the next "
            "try comes by itself",
        )
    elif report is not None and report.failure is not None:
        yield HealthFinding(BAD, "Failing", "the last cycle failed after it had deleted already")
    elif report is None:
        yield HealthFinding(INFO, "Starting", "no cycle has ended yet")
    elif unready and report.result == "ok":
        yield HealthFinding(BAD, "Late", unready)
    if report is None or not report.problems:
        return
    why = "; ".join(report.problems)
    if report.plan.complete:
        yield HealthFinding(WARN, "Assumed", f"{why}; the policy goes on in spite of it")
    else:
        level = BAD if unready else WARN
        yield HealthFinding(level, "Incomplete", f"{why}; what needs this evidence is held")


def _of_disks(disk: DiskReport) -> Iterator[HealthFinding]:
    for stuck in disk.stuck:
        yield HealthFinding(WARN, f"Retention stuck on {stuck.at}", stuck.sentence)
    folders = sum(each.partitions for each in disk.orphans)
    if folders:
        size = say_bytes(sum(each.size_bytes for each in disk.orphans))
        many = say_many(folders, "partition folder")
        yield HealthFinding(
            WARN, "Orphans", f"{many} ({size}) that the cluster doesn't assign to their broker"
        )
    for problem in disk.problems:
        yield HealthFinding(INFO, "Disks", problem)
