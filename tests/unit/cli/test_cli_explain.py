"""``retentiond explain``: what it refuses, and how it looks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.cli.output.explain import show_partition, show_topic
from retentiond.cli.output.printing import printer
from retentiond.disks.broker_disks import NO_DISKS
from retentiond.disks.pressure import LogDirRelief, PressedLogDir
from retentiond.tell.explain.evidence import ExplainedPlan
from retentiond.tell.explain.explanation import explained, topic_document
from retentiond.tell.report import CycleReport
from tests.support.builders.explained_plans import alone, evidence, remember, with_bytes
from tests.support.builders.gather_worlds import HOUR_MS, ORDERS_1, config, entry, healthy
from tests.support.builders.reports import report
from tests.support.fakes import FakeCluster
from tests.unit.cli.conftest import Command


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def kafka() -> FakeCluster:
    kafka = healthy()
    kafka.commit("search", {ORDERS_1: 6})
    return kafka


# What it refuses, before it asks the cluster anything


@pytest.mark.parametrize("place", ["", ":3", "orders:", "orders:-1", "orders:x", "a:1:2"])
def test_a_place_that_is_none_ends_with_2_and_one_sentence(
    command: Command, config_file: Path, place: str
) -> None:
    done = command("explain", "--config", config_file, "--", place)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"retentiond: {place!a} is neither TOPIC nor TOPIC:PARTITION, as in orders or orders:3\n"
    )


def test_a_topic_that_is_not_enabled_ends_with_2_and_says_how_to_enable_it(
    command: Command, config_file: Path
) -> None:
    done = command("explain", "clicks", "--config", config_file)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"retentiond: {config_file} does not enable topic clicks, so nothing is deleted from it; "
        "give it an entry under topics with retention.commitoffset.enable: true\n"
    )


def test_a_topic_of_kafkas_own_can_not_be_looked_at(command: Command) -> None:
    done = command("explain", "__consumer_offsets", "--bootstrap-server", "localhost:1")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("retentiond: topic __consumer_offsets is Kafka's own, and never ")


@pytest.mark.parametrize("option", ["--consumed-retention", "--command-config"])
def test_options_of_a_first_look_go_with_a_server(
    command: Command, config_file: Path, option: str
) -> None:
    done = command("explain", "orders", "--config", config_file, option, "1d")
    assert (done.code, done.out) == (2, "")
    assert f"{option} goes with --bootstrap-server" in done.err


# How it looks


def planned(kafka: FakeCluster) -> CycleReport:
    return report(planned_at_ms=kafka.now_ms)


def partition(
    capsys: pytest.CaptureFixture[str], kafka: FakeCluster, found: ExplainedPlan, number: int = 0
) -> str:
    show_partition(printer(), planned(kafka), alone(found, "orders", number))
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def words(text: str, first: str) -> str:
    """Those of the line that begins with this."""
    (line,) = (line for line in text.splitlines() if line.strip().startswith(first))
    return " ".join(line.split())


def test_a_partition_shows_the_rule_with_its_figures(
    capsys: pytest.CaptureFixture[str], kafka: FakeCluster, tmp_path: Path
) -> None:
    text = partition(capsys, kafka, evidence(kafka, tmp_path))
    assert text.startswith("orders:0  delete: consumed, 3 records to delete\n\n")
    assert words(text, "log start offset") == "log start offset 0 the first record there is"
    assert words(text, "min committed") == "min committed offset 3 billing"
    assert words(text, "retention offset") == (
        "retention offset 4 the first record younger than 1 hour, else the end"
    )
    assert words(text, "end ") == "end 6 of what is decided; high watermark 6"
    assert words(text, "cutoff") == "cutoff 3 min(3, 4, 6)"


def test_a_partition_shows_its_groups_and_for_how_long_they_stand(
    capsys: pytest.CaptureFixture[str], kafka: FakeCluster, tmp_path: Path
) -> None:
    remember(kafka, tmp_path)
    kafka.advance(3 * HOUR_MS)
    kafka.commit("search", {("orders", 0): 6})
    text = partition(capsys, kafka, evidence(kafka, tmp_path))
    assert words(text, "GROUP") == "GROUP KIND STATE COMMITTED LAG STANDS FOR"
    assert words(text, "billing") == "billing classic Empty 3 3 3 hours binds"
    assert words(text, "search") == "search consumer Stable 6 0 moves"


def test_a_group_says_what_is_wrong_with_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kafka = healthy()
    remember(kafka, tmp_path)
    del kafka.groups["billing"]
    remember(kafka, tmp_path)
    kafka.advance(HOUR_MS)
    text = partition(capsys, kafka, evidence(kafka, tmp_path), 1)
    assert words(text, "billing") == (
        "billing classic Vanished - - 1 hour binds; committed 4, gone for 1 hour"
    )
    assert words(text, "search") == "search consumer Stable - - ? no commit on this partition"


def test_a_partition_says_why_what_to_do_what_stays_and_what_it_frees(
    capsys: pytest.CaptureFixture[str], kafka: FakeCluster, tmp_path: Path
) -> None:
    text = partition(capsys, kafka, with_bytes(evidence(kafka, tmp_path), 1_024, 4_096))
    assert words(text, "Why: ") == "Why: consumed"  # the oracle gives no detail
    assert words(text, "Remedy: ").startswith("Remedy: Nothing to do: the next cycle")
    assert words(text, "What stays: ") == (
        "What stays: 2 records (about 1.3 KiB), too young; "
        "1 record (about 682 B), billing has yet to read them"
    )
    assert words(text, "On disk: ").startswith(
        "On disk: It takes 4.0 KiB on the disks of all replicas. Deleting up to the cutoff frees "
        "about 1.0 KiB: "
    )


def test_a_topic_shows_its_partitions_by_reason_and_its_groups(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kafka = healthy()
    found = with_bytes(evidence(kafka, tmp_path), 1_024, 4_096)
    show_topic(printer(), planned(kafka), explained(found, "orders"))
    text = capsys.readouterr().out
    assert text.startswith("orders, 2 partitions:\n\n")
    assert words(text, "0 ") == "0 delete: consumed 3 billing"
    assert words(text, "1 ") == "1 hold: group_without_commit - search"
    assert words(text, "billing") == "billing classic Empty 5 ? 682 B 0"
    assert words(text, "search") == "search consumer Stable - ? 2.7 KiB 1; no commit on 1"
    assert "\nhold: group_without_commit, 1\n  partition 1: search has not committed\n" in text
    assert "--topic orders:1 --to-earliest" in text
    assert (
        "On disk: all replicas take 8.0 KiB, of which deletion would free about 1.0 KiB now.\n"
        in (text)
    )
    assert text.endswith("More about one partition: retentiond explain orders:0\n")


def under_pressure(kafka: FakeCluster, folder: Path, *, sooner: bool) -> ExplainedPlan:
    """Both partitions of ``orders`` lie in two directories that run full."""
    policy = config(entry("orders", **{"retention.commitoffset.pressure.minutes": 10}))
    rows = evidence(kafka, folder, policy).report.plan.rows
    if sooner:
        rows = tuple(replace(row, consumed_retention_ms=600_000) for row in rows)
    sizes = {row.topic_partition: 4_096 for row in rows}
    relief = tuple(
        LogDirRelief(PressedLogDir(broker, "/data", 10_240, 1_024, 2_560), 1_024, 512, {}, sizes)
        for broker in (1, 2)
    )
    disk = replace(NO_DISKS, relief=relief)
    return evidence(kafka, folder, policy, rows=rows, disk=disk)


@pytest.mark.parametrize(
    ("sooner", "said"),
    [
        (True, "records of partitions 0-1 may go after 10 minutes instead of after 1 hour"),
        (False, "no record of the topic goes sooner"),
    ],
)
def test_a_topic_on_disks_that_run_full_says_so_once_for_each(
    capsys: pytest.CaptureFixture[str],
    kafka: FakeCluster,
    tmp_path: Path,
    sooner: bool,
    said: str,
) -> None:
    found = under_pressure(kafka, tmp_path, sooner=sooner)
    show_topic(printer(), planned(kafka), explained(found, "orders"))
    text = capsys.readouterr().out
    lines = [line for line in text.splitlines() if line.startswith("Disk pressure: ")]
    assert lines == [
        f"Disk pressure: /data of broker {broker} has 10% left (1.0 KiB), and 1.5 KiB more must go "
        "until the pressure ends; the plan frees 1.0 KiB there; 512 B of that may not go; "
        f"{said}."
        for broker in (1, 2)
    ]


def test_a_partition_says_once_why_its_records_go_sooner(
    capsys: pytest.CaptureFixture[str], kafka: FakeCluster, tmp_path: Path
) -> None:
    found = under_pressure(kafka, tmp_path, sooner=True)
    text = partition(capsys, kafka, found)
    assert text.count("may go after 10 minutes instead of after 1 hour") == 2
    plan = found.report.plan
    rows = tuple(replace(row, detail="/data of broker 1 has 10% left: so") for row in plan.rows)
    told = replace(found, report=replace(found.report, plan=replace(plan, rows=rows)))
    text = partition(capsys, kafka, told)
    assert text.count("/data of broker 1 has 10% left") == 1
    assert text.count("/data of broker 2 has 10% left") == 1


def test_excluded_groups_are_named_and_nobody_is_said_to_be_nobody(
    capsys: pytest.CaptureFixture[str], kafka: FakeCluster, tmp_path: Path
) -> None:
    policy = config(entry("orders", groups={"exclude": [".*"]}))
    text = partition(capsys, kafka, evidence(kafka, tmp_path, policy))
    assert "\nNo group counts for the topic.\nExcluded by the policy: billing, search.\n" in text


def test_where_not_every_group_counts_it_says_so(
    capsys: pytest.CaptureFixture[str], kafka: FakeCluster, tmp_path: Path
) -> None:
    policy = config(entry("orders", groups={"only": ["bill.*"]}))
    text = partition(capsys, kafka, evidence(kafka, tmp_path, policy))
    assert (
        "\nOn orders only groups that match bill.* count (groups.only): what any other group has "
        "not read may be deleted.\nExcluded by the policy: search.\n"
    ) in text


def test_the_topics_owner_is_named_where_there_is_one(
    capsys: pytest.CaptureFixture[str], kafka: FakeCluster, tmp_path: Path
) -> None:
    found = alone(evidence(kafka, tmp_path), "orders", 0)
    show_partition(printer(), planned(kafka), found)
    assert "Owner" not in capsys.readouterr().out
    (answer,) = found.answer.partitions
    owned = replace(answer, row=replace(answer.row, owner="payments"))
    found = replace(found, answer=replace(found.answer, partitions=(owned,)))
    show_partition(printer(), planned(kafka), found)
    assert "\nOwner: payments, who is asked about the topic.\n" in capsys.readouterr().out
    assert topic_document(found)["owner"] == "payments"


@pytest.mark.parametrize("whole_topic", [True, False])
def test_the_tables_fit_80_columns_and_no_group_is_cut(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    whole_topic: bool,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    kafka = healthy()
    long = "a-group-whose-name-goes-on-and-on-and-on-and-on-and-does-not-end.v2"
    kafka.commit(long, {("orders", 0): 1})
    found = evidence(kafka, tmp_path)
    if whole_topic:
        show_topic(printer(), planned(kafka), explained(found, "orders"))
    else:
        show_partition(printer(), planned(kafka), alone(found, "orders", 1))
    text = capsys.readouterr().out
    (table,) = (part for part in text.split("\n\n") if part.startswith("GROUP "))
    assert max(map(len, table.splitlines())) <= 80
    assert "…" not in table
    assert long in "".join(line.split(" ")[0] for line in table.splitlines())
    assert "\x1b" not in text


def test_a_groups_name_cannot_steer_the_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kafka = healthy()
    kafka.commit("a\x1b[2Jb\nc", {("orders", 0): 0})
    found = evidence(kafka, tmp_path)
    show_partition(printer(), planned(kafka), alone(found, "orders"))
    show_topic(printer(), planned(kafka), explained(found, "orders"))
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "a\ufffd[2Jb\ufffdc" in text
