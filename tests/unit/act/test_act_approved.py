"""`Approved`: what its constructor refuses, and who may make one."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import retentiond
from retentiond.act.approved import Approved, CommitEvidence
from retentiond.model import GroupKind
from tests.support.builders.guard_readings import ORDERS_0, deletion


def approved(*, cutoff: int, log_start_offset: int, committed: tuple[int, ...]) -> Approved:
    return Approved(
        topic="orders",
        partition=0,
        topic_id="id-of-orders",
        cutoff=cutoff,
        log_start_offset=log_start_offset,
        evidence=CommitEvidence(
            tuple((f"group-{number}", GroupKind.CLASSIC) for number in range(len(committed))),
            committed,
        ),
        row=deletion(ORDERS_0),
    )


@pytest.mark.parametrize(
    ("cutoff", "log_start_offset", "committed"),
    [
        (-1, -1, (10,)),  # to Kafka: everything up to the high watermark
        (-1, 0, (10,)),
        (0, -1, (10,)),
        (0, 0, (10,)),
        (10, 10, (10,)),
        (9, 10, (10,)),
        (10, 0, ()),
        (10, 0, (10, 9)),
    ],
)
def test_an_approval_that_contradicts_itself_cannot_be_made(
    cutoff: int, log_start_offset: int, committed: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match="orders-0: "):
        approved(cutoff=cutoff, log_start_offset=log_start_offset, committed=committed)


@pytest.mark.parametrize("committed", [(10,), (10, 12, 14)])
def test_evidence_has_a_commit_of_each_group(committed: tuple[int, ...]) -> None:
    sound = approved(cutoff=10, log_start_offset=0, committed=(10, 12))
    with pytest.raises(ValueError, match="orders-0: the evidence has 2 groups and"):
        replace(sound, evidence=replace(sound.evidence, committed_offsets=committed))


def test_the_first_record_alone_can_be_approved() -> None:
    assert approved(cutoff=1, log_start_offset=0, committed=(1,)).cutoff == 1


def test_only_the_guard_makes_approvals() -> None:
    package = Path(retentiond.__file__).parent
    makers = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"\bApproved\(|\breplace\(\s*approved\b", path.read_text())
    ]

    assert makers == ["act/guard.py"]
