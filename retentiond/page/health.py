"""How it goes, in one line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from retentiond.disk.report import DiskReport
from retentiond.observe.report import CycleReport
from retentiond.observe.web import Board
from retentiond.state.pause import Pause
from retentiond.wording.figures import say_bytes, say_many

GOOD, INFO, WARN, BAD = "good", "info", "warn", "bad"
"""How much a finding matters."""

MOST_NOTES = 8


class Finding(NamedTuple):
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

    main: Finding
    notes: tuple[Finding, ...]
    more: int
    last_ms: int | None
    next_ms: int | None


def judge(board: Board, pause: Pause | None, now_ms: int) -> Health:
    """``pause``: the brake as it stands now, not as the last cycle found it."""
    report = board.report
    main, *notes = _findings(board, report, pause, now_ms)
    return Health(
        main,
        tuple(notes[:MOST_NOTES]),
        max(0, len(notes) - MOST_NOTES),
        report.plan.planned_at_ms if report else None,
        report.plan.planned_at_ms + board.interval_ms if report and not board.trouble else None,
    )


def _findings(
    board: Board, report: CycleReport | None, pause: Pause | None, now_ms: int
) -> Iterator[Finding]:
    """The gravest first; at least one."""
    found = [*_of_cycle(board, report, now_ms)]
    if pause is not None:
        since_by_why = str(pause).removeprefix("paused").lstrip(" :")
        found.append(Finding(WARN, "Paused", f"{since_by_why}; `retentiond resume` ends it"))
    if report is not None and report.failed:
        many = say_many(len(report.failed), "deletion")
        found.append(
            Finding(WARN, "Deletions failed", f"the last cycle doesn't know of {many} as done")
        )
    if report is not None and report.plan.dry_run:
        found.append(Finding(INFO, "Dry run", "it plans and explains, and deletes nothing"))
    yield from found or [
        Finding(GOOD, "Healthy", "the last cycle saw every group and did what it had planned")
    ]
    if report is not None:
        yield from _of_disks(report.disk)


def _of_cycle(board: Board, report: CycleReport | None, now_ms: int) -> Iterator[Finding]:
    unready = board.unready(now_ms)
    if board.trouble:
        yield Finding(
            BAD,
            "Failing",
            f"the last cycle brought no plan ({board.trouble}); the log says why, and the next "
            "try comes by itself",
        )
    elif report is None:
        yield Finding(INFO, "Starting", "no cycle has ended yet")
    elif unready and report.plan.complete:
        yield Finding(BAD, "Late", unready)
    if report is None or not report.plan.problems:
        return
    why = "; ".join(report.plan.problems)
    if report.plan.complete:
        yield Finding(WARN, "Assumed", f"{why}; the policy goes on in spite of it")
    else:
        level = BAD if unready else WARN
        yield Finding(level, "Incomplete", f"{why}; what needs this evidence is held")


def _of_disks(disk: DiskReport) -> Iterator[Finding]:
    for stuck in disk.stuck:
        yield Finding(WARN, f"Retention stuck on {stuck.at}", stuck.sentence)
    folders = sum(each.partitions for each in disk.orphans)
    if folders:
        size = say_bytes(sum(each.size_bytes for each in disk.orphans))
        many = say_many(folders, "partition folder")
        yield Finding(
            WARN, "Orphans", f"{many} ({size}) that the cluster doesn't assign to their broker"
        )
    for problem in disk.problems:
        yield Finding(INFO, "Disks", problem)
