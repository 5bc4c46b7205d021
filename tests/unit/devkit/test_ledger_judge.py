"""The judge of the bench: whatever is planted, it finds, and it cries no wolf.

A group reads a partition whose records 0 to 9 are owed. Times are made up, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from devkit.audit import Deletion
from devkit.ledger import judge as bench
from devkit.ledger.book import Begin, Book, Commit, Loss
from devkit.ledger.judge import Judgement, Kind, may_have_stood_at
from retentiond.model import Outcome

AT = ("orders", 0)
GROUP = "billing"
CLUSTER = "cluster-a"
SHOWN = 10_000.0

DELETION = Deletion(CLUSTER, "first", AT, log_start=0, cutoff=5, unseen_ms=100_000, seen_ms=100_010)


def commit(offset: int, sent_ms: float, *, acknowledged: bool = True) -> Commit:
    """Answered a millisecond later."""
    return Commit(offset, sent_ms, sent_ms + 1, acknowledged)


def written(records: int = 10) -> Book:
    """And the group is shown as a member of it at 10 s."""
    book = Book()
    book.created(AT[0], "first", since_ms=0)
    for offset in range(records):
        book.wrote((*AT[:1], 0, AT[1]), offset, 1000 + offset)
    book.shown.was_member(GROUP, AT[0], 1_000, SHOWN)
    book.shown.cycles = [6_000.0, SHOWN]
    book.began(GROUP, AT, Begin(0, False, 1_000))
    return book


def read(book: Book, offsets: Iterable[int], group: str = GROUP) -> None:
    for offset in offsets:
        book.saw(group, AT, offset, 1000 + offset, 0)


def commits(book: Book, *made: Commit, group: str = GROUP) -> None:
    book.committed(group, [(AT, each) for each in made])


@pytest.fixture
def book() -> Book:
    """All is read, half of it was committed before the deletion."""
    made = written()
    read(made, range(10))
    commits(made, commit(0, 1_001), commit(5, 50_000), commit(10, 200_000))
    return made


def judge(book: Book, deletions: Sequence[Deletion]) -> Judgement:
    """In the end, half of the records are gone."""
    return bench.judge(book, deletions, {AT: 5}, CLUSTER)


def kinds(judgement: Judgement) -> list[Kind]:
    return [finding.kind for finding in judgement.findings]


def sentences(judgement: Judgement) -> list[str]:
    return [finding.said(0) for finding in judgement.findings]


def test_who_got_everything_has_nothing_to_complain_of(book: Book) -> None:
    assert judge(book, [DELETION]) == Judgement((), late_rewinds=0)


# Records that were never given


def test_a_record_that_was_never_given_is_found() -> None:
    book = written()
    read(book, [*range(6), 8, 9])
    commits(book, commit(0, 1_001))
    assert sentences(judge(book, [])) == [
        "missing record: group billing was never given 2 records of orders-0, the first at offset "
        "6 (no deletion of this topic on this cluster is in the audit log)"
    ]


def test_who_was_shown_as_a_member_and_had_committed_nothing_is_found() -> None:
    book = written()
    book.began(GROUP, AT, Begin(5, False, 150_000))  # it is back, and begins where the log does
    read(book, range(5, 10))
    commits(book, commit(5, 150_001))
    assert sentences(judge(book, [DELETION])) == [
        "missing record at 100 s: group billing was never given 5 records of orders-0, the first "
        "at offset 0 (deleted from 0 up to 5)"
    ]


def test_who_was_not_shown_when_it_was_deleted_is_no_finding() -> None:
    book = written()
    book.shown.cycles = [1_500.0, 200_000.0, 210_000.0]
    book.shown.members.clear()
    book.shown.was_member(GROUP, AT[0], 1_000, 2_000)
    read(book, range(5, 10))
    commits(book, commit(5, 150_001))
    assert judge(book, [DELETION]).findings == ()


def test_who_began_at_the_end_gave_up_what_lies_before() -> None:
    book = written()
    book.began(GROUP, AT, Begin(7, True, 150_000))
    read(book, range(7, 10))
    assert judge(book, [DELETION]).findings == ()


def test_what_lies_before_the_first_beginning_is_not_missing() -> None:
    book = written()
    book.begins.clear()
    book.began(GROUP, AT, Begin(4, False, 1_000))
    read(book, range(4, 10))
    assert judge(book, []).findings == ()


def test_who_was_let_go_of_is_missing_only_what_it_had_passed() -> None:
    book = written()
    read(book, [0, 1, 3])
    book.forget(GROUP)
    assert (
        "never given 1 records of orders-0, the first at offset 2" in sentences(judge(book, []))[0]
    )


def test_a_retried_record_that_was_given_at_one_of_its_places_is_not_missing() -> None:
    book = written()
    read(book, range(9))
    book.saw(GROUP, AT, 10, 1009, 0)
    assert judge(book, []).findings == ()


# Consumers that find a hole


def test_a_gap_is_found(book: Book) -> None:
    book.lost(Loss(GROUP, AT, 3, 5, at_ms=60_000))
    assert sentences(judge(book, [])) == [
        "gap at 60 s: group billing stood at 3 of orders-0, and the next that it found is at 5 "
        "(no deletion of this topic on this cluster is in the audit log)"
    ]


def test_a_gap_over_what_nobody_is_owed_is_none() -> None:
    book = written(2)
    book.wrote(("orders", 0, 0), 4, 1004)
    book.wrote(("orders", 0, 0), 2, 1002, owed=False)  # aborted, and a marker
    read(book, [0, 1, 4])
    book.lost(Loss(GROUP, AT, 2, 4, at_ms=60_000))
    assert judge(book, []).findings == ()


def test_what_one_group_was_given_another_must_not_skip(book: Book) -> None:
    book.saw("search", AT, 10, 1010, 0)  # its acknowledgement was lost
    book.lost(Loss(GROUP, AT, 10, 11, at_ms=60_000))
    assert Kind.GAP in kinds(judge(book, []))


def test_an_offset_that_is_out_of_range_is_found(book: Book) -> None:
    wrong = replace(DELETION, cutoff=7)
    book.lost(Loss(GROUP, AT, 5, 7, at_ms=120_000, reset=True))
    assert sentences(judge(book, [wrong])) == [
        "reset at 100 s: group billing stood at 5 of orders-0, and the next that it found is at 7 "
        "(deleted from 0 up to 7)"
    ]


@pytest.mark.parametrize("sequence", [1004, None])
def test_another_record_in_its_place_is_found(book: Book, sequence: int | None) -> None:
    book.saw(GROUP, AT, 3, sequence, 0)
    assert kinds(judge(book, [])) == [Kind.WRONG_RECORD]


# Readers that go back


def rewound(at_ms: float) -> Book:
    """From 8 to 3 at that time; told at 130 s that this is out of range."""
    book = written()
    read(book, range(10))
    commits(book, commit(0, 1_001), commit(8, 50_000), commit(3, at_ms), commit(5, 140_000))
    book.lost(Loss(GROUP, AT, 3, 5, at_ms=130_000, reset=True))
    return book


def test_who_goes_back_when_the_deletion_was_decided_loses_by_its_own_fault() -> None:
    assert judge(rewound(99_000), [DELETION]) == Judgement((), late_rewinds=1)
    assert judge(rewound(120_000), [DELETION]) == Judgement((), late_rewinds=1)


def test_who_went_back_before_the_evidence_was_read_is_protected() -> None:
    assert kinds(judge(rewound(94_000), [DELETION])) == [Kind.RESET]


@pytest.mark.parametrize(
    "other",
    [
        replace(DELETION, cutoff=3),
        replace(DELETION, outcome=Outcome.FAILED),
        replace(DELETION, outcome=Outcome.NOT_ATTEMPTED),
        replace(DELETION, unseen_ms=150_000, seen_ms=150_010),
        replace(DELETION, cluster_id="cluster-b"),
        replace(DELETION, topic_id="second"),
        replace(DELETION, cutoff=9),
    ],
    ids=["short", "refused", "not requested", "later", "elsewhere", "other topic", "wrong"],
)
def test_a_deletion_that_did_not_rightly_take_the_record_excuses_nothing(other: Deletion) -> None:
    assert kinds(judge(rewound(120_000), [other])) == [Kind.RESET]


def test_a_right_deletion_after_a_wrong_one_excuses_nothing() -> None:
    wrong = replace(DELETION, cutoff=4, unseen_ms=40_000, seen_ms=40_010)
    assert kinds(judge(rewound(120_000), [wrong, DELETION])) == [Kind.RESET]


def test_what_a_late_rewind_passed_over_is_not_missing_but_what_lies_before_is() -> None:
    book = rewound(120_000)
    book.given.clear()
    read(book, [0, 1, *range(5, 10)])
    found = sentences(judge(book, [DELETION]))
    assert found == []  # it had told that it was done with 8
    wrong = replace(DELETION, cutoff=4, unseen_ms=40_000, seen_ms=40_010)
    assert "the first at offset 2" in sentences(judge(book, [wrong, DELETION]))[-1]


# What may have been read


def test_a_commit_without_an_answer_counts_until_a_later_one_has_one() -> None:
    made = [commit(5, 10), commit(8, 60, acknowledged=False)]
    assert may_have_stood_at(made, 100, 110) == [5, 8]
    assert may_have_stood_at([*made, commit(6, 70)], 100, 110) == [6]


def test_commits_whose_order_is_open_both_count() -> None:
    overlapping = [Commit(8, 10, 25, acknowledged=True), Commit(5, 20, 22, acknowledged=True)]
    assert may_have_stood_at(overlapping, 30, 40) == [8, 5]


def test_who_had_committed_nothing_stood_nowhere() -> None:
    assert may_have_stood_at([commit(5, 50)], 10, 20) == []


# Topics that are recreated


def recreated() -> Book:
    """At 80 s; the new one has the records 20 to 29."""
    book = written()
    read(book, range(10))
    commits(book, commit(0, 1_001), commit(10, 50_000))
    book.topics[AT[0]][0].until_ms = 80_000
    book.created(AT[0], "second", since_ms=81_000)
    for offset in range(10):
        book.wrote(("orders", 1, 0), offset, 1020 + offset)
    book.began(GROUP, AT, Begin(5, False, 120_000))
    for offset in range(5, 10):
        book.saw(GROUP, AT, offset, 1020 + offset, 0)
    commits(book, commit(5, 120_001))
    return book


def test_what_a_deletion_for_the_old_topic_took_of_the_new_one_is_found() -> None:
    assert (
        "(no deletion of this topic on this cluster" in sentences(judge(recreated(), [DELETION]))[0]
    )


def test_a_reader_of_the_old_topic_is_one_of_the_new_from_its_first_record() -> None:
    new = replace(DELETION, topic_id="second")
    assert (
        "never given 5 records of orders-0, made again 1 times"
        in sentences(judge(recreated(), [new]))[0]
    )


def test_what_was_taken_with_the_old_topic_is_not_missing() -> None:
    book = recreated()
    for offset in range(5):
        book.saw(GROUP, AT, offset, 1020 + offset, 0)
    book.given[GROUP, AT] = book.given[GROUP, AT][10:]
    assert judge(book, []).findings == ()


def test_who_tells_its_old_position_of_the_new_topic_gives_up_what_lies_before() -> None:
    book = recreated()
    commits(book, Commit(5, 79_000, 81_500, acknowledged=True))
    assert judge(book, []).findings == ()


# Share groups


def test_a_record_that_is_gone_and_was_never_given_to_a_share_group_is_found() -> None:
    book = written()
    book.share_groups.add("workers")
    read(book, [0, 1, 2, 3, 5, 6], "workers")
    book.begins.clear()
    assert (
        "group workers was never given 1 records of orders-0, the first at offset 4"
        in sentences(judge(book, [DELETION]))[0]
    )


def test_a_record_that_is_still_there_may_yet_be_given_to_a_share_group() -> None:
    book = written()
    book.share_groups.add("workers")
    read(book, range(5), "workers")
    book.begins.clear()
    assert judge(book, [DELETION]).findings == ()
