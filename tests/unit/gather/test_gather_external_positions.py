"""Positions outside Kafka: what is read is what was written, and all else is a failure."""

from __future__ import annotations

import json
import os
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from retentiond.config import ExternalReader
from retentiond.gather import external_positions
from retentiond.gather.external_positions import read_external
from retentiond.model import Commit, Failure
from tests.support.fakes import FakeCluster
from tests.support.http_server import Answer, answering
from tests.support.tokens import dripping
from tests.support.waiting import eventually

NOW_MS = 1_700_000_000_000
KAFKA = FakeCluster()
HOUR_MS = 3_600_000

Make = Callable[[Path], object]

ORDERS = (Commit("orders", 0, 42), Commit("orders", 1, 7))
DOCUMENT = '{"orders": {"0": 42, "1": 7}}'


def written(path: Path, text: str | bytes, age_ms: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    seconds = (NOW_MS - age_ms) / 1000
    os.utime(path, (seconds, seconds))
    return path


def of_document(place: object, max_age: str = "1h") -> ExternalReader:
    return ExternalReader.model_validate(
        {"name": "lake", "offsets": str(place), "max_age": max_age}
    )


def of_spark(checkpoint: Path) -> ExternalReader:
    return ExternalReader.model_validate(
        {"name": "lake", "spark_checkpoint": str(checkpoint), "max_age": "1h"}
    )


def failed(reader: ExternalReader) -> str:
    failure = read_external(reader, NOW_MS, KAFKA)
    assert isinstance(failure, Failure)
    assert failure.code == "EXTERNAL_READER"
    assert "\n" not in failure.message
    assert len(failure.message) < 400
    return failure.message


# Documents


@pytest.mark.parametrize(
    "text",
    [
        DOCUMENT,
        '{\n\t"orders": {\n\t\t"0": 42,\n\t\t"1": 7\n\t}\n}',
        '{"orders": {"0": "42", "1": "7"}}',
        "orders:\n  0: 42\n  1: 7\n",
        "orders: {'0': 42, '1': '7'}",
    ],
)
def test_a_document_in_json_or_yaml_is_read(tmp_path: Path, text: str) -> None:
    assert read_external(of_document(written(tmp_path / "at", text)), NOW_MS, KAFKA) == ORDERS


def test_a_topic_that_looks_like_a_number_is_a_topic(tmp_path: Path) -> None:
    place = written(tmp_path / "at", "123: {0: 1}\nyes: {0: 2}\n")
    assert read_external(of_document(place), NOW_MS, KAFKA) == (
        Commit("123", 0, 1),
        Commit("yes", 0, 2),
    )


def test_an_empty_position_is_no_failure_and_has_no_commit(tmp_path: Path) -> None:
    assert read_external(of_document(written(tmp_path / "at", "{}")), NOW_MS, KAFKA) == ()


MALFORMED: dict[str, str | bytes] = {
    "empty": "",
    "a text": "orders",
    "a list": "[1, 2]",
    "a topic without partitions": "orders: 5",
    "an offset that is null": '{"orders": {"0": null}}',
    "an offset below zero": '{"orders": {"0": -1}}',
    "an offset that is a float": '{"orders": {"0": 42.0}}',
    "an offset in powers of ten": '{"orders": {"0": 1e3}}',
    "an offset that is true": '{"orders": {"0": true}}',
    "an offset beyond int64": '{"orders": {"0": 9223372036854775808}}',
    "an offset of 5000 digits": '{"orders": {"0": ' + "9" * 5000 + "}}",
    "an offset in sexagesimal": "orders: {0: 1:30}",
    "an offset with underscores": "orders: {0: 1_000}",
    "an offset with a zero in front, octal for some": "orders: {0: 0100}",
    "a partition with a zero in front": "orders: {00: 5}",
    "an offset in other digits": "orders: {0: '४'}",
    "a long text for an offset": '{"orders": {"0": "' + "x" * 10_000 + '"}}',
    "a partition that is no number": '{"orders": {"first": 1}}',
    "a partition twice in JSON": '{"orders": {"0": 5, "0": 500}}',
    "a partition twice in YAML": "orders: {0: 5, 0: 500}",
    "a partition twice, written otherwise": "orders: {0: 5, 00: 500}",
    "a topic twice": '{"orders": {"0": 5}, "orders": {"0": 500}}',
    "a key that is a list": "? [orders]\n: {0: 1}",
    "half of it": '{"orders": {"0": 42, "1',
    "nested for ever": "[" * 100_000,
    "nested in YAML": "{a: " * 50 + "1" + "}" * 50,
    "aliases of aliases": "".join(
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9) if before else 1}]\n"
        for before, name in pairwise(["", *"abcdefghi"])
    ),
    "much YAML": "orders: {" + ", ".join(f"{number}: 1" for number in range(150_000)) + "}",
    "an alias of itself": "&a {orders: *a}",
    "no text": b"\xff\xfe\x00",
    "two documents": "orders: {0: 1}\n---\norders: {0: 2}\n",
    "a Python object": "orders: !!python/object/apply:os.getcwd []",
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_document_is_a_failure(tmp_path: Path, text: str | bytes) -> None:
    assert failed(of_document(written(tmp_path / "at", text))).startswith("its position ")


