"""External readers among the groups: each bears on exactly the topics that name it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from retentiond.config import ExternalReader
from retentiond.config.no_policy import UnreadableFile
from retentiond.errors import ConfigError
from retentiond.gather import external_reads
from retentiond.gather.external_positions import Position, read_external
from retentiond.memory.changes import changes
from retentiond.memory.remembered import NOTHING, Remembered
from retentiond.model import GroupKind, TopicPartition
from retentiond.snapshot import Snapshot
from tests.support.builders.gather_worlds import (
    CLICKS_0,
    ORDERS_0,
    ORDERS_1,
    commits,
    config,
    entry,
    groups,
    healthy,
    readers,
    second_snapshot,
    snapshot,
)
from tests.support.fakes import FakeCluster


@pytest.fixture
def kafka() -> FakeCluster:
    return healthy()


def position(tmp_path: Path, kafka: FakeCluster, at: object, name: str = "at.json") -> Path:
    """Written at the clock of the cluster."""
    path = tmp_path / name
    path.write_text(at if isinstance(at, str) else json.dumps(at))
    os.utime(path, (kafka.now_ms / 1000, kafka.now_ms / 1000))
    return path


def reads(*places: Path, name: str = "lake") -> dict[str, Any]:
    """A topic's rules with external readers: the first called ``name``, then lake-1, ..."""
    return {
        "groups": {
            "external": [
                {"name": f"{name}-{number}" if number else name, "offsets": str(place)}
                for number, place in enumerate(places)
            ]
        }
    }


def of(taken: Snapshot, group: str) -> dict[TopicPartition, int | None]:
    return {at: offset for (name, at), offset in commits(taken).items() if name == group}


AT = {"orders": {"0": 2, "1": 3}}
ALL = {**AT, "clicks": {"0": 1}}
ON_ORDERS = {ORDERS_0: 2, ORDERS_1: 3}
UNKNOWN = {ORDERS_0: None, ORDERS_1: None}
NOWHERE = "nowhere"


@pytest.mark.parametrize(
    ("of_orders", "of_clicks", "found", "read"),
    [
        (AT, None, ON_ORDERS, {"orders"}),
        (ALL, ALL, {**ON_ORDERS, CLICKS_0: 1}, {"orders", "clicks"}),  # one place, one group
        (ALL, NOWHERE, {**ON_ORDERS, CLICKS_0: None}, {"orders", "clicks"}),  # two places
        # a position without the topic's partitions leaves a reader without a commit
        ({}, None, {}, {"orders"}),
        ({"orders": {"7": 1}}, None, {}, {"orders"}),
        # one that is unusable is a null commit, on exactly the topics that name the reader
        *(
            (unusable, None, UNKNOWN, {"orders"})
            for unusable in (NOWHERE, "{", '{"orders": {"0": null}}', "[" * 100_000)
        ),
    ],
)
def test_a_reader_counts_as_a_group_on_the_topics_that_name_it(
    kafka: FakeCluster,
    tmp_path: Path,
    *,
    of_orders: object,
    of_clicks: object,
    found: dict[TopicPartition, int | None],
    read: set[str],
) -> None:
    def rules(at: object) -> dict[str, Any]:
        if at is None:
            return {}
        return reads(tmp_path / NOWHERE if at == NOWHERE else position(tmp_path, kafka, at))

    policy = config(entry("orders", **rules(of_orders)), entry("clicks", **rules(of_clicks)))
    taken = snapshot(kafka, policy)

    lake = groups(taken)["lake"]
    assert (lake.kind, lake.failure) == (GroupKind.EXTERNAL, None)
    assert (lake.problem is not None) is (None in found.values())
    assert of(taken, "lake") == found
    assert {topic for name, topic in readers(taken) if name == "lake"} == read
    assert taken.complete


