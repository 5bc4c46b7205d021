"""The demo shows what it promises, and would notice if it were not so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from devkit.demo.account import Account
from devkit.demo.reader import Reader
from devkit.demo.scenario import Topic
from devkit.demo.writer import Writer
from devkit.embedded import EmbeddedKafka
from tests.support.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.thorough("the demo")]

SCRIPTS = Path(__file__).parents[2] / "scripts"


def figure(output: str, name: str) -> float:
    """A figure of the summary."""
    (found,) = re.findall(rf"^{re.escape(name)}: ([\d.,]+)(?: MB)?$", output, re.MULTILINE)
    return float(found.replace(",", ""))


def last_line(output: str, topic: str) -> str:
    """The last that was printed of a topic."""
    lines: list[str] = re.findall(rf"^ *\d+ s  {re.escape(topic)}: (.*)$", output, re.MULTILINE)
    return lines[-1]


def demonstrated(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """``python -m devkit.demo…`` to its end."""
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        env={**os.environ, "PYTHONPATH": str(SCRIPTS), **environment},
        capture_output=True,
        text=True,
        timeout=850,
        check=False,
    )


@pytest.mark.spark
def test_the_demo_frees_disk_and_every_group_reads_every_record(tmp_path: Path) -> None:
    done = demonstrated("devkit.demo", "--seconds", "25", TMPDIR=str(tmp_path))
    output = done.stdout
    assert done.returncode == 0, output + done.stderr
    assert figure(output, "gaps seen by any consumer") == 0
    written = figure(output, "records written")
    assert figure(output, "records that every group read") == written > 0
    # Of the four topics, the two that take three quarters of the records are emptied.
    assert figure(output, "records deleted") == pytest.approx(0.75 * written, rel=0.01)
    assert figure(output, "bytes freed on disk") > 0.5 * figure(output, "bytes written")
    assert "deleted 0; " in last_line(output, "demo.clicks")
    assert last_line(output, "demo.clicks").endswith("nothing: too_young, bound by age")
    assert "deleted 0; " in last_line(output, "demo.archive")
    assert last_line(output, "demo.archive").endswith("not enabled")
    assert "nothing: not_consumed, bound by ledger" in output
    (simulated,) = re.findall(r"^([\d,]+) records deleted; ", output, re.MULTILINE)
    assert int(simulated.replace(",", "")) > 0
    assert "nothing shorter than that time is recommended" in output
    (requests,) = re.findall(
        r"^the witness on the wire saw (\d+) DeleteRecords requests, .*: each is proven$",
        output,
        re.MULTILINE,
    )
    assert int(requests) > 0
    (folder,) = tmp_path.iterdir()  # nothing else is left behind
    (report,) = folder.iterdir()
    assert f"for a browser: {report}" in output
    assert report.read_text().startswith("<!doctype html>")


@pytest.mark.spark
def test_producers_fail_on_a_full_disk_without_disk_pressure_and_never_with_it(
    tmp_path: Path,
) -> None:
    """The second act: a small disk."""
    picture = tmp_path / "disks.svg"
    done = demonstrated("devkit.demo.pressure", "--picture", str(picture))
    if "can't mount a tmpfs" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    without, with_it = re.findall(r"^(.*): the producer (failed|never failed)", done.stdout, re.M)
    assert without == ("without disk_pressure", "failed")
    assert with_it == ("with disk_pressure", "never failed")
    ((written, read, deleted),) = re.findall(
        r"^with disk_pressure: .*?; ([\d,]+) records written, ([\d,]+) read, ([\d,]+) deleted, 0 "
        r"gaps; at most",
        done.stdout,
        re.M,
    )
    assert written == read
    assert deleted != "0"
    assert "under pressure: consumed records of " in done.stdout
    assert picture.read_text().startswith("<svg")


def test_a_consumer_of_the_demo_notices_that_unread_records_were_deleted(
    kafka: EmbeddedKafka, topic_name: str
) -> None:
    account, _ = half_read(kafka, topic_name)
    stood_at = account.next_offsets[0]
    unread = TopicPartition(topic_name, 0, stood_at + 2)
    admin = kafka.admin()
    admin.delete_records([unread])[unread].result(30)
    read_on(kafka, account, lambda: bool(account.faults))
    (fault,) = account.faults
    assert fault.endswith(f"{topic_name}-0: offset {stood_at + 2} came, when {stood_at} was next")


def test_a_consumer_of_the_demo_goes_on_where_the_one_before_it_stopped(
    kafka: EmbeddedKafka, topic_name: str
) -> None:
    account, written = half_read(kafka, topic_name)
    read_on(kafka, account, lambda: account.records == sum(written.values()))
    assert account.faults == []
    assert account.next_offsets == written


def half_read(kafka: EmbeddedKafka, topic_name: str) -> tuple[Account, dict[int, int]]:
    """The account of a group that was stopped half-way, and what was written by partition."""
    topic = Topic(topic_name, partitions=2, records_per_second=200, groups=(), emptied=True)
    kafka.create_topic(topic.name, topic.partitions)
    account = Account(f"{topic_name}-readers", topic.name, topic.partitions)
    reader = Reader(kafka.bootstrap_servers, account.group, account.topic, account.see)
    writer = Writer(kafka.bootstrap_servers, [topic])
    reader.start()
    writer.start()
    eventually(lambda: account.records > 0)
    reader.stop()
    read = account.records
    eventually(lambda: writer.records(topic) >= read + 20)
    writer.stop()
    assert reader.error is writer.error is None
    assert account.records == read
    return account, writer.written(topic)


def read_on(kafka: EmbeddedKafka, account: Account, until: Callable[[], bool]) -> None:
    """A new consumer of the group."""
    reader = Reader(kafka.bootstrap_servers, account.group, account.topic, account.see)
    reader.start()
    eventually(until)
    reader.stop()
    assert reader.error is None
