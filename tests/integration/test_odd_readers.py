"""The command line on a real broker whose readers have odd names, keep their position elsewhere,
or can't be seen at all."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from tests.contract.real import RealDriver
from tests.support.brokers.command import Document, Done, configure, consumed
from tests.support.command_here import run_here
from tests.support.tiers import OwnKafka

pytestmark = pytest.mark.broker

TWO_DAYS_MS = 2 * 24 * 3_600_000

NEARLY_TEN_YEARS_MS = 3600 * 24 * 3_600_000

LONG = "long-" + "x" * 29_995

ODD = ("", LONG, "-rf", "\x1b[31mred", "\u202eright", "it's", "<b>bold</b>")

MIRRORS = "mm2-offset-syncs.west.internal"


@pytest.fixture(scope="module")
def driver(own_kafka: OwnKafka) -> Iterator[RealDriver]:
    """Each group has read all of ``orders``, and the one of the empty id the least of it."""
    with own_kafka() as kafka, closing(RealDriver(kafka)) as made:
        for topic in ("orders", MIRRORS):
            made.create_topic(topic, config={"retention.ms": str(NEARLY_TEN_YEARS_MS)})
        made.produce("orders", [made.now_ms - TWO_DAYS_MS] * 10)
        for number, group in enumerate(ODD):
            made.commit(group, {("orders", 0): 4 + (number > 0)})
        yield made


@pytest.fixture(scope="module")
def looked(driver: RealDriver, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    folder = tmp_path_factory.mktemp("look")
    servers = driver.broker.bootstrap_servers
    written = ("--topic", "orders", "--write-config", "retentiond.yaml")
    return folder, run_here("plan", "--bootstrap-server", servers, *written, cwd=folder)


def test_what_nobody_can_see_is_said_and_the_topic_is_written_as_disabled(
    looked: tuple[Path, Done],
) -> None:
    folder, done = looked
    assert done.code == 0
    assert "Readers that commit nothing to Kafka can't be seen" in done.out
    evidence = f"topic {MIRRORS} is MirrorMaker 2's, which reads topics without committing"
    assert f"There may be some: {evidence}.\n" in done.out
    text = (folder / "retentiond.yaml").read_text()
    assert f"  # Not enabled: somebody may read it unseen: {evidence}.\n  - name: orders\n" in text
    (entry,) = yaml.safe_load(text)["topics"]
    assert entry["retention.commitoffset.enable"] is False
    assert "# Not required, because they may not come back: " in text
    assert "groups" not in entry  # none of them has a member
    assert run_here("check", cwd=folder).code == 0


def enabled(driver: RealDriver, folder: Path, **rules: object) -> Path:
    return configure(folder, driver.broker.bootstrap_servers, consumed("orders", **rules))


def test_odd_names_are_short_and_safe_in_tables_and_whole_in_json(
    driver: RealDriver, tmp_path: Path
) -> None:
    config = enabled(driver, tmp_path)
    shown = run_here("explain", "orders", "-c", config, cwd=tmp_path).out
    for line in shown.splitlines():
        assert line.isprintable()
    assert len(shown) < 6_000
    assert len(shown.splitlines()) < 60
    assert "(30,000 characters)" in shown.replace("\n", "")
    assert 'group "" has consumed the least' in shown
    (why,) = (each for each in shown.splitlines() if each.startswith("0 "))
    assert why.endswith('""' + " " * (len(why) - len(why.rstrip())))
    told = run_here("explain", "orders:0", "-c", config, "--output", "json", cwd=tmp_path).plan
    assert {each["group"] for each in told["relevant_groups"]} == set(ODD)
    assert told["binding_group"] == ""


def test_the_doctor_reads_an_external_position_and_its_remedy_is_of_its_kind(
    driver: RealDriver, tmp_path: Path
) -> None:
    """The other reader's checkpoint is not there."""
    (tmp_path / "lake.json").write_text('{"orders": {"0": 3}}')
    readers = [
        {"name": "lake", "offsets": f"file:{tmp_path}/lake.json"},
        {"name": "etl", "spark_checkpoint": str(tmp_path / "checkpoint")},
    ]
    config = enabled(driver, tmp_path, groups={"external": readers, "exclude": ["(?s).*x.*"]})
    examined = run_here("doctor", "-c", config, "--output", "json", "--no-spark", cwd=tmp_path)
    found: dict[str, Document] = {
        each["subject"]: each for each in json.loads(examined.out)["findings"]
    }
    assert found["external reader lake"]["sentence"] == (
        "its position is read: 1 partition of 1 topic"
    )
    etl = found["external reader etl"]
    assert (examined.code, etl["level"]) == (1, "problem")
    assert etl["sentence"].startswith("can't be read, so orders is held: no batch is committed in")
    assert MIRRORS in found["readers that commit nothing"]["sentence"]

    held = run_here("explain", "orders:0", "-c", config, "--output", "json", cwd=tmp_path).plan
    assert (held["reason"], held["binding_group"]) == ("group_unreadable", "etl")
    assert held["why"].startswith("external reader etl could not be read (EXTERNAL_READER: no ba")
    for sentence in (etl["remedy"], held["remedy"]):
        assert "groups.external" in sentence
        assert "DESCRIBE" not in sentence
        assert "kafka-" not in sentence


def test_a_group_does_not_end_the_hold_of_an_external_reader_whose_name_it_takes(
    driver: RealDriver, tmp_path: Path
) -> None:
    """Only the command does that which the remedy offers."""
    driver.create_topic("moved", config={"retention.ms": "-1"})
    driver.produce("moved", [driver.now_ms - TWO_DAYS_MS] * 10)
    place = tmp_path / "at.json"
    place.write_text('{"moved": {"0": 2}}')
    reader = {"name": "lake", "offsets": str(place)}
    servers = driver.broker.bootstrap_servers
    config = configure(tmp_path, servers, consumed("moved", groups={"external": [reader]}))
    (row,) = run_here("run", "--once", "--output", "json", "-c", config, cwd=tmp_path).plan[
        "partitions"
    ]
    assert row["binding_group"] == "lake"

    configure(tmp_path, servers, "moved")
    driver.commit("lake", {("moved", 0): 10})
    for _ in range(2):
        (row,) = run_here("run", "--once", "--output", "json", "-c", config, cwd=tmp_path).plan[
            "partitions"
        ]
        assert (row["reason"], row["binding_group"]) == ("group_vanished", "lake (external)")
    explained = ("explain", "moved:0", "-c", config, "--output", "json")
    (forget,) = re.findall(
        r"`retentiond ([^`]+)`", run_here(*explained, cwd=tmp_path).plan["remedy"]
    )
    assert run_here("groups", "forget", "lake", "--yes", "-c", config, cwd=tmp_path).code == 2
    assert run_here(*shlex.split(forget), "--yes", "-c", config, cwd=tmp_path).code == 0
    freed = run_here(*explained, cwd=tmp_path).plan
    assert (freed["verdict"], freed["cutoff"], freed["binding_group"]) == ("delete", 10, "lake")
