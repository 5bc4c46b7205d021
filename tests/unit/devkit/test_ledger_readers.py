"""What a member tells is in the book, whenever it is killed."""

from __future__ import annotations

import json

import pytest

from devkit.ledger.book import Begin, Book, Commit, Loss, Own
from devkit.ledger.readers import Entries

TOPIC = "orders"
FIRST, SECOND = (TOPIC, 0), (TOPIC, 1)


@pytest.fixture
def book() -> Book:
    made = Book()
    made.created(TOPIC, "id", since_ms=0)
    return made


def entered(book: Book, *said: list[object]) -> Book:
    """By a member of billing that was killed then, which is noticed at 99."""
    entries = Entries(book, "billing")
    entries.enter("")
    for words in said:
        entries.enter(json.dumps(words))
    entries.end(99)
    return book


def test_everything_is_entered_as_it_was_said(book: Book) -> None:
    entered(
        book,
        ["assigned", [TOPIC], 1.5],
        ["began", TOPIC, 0, 7, True, 1.5],
        ["saw", TOPIC, 0, 7, 1007, 55],
        ["skipped", TOPIC, 0, 8, 9, 2.5],
        ["was reset", TOPIC, 1, 3, 5, 3.5],
        ["asked", [[TOPIC, 0, 10], [TOPIC, 1, 5]], 4.5],
        ["answered", [[TOPIC, 0]], 5.5],
        ["count", "rewinds"],
        ["revoked", 6.5],
    )
    assert book.begins["billing", FIRST] == [Begin(7, True, 1.5)]
    assert list(book.given["billing", FIRST]) == [1007]
    assert book.own["billing", FIRST] == Own(0, 8, 55)
    assert book.losses == [
        Loss("billing", FIRST, 8, 9, 2.5),
        Loss("billing", SECOND, 3, 5, 3.5, reset=True),
    ]
    assert book.commits == {
        ("billing", FIRST): [Commit(10, 4.5, 5.5, acknowledged=True)],
        ("billing", SECOND): [Commit(5, 4.5, 5.5, acknowledged=False)],
    }
    assert book.shown.members["billing", TOPIC] == [(1.5, 6.5)]
    assert book.counts["rewinds"] == 1


def test_a_record_without_a_sequence_is_no_record_of_the_bench(book: Book) -> None:
    entered(book, ["saw", TOPIC, 0, 7, None, 55])
    assert len(book.contradictions) == 1


def test_a_commit_whose_answer_was_not_told_may_have_been_done(book: Book) -> None:
    entered(book, ["asked", [[TOPIC, 0, 8]], 3.5])
    assert book.commits["billing", FIRST] == [Commit(8, 3.5, 99, acknowledged=False)]


def test_who_is_killed_was_a_member_until_then(book: Book) -> None:
    entered(book, ["assigned", [TOPIC], 1.5])
    assert book.shown.members["billing", TOPIC] == [(1.5, 99)]


def test_who_is_silent_for_long_may_have_lost_its_place(book: Book) -> None:
    entries = Entries(book, "billing")
    entries.enter(json.dumps(["assigned", [TOPIC], 1_000]), at_ms=1_000)
    entries.enter("", at_ms=3_000)
    entries.enter("", at_ms=9_000)
    assert book.shown.members["billing", TOPIC] == [(1_000, 3_000)]


def test_who_goes_back_stands_there_by_itself(book: Book) -> None:
    entered(book, ["saw", TOPIC, 0, 7, 1007, 55], ["moved", TOPIC, 0, 3])
    assert book.own["billing", FIRST].offset == 3


def test_a_line_that_nobody_understands_is_an_error(book: Book) -> None:
    with pytest.raises(ValueError, match="billing says"):
        Entries(book, "billing").enter('["sang", 1]')


def test_a_group_stands_where_it_committed_last_in_whatever_order_its_members_are_heard(
    book: Book,
) -> None:
    book.committed("billing", [(FIRST, Commit(9, 20, 21, acknowledged=True))])
    book.committed("billing", [(FIRST, Commit(5, 10, 11, acknowledged=True))])
    book.committed("billing", [(FIRST, Commit(12, 30, 31, acknowledged=False))])
    assert book.position("billing", FIRST) == 9
    assert book.position("billing", SECOND) is None


# Who is shown


def test_a_member_is_shown_once_a_whole_cycle_has_passed_while_it_was_one(book: Book) -> None:
    book.shown.was_member("billing", TOPIC, 10_000, 20_000)
    for at_ms in (9_000, 10_500, 12_000):
        book.shown.cycle(at_ms)
    assert book.shown_since("billing", TOPIC) is None  # it may have begun before the member did
    book.shown.cycle(14_000)
    assert book.shown_since("billing", TOPIC) == 14_000
    assert book.shown_since("billing", "payments") is None


def test_a_member_is_not_shown_by_a_cycle_that_ends_after_it_has_gone(book: Book) -> None:
    book.shown.was_member("billing", TOPIC, 10_000, 13_000)
    for at_ms in (12_000, 14_000):
        book.shown.cycle(at_ms)
    assert book.shown_since("billing", TOPIC) is None


def test_nobody_is_shown_by_a_disturbed_cycle_or_by_one_of_another_cluster(book: Book) -> None:
    book.committed("billing", [(FIRST, Commit(9, 20, 21, acknowledged=True))])
    book.shown.cycle(12_000)
    book.shown.disturbances.append(12_500)
    book.shown.cycle(14_000)
    book.shown.listening = False
    book.shown.cycle(15_000)
    assert book.shown_since("billing", TOPIC) is None
    book.shown.listening = True
    book.shown.cycle(16_000)
    assert book.shown_since("billing", TOPIC) == 16_000


def test_a_commit_is_there_until_its_topic_is_deleted(book: Book) -> None:
    book.committed("billing", [(FIRST, Commit(9, 20, 21, acknowledged=True))])
    book.topics[TOPIC][0].until_ms = 13_000
    book.shown.cycle(12_000)
    book.shown.cycle(14_000)
    assert book.shown_since("billing", TOPIC) is None


# Topics


def test_between_deletion_and_creation_nobody_knows_which_topic_it_is(book: Book) -> None:
    assert book.living(TOPIC) == 0
    book.deleting(TOPIC)
    assert book.living(TOPIC) is None
    book.created(TOPIC, "another id", since_ms=book.topics[TOPIC][0].until_ms + 5)
    assert book.incarnation(TOPIC, book.topics[TOPIC][1].since_ms) == 1
    assert book.incarnation(TOPIC, 1) == 0


def test_a_position_on_a_topic_that_was_deleted_is_none(book: Book) -> None:
    entered(book, ["saw", TOPIC, 0, 7, 1007, 55])
    assert book.own_positions("billing") == {FIRST: Own(0, 8, 55)}
    book.deleting(TOPIC)
    book.created(TOPIC, "another id", since_ms=book.topics[TOPIC][0].until_ms)
    assert book.own_positions("billing") == {}
