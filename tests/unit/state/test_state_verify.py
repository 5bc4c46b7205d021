"""A recorded deletion is worked out again: each figure that could have been wrong is noticed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from retentiond.act.approved import GroupEvidence
from retentiond.model import GroupKind, Outcome
from retentiond.state.audit_records import DeletionRecord, differences
from tests.support.builders.reports import row

EVIDENCE = (
    GroupEvidence("billing", GroupKind.CLASSIC, 100),
    GroupEvidence("search", GroupKind.CONSUMER, 170),
)

SOUND = DeletionRecord(
    id=1,
    cycle_id="cycle-1",
    cluster_id="cluster-a",
    row=row("orders"),
    evidence=EVIDENCE,
    evidence_at_ms=1_000,
    requested_at_ms=1_000,
    outcome=Outcome.DELETED,
    low_watermark=100,
    error=None,
    settled_at_ms=1_001,
    freed_bytes=None,
)


def test_a_sound_one_has_no_difference() -> None:
    assert differences(SOUND) == ()


@pytest.mark.parametrize("outcome", [None, Outcome.FAILED, Outcome.UNKNOWN])
def test_one_without_a_known_outcome_needs_no_low_watermark(outcome: Outcome | None) -> None:
    assert differences(replace(SOUND, outcome=outcome, low_watermark=None)) == ()


def test_a_cutoff_below_its_bounds_is_sound() -> None:
    later = tuple(each._replace(committed_offset=1_000) for each in EVIDENCE)
    assert differences(replace(SOUND, evidence=later)) == ()


@pytest.mark.parametrize(
    ("figures", "sentence"),
    [
        ({"min_committed_offset": 99}, "the plan's min committed offset was 99"),
        ({"min_committed_offset": None}, "the plan's min committed offset is missing"),
        ({"retention_offset": 99}, "the retention offset was 99"),
        ({"retention_offset": None}, "the retention offset is missing"),
        ({"high_watermark": 99}, "the high watermark was 99"),
        ({"high_watermark": None}, "the high watermark is missing"),
        ({"records": 91}, "91 records are recorded, from offset 10 on"),
        ({"groups": 3}, "the plan counted 3 groups, and 2 are recorded"),
        ({"cutoff": None}, "the cutoff or the log start offset is missing"),
        ({"log_start_offset": None}, "the cutoff or the log start offset is missing"),
    ],
)
def test_a_wrong_figure_is_named(figures: dict[str, Any], sentence: str) -> None:
    assert differences(replace(SOUND, row=replace(SOUND.row, **figures))) == (sentence,)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"evidence": (EVIDENCE[0]._replace(committed_offset=99), EVIDENCE[1])},
            "group billing had committed 99 only",
        ),
        ({"evidence_at_ms": 1_001}, "the evidence was read after the request"),
        ({"low_watermark": 99}, "it counts as deleted, and the low watermark was 99"),
        ({"low_watermark": None}, "it counts as deleted, and the low watermark was None"),
    ],
)
def test_wrong_evidence_is_named(changes: dict[str, Any], sentence: str) -> None:
    assert differences(replace(SOUND, **changes)) == (sentence,)


def test_no_evidence_is_a_difference() -> None:
    assert differences(replace(SOUND, evidence=())) == (
        "no group is recorded that had read the records",
        "the plan counted 2 groups, and 0 are recorded",
    )
