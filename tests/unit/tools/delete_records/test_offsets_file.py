"""The offsets file of KIP-107: what is read, and what refuses the whole file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from retentiond.errors import ConfigError
from retentiond.kafka.interface import OffsetBound
from retentiond.tools.delete_records.offsets_file import read_offsets_file
from retentiond.tools.delete_records.partitions import Item

GOOD = {"topic": "orders", "partition": 0, "offset": 42}


def read(tmp_path: Path, text: str | bytes) -> tuple[tuple[Item, ...], tuple[str, ...]]:
    file = tmp_path / "offsets.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_offsets_file(file)


def of(*entries: Any, **top: Any) -> str:
    return json.dumps({"version": 1, "partitions": entries, **top})


def entry(**changes: Any) -> dict[str, Any]:
    return {**GOOD, **changes}


def without(field: str) -> dict[str, Any]:
    return {key: value for key, value in GOOD.items() if key != field}


def test_the_entries_come_in_the_files_order(tmp_path: Path) -> None:
    items, warnings = read(tmp_path, of(entry(partition=3), entry(), entry(topic="b", offset=0)))
    assert [(item.topic, item.partition, item.target) for item in items] == [
        ("orders", 3, 42),
        ("orders", 0, 42),
        ("b", 0, 0),
    ]
    assert warnings == ()


def test_minus_one_is_the_high_watermark(tmp_path: Path) -> None:
    ((item,), _) = read(tmp_path, of(entry(offset=-1)))
    assert item.target is OffsetBound.HIGH_WATERMARK


def test_the_largest_partition_and_offset_are_read(tmp_path: Path) -> None:
    ((item,), _) = read(tmp_path, of(entry(partition=2**31 - 1, offset=2**63 - 1)))
    assert (item.partition, item.target) == (2**31 - 1, 2**63 - 1)


def test_without_a_version_it_is_version_1(tmp_path: Path) -> None:
    assert len(read(tmp_path, json.dumps({"partitions": [GOOD]}))[0]) == 1


def test_no_partitions_are_none(tmp_path: Path) -> None:
    assert read(tmp_path, of()) == ((), ())


def test_unknown_fields_are_a_warning_each(tmp_path: Path) -> None:
    items, warnings = read(tmp_path, of(GOOD, entry(partition=1, note=1), comment="x"))
    assert len(items) == 2
    assert warnings == (
        "comment: this field is unknown and changes nothing",
        "partitions[1].note: this field is unknown and changes nothing",
    )


MALFORMED = [
    ("", "not JSON"),
    ("{", "not JSON"),
    ('{"partitions": [}', "not JSON"),
    ("\ufeff{}", "not JSON"),
    (b"\xff{}", "expected JSON in UTF-8"),
    ('{"partitions": NaN}', "not JSON that can be read: NaN is no JSON"),
    ('{"partitions": [' + "1" * 5000 + "]}", "not JSON"),
    ("[" * 100_000, "nested too deeply"),
    (of() + " x", "not JSON that can be read: Extra data: line 1 column 34"),
    (of() + of(), "Extra data"),
    ("[]", "offsets.json: expected an object"),
    ("null", "offsets.json: expected an object"),
    ("{}", "partitions: this field is missing"),
    ('{"version": 1, "version": 1, "partitions": []}', 'the key "version" stands twice'),
    ('{"partitions": [], "partitions": []}', 'the key "partitions" stands twice'),
    (
        '{"partitions": [{"topic": "a", "partition": 0, "offset": 1, "offset": 2}]}',
        'the key "offset" stands twice',
    ),
    ('{"partitions": [], "note": [{"a": 1, "a": 1}]}', 'the key "a" stands twice'),
    (of(version=2), "version: expected 1 or less"),
    (of(version=0), "version: expected 1 or more"),
    *((of(version=wrong), "version: expected a whole number") for wrong in ("1", 1.0, True, None)),
    (of(partitions={}), "partitions: expected a list"),
    (of(partitions=None), "partitions: expected a list"),
    (of(GOOD, 7), "partitions[1]: expected an object"),
    (of(GOOD, []), "partitions[1]: expected an object"),
    (of(without("topic")), "partitions[0].topic: this field is missing"),
    (of(without("partition")), "partitions[0].partition: this field is missing"),
    (of(GOOD, without("offset")), "partitions[1].offset: this field is missing"),
    (of(entry(topic=None)), "partitions[0].topic: expected a string"),
    (of(entry(topic=5)), "partitions[0].topic: expected a string"),
    (of(entry(topic="")), "partitions[0].topic: expected the name of a topic"),
    (of(entry(topic="__consumer_offsets")), "partitions[0].topic: __consumer_offsets is Kafka's"),
    (of(entry(topic="__transaction_state")), "partitions[0].topic: __transaction_state is"),
    (of(entry(topic="__share_group_state")), "partitions[0].topic: __share_group_state is"),
    *(
        (of(entry(**{field: wrong})), f"partitions[0].{field}: expected a whole number")
        for field in ("partition", "offset")
        for wrong in ("42", True, False, 1.0, 1e3, None)
    ),
    (
        of(entry(partition=-1)),
        "partitions[0].partition: expected 0 or more",
    ),
    (of(entry(partition=2**31)), "partitions[0].partition: expected 2147483647 or less"),
    (of(entry(offset=-2)), "partitions[0].offset: expected -1 or more"),
    (of(entry(offset=2**63)), "partitions[0].offset: expected 9223372036854775807 or less"),
    (of(entry(offset=10**30)), "partitions[0].offset: expected 9223372036854775807 or less"),
    (
        of(GOOD, entry(topic="b"), entry(offset=1)),
        "partitions: entry [2] is about the same partition as entry [0]",
    ),
]


@pytest.mark.parametrize(("text", "message"), MALFORMED)
def test_what_is_wrong_refuses_the_file_and_is_named(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, text)
    sentence = str(refused.value)
    assert sentence.startswith(f"{tmp_path / 'offsets.json'}: ")
    assert message in sentence
    assert "\n" not in sentence


def test_a_key_with_a_terminals_control_sequence_is_not_printed_as_it_is(tmp_path: Path) -> None:
    _, (warning,) = read(tmp_path, of(entry(**{"\x1b[2J": 1})))
    assert "\x1b" not in warning


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.json: can't be read \(No such file"):
        read_offsets_file(tmp_path / "nowhere.json")
