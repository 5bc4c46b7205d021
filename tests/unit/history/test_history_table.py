"""The table itself: what is visible when, in a folder and in an object store."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from retentiond.errors import HistoryUnavailable
from retentiond.history import upkeep
from retentiond.history.place import AS_NAMED, location
from retentiond.history.schema import SCHEMA
from retentiond.history.table import HistoryTable
from retentiond.spark.session import SparkSessions
from retentiond.spark.tuning import show_pandas
from tests.support.builders.histories import (
    CLUSTER,
    DAY_MS,
    Cycles,
    World,
    dataset_in,
    entries_in,
    rows_in,
)
from tests.support.object_store import SECRET, object_store

ROOT = Path(__file__).parents[3]

PYTHON_CODE = r"```python\n(.*?)```"


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    with object_store("history") as url:
        yield url


@pytest.fixture(params=["folder", "store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return str(tmp_path / "history")
    return f"{request.getfixturevalue('store')}/{tmp_path.name}"


@pytest.mark.long
def test_entries_are_the_same_in_a_folder_and_in_an_object_store(place: str) -> None:
    cycles, world = Cycles(place), World()
    for offset in (1, 2, 2):
        world.commits = {("billing", "orders", 0): offset}
        cycles.one(world)
    assert cycles.told == []
    assert [each.commits[("billing", "orders", 0)] for each in entries_in(place)] == [1, 2, 2]
    moved = [row["entry"] for row in rows_in(place) if row["kind"] == "commit"]
    assert moved == [1, 2]  # the third entry has nothing new
    (partition,) = next(entries_in(place)).partitions.values()
    assert (partition["high_watermark"], partition["size_bytes"]) == (100, 1000)
    assert partition["forced_retention_ms"] == 10_000
    assert next(entries_in(place)).log_dirs[0]["usable_bytes"] == 400


@pytest.mark.long
def test_a_day_that_is_over_becomes_one_file(place: str) -> None:
    cycles, world = Cycles(place), World(partitions={("b", 0): 1, ("a", 1): 1, ("a", 0): 1})
    for offset in (1, 2, 3):
        world.commits = {("billing", *at): offset for at in world.partitions}
        cycles.one(world)
    table = HistoryTable.open(place)
    before = dataset_in(place)
    cycles.one(world, ahead_ms=DAY_MS)
    assert cycles.told == []
    table.refresh()
    merged, today = table.files(CLUSTER)
    assert (merged.first_entry, merged.last_entry, today.first_entry) == (1, 3, 4)
    of_day = dataset_in(place).to_table(filter=pc.field("day") == merged.day)
    assert before.to_table().num_rows == of_day.num_rows  # who began to read before reads on


@pytest.mark.long
def test_two_clusters_live_side_by_side(place: str) -> None:
    ours, theirs = Cycles(place, keep="2d"), Cycles(place)
    world, other = World(), World(cluster_id="cluster-b")
    for each in range(3):
        ours.one(world, ahead_ms=each * DAY_MS)
        theirs.one(other, ahead_ms=each * DAY_MS)
    ours.elapsed_ms += DAY_MS
    ours.one(world, ahead_ms=9 * DAY_MS)  # days of ours that are too old go
    assert ours.told == theirs.told == []
    assert len(list(entries_in(place))) == 1
    assert [each.cycle["entry"] for each in entries_in(place, "cluster-b")] == [1, 2, 3]
    assert HistoryTable.open(place).clusters() == {CLUSTER, "cluster-b"}


def test_what_duckdb_and_pandas_read(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Word for word as docs/history.md says it. A Spark session of this process hides pandas."""
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    show_pandas()
    cycles = Cycles(str(tmp_path))
    world = World()
    world.commits = {("billing", "orders", 0): 7}
    cycles.one(world)
    text = (ROOT / "docs" / "history.md").read_text()
    with_duckdb, with_pandas, _ = re.findall(PYTHON_CODE, text, re.DOTALL)
    said: dict[str, Any] = {}

    exec(at_place(with_duckdb, tmp_path), said)
    assert re.findall(r"orders .* 1000 ", capfd.readouterr().out.replace("│", " "))

    exec(at_place(with_pandas, tmp_path), said)
    assert said["frame"]["committed_offset"].tolist() == [7]


