"""The checker of the bench: whatever is planted, it finds, and it cries no wolf.

A group reads a partition whose records 0 to 9 are owed. Times are made up, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from devkit.ledger import promise
from devkit.ledger.book import Book, Commit, Reset, Skip
from devkit.ledger.claims import Claims
from devkit.ledger.deletions import Deletion
from devkit.ledger.promise import Judgement, Kind
from retentiond.model import Outcome

AT = ("orders", 0)
GROUP = "billing"

DELETION = Deletion(
    AT, log_start=0, cutoff=5, evidence_at_ms=100, requested_at_ms=110, evidence={GROUP: 5}
)


def commit(offset: int, sent_ms: float, *, acknowledged: bool = True) -> Commit:
    """Answered a millisecond later."""
    return Commit(offset, sent_ms, sent_ms + 1, acknowledged)


def written(records: int = 10) -> Book:
    book = Book()
    for offset in range(records):
        book.wrote(AT, offset, sequence=1000 + offset)
    book.owes(AT, range(records))
    return book


def read(book: Book, offsets: Iterable[int], group: str = GROUP) -> None:
    for offset in offsets:
        book.saw(group, AT, offset, 1000 + offset)


def commits(book: Book, *made: Commit, group: str = GROUP) -> None:
    book.committed(group, [(AT, each) for each in made])


@pytest.fixture
def book() -> Book:
    """All is read, half of it was committed before the deletion's evidence was read."""
    made = written()
    read(made, range(10))
    commits(made, commit(0, 1), commit(5, 50), commit(10, 200))
    return made


def judge(book: Book, deletions: Sequence[Deletion]) -> Judgement:
    """In the end, half of the records are gone."""
    return promise.judge(book, deletions, {AT: 5})


def kinds(judgement: Judgement) -> list[Kind]:
    return [finding.kind for finding in judgement.findings]


def sentences(judgement: Judgement) -> list[str]:
    return list(map(str, judgement.findings))


def test_a_group_that_got_everything_and_a_deletion_of_what_it_had_committed_are_right(
    book: Book,
) -> None:
    assert judge(book, [DELETION]) == Judgement((), late_rewinds=0)


# Deletions


def test_a_deletion_beyond_what_a_group_had_committed_is_found(book: Book) -> None:
    early = replace(DELETION, cutoff=6)
    assert sentences(judge(book, [early])) == [
        "wrong deletion: the deletion of orders-0 up to 6 while group billing stood at 5"
    ]


def test_an_early_deletion_is_found_though_it_failed(book: Book) -> None:
    early = replace(DELETION, cutoff=6, outcome=Outcome.FAILED)
    assert kinds(judge(book, [early])) == [Kind.WRONG_DELETION]


def test_one_that_was_not_even_requested_is_none(book: Book) -> None:
    early = replace(DELETION, cutoff=6, outcome=Outcome.NOT_ATTEMPTED)
    assert judge(book, [early]).findings == ()


def test_evidence_that_says_more_than_a_group_had_committed_is_found(book: Book) -> None:
    untrue = replace(DELETION, evidence={GROUP: 6})
    assert sentences(judge(book, [untrue])) == [
        "untrue evidence: the deletion of orders-0 up to 5 rests on group billing at 6, "
        "and it stood at 5"
    ]


def test_evidence_that_leaves_a_group_out_is_found(book: Book) -> None:
    assert sentences(judge(book, [replace(DELETION, evidence={"search": 9})])) == [
        "untrue evidence: the deletion of orders-0 up to 5 leaves group billing out"
    ]


def test_a_group_that_had_not_committed_yet_claims_nothing(book: Book) -> None:
    read(book, range(5, 10), "late")
    commits(book, commit(5, 150), group="late")
    assert judge(book, [DELETION]).findings == ()


def test_a_group_claims_from_the_acknowledgement_of_its_first_commit(book: Book) -> None:
    read(book, range(10), "late")
    commits(book, Commit(0, 98, 99, acknowledged=True), group="late")
    both = replace(DELETION, evidence={GROUP: 5, "late": 0})
    assert kinds(judge(book, [both])) == [Kind.WRONG_DELETION]