def test_json_that_stands_for_many_times_its_size_is_a_failure_before_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_positions, "MOST_VALUES", 1000)
    monkeypatch.setattr(json, "loads", None)  # not called
    message = "its position has more than 1000 values"
    place = written(tmp_path / "at", "[" + ",".join(["{}"] * 1001) + "]")
    assert failed(of_document(place)) == message
    written(tmp_path / "lake" / "commits" / "0", "v1")
    written(tmp_path / "lake" / "offsets" / "0", "v1\n{}\n" + "[" + "0," * 1000 + "0]")
    assert failed(of_spark(tmp_path / "lake")) == message


@pytest.mark.long
def test_the_largest_position_that_is_read_takes_no_gigabytes(tmp_path: Path) -> None:
    """As a process of its own would: what it is given is all that it has."""
    entries = ",".join(
        f'"{number}":{number}' for number in range(external_positions.MOST_VALUES - 1)
    )
    place = written(tmp_path / "at", f'{{"orders":{{{entries}}}}}')
    assert place.stat().st_size < external_positions.MOST_BYTES
    tracemalloc.start()
    try:
        external_positions._parsed(place.read_bytes(), json_only=False)
        assert tracemalloc.get_traced_memory()[1] < 500 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_a_document_that_is_not_there_or_no_file_is_a_failure(tmp_path: Path) -> None:
    missing = failed(of_document(tmp_path / "nowhere"))
    assert missing == "its position can't be read (No such file or directory)"
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path, tmp_path / "pipe"):
        assert failed(of_document(place)) == "its position can't be read (not a regular file)"


def test_a_document_of_max_age_is_read_and_an_older_one_is_a_failure(tmp_path: Path) -> None:
    fresh = written(tmp_path / "fresh", DOCUMENT, HOUR_MS)
    stale = written(tmp_path / "stale", DOCUMENT, HOUR_MS + 1000)
    assert read_external(of_document(fresh), NOW_MS, KAFKA) == ORDERS
    assert failed(of_document(stale)) == "its position is 3601 s old, older than max_age (1h)"


def test_a_document_from_the_future_does_not_stay_fresh_for_ever(tmp_path: Path) -> None:
    place = written(tmp_path / "at", DOCUMENT, -HOUR_MS - 1000)
    assert failed(of_document(place)) == (
        "its position is 3601 s ahead of the clock, more than max_age (1h)"
    )


# Spark's checkpoints

SETTINGS = json.dumps(
    {"batchWatermarkMs": 0, "batchTimestampMs": NOW_MS, "conf": {"spark.sql.x": "y"}}
)


def batch(checkpoint: Path, number: int, *sources: str, age_ms: int = 0, done: bool = True) -> None:
    """As Spark 4 writes them, with the checksums and leftovers of its file system."""
    text = "\n".join(["v1", SETTINGS, *sources])
    written(checkpoint / "offsets" / str(number), text)
    written(checkpoint / "offsets" / f".{number}.crc", b"crc\x00")
    if done:
        text = 'v1\n{"nextBatchWatermarkMs":0}'
        written(checkpoint / "commits" / str(number), text, age_ms)
        written(checkpoint / "commits" / f".{number}.crc", b"crc\x00")
        written(checkpoint / "commits" / f".{number + 1}.0b5f.tmp", b"")