def test_what_spark_reads_once_days_are_put_together(
    tmp_path: Path, spark: SparkSessions, capfd: pytest.CaptureFixture[str]
) -> None:
    """Word for word as docs/history.md says it. Files that are replaced are still there."""
    cycles, world = Cycles(str(tmp_path), merge=upkeep.merge), World()
    for offset in (1, 2, 3):
        world.commits = {("billing", "orders", 0): offset}
        cycles.one(world)
    cycles.one(world, ahead_ms=DAY_MS)
    assert cycles.told == []
    assert len([*tmp_path.rglob("*.parquet")]) > len(dataset_in(str(tmp_path)).files)
    *_, with_spark = re.findall(PYTHON_CODE, (ROOT / "docs" / "history.md").read_text(), re.DOTALL)
    with spark.use() as session:
        exec(at_place(with_spark, tmp_path), {"DeltaTable": DeltaTable, "spark": session})
    (count,) = re.findall(r"billing\|\s*(\d+)\|", capfd.readouterr().out)
    assert int(count) == sum(row["kind"] == "commit" for row in rows_in(str(tmp_path)))


@pytest.mark.parametrize("name", ["{y}", "a,b c {d,e}#f?g*h'i\"j:k~&;+"])
def test_a_name_that_means_something_to_urls_and_globs(
    tmp_path: Path, spark: SparkSessions, name: str
) -> None:
    """Spark reads what `Cycles` has written there, on a Hadoop host too, and nothing beside it."""
    place = tmp_path / name / "history"
    cycles, beside = Cycles(str(place)), Cycles(str(tmp_path / "y" / "history"))
    for each in (cycles, beside):
        each.one(World())
    assert cycles.told == []
    table = HistoryTable.open(place)
    with spark.use() as session:
        reader = session.read.options(**AS_NAMED | {"fs.defaultFS": "hdfs://namenode.invalid:9000"})
        read = reader.parquet(*table.uris(table.files()))
        assert read.count() == len(rows_in(place))


def at_place(code: str, place: Path) -> str:
    return code.replace("/var/lib/retentiond/history", str(place)).replace(
        "2026-11-01", "2000-01-01"
    )


@pytest.mark.long
def test_others_run_while_an_object_store_takes_its_time(store: str, tmp_path: Path) -> None:
    """The store is a thread of this process: a call that held Python's lock would never end."""
    beats = 0
    over = threading.Event()

    def beat() -> None:
        nonlocal beats
        while not over.wait(0.001):
            beats += 1

    heart = threading.Thread(target=beat)
    heart.start()
    cycles = Cycles(f"{store}/{tmp_path.name}")
    for day in range(2):
        for _ in range(2):
            cycles.one(World(), ahead_ms=day * DAY_MS)
    over.set()
    heart.join()
    assert cycles.told == []
    assert beats > 10


@pytest.mark.parametrize("bucket", ["s3a://no-such-bucket/x", "s3://no-such-bucket/x"])
def test_a_missing_bucket_is_told_without_a_secret(store: str, bucket: str) -> None:
    cycles = Cycles(bucket)
    cycles.one(World())
    (told,) = cycles.told
    assert told is not None
    assert told.kind == "missing"
    assert SECRET not in str(told)
    assert "make the bucket" in str(told)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("s3a://bucket/x", "s3://bucket/x"),
        ("s3://bucket/x", "s3://bucket/x"),
        ("gs://bucket", "gs://bucket"),
        ("/var/lib/x", "/var/lib/x"),
    ],
)
def test_where_it_is(written: str, read: str) -> None:
    assert location(written) == read


@pytest.mark.long
def test_files_of_somebody_else_are_left_alone(tmp_path: Path) -> None:
    cycles = Cycles(str(tmp_path), merge=upkeep.merge)
    cycles.one(World())
    day = next(tmp_path.glob("day=*"))
    foreign = [tmp_path / "notes.txt", day / "part-0-torn.parquet", day / "table.csv"]
    for file in foreign:
        file.write_text("PAR1 and no more")
    cycles.one(World())
    cycles.one(World(), ahead_ms=DAY_MS)
    assert cycles.told == []
    assert all(file.exists() for file in foreign)
    assert len(list(entries_in(tmp_path))) == 3