def test_a_group_that_went_back_before_the_evidence_was_read_is_protected(book: Book) -> None:
    commits(book, commit(3, 90))
    assert kinds(judge(book, [DELETION])) == [Kind.WRONG_DELETION, Kind.UNTRUE_EVIDENCE]


def test_a_group_that_goes_back_after_the_evidence_was_read_may_be_too_late(book: Book) -> None:
    commits(book, commit(3, 105))
    assert judge(book, [DELETION]).findings == ()


def test_a_commit_without_an_answer_may_be_what_was_read_and_does_not_undo_a_claim(
    book: Book,
) -> None:
    commits(book, commit(8, 60, acknowledged=False))
    further = replace(DELETION, cutoff=8, evidence={GROUP: 8})
    assert judge(book, [further]).findings == ()
    assert kinds(judge(book, [replace(further, cutoff=9)])) == [Kind.WRONG_DELETION]


def test_a_commit_without_an_answer_no_longer_counts_once_a_later_one_has_one() -> None:
    claims = Claims([commit(8, 10, acknowledged=False), commit(5, 20)])
    assert claims.at(15, 30) == []
    assert claims.at(30, 40) == [5]


def test_commits_whose_order_is_open_both_count() -> None:
    overlapping = [Commit(8, 10, 25, acknowledged=True), Commit(5, 20, 22, acknowledged=True)]
    assert sorted(Claims(overlapping).at(30, 40)) == [5, 8]


# Consumers


def test_a_gap_is_found(book: Book) -> None:
    book.skipped(Skip(GROUP, AT, 3, 5, at_ms=60))
    assert sentences(judge(book, [])) == [
        "gap: group billing stood at 3 of orders-0 and was given 5"
    ]


def test_a_gap_over_what_nobody_is_owed_is_none() -> None:
    book = Book()
    for offset in (0, 1, 4):  # an aborted record and a marker lie in between
        book.wrote(AT, offset, 1000 + offset)
    book.owes(AT, [0, 1, 4])
    read(book, [0, 1, 4])
    commits(book, commit(0, 1))
    book.wrote(AT, 2, 1002)
    book.skipped(Skip(GROUP, AT, 2, 4, at_ms=60))
    assert judge(book, []).findings == ()


def test_what_one_group_was_given_another_must_not_skip(book: Book) -> None:
    book.saw("search", AT, 10, 1010)  # its acknowledgement was lost
    book.skipped(Skip(GROUP, AT, 10, 11, at_ms=60))
    assert Kind.GAP in kinds(judge(book, []))


def test_an_offset_that_is_out_of_range_is_found(book: Book) -> None:
    book.was_reset(Reset(GROUP, AT, offset=5, log_start=7, at_ms=120))
    assert sentences(judge(book, [DELETION])) == [
        "reset: group billing could not read offset 5 of orders-0, which begins at 7"
    ]


def test_a_record_that_was_never_given_is_found() -> None:
    book = written()
    read(book, [*range(6), 8, 9])
    commits(book, commit(0, 1))
    assert sentences(judge(book, [])) == [
        "missing record: group billing was never given 2 records of orders-0, the first at offset 6"
    ]


def test_what_lies_before_the_first_commit_is_not_missing() -> None:
    book = written()
    read(book, range(4, 10))
    commits(book, commit(4, 1))
    assert judge(book, []).findings == ()


def test_a_group_that_never_read_anything_is_missing_everything() -> None:
    book = written()
    commits(book, commit(0, 1))
    assert "never given 10 records" in sentences(judge(book, []))[0]


@pytest.mark.parametrize("sequence", [1004, None])
def test_another_record_in_its_place_is_found(book: Book, sequence: int | None) -> None:
    book.saw(GROUP, AT, 3, sequence)
    assert kinds(judge(book, [])) == [Kind.WRONG_RECORD]


# Rewinds that come too late


