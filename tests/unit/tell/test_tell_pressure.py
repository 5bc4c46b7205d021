"""Log directories under pressure, in words (tests/golden/explain/pressure-words.txt)."""

from __future__ import annotations

from dataclasses import replace

from retentiond.config import TopicPolicy
from retentiond.disks.pressure import LogDirRelief, PressedLogDir
from retentiond.model import PlanRow, Reason
from retentiond.tell.figures.pressure import say_pressure_on, say_relief
from tests.support.builders.reports import row
from tests.support.golden import Golden

LOG_DIR = PressedLogDir(1, "/data", 10_240, 1_024, 2_560)

NORMAL_MS, PRESSURE_MS = 86_400_000, 600_000
POLICY = TopicPolicy(True, NORMAL_MS, PRESSURE_MS)


def normal(reason: Reason) -> PlanRow:
    return replace(row("orders", 0, reason), consumed_retention_ms=NORMAL_MS)


def eager(reason: Reason, detail: str | None = None) -> PlanRow:
    return replace(row("orders", 0, reason), consumed_retention_ms=PRESSURE_MS, detail=detail)


def said(final: PlanRow, sooner: PlanRow, *delayed: Reason, short: int = 512) -> str:
    """Of a partition that has 4 KiB there; ``short``: what the plan leaves to be freed."""
    sizes = {final.topic_partition: 4_096}
    by_pressure = {final.topic_partition: sooner}
    found = LogDirRelief(
        LOG_DIR, 0, short, {}, sizes, eager_rows=by_pressure, delayed=frozenset(delayed)
    )
    return say_pressure_on(final, POLICY, 1_024, found)


YOUNG, EMPTY = normal(Reason.TOO_YOUNG), normal(Reason.EMPTY)
CONSUMED = eager(Reason.CONSUMED)
PAUSED, LIMITED = Reason.PAUSED, Reason.LIMIT_REACHED


def test_what_a_directory_and_its_partitions_say(golden: Golden) -> None:
    """What can't be deleted names the groups that keep it, if any do: none does where the records
    lie in segments that stay. What waits is not said to be kept, nor laid to the segments."""
    slow, both = {"slow": 2_048}, {"slow": 2_048, "late": 1_024}
    waits = {
        reason: LogDirRelief(LOG_DIR, 1_024, 0, slow, {}, 512, delayed=frozenset({reason}))
        for reason in (LIMITED, PAUSED)
    }
    told = {
        "kept by none": say_relief(LogDirRelief(LOG_DIR, 1_024, 512, {}, {})),
        "kept by one": say_relief(LogDirRelief(LOG_DIR, 1_024, 512, slow, {})),
        "kept by two": say_relief(LogDirRelief(LOG_DIR, 1_024, 512, both, {})),
        "waits for a limit": say_relief(waits[LIMITED]),
        "waits for a pause": say_relief(waits[PAUSED]),
        "too young for pressure, too": said(YOUNG, eager(Reason.TOO_YOUNG)),
        "not read": said(YOUNG, eager(Reason.NOT_CONSUMED)),
        "settles": said(YOUNG, eager(LIMITED, "limits.settle_cycles asks for 3")),
        "a transaction": said(YOUNG, eager(Reason.OPEN_TRANSACTION)),
        "the age was not read": said(YOUNG, YOUNG),
        "segments stay": said(YOUNG, CONSUMED),
        "a pause delays": said(YOUNG, CONSUMED, PAUSED),
        "a limit delays": said(YOUNG, CONSUMED, LIMITED),
        "both delay": said(YOUNG, CONSUMED, PAUSED, LIMITED),
        "empty": said(EMPTY, EMPTY, PAUSED),
        "empty, and nothing is short": said(EMPTY, EMPTY, PAUSED, short=0),
        "deleted by the consumed retention": said(normal(Reason.CONSUMED), CONSUMED),
        "spared": said(YOUNG, CONSUMED, short=0),
        "paused under pressure": said(eager(PAUSED, "paused by root"), CONSUMED, PAUSED),
    }
    golden("explain/pressure-words.txt", "\n".join(f"{at}: {text}" for at, text in told.items()))