def test_the_last_batch_that_is_done_counts_and_not_the_one_under_way(tmp_path: Path) -> None:
    batch(tmp_path, 8, '{"orders":{"0":5,"1":6}}')
    batch(tmp_path, 9, '{"orders":{"0":30,"1":6}}')
    batch(tmp_path, 10, '{"orders":{"0":42,"1":7}}')
    batch(tmp_path, 11, '{"orders":{"0":99,"1":99}}', done=False)
    assert read_external(of_spark(tmp_path), NOW_MS, KAFKA) == ORDERS


@pytest.mark.parametrize("commit", ["v1", "v1\n{}", 'v2\n{"stateUniqueIds":{}}', "v3\n{}\n"])
def test_a_commit_of_any_version_that_spark_writes_counts(tmp_path: Path, commit: str) -> None:
    batch(tmp_path, 1, '{"orders":{"0":42,"1":7}}')
    written(tmp_path / "commits" / "1", commit)
    assert read_external(of_spark(tmp_path), NOW_MS, KAFKA) == ORDERS


def test_the_sources_of_a_query_are_read_and_those_that_are_not_kafkas_passed_over(
    tmp_path: Path,
) -> None:
    batch(tmp_path, 0, '{"orders":{"0":42}}', '{"logOffset":3}', "17", '{"clicks":{"2":9}}')
    assert read_external(of_spark(tmp_path), NOW_MS, KAFKA) == (
        Commit("orders", 0, 42),
        Commit("clicks", 2, 9),
    )


def test_a_first_batch_has_none_before_to_be_compared_with(tmp_path: Path) -> None:
    batch(tmp_path, 1, '{"orders":{"0":42,"1":7}}')
    assert read_external(of_spark(tmp_path), NOW_MS, KAFKA) == ORDERS


def test_a_query_may_take_another_source(tmp_path: Path) -> None:
    batch(tmp_path, 0, '{"orders":{"0":20,"1":7}}')
    batch(tmp_path, 1, '{"orders":{"0":42,"1":7}}', "17")
    assert read_external(of_spark(tmp_path), NOW_MS, KAFKA) == ORDERS


def begins(checkpoint: Path, source: int, offsets: str, head: str = "\0v1\n") -> None:
    """As Spark's Kafka source writes it; before Spark 2.2 without a version."""
    written(checkpoint / "sources" / str(source) / "0", head + offsets)


@pytest.mark.parametrize("head", ["\0v1\n", "\0"])
@pytest.mark.parametrize("batches", [1, 3])
def test_a_source_that_has_begun_nothing_counts_with_where_it_will_begin(
    tmp_path: Path, head: str, batches: int
) -> None:
    """Also where the batch under way has an offset of it."""
    begins(tmp_path, 0, '{"orders":{"0":0}}')
    begins(tmp_path, 1, '{"clicks":{"0":10,"1":0}}', head)
    for number in range(batches):
        batch(tmp_path, number, '{"orders":{"0":80}}', "-")
    batch(tmp_path, batches, '{"orders":{"0":90}}', '{"clicks":{"0":50,"1":50}}', done=False)
    assert read_external(of_spark(tmp_path), NOW_MS, KAFKA) == (
        Commit("orders", 0, 80),
        Commit("clicks", 0, 10),
        Commit("clicks", 1, 0),
    )


def first_batch(checkpoint: Path, *, done: bool) -> None:
    batch(checkpoint, 0, '{"orders":{"0":42}}', done=done)


def with_commit(commit: str) -> Make:
    """Spark runs its batch again, once somebody has removed it."""

    def make(checkpoint: Path) -> None:
        first_batch(checkpoint, done=True)
        batch(checkpoint, 1, '{"orders":{"0":42,"1":7}}')
        written(checkpoint / "commits" / "1", commit)

    return make


def with_offsets(offsets: str | bytes) -> Make:
    def make(checkpoint: Path) -> None:
        batch(checkpoint, 3)
        written(checkpoint / "offsets" / "3", offsets)

    return make


def with_sources(*sources: str) -> Make:
    return lambda checkpoint: batch(checkpoint, 0, *sources)


