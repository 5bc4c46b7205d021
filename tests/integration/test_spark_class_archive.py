"""Spark's classes are kept once, and read by each JVM of later; one that they don't fit starts."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import psutil
import pytest

from retentiond.decide.plan import decide
from retentiond.spark import class_archive, java_options, tuning
from retentiond.spark.session import SparkSessions
from tests.support.brokers.spark_processes import in_a_process

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(1200),
    pytest.mark.thorough("Spark sessions of their own"),
]


def mapped_by_a_jvm_that_plans(archive: Path) -> bool:
    """In this process, which has no other."""
    java_options.CLASS_ARCHIVE = archive
    sessions = SparkSessions("local[2]", {})
    try:
        assert decide(sessions, class_archive.example())
        (java,) = psutil.Process().children()
        return str(archive) in {mapped.path for mapped in java.memory_maps()}
    finally:
        sessions.stop()


def test_the_classes_of_a_plan_are_kept_and_read(tmp_path: Path) -> None:
    archive = tmp_path / "share" / "classes.jsa"

    in_a_process(folder(tmp_path / "make"), class_archive.make, archive)
    is_read, _ = in_a_process(folder(tmp_path / "read"), mapped_by_a_jvm_that_plans, archive)

    assert [file.name for file in archive.parent.iterdir()] == [archive.name]
    assert is_read


def test_what_is_no_archive_is_passed_over(tmp_path: Path) -> None:
    archive = tmp_path / "classes.jsa"
    archive.write_bytes(bytes(100_000))

    is_read, said = in_a_process(tmp_path, mapped_by_a_jvm_that_plans, archive)

    assert not is_read
    assert str(archive) not in said


def main_at(archive: Path) -> int:
    """In this process, whose logs it configures."""
    with (
        mock.patch.object(class_archive, "CLASS_ARCHIVE", archive),
        mock.patch.object(tuning, "HOME", archive.with_name("spark")),
    ):
        return class_archive.main()


def test_it_is_said_where_nothing_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "share").write_text("in the way")

    code, said = in_a_process(tmp_path, main_at, tmp_path / "share" / "classes.jsa")

    assert code == 1
    assert said.startswith("Spark's classes are not kept: ")


def jars_of_a_jvm_that_plans(home: Path) -> list[str]:
    """Those that it has open, in this process, which has no other."""
    tuning.HOME = home
    tuning.make(home)
    sessions = SparkSessions("local[2]", {})
    try:
        assert decide(sessions, class_archive.example())
        (java,) = psutil.Process().children()
        paths = (Path(opened.path) for opened in java.open_files())
        return [path.name for path in paths if path.suffix == ".jar"]
    finally:
        sessions.stop()


def test_a_plan_needs_none_of_the_jars_that_are_left_out(tmp_path: Path) -> None:
    opened, _ = in_a_process(folder(tmp_path / "plan"), jars_of_a_jvm_that_plans, tmp_path / "home")

    assert len(opened) > 100
    assert not [name for name in opened if name.startswith(tuning.NEEDLESS)]


def folder(path: Path) -> Path:
    path.mkdir()
    return path