def test_a_stale_position_is_a_null_commit(kafka: FakeCluster, tmp_path: Path) -> None:
    place = position(tmp_path, kafka, {"orders": {"0": 2, "1": 3}})
    kafka.advance(24 * 3_600_000 + 1_000)
    taken = snapshot(kafka, config(entry("orders", **reads(place))))

    assert "older than max_age (1d)" in str(groups(taken)["lake"].problem)
    assert of(taken, "lake") == {ORDERS_0: None, ORDERS_1: None}


def test_one_failing_reader_does_not_touch_the_other(kafka: FakeCluster, tmp_path: Path) -> None:
    place = position(tmp_path, kafka, {"orders": {"0": 2, "1": 3}})
    policy = config(entry("orders", **reads(place, tmp_path / "nowhere")))
    taken = snapshot(kafka, policy)

    assert of(taken, "lake") == {ORDERS_0: 2, ORDERS_1: 3}
    assert of(taken, "lake-1") == {ORDERS_0: None, ORDERS_1: None}


def test_a_reader_with_the_name_of_a_group_is_another_reader_whose_position_is_unclear(
    kafka: FakeCluster, tmp_path: Path
) -> None:
    place = position(tmp_path, kafka, {"orders": {"0": 5, "1": 5}})
    rules = reads(place, name="search")
    rules["groups"]["required"] = ["search (external)"]  # whoever that is
    taken = snapshot(kafka, config(entry("orders", **rules), entry("clicks")))

    assert groups(taken)["search"].kind is GroupKind.CONSUMER
    assert groups(taken)["search"].problem is None
    assert of(taken, "search") == {ORDERS_0: 5, CLICKS_0: 1}
    namesake = groups(taken)["search (external)*"]
    assert (namesake.name, namesake.kind) == ("search", GroupKind.EXTERNAL)
    assert "a group of the cluster has the same name" in str(namesake.problem)
    assert of(taken, "search (external)*") == {ORDERS_0: None, ORDERS_1: None}
    assert ("search (external)*", "orders") in readers(taken)


def checkpoint(folder: Path, kafka: FakeCluster, **topics: dict[str, int]) -> Path:
    """Of a Spark query of one Kafka source."""
    for name, text in (
        ("offsets", f"v1\n{{}}\n{json.dumps(topics)}\n"),
        ("commits", 'v1\n{"nextBatchWatermarkMs":0}\n'),
    ):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "0").write_text(text)
        os.utime(folder / name / "0", (kafka.now_ms / 1000, kafka.now_ms / 1000))
    return folder


def query(place: Path, name: str = "lake") -> dict[str, Any]:
    return {"groups": {"external": [{"name": name, "spark_checkpoint": str(place)}]}}


def test_a_spark_query_counts_on_every_topic_that_its_checkpoint_names(
    kafka: FakeCluster, tmp_path: Path
) -> None:
    """Also by the guard's reading, which is about some topics only; and it is told."""
    place = checkpoint(tmp_path / "at", kafka, orders={"0": 2, "1": 3}, clicks={"0": 1})
    policy = config(entry("orders", **query(place)), entry("clicks"))
    first = snapshot(kafka, policy)
    assert of(first, "lake") == {ORDERS_0: 2, ORDERS_1: 3, CLICKS_0: 1}
    assert ("lake", "clicks") in readers(first)
    assert first.unnamed_readers == (
        "the position of external reader lake names topic clicks, whose groups.external does not "
        "name the reader: it counts there all the same",
    )
    second = second_snapshot(kafka, first, [CLICKS_0], policy)
    assert of(second, "lake") == {CLICKS_0: 1}
    named = config(entry("orders", **query(place)), entry("clicks", **query(place)))
    assert snapshot(kafka, named).unnamed_readers == ()