def cut_off(*sources: str) -> Make:
    """Whatever is whole of them: the half that is missing may be another source of the topic."""

    def make(checkpoint: Path) -> None:
        batch(checkpoint, 0, '{"orders":{"0":20}}', '{"orders":{"0":5}}')
        batch(checkpoint, 1, *sources)

    return make


def beginning(first: str | None) -> Make:
    """A source that has begun nothing, and what is written of where it will begin."""

    def make(checkpoint: Path) -> None:
        batch(checkpoint, 0, '{"clicks":{"0":80}}', "-")
        (checkpoint / "sources" / "1").mkdir(parents=True)
        if first is not None:
            begins(checkpoint, 1, first, "")

    return make


def with_no_batch_done(checkpoint: Path) -> None:
    first_batch(checkpoint, done=False)
    written(checkpoint / "commits" / ".0.crc", b"")


def without_the_offsets_of_the_last_batch(checkpoint: Path) -> None:
    first_batch(checkpoint, done=True)
    (checkpoint / "offsets" / "0").unlink()


def with_a_folder_for_a_commit(checkpoint: Path) -> None:
    first_batch(checkpoint, done=False)
    (checkpoint / "commits" / "0").mkdir(parents=True)


def with_a_second_source_that_has_begun_nothing(checkpoint: Path) -> None:
    begins(checkpoint, 1, '{"orders":{"0":10}}')
    batch(checkpoint, 0, '{"orders":{"0":80}}', "-")


def with_a_source_without_a_line(checkpoint: Path) -> None:
    """Where a first batch is cut off between two lines, there is none before to compare it with."""
    begins(checkpoint, 0, '{"orders":{"0":0}}')
    begins(checkpoint, 1, '{"clicks":{"0":10}}')
    batch(checkpoint, 0, '{"orders":{"0":80}}')


NOT_STARTED_FROM = "commits/1 is no commit that Spark would start from"
OF_ANOTHER_VERSION = "offsets/3 is of a version that is not known"

HALF_COMMITS = ("", "\0" * 29, "\n", "v", "v9\n{}", "garbage", "v1\n{", 'v1\n{"next', "v1\n3")
HALF_OFFSETS: tuple[tuple[str, ...], ...] = (
    ('{"orders":{"0":4',),
    ('{"orders":{"0":80}}', '{"orders":{"0":1'),
    ('{"orders":{"0":80}}', '{"clicks":{"0":'),
    ('{"orders":{"0":80}}', ""),
    ('{"orders":{"0":80}}',),
    (),
)
NO_SOURCES = (
    '{"orders":{"0":-1}}',
    '{"orders":{"0":null}}',
    '{"orders":{"0":5,"0":500}}',
    '{"orders":' + "[" * 100_000,
    '{"orders":{"0":' + "9" * 30 + "}}",
)
NO_BEGINNINGS = (
    *(None, "", "\0", "\0v1\n", "\0v1\n{}", '\0v1\n{"orders":{"0":1', "v1\n17", "\0v1\nnull"),
    *('\0v9\n{"orders":{"0":10}}', '\0v1\n{"orders":{"0":-2}}'),
    'v1\n{"path":"a"}\n{"path":"b"}',
)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda checkpoint: None, "no batch is committed in "),
        (lambda checkpoint: first_batch(checkpoint, done=False), "no batch is committed in "),
        (with_no_batch_done, "no batch is committed in "),
        (without_the_offsets_of_the_last_batch, "No such file or directory"),
        (with_offsets("v2\n{}\n" + '{"orders":{"0":42}}'), OF_ANOTHER_VERSION),
        (with_offsets(""), OF_ANOTHER_VERSION),
        (with_offsets(b"v1\n\xff\xfe"), "its position can't be read (UnicodeDecodeError)"),
        (
            lambda checkpoint: batch(checkpoint, 3, '{"orders":{"0":42}}', age_ms=HOUR_MS + 1000),
            "its position is 3601 s old, older than max_age (1h)",
        ),
        (lambda checkpoint: written(checkpoint / "commits", ""), "Not a directory"),
        (with_a_folder_for_a_commit, "not a regular file"),
        (with_sources('{"orders":{"0":42}}', '{"orders":{"0":7}}'), "read topic orders"),
        (with_a_second_source_that_has_begun_nothing, "read topic orders"),
        (with_a_source_without_a_line, "it may be cut off"),
        *((with_commit(half), NOT_STARTED_FROM) for half in HALF_COMMITS),
        *((cut_off(*half), "it may be cut off") for half in HALF_OFFSETS),
        *((with_sources(source), "") for source in NO_SOURCES),
        *((beginning(first), "") for first in NO_BEGINNINGS),
    ],
)
def test_a_checkpoint_that_says_nothing_certain_is_a_failure(
    tmp_path: Path, make: Make, why: str
) -> None:
    make(tmp_path)
    assert why in failed(of_spark(tmp_path))


