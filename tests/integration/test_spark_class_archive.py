"""Spark's classes are kept once, and read by each JVM of later; one that they don't fit starts."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from unittest import mock

import psutil
import pytest

from devkit import class_archive
from retentiond.decide.plan import decide
from retentiond.spark import environment, tuning
from retentiond.spark.session import SparkSessions
from tests.support.brokers.spark_processes import in_a_process

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(1200),
    pytest.mark.thorough("Spark sessions of their own"),
]


class Opened(NamedTuple):
    """What a JVM that plans has mapped or open: whether the archive, and which jars."""

    is_archive_read: bool
    jars: list[str]


def opened_by_a_jvm_that_plans(archive: Path, home: Path = tuning.SPARK_HOME) -> Opened:
    """In this process, which has no other."""
    environment.CLASS_ARCHIVE, tuning.SPARK_HOME = archive, home
    sessions = SparkSessions("local[2]", {})
    try:
        assert decide(sessions, class_archive.example())
        (java,) = psutil.Process().children()
        paths = (Path(opened.path) for opened in java.open_files())
        return Opened(
            str(archive) in {mapped.path for mapped in java.memory_maps()},
            [path.name for path in paths if path.suffix == ".jar"],
        )
    finally:
        sessions.stop()


class Kept(NamedTuple):
    archive: Path
    opened: Opened


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Both are made as for an image, and a later process plans."""
    root = tmp_path_factory.mktemp("kept")
    archive, home = root / "share" / "classes.jsa", root / "home"

    in_a_process(folder(root / "make"), make, archive, home)
    opened, _ = in_a_process(folder(root / "plan"), opened_by_a_jvm_that_plans, archive, home)
    return Kept(archive, opened)


def make(archive: Path, home: Path) -> None:
    tuning.SPARK_HOME = home
    class_archive.make_spark_home(home)
    class_archive.make(archive)


def test_the_classes_of_a_plan_are_kept_and_read(kept: Kept) -> None:
    assert [file.name for file in kept.archive.parent.iterdir()] == [kept.archive.name]
    assert kept.opened.is_archive_read


def test_a_plan_needs_none_of_the_jars_that_are_left_out(kept: Kept) -> None:
    assert len(kept.opened.jars) > 100
    assert not [name for name in kept.opened.jars if name.startswith(class_archive.UNUSED_JARS)]


def test_what_is_no_archive_is_passed_over(tmp_path: Path) -> None:
    archive = tmp_path / "classes.jsa"
    archive.write_bytes(bytes(100_000))

    opened, said = in_a_process(tmp_path, opened_by_a_jvm_that_plans, archive)

    assert not opened.is_archive_read
    assert str(archive) not in said


def main_at(archive: Path) -> int:
    """In this process, whose logs it configures."""
    with (
        mock.patch.object(class_archive, "CLASS_ARCHIVE", archive),
        mock.patch.object(tuning, "SPARK_HOME", archive.with_name("spark")),
    ):
        return class_archive.main()


def test_it_is_said_where_nothing_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "share").write_text("in the way")

    code, said = in_a_process(tmp_path, main_at, tmp_path / "share" / "classes.jsa")

    assert code == 1
    assert said.startswith("Spark's classes are not kept: ")


def folder(path: Path) -> Path:
    path.mkdir()
    return path