@pytest.mark.parametrize(
    "damage",
    [
        lambda place, kafka: kafka.advance(24 * 3_600_000 + 1_000),
        lambda place, kafka: (place / "commits" / "0").unlink(),
        lambda place, kafka: (place / "commits" / "0").write_text("v9"),
        lambda place, kafka: (place / "offsets" / "0").write_text('v2\n{}\n{"clicks":{"0":'),
        lambda place, kafka: (place / "offsets" / "1").write_bytes(b"\xff"),
        lambda place, kafka: (place / "offsets").rename(place / "away"),
    ],
    ids=["old", "no_commit", "other_commit", "other_version", "half_of_the_next", "only_sources"],
)
def test_a_query_that_cant_be_read_holds_every_topic_that_its_checkpoint_names(
    kafka: FakeCluster, tmp_path: Path, damage: Callable[[Path, FakeCluster], object]
) -> None:
    """Also where no cycle has seen it before, and the topic's own policy does not name it."""
    place = checkpoint(tmp_path / "at", kafka, orders={"0": 2, "1": 3}, clicks={"0": 1})
    (place / "sources" / "0").mkdir(parents=True)
    (place / "sources" / "0" / "0").write_text('\0v1\n{"orders":{"0":0},"clicks":{"0":0}}')
    damage(place, kafka)
    if (place / "offsets" / "1").exists():
        (place / "commits" / "0").rename(place / "commits" / "1")
    first = snapshot(kafka, config(entry("orders", **query(place)), entry("clicks")))
    assert groups(first)["lake"].problem is not None
    assert of(first, "lake") == {ORDERS_0: None, ORDERS_1: None, CLICKS_0: None}
    assert ("lake", "clicks") in readers(first)
    assert "names topic clicks" in str(first.unnamed_readers)


def test_a_document_that_names_a_further_topic_does_not_bear_on_it_and_is_told(
    kafka: FakeCluster, tmp_path: Path
) -> None:
    place = position(tmp_path, kafka, {"orders": {"0": 2, "1": 3}, "clicks": {"0": 1}})
    taken = snapshot(kafka, config(entry("orders", **reads(place)), entry("clicks")))
    assert of(taken, "lake") == {ORDERS_0: 2, ORDERS_1: 3}
    assert {at for at in readers(taken) if at[0] == "lake"} == {("lake", "orders")}
    (sentence,) = taken.unnamed_readers
    assert "names topic clicks" in sentence
    assert sentence.endswith("what it has not read there can be deleted")


def test_a_query_that_cant_be_read_is_not_absent_although_its_own_topic_is_not_there(
    kafka: FakeCluster, tmp_path: Path
) -> None:
    """Who has read another topic by its checkpoint still has to, for all that is known."""
    place = checkpoint(tmp_path / "at", kafka, orders={"0": 2, "1": 3}, clicks={"0": 1})
    policy = config(entry("not.there", **query(place)), entry("clicks"))
    first = snapshot(kafka, policy)
    assert of(first, "lake") == {CLICKS_0: 1}
    seen = changes(first, NOTHING, 1)
    known = Remembered(readers=seen.applied(NOTHING.readers), cluster_id=first.cluster_id)
    (place / "commits" / "0").unlink()
    again = snapshot(kafka, policy, remembered=known)
    assert groups(again)["lake"].problem is not None
    assert not len(changes(again, known, 1).absent)


def test_a_reading_says_whether_every_policy_file_could_be_read(kafka: FakeCluster) -> None:
    policy = config(entry("clicks"))
    assert snapshot(kafka, policy).knows_external
    error = ConfigError("no such file", file="teams.yaml")
    held = policy.holding([UnreadableFile.because_of(error, "teams.yaml", "")])
    assert not snapshot(kafka, held).knows_external


