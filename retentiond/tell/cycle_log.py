"""The log lines about a cycle and its deletions, whose names `retentiond.tell.logs` has.

They are apart from it because every command logs, and what a report needs takes half a second to
import.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from retentiond.errors import RetentiondError
from retentiond.model import DeletionOutcome, Outcome
from retentiond.tell.logs import (
    CYCLE,
    DELETION,
    DELETION_FAILED,
    DELETION_SETTLED,
    DELETION_UNCLEAR,
)
from retentiond.tell.report import CycleReport, figures, outcome_document, row_document


def log_settled(log: Any, outcomes: Iterable[DeletionOutcome]) -> None:
    """Logs a line for each deletion of earlier cycles that has an outcome now."""
    for outcome in outcomes:
        log.info(DELETION_SETTLED, **_facts_of(outcome))


def log_report(log: Any, report: CycleReport, *, each_deletion: bool) -> None:
    """Logs the cycle's line, after one for each deletion that failed or may have, and with
    ``each_deletion`` one for each deletion that the guard approved."""
    for outcome in report.failed:
        event = DELETION_FAILED if outcome.outcome is Outcome.FAILED else DELETION_UNCLEAR
        log.warning(event, **_facts_of(outcome))
    if each_deletion:
        log_deletions(log, report)
    log_cycle(log, report)


def _facts_of(outcome: DeletionOutcome) -> dict[str, object]:
    return {
        "topic": outcome.topic,
        "partition": outcome.partition,
        "outcome": outcome.outcome.value,
        "error": outcome.error,
    }


def log_deletions(log: Any, report: CycleReport) -> None:
    for answer in report.answers.partitions:
        if answer.outcome is not None:
            log.info(
                DELETION,
                cycle_id=report.plan.cycle_id,
                cluster_id=report.plan.cluster_id,
                **row_document(answer.row),
                **outcome_document(answer.outcome),
            )


def log_cycle(log: Any, report: CycleReport) -> None:
    """Logs the cycle's line. It is a warning if a planned deletion was not done, or if there are
    doubts about the evidence, even if the policy goes on in spite of them (``groups_visible:
    assumed``). It is an error if the cycle failed after it had deleted; a bug has its traceback."""
    if report.failure is not None:
        is_bug = not isinstance(report.failure, RetentiondError)
        log.error(CYCLE, **figures(report), exc_info=report.failure if is_bug else None)
        return
    is_well = report.result == "ok" and not (report.plan.problems or report.unnamed_readers)
    write = log.info if is_well else log.warning
    write(CYCLE, **figures(report))