def rewound_too_late() -> Book:
    """From 8 to 3, when the deletion up to 5 had been asked for; told so at 130."""
    book = written()
    read(book, [0, 1, *range(5, 10)])
    commits(book, commit(0, 1), commit(8, 50), commit(3, 120), commit(5, 140))
    book.was_reset(Reset(GROUP, AT, offset=3, log_start=5, at_ms=130))
    return book


def test_who_goes_back_below_what_was_already_requested_loses_by_his_own_fault() -> None:
    book = rewound_too_late()
    read(book, [2])
    assert judge(book, [replace(DELETION, evidence={GROUP: 8})]) == Judgement((), late_rewinds=1)


def test_what_a_late_rewind_passes_over_is_not_missing_but_what_lies_before_is() -> None:
    judgement = judge(rewound_too_late(), [replace(DELETION, evidence={GROUP: 8})])
    assert sentences(judgement) == [
        "missing record: group billing was never given 1 records of orders-0, the first at offset 2"
    ]


def test_a_deletion_that_came_after_the_reset_excuses_nothing() -> None:
    later = replace(DELETION, evidence_at_ms=150, requested_at_ms=160)
    assert Kind.RESET in kinds(judge(rewound_too_late(), [later]))


def test_a_deletion_whose_evidence_was_read_after_the_rewind_excuses_nothing() -> None:
    seen = replace(DELETION, evidence_at_ms=122, requested_at_ms=125, evidence={GROUP: 8})
    assert kinds(judge(rewound_too_late(), [seen]))[:3] == [
        Kind.WRONG_DELETION,
        Kind.UNTRUE_EVIDENCE,
        Kind.RESET,
    ]


def test_a_deletion_that_can_not_have_been_applied_excuses_nothing() -> None:
    refused = replace(DELETION, evidence={GROUP: 8}, outcome=Outcome.FAILED)
    assert Kind.RESET in kinds(judge(rewound_too_late(), [refused]))


def test_a_deletion_short_of_the_offset_excuses_nothing() -> None:
    short = replace(DELETION, cutoff=3, evidence={GROUP: 8})
    assert Kind.RESET in kinds(judge(rewound_too_late(), [short]))


def test_a_wrong_deletion_excuses_nothing() -> None:
    book = rewound_too_late()
    wrong = replace(DELETION, cutoff=9, evidence={GROUP: 9})
    found = kinds(judge(book, [wrong]))
    assert found[:3] == [Kind.WRONG_DELETION, Kind.UNTRUE_EVIDENCE, Kind.RESET]


# Share groups


def shared(given_ms: dict[int, float]) -> Book:
    book = written()
    for offset, at_ms in given_ms.items():
        book.shares("workers", AT, offset, 1000 + offset, at_ms)
    return book


def test_a_share_group_that_was_given_all_below_the_cutoff_is_no_finding() -> None:
    book = shared({offset: 200.0 - offset for offset in range(5, 10)} | dict.fromkeys(range(5), 9))
    assert judge(book, [replace(DELETION, evidence={"workers": 5})]).findings == ()


def test_a_deletion_of_what_a_share_group_was_given_only_later_is_found() -> None:
    book = shared(dict.fromkeys(range(10), 9.0) | {2: 111.0})
    assert kinds(judge(book, [replace(DELETION, evidence={"workers": 5})])) == [
        Kind.WRONG_DELETION,
        Kind.UNTRUE_EVIDENCE,
    ]


def test_a_share_groups_start_beyond_what_it_was_given_is_found() -> None:
    book = shared(dict.fromkeys(range(10), 9.0) | {7: 111.0})
    assert kinds(judge(book, [replace(DELETION, evidence={"workers": 8})])) == [
        Kind.UNTRUE_EVIDENCE
    ]


def test_a_record_that_is_gone_and_was_never_given_to_a_share_group_is_found() -> None:
    book = shared(dict.fromkeys([0, 1, 2, 3, 5, 6], 9.0))
    assert sentences(judge(book, [])) == [
        "missing record: group workers was never given 1 records of orders-0, the first at offset 4"
    ]


def test_a_record_that_is_still_there_may_yet_be_given_to_a_share_group() -> None:
    assert judge(shared(dict.fromkeys(range(5), 9.0)), []).findings == ()