@pytest.mark.parametrize(
    ("of_bad_file", "found"),
    [
        ({"clicks": {"0": 1}}, {ORDERS_0: 2, ORDERS_1: 3, CLICKS_0: 1}),
        # neither reader is known to have read what only the other one has a position on
        ({"orders": {"0": 5}, "clicks": {"0": 1}}, {ORDERS_0: 2, ORDERS_1: None, CLICKS_0: 1}),
        ({"orders": {"0": 1, "1": 4}}, {ORDERS_0: 1, ORDERS_1: 3, CLICKS_0: 3}),
        # a topic that names its reader goes on, and one that nobody names does not
        (None, {**ON_ORDERS, CLICKS_0: None}),
    ],
    ids=["behind", "with_less", "on_a_named_topic", "not_there"],
)
def test_of_two_readers_of_one_name_neither_takes_the_other_s_place(
    kafka: FakeCluster,
    tmp_path: Path,
    of_bad_file: dict[str, dict[str, int]] | None,
    found: dict[TopicPartition, int | None],
) -> None:
    """A file that can't be used names one of them, and another file the other one."""
    place = tmp_path / "bad"
    if of_bad_file is not None:
        checkpoint(place, kafka, **of_bad_file)
    other = checkpoint(tmp_path / "at", kafka, orders={"0": 2, "1": 3}, clicks={"0": 3})
    lake = ExternalReader.model_validate({"name": "lake", "spark_checkpoint": str(place)})
    bad = UnreadableFile.because_of(ConfigError("bad"), "teams.yaml", "", [lake])
    policy = config(entry("orders", **query(other)), entry("clicks")).holding([bad])
    first = snapshot(kafka, policy)
    assert of(first, "lake") == found
    second = second_snapshot(kafka, first, [CLICKS_0], policy)
    assert of(second, "lake") == {CLICKS_0: found[CLICKS_0]}


def test_a_query_that_only_a_bad_file_names_counts_on_the_topics_of_others(
    kafka: FakeCluster, tmp_path: Path
) -> None:
    place = checkpoint(tmp_path / "at", kafka, clicks={"0": 1})
    lake = ExternalReader.model_validate({"name": "lake", "spark_checkpoint": str(place)})
    bad = UnreadableFile.because_of(ConfigError("bad"), "teams.yaml", "", [lake])
    taken = snapshot(kafka, config(entry("clicks")).holding([bad]))
    assert of(taken, "lake") == {CLICKS_0: 1}
    assert ("lake", "clicks") in readers(taken)


@pytest.mark.parametrize(
    ("cluster_behind_ms", "minutes", "is_known"), [(20, 0, True), (0, 8, True), (0, 12, False)]
)
def test_both_readings_judge_a_position_by_the_host_s_clock_of_their_time(
    kafka: FakeCluster, tmp_path: Path, cluster_behind_ms: int, minutes: int, is_known: bool
) -> None:
    now_ms = kafka.now_ms
    place = position(tmp_path, kafka, AT)
    kafka.now_ms -= cluster_behind_ms * 60_000
    rules = reads(place)
    rules["groups"]["external"][0]["max_age"] = "10m"
    policy = config(entry("orders", **rules))
    first = snapshot(kafka, policy, now_ms=now_ms)
    assert of(first, "lake") == ON_ORDERS
    later_ms = now_ms + minutes * 60_000
    second = second_snapshot(kafka, first, [ORDERS_0, ORDERS_1], policy, now_ms=later_ms)
    assert of(second, "lake") == (ON_ORDERS if is_known else UNKNOWN)


def test_positions_are_read_before_the_ends(
    kafka: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that moves all the time would lie beyond the end in each reading."""
    order: list[str] = []
    are_asked = threading.Event()

    def late(*arguments: Any) -> Position:
        are_asked.wait(0.2)
        order.append("position")
        return read_external(*arguments)

    def ask() -> None:
        order.append("ends")
        are_asked.set()

    monkeypatch.setattr(external_reads, "read_external", late)
    policy = config(entry("orders", **reads(position(tmp_path, kafka, AT))))
    kafka.script.before("offsets", ask)
    first = snapshot(kafka, policy)
    are_asked.clear()
    kafka.script.before("offsets", ask)
    second_snapshot(kafka, first, [ORDERS_0, ORDERS_1], policy)
    assert order == ["position", "ends"] * 2
