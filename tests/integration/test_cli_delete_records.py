"""``retentiond delete-records`` on a real broker, beside Kafka's own tool on a twin topic."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from devkit.embedded import EmbeddedKafka, tools
from retentiond.state.operator_actions import actions_in
from tests.contract.real import RealDriver
from tests.support.brokers.deleting import RECORDS, TOOL, Bench

pytestmark = pytest.mark.broker


def test_it_moves_the_same_log_starts_as_kafkas_own_tool(
    any_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    """-1 is the high watermark; 0 and what is below the log start change nothing."""
    offsets = [-1, 4, 0, RECORDS, RECORDS + 1]
    with closing(RealDriver(any_kafka)) as driver:
        bench = Bench(driver, tmp_path)
        ours, theirs = f"{topic_name}-ours", f"{topic_name}-theirs"
        for name in (ours, theirs):
            bench.driver.filled_topic(name, partitions=len(offsets))
        for wanted in (offsets, [2, 2, 2, 2, 7]):
            file = bench.file(*((theirs, *each) for each in enumerate(wanted)))
            tools.run(
                any_kafka.version,
                TOOL,
                *("--bootstrap-server", bench.servers, "--offset-json-file", str(file)),
            )
            bench.delete(*((ours, *each) for each in enumerate(wanted)))
            expected = bench.log_starts(theirs, len(offsets))
            assert bench.log_starts(ours, len(offsets)) == expected
        assert expected == [10, 4, 2, 10, 7]


def test_each_partition_is_a_line_and_stands_in_the_audit_log_and_a_failed_one_ends_it_with_1(
    bench: Bench, topic_name: str
) -> None:
    name = bench.driver.filled_topic(topic_name, partitions=4)
    wanted = [(name, 0, 3), (name, 1, -1), (name, 2, 0), (name, 3, RECORDS + 1)]
    done = bench.delete(*wanted)
    assert (done.code, done.err) == (1, "")
    assert done.out.splitlines() == [
        f"{name}-0  low watermark 3",
        f"{name}-1  low watermark 10",
        f"{name}-2  low watermark 0",
        f"{name}-3  error: OFFSET_OUT_OF_RANGE: the offset is beyond the high watermark; "
        "nothing was deleted",
        "3 partitions done, 1 failed, 0 left out",
    ]
    assert bench.log_starts(name, 4) == [3, 10, 0, 0]

    request, outcome = actions_in(bench.state_dir)
    assert (request.action, outcome.action) == ("delete-records", "delete-records-outcome")
    assert request.subject == outcome.subject
    assert request.at_ms <= outcome.at_ms
    assert request.operator
    asked = json.loads(request.detail)
    assert asked["partitions"] == [
        {"topic": topic, "partition": partition, "offset": offset}
        for topic, partition, offset in wanted
    ]
    assert asked["bootstrap_servers"] == bench.servers
    assert str(bench.folder / "offsets.json") in asked["arguments"]
    first, *_, failed = json.loads(outcome.detail)["partitions"]
    assert (first["outcome"], first["low_watermark"]) == ("deleted", 3)
    assert failed["outcome"] == "failed"
    assert failed["error"].startswith("OFFSET_OUT_OF_RANGE")
    assert bench.state_dir.stat().st_mode & 0o777 == 0o700


def test_json_is_one_object_with_a_row_for_each_partition(bench: Bench, topic_name: str) -> None:
    name = bench.driver.filled_topic(topic_name, partitions=2)
    done, rows = bench.rows("--offset-json-file", bench.file((name, 0, -1), (name, 9, 4)))
    assert (done.code, done.err) == (1, "")
    assert rows[0] == {
        "topic": name,
        "partition": 0,
        "offset": -1,
        "log_start_offset": None,
        "high_watermark": None,
        "records": None,
        "predicted_bytes": None,
        "outcome": "deleted",
        "low_watermark": 10,
        "error": None,
    }
    assert (rows[1]["offset"], rows[1]["outcome"], rows[1]["low_watermark"]) == (4, "failed", None)
    assert "the topic has 2 partitions" in rows[1]["error"]


def test_a_dry_run_counts_records_and_leaves_no_trace(bench: Bench, topic_name: str) -> None:
    name = bench.driver.filled_topic(topic_name, partitions=3)
    file = bench.file((name, 0, 3), (name, 1, -1))
    done = bench.run("--offset-json-file", file, "--dry-run")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"{name}-0  from 0 to 3: 3 records, about 0 B on disk",
        f"{name}-1  from 0 to 10: 10 records, about 0 B on disk",
        "13 records from 2 partitions (about 0 B on disk); 0 failed, 0 left out; "
        "nothing was deleted",
    ]
    assert bench.log_starts(name, 3) == [0, 0, 0]
    assert not bench.state_dir.exists()


@pytest.mark.parametrize("damage", ["in the way", "damaged"])
def test_without_an_audit_log_nothing_is_deleted(
    bench: Bench, topic_name: str, damage: str
) -> None:
    name = bench.driver.filled_topic(topic_name)
    if damage == "damaged":
        bench.state_dir.mkdir()
        (bench.state_dir / "audit.db").write_bytes(b"no database" * 100)
    else:
        bench.state_dir.write_text("a file")
    done = bench.delete((name, 0, 5))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("retentiond: ")
    assert done.err.count("\n") == 1
    assert bench.log_starts(name) == [0]


def test_a_cluster_that_is_not_there_ends_with_1_and_one_sentence(bench: Bench) -> None:
    bench.servers = "127.0.0.1:1"
    done = bench.delete(("orders", 0, 1))
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("retentiond: 127.0.0.1:1 can't be asked: ")
    assert done.err.count("\n") == 1
    assert not bench.state_dir.exists()