def test_a_damaged_table_is_told_with_what_to_do(tmp_path: Path) -> None:
    place = tmp_path / "history"
    cycles = Cycles(str(place))
    cycles.one(World())
    (place / "_delta_log" / f"{0:020}.json").unlink()
    (place / "_delta_log" / f"{1:020}.json").rename(place / "_delta_log" / f"{7:020}.json")
    for _ in range(3):
        cycles.one(World())
    (told,) = cycles.told  # once, not for each cycle
    assert told is not None
    assert "move" in str(told)
    assert cycles.keeper.status.failures == 3
    place.rename(tmp_path / "aside")
    cycles.one(World())
    assert cycles.told == [told, None]
    assert next(entries_in(place)).cycle["is_whole"]


def test_there_is_no_history_yet(tmp_path: Path) -> None:
    with pytest.raises(HistoryUnavailable, match="no history") as caught:
        HistoryTable.open(tmp_path / "none")
    assert caught.value.kind == "missing"


def of_columns(place: Path, names: Sequence[str]) -> DeltaTable:
    """A table that another version of retentiond has begun."""
    known = {each.name: each for each in SCHEMA}
    schema = pa.schema([known.get(name, pa.field(name, pa.string())) for name in names])
    return DeltaTable.create(str(place), schema, partition_by="day")


ALL_BUT_CLUSTER = [name for name in SCHEMA.names if name != "cluster_id"]


@pytest.mark.parametrize("columns", [ALL_BUT_CLUSTER, [*SCHEMA.names, "of_tomorrow"]])
def test_a_history_of_another_schema_is_refused_in_one_sentence(
    tmp_path: Path, columns: list[str]
) -> None:
    """Without a column that every row fills, and with one that this version doesn't know."""
    of_columns(tmp_path, columns)
    for opened in (HistoryTable.open, HistoryTable.open_or_create):
        with pytest.raises(HistoryUnavailable, match="was begun by a version of retentiond"):
            opened(tmp_path)


BEFORE = [name for name in SCHEMA.names if name != "retention_offset"]


@pytest.mark.long
def test_a_history_of_the_version_before_is_read_and_continued(tmp_path: Path) -> None:
    """One of its files has rows without the column for good, the others get it."""
    cycles, world = Cycles(str(tmp_path / "now"), merge=upkeep.merge), World()
    cycles.one(world)
    begun = of_columns(tmp_path / "before", BEFORE)
    of_then = HistoryTable.open(tmp_path / "now").query("SELECT * FROM history").select(BEFORE)
    write_deltalake(
        begun,
        of_then,
        commit_properties=CommitProperties(app_transactions=[Transaction(CLUSTER, 1)]),
        mode="append",
    )

    sql = "SELECT entry, retention_offset FROM history WHERE kind = 'partition' ORDER BY entry"
    read = HistoryTable.open(tmp_path / "before")
    assert read.query(sql).to_pylist() == [{"entry": 1, "retention_offset": None}]

    cycles = Cycles(str(tmp_path / "before"), merge=upkeep.merge)
    cycles.one(world)
    both = [{"entry": 1, "retention_offset": None}, {"entry": 2, "retention_offset": 7}]
    for opened in (read, HistoryTable.open(tmp_path / "before")):
        opened.refresh()
        assert opened.query(sql).to_pylist() == both

    cycles.one(world, ahead_ms=DAY_MS)  # puts the day's files together
    assert cycles.told == []
    table = HistoryTable.open(tmp_path / "before")
    assert [file.rows for file in table.files()][:1] == [2 * of_then.num_rows]
    assert table.query(sql).to_pylist() == [*both, {"entry": 3, "retention_offset": 7}]


def test_two_daemons_that_continue_it_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one of them can add the column."""
    of_columns(tmp_path, BEFORE)
    opened = HistoryTable.__init__

    def beside_another(self: HistoryTable, table: DeltaTable, place: str) -> None:
        opened(self, table, place)
        monkeypatch.undo()
        HistoryTable.open_or_create(tmp_path)

    monkeypatch.setattr(HistoryTable, "__init__", beside_another)
    HistoryTable.open_or_create(tmp_path)
    names = [field.name for field in DeltaTable(str(tmp_path)).schema().fields]
    assert sorted(names) == sorted(SCHEMA.names)