# HTTP


@contextmanager
def served(status: int = 200, body: bytes = DOCUMENT.encode(), **headers: str) -> Iterator[str]:
    """``headers``: with underscores for hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with answering(lambda _: Answer(status, body, named)) as url:
        yield f"{url}/at?token=hunter2"


FRESH = "Tue, 14 Nov 2023 22:13:20 GMT"  # NOW_MS
STALE = "Tue, 14 Nov 2023 21:13:19 GMT"


@pytest.mark.parametrize(
    "headers", [{}, {"Last_Modified": FRESH}, {"Content_Length": str(len(DOCUMENT))}]
)
def test_a_document_is_read_over_http(headers: dict[str, Any]) -> None:
    with served(**headers) as address:
        assert read_external(of_document(address), NOW_MS, KAFKA) == ORDERS


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"status": 500}, "its address can't be read (HTTP 500)"),
        ({"status": 404}, "its address can't be read (HTTP 404)"),
        ({"status": 203}, "its address answers with HTTP 203 where 200 belongs"),
        ({"status": 206}, "its address answers with HTTP 206 where 200 belongs"),
        ({"Last_Modified": STALE}, "its position is 3601 s old, older than"),
        ({"Last_Modified": "once"}, "its address answers with an invalid date"),
        ({"Content_Length": "99"}, "its address answers with less than it announces"),
        ({"Transfer_Encoding": "chunked"}, "its address can't be read ("),
        ({"body": b"<html>log in</html>"}, "its position is no mapping of topics"),
        ({"body": b"\xff\xfe"}, "its position is neither JSON nor YAML"),
        ({"body": b""}, "its position is no mapping of topics"),
    ],
)
def test_an_answer_that_is_no_position_is_a_failure(change: dict[str, Any], why: str) -> None:
    with served(**change) as address:
        message = failed(of_document(address))
    assert why in message
    assert "hunter2" not in message


def test_an_answer_without_end_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_positions, "MOST_BYTES", 10)
    with served() as address:
        assert failed(of_document(address)) == "its address answers with more than 10 bytes"


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("scheme", "first"),
    [
        ("http", b""),
        ("http", b"HTTP/1.1 200 OK\r\nX-Header: "),
        ("http", b"HTTP/1.1 200 OK\r\n\r\n"),
        ("http", b"HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 99999\r\n\r\n"),
        ("https", b"\x16\x03\x03\x3f\xff"),  # a record of TLS that has begun
    ],
)
def test_a_server_that_drips_is_given_up_and_no_thread_stays(
    monkeypatch: pytest.MonkeyPatch, scheme: str, first: bytes
) -> None:
    monkeypatch.setattr(external_positions, "MOST_SECONDS", 0.5)
    with dripping(first=first) as port:
        message = failed(of_document(f"{scheme}://127.0.0.1:{port}/at"))
        assert message == "its address takes more than 0.5 s to answer"
        eventually(threading.enumerate, lambda all: "exchange" not in {t.name for t in all})


@pytest.mark.parametrize(
    "address",
    [
        "http://me:hunter2@127.0.0.1:1/at",
        "http://127.0.0.1:1/at?token=hunter2",
        "http://127.0.0.1:hunter2/at",
        "https://127.0.0.1:1/hun ter2/hunter2",
        "http://nowhere.invalid/hunter2",
    ],
)
def test_no_message_holds_a_secret_of_the_address(address: str) -> None:
    message = failed(of_document(address))
    assert "hunter2" not in message
    assert "127.0.0.1" not in message
