"""Bytes in remote storage (KIP-405): how they are estimated, and that every place that shows bytes
tells them from those on the disks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.cli.options import Output
from retentiond.cli.output.first_look import show_first_look
from retentiond.cli.output.plan import show
from retentiond.disks.broker_disks import BrokerDisks, DiskReport
from retentiond.disks.predictions import (
    Remote,
    predict,
    record_bytes,
    remote_logs,
    with_predictions,
    with_remote,
)
from retentiond.formatting import say_estimate, say_stored
from retentiond.model import TopicPartition
from retentiond.snapshot import Snapshot
from retentiond.tell.explanation import on_disk
from retentiond.tell.first_look import FirstLook
from retentiond.tell.report import CycleReport, document
from tests.support.builders.disk_readings import AT, deletion, reading, tiered
from tests.support.builders.gather_worlds import config as policy
from tests.support.builders.gather_worlds import entry, healthy, snapshot
from tests.support.builders.page_visitor import Visitor
from tests.support.builders.reports import report, row
from tests.support.golden import Golden

MIB = 1 << 20


def predicted(cutoff: int, of: Snapshot, size: int) -> tuple[int | None, int | None]:
    """Local and remote bytes that a deletion from two replicas of that size frees."""
    disks, rows = reading({1: size, 2: size}), [deletion(cutoff)]
    found = predict(rows, of, disks)
    logs = remote_logs(of, disks, record_bytes(of, disks))
    (made,) = with_remote(with_predictions(rows, found), logs, found)
    return made.predicted_bytes, made.predicted_remote_bytes


def test_remote_storage_has_what_is_there_alone_and_the_closed_local_segments_once() -> None:
    """A record takes 20 bytes; of 4,000 on each disk 3,000 are in closed segments."""
    taken, disks = tiered(), reading({1: 4000, 2: 4000})
    (log,) = remote_logs(taken, disks, record_bytes(taken, disks)).values()
    assert log == Remote(20.0, 0, 800, 3000)
    assert log.size_bytes == 16_000 + 3000


def test_what_is_deleted_from_remote_storage_alone_frees_nothing_on_the_disks() -> None:
    assert predicted(500, tiered(), 4000) == (0, 10_000)


def test_what_is_deleted_from_both_frees_each_replica_and_the_copy() -> None:
    local, remote = predicted(1000, tiered(), 4000)
    assert local
    assert remote == 16_000 + local // 2


def test_a_topic_that_is_all_local_yet_has_copies_of_its_closed_segments() -> None:
    taken, disks = tiered(local_start=0), reading({1: 4000})
    (log,) = remote_logs(taken, disks, record_bytes(taken, disks)).values()
    assert log is not None
    assert log.size_bytes == 3000


def test_a_topic_that_is_not_tiered_has_nothing_there() -> None:
    taken = snapshot(healthy(), policy(entry("orders")))
    assert remote_logs(taken, reading({1: 4000}), {}) == {}


def test_where_its_local_start_is_not_known_its_bytes_are_not() -> None:
    taken = tiered(local_start=None)
    assert remote_logs(taken, reading({1: 4000}), {}) == {AT: None}
    assert predicted(500, taken, 4000) == (None, None)


def test_a_records_size_is_remembered_for_when_the_disks_hold_none() -> None:
    watch = BrokerDisks()
    gone = tiered(local_start=1000)
    (log,) = watch.remote(gone, reading({1: 0})).values()
    assert log is not None
    assert log.size_bytes is None
    watch.remote(tiered(), reading({1: 4000}))
    (log,) = watch.remote(gone, reading({1: 0})).values()
    assert log is not None
    assert log.size_bytes == 20_000


@pytest.mark.parametrize(
    ("remote", "said"),
    [
        (0, "12.0 MiB"),
        (40 * MIB, "12.0 MiB local, ~40.0 MiB remote"),
        (None, "12.0 MiB local, an unknown amount remote"),
    ],
)
def test_an_estimate_is_marked_as_one(remote: int | None, said: str) -> None:
    assert say_stored(12 * MIB, remote) == said
    assert say_estimate(None) == "?"


# Where bytes are shown


def remote_report(remote: int | None = 40 * MIB, freed: int | None = 30 * MIB) -> CycleReport:
    """A topic that is all remote, and one that is all local."""
    rows = [
        replace(row("clicks"), predicted_bytes=MIB),
        replace(row("orders"), predicted_bytes=0, predicted_remote_bytes=freed),
    ]
    disk = DiskReport(
        size_bytes={AT: 0, TopicPartition("clicks", 0): 2 * MIB},
        remote_bytes={AT: remote},
        log_bytes=10 * MIB,
    )
    return replace(report(rows, dry_run=True), disk=disk)


def test_every_place_tells_bytes_in_remote_storage_apart(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    golden: Golden,
) -> None:
    """tests/golden/plan/remote.txt: a plan, known and not, a first look, an explanation, pages."""
    monkeypatch.setenv("COLUMNS", "120")
    known = remote_report()
    for each in (known, remote_report(None, None)):
        show(each, Output.TABLE, with_outcomes=False)
    show_first_look(FirstLook(known, 0), Output.TABLE)
    visitor = Visitor(tmp_path, known)
    first_page = visitor.see("/").text.partition("Status of retentiond ")[2]
    page = visitor.see("/topics/orders").main
    explained = on_disk(known.answers.partitions[1], None)
    golden("plan/remote.txt", "\n".join([capsys.readouterr().out, *explained, first_page, page]))
    assert "remote" not in visitor.see("/topics/clicks").text


def test_json_has_null_where_it_is_not_known_and_0_where_nothing_is_remote() -> None:
    shown = document(remote_report(None, None), with_outcomes=False)
    assert [each["remote_bytes"] for each in shown["topics"]] == [0, None]
    assert [each["remote_bytes"] for each in shown["partitions"]] == [0, None]
    shown = document(remote_report(), with_outcomes=False)
    assert [each["predicted_remote_bytes"] for each in shown["topics"]] == [0, 30 * MIB]
