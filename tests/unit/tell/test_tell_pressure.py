"""Log directories under pressure, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retentiond.config import TopicPolicy
from retentiond.disks.pressure import LogDirRelief, PressedLogDir
from retentiond.model import PlanRow, Reason
from retentiond.tell.figures.pressure import say_pressure_on, say_relief
from tests.support.builders.reports import row

LOG_DIR = PressedLogDir(1, "/data", 10_240, 1_024, 2_560)


@pytest.mark.parametrize(
    ("kept_bytes", "said"),
    [
        ({}, ""),
        ({"slow": 2_048}, "; most is kept for slow (2.0 KiB)"),
        ({"slow": 2_048, "late": 1_024}, "; most is kept for slow (2.0 KiB) and late (1.0 KiB)"),
    ],
)
def test_what_may_not_go_is_said_with_the_groups_that_keep_it_if_any_do(
    kept_bytes: dict[str, int], said: str
) -> None:
    """None does where the records lie in segments that stay, or where other topics fill the
    disk."""
    assert say_relief(LogDirRelief(LOG_DIR, 1_024, 512, kept_bytes, {})) == (
        "/data of broker 1 has 10% left (1.0 KiB), and 1.5 KiB must still be freed before the "
        f"pressure ends; the plan frees 1.0 KiB there; 512 B of that can't be deleted{said}"
    )


NORMAL_MS, PRESSURE_MS = 86_400_000, 600_000
POLICY = TopicPolicy(True, NORMAL_MS, PRESSURE_MS)

FREES_NOTHING = (
    "deleting from this partition frees nothing: its 4.0 KiB there are in segments of up to "
    "1.0 KiB, which Kafka removes only whole, and never while active; a smaller segment.bytes or "
    "segment.ms helps"
)


def normal(reason: Reason) -> PlanRow:
    return replace(row("orders", 0, reason), consumed_retention_ms=NORMAL_MS)


def eager(reason: Reason, detail: str | None = None) -> PlanRow:
    return replace(row("orders", 0, reason), consumed_retention_ms=PRESSURE_MS, detail=detail)


def said(final: PlanRow, sooner: PlanRow, *delayed: Reason, short: int = 512) -> str:
    """What is said of a partition, without what is said of the directory."""
    at = final.topic_partition
    found = LogDirRelief(
        LOG_DIR, 0, short, {}, {at: 4_096}, eager_rows={at: sooner}, delayed=frozenset(delayed)
    )
    sentence = say_pressure_on(final, POLICY, 1_024, found)
    assert sentence.startswith("/data of broker 1 has 10% left")
    return sentence.removeprefix("/data of broker 1 has 10% left").removeprefix(", and ")


YOUNG = normal(Reason.TOO_YOUNG)


@pytest.mark.parametrize(
    ("sooner", "why"),
    [
        (
            eager(Reason.TOO_YOUNG),
            "pressure can't help yet: the oldest record is younger than the pressure retention "
            "(10 minutes), too",
        ),
        (eager(Reason.NOT_CONSUMED), "pressure can't help: billing has not read the records"),
        (
            eager(Reason.LIMIT_REACHED, "limits.settle_cycles asks for 3"),
            "pressure can't help: limits.settle_cycles asks for 3",
        ),
        (eager(Reason.OPEN_TRANSACTION), "pressure can't help: open_transaction"),
        (YOUNG, "which records are older than the pressure retention could not be read"),
        (eager(Reason.CONSUMED), FREES_NOTHING),
    ],
)
def test_where_pressure_is_short_a_partition_says_what_keeps_its_records(
    sooner: PlanRow, why: str
) -> None:
    assert said(YOUNG, sooner) == f"{why}."


@pytest.mark.parametrize(
    ("delayed", "why"),
    [
        ({Reason.PAUSED}, "what can be deleted there waits for the end of the pause"),
        ({Reason.LIMIT_REACHED}, "what can be deleted there waits for a limit (limits.*)"),
        (
            {Reason.PAUSED, Reason.LIMIT_REACHED},
            "what can be deleted there waits for the end of the pause",
        ),
    ],
)
def test_what_a_pause_or_a_limit_delays_is_not_laid_to_the_segments(
    delayed: set[Reason], why: str
) -> None:
    assert said(YOUNG, eager(Reason.CONSUMED), *delayed) == f"{why}."


@pytest.mark.parametrize("short", [0, 512])
def test_an_empty_partition_has_nothing_that_could_go(short: int) -> None:
    empty = normal(Reason.EMPTY)
    assert said(empty, empty, Reason.PAUSED, short=short) == (
        "pressure can't help: the partition has no records."
    )


def test_a_deletion_by_the_consumed_retention_says_that_pressure_frees_no_more() -> None:
    assert said(normal(Reason.CONSUMED), eager(Reason.CONSUMED)) == (
        "pressure frees no more of this partition than the plan does."
    )


def test_what_pressure_spares_says_so() -> None:
    assert said(YOUNG, eager(Reason.CONSUMED), short=0) == (
        ": records of this partition still stay for 1 day, as others free enough."
    )


def test_what_a_pause_holds_under_pressure_says_when_it_may_go() -> None:
    held = eager(Reason.PAUSED, "paused by root")
    assert said(held, eager(Reason.CONSUMED), Reason.PAUSED) == (
        ": records of this partition can be deleted after 10 minutes instead of after 1 day."
    )


@pytest.mark.parametrize(
    ("reason", "end"), [(Reason.LIMIT_REACHED, "a limit"), (Reason.PAUSED, "the end of the pause")]
)
def test_what_waits_is_not_said_to_be_kept(reason: Reason, end: str) -> None:
    delayed = frozenset({reason})
    found = LogDirRelief(LOG_DIR, 1_024, 0, {"slow": 2_048}, {}, 512, delayed=delayed)
    assert say_relief(found) == (
        "/data of broker 1 has 10% left (1.0 KiB), and 1.5 KiB must still be freed before the "
        f"pressure ends; the plan frees 1.0 KiB there; 512 B more can be deleted and wait for {end}"
    )
