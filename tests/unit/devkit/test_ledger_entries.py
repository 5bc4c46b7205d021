"""What a member dictates is in the book, whenever it is killed."""

from __future__ import annotations

from io import StringIO

import pytest

from devkit.ledger.book import Book, Commit, Reset, Skip
from devkit.ledger.dictation import Dictation
from devkit.ledger.entries import Entries
from devkit.ledger.scenario import Group, Protocol, Topic, Writing

GROUP = Group("billing", Topic("orders", 2, Writing.PLAIN, 0), Protocol.CONSUMER)
FIRST, SECOND = GROUP.topic.all_partitions


class Stream(StringIO):
    """``arrived``: what was written before the last flush, and so survives the writer."""

    arrived = ""

    def flush(self) -> None:
        self.arrived = self.getvalue()


@pytest.fixture
def stream() -> Stream:
    return Stream()


@pytest.fixture
def dictation(stream: Stream) -> Dictation:
    return Dictation(stream)


def entered(stream: Stream) -> Book:
    """By a member that was killed then, which is noticed at 99."""
    book = Book()
    entries = Entries(book, GROUP)
    for line in stream.arrived.splitlines():
        entries.enter(line)
    entries.end(99)
    return book


def test_everything_is_entered_as_it_was_said(dictation: Dictation, stream: Stream) -> None:
    dictation.saw(0, 7, 1007)
    dictation.skipped(0, 8, 9, 1.5)
    dictation.was_reset(1, 3, 5, 2.5)
    dictation.asked({0: 10, 1: 5}, 3.5)
    dictation.answered({0}, 4.5)
    dictation.count("rewinds")
    dictation.flush()
    book = entered(stream)
    assert 7 in book.seen["billing", FIRST]
    assert book.skips == [Skip("billing", FIRST, 8, 9, 1.5)]
    assert book.resets == [Reset("billing", SECOND, 3, 5, 2.5)]
    assert book.commits == {
        ("billing", FIRST): [Commit(10, 3.5, 4.5, acknowledged=True)],
        ("billing", SECOND): [Commit(5, 3.5, 4.5, acknowledged=False)],
    }
    assert book.counts["rewinds"] == 1


def test_a_record_without_a_sequence_is_entered_as_such(
    dictation: Dictation, stream: Stream
) -> None:
    dictation.saw(0, 7, None)
    dictation.flush()
    assert len(entered(stream).contradictions) == 1


def test_when_a_commit_goes_out_it_is_told_and_all_that_was_read_before(
    dictation: Dictation, stream: Stream
) -> None:
    dictation.saw(0, 7, 1007)
    dictation.asked({0: 8}, 3.5)
    book = entered(stream)
    assert 7 in book.seen["billing", FIRST]
    assert book.commits["billing", FIRST] == [Commit(8, 3.5, 99, acknowledged=False)]


def test_a_commit_whose_answer_was_not_told_any_more_may_have_been_done(
    dictation: Dictation, stream: Stream
) -> None:
    dictation.asked({0: 8}, 3.5)
    dictation.answered({0}, 4.5)
    assert entered(stream).commits["billing", FIRST] == [Commit(8, 3.5, 99, acknowledged=False)]


def test_an_answered_commit_is_entered_once(dictation: Dictation, stream: Stream) -> None:
    dictation.asked({0: 8}, 3.5)
    dictation.answered({0}, 4.5)
    dictation.flush()
    assert entered(stream).commits["billing", FIRST] == [Commit(8, 3.5, 4.5, acknowledged=True)]


def test_a_line_that_nobody_understands_is_an_error() -> None:
    with pytest.raises(ValueError, match="billing says"):
        Entries(Book(), GROUP).enter('["sang", 1]')


def test_a_group_stands_where_it_committed_last_in_whatever_order_its_members_are_heard() -> None:
    book = Book()
    book.committed("billing", [(FIRST, Commit(9, 20, 21, acknowledged=True))])
    book.committed("billing", [(FIRST, Commit(5, 10, 11, acknowledged=True))])
    book.committed("billing", [(FIRST, Commit(12, 30, 31, acknowledged=False))])
    assert book.position("billing", FIRST) == 9
    assert book.position("billing", SECOND) is None
