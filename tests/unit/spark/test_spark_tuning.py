"""The Spark of an installation that lacks what no plan needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from devkit import class_archive
from retentiond.spark import jvm, tuning

JARS = jvm.PYSPARK / "jars"


def test_it_has_the_launcher_and_all_jars_but_the_needless_ones(tmp_path: Path) -> None:
    home = tmp_path / "share" / "spark"
    class_archive.make_spark_home(home)

    assert (home / "bin" / "spark-submit").is_file()
    assert (home / "python" / "lib").is_dir()  # for what Spark runs in Python
    kept = {jar.name for jar in (home / "jars").iterdir() if jar.is_file()}
    left_out = {jar.name for jar in JARS.glob("*.jar")} - kept
    assert {name.partition("_")[0] for name in kept} > {"spark-core", "spark-sql", "spark-catalyst"}
    assert left_out
    assert all(name.startswith(class_archive.UNUSED_JARS) for name in left_out)


@pytest.mark.parametrize("beginning", class_archive.UNUSED_JARS)
def test_what_is_left_out_is_there_to_be_left_out(beginning: str) -> None:
    assert [*JARS.glob(f"{beginning}*.jar")]


def test_it_is_made_anew_where_there_was_one(tmp_path: Path) -> None:
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "spark-core_2.12-3.5.0.jar").write_text("of an older Spark")
    (tmp_path / ".spark").mkdir()  # left behind by one that was interrupted

    class_archive.make_spark_home(home)

    assert not (home / "jars" / "spark-core_2.12-3.5.0.jar").exists()
    assert [each.name for each in tmp_path.iterdir()] == ["spark"]


@pytest.mark.parametrize(
    ("master", "serves"),
    [("local[2]", True), ("spark://host:7077", True), ("k8s://https://host", False)],
)
def test_it_serves_the_masters_that_need_nothing_of_what_it_lacks(
    master: str, serves: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "spark"
    monkeypatch.setattr(tuning, "SPARK_HOME", home)
    assert tuning.spark_environment(master) == {}

    class_archive.make_spark_home(home)
    assert tuning.spark_environment(master) == ({"SPARK_HOME": str(home)} if serves else {})


def test_one_whose_spark_has_moved_away_serves_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "SPARK_HOME", tmp_path / "spark")
    monkeypatch.setattr(class_archive, "PYSPARK", tmp_path / "removed")
    class_archive.make_spark_home(tuning.SPARK_HOME)

    assert tuning.spark_environment("local[2]") == {}
