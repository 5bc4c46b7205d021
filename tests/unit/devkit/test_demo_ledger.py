"""The account that the demo's verdict rests on: a missed record is never overlooked."""

from collections.abc import Iterable

import pytest

from devkit.demo.ledger import FaultKind, Ledger
from devkit.demo.record import encode

TOPIC = "demo.payments"


@pytest.fixture
def ledger() -> Ledger:
    return Ledger("billing", TOPIC, partitions=2)


def see(ledger: Ledger, offsets: Iterable[int], partition: int = 0) -> None:
    for offset in offsets:
        ledger.see(partition, offset, encode(TOPIC, partition, offset))


def kinds(ledger: Ledger) -> list[FaultKind]:
    return [fault.kind for fault in ledger.faults]


def test_records_in_order_are_no_fault(ledger: Ledger) -> None:
    see(ledger, range(5), partition=0)
    see(ledger, range(3), partition=1)
    assert ledger.faults == []
    assert ledger.next_offsets == {0: 5, 1: 3}
    assert ledger.records == 8


def test_a_gap_is_told_once_with_what_is_missing(ledger: Ledger) -> None:
    see(ledger, [0, 1, 4, 5])
    assert list(map(str, ledger.faults)) == [
        "gap: group billing, demo.payments-0: 2 records are missing, offsets 2 to 3"
    ]


def test_records_missing_at_the_beginning_are_a_gap(ledger: Ledger) -> None:
    see(ledger, [1])
    assert kinds(ledger) == [FaultKind.GAP]


def test_a_repetition_is_told_and_does_not_set_the_account_back(ledger: Ledger) -> None:
    see(ledger, [0, 1, 2, 1, 3])
    assert kinds(ledger) == [FaultKind.REPETITION]
    assert ledger.next_offsets[0] == 4


def test_a_reset_names_the_record_that_could_not_be_read(ledger: Ledger) -> None:
    see(ledger, range(3), partition=1)
    ledger.reset(1, "Offset out of range")
    assert list(map(str, ledger.faults)) == [
        "reset: group billing, demo.payments-1: offset 3 could not be read (Offset out of range)"
    ]


@pytest.mark.parametrize(
    "value",
    [
        encode(TOPIC, 0, 1),
        encode(TOPIC, 1, 0),
        encode("demo.clicks", 0, 0),
        encode(TOPIC, 0, 0)[:-1],
        b"",
        None,
    ],
    ids=["other number", "other partition", "other topic", "cut short", "empty", "no value"],
)
def test_an_offset_with_another_record_than_was_written_there_is_a_fault(
    ledger: Ledger, value: bytes | None
) -> None:
    ledger.see(0, 0, value)
    assert kinds(ledger) == [FaultKind.WRONG_RECORD]


def test_a_log_that_begins_where_the_group_reads_on_is_no_fault(ledger: Ledger) -> None:
    see(ledger, range(3))
    ledger.begins_at(0, 2)
    ledger.begins_at(0, 3)
    assert ledger.faults == []


def test_records_deleted_before_they_were_read_are_told_once(ledger: Ledger) -> None:
    see(ledger, range(3))
    ledger.begins_at(0, 5)
    ledger.begins_at(0, 5)
    assert list(map(str, ledger.faults)) == [
        "deleted unread: group billing, demo.payments-0: the log begins at 5, and 3 was next"
    ]
