"""A host's own Spark, and a notebook's, mean nothing to a local master."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import retentiond
from retentiond.spark.session import SparkSessions
from tests.support.brokers.spark_processes import in_a_process

pytestmark = [pytest.mark.spark, pytest.mark.thorough("Spark sessions of their own")]

DELTA = """\
spark.master                     yarn
spark.sql.extensions             io.delta.sql.DeltaSparkSessionExtension
spark.sql.catalog.spark_catalog  org.apache.spark.sql.delta.catalog.DeltaCatalog
"""

HOST = {
    "MASTER": "yarn",
    "PYSPARK_GATEWAY_PORT": "9",
    "PYSPARK_GATEWAY_SECRET": "a notebook's",
    "SPARK_REMOTE": "sc://nowhere.invalid",
    "SPARK_API_MODE": "connect",
    "PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell",
}


def planned(folder: str, variables: dict[str, str]) -> tuple[int, str | None]:
    os.environ.update({**variables, "SPARK_CONF_DIR": folder})
    sessions = SparkSessions("local[1]", {})
    try:
        with sessions.use() as session:
            count = session.range(3).count()
            return count, session.conf.get("spark.sql.extensions", None)
    finally:
        sessions.stop()


@pytest.fixture
def conf_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "spark-defaults.conf").write_text(DELTA)
    (folder / "spark-env.sh").write_text("MASTER=yarn\nSPARK_DRIVER_MEMORY=1\n")
    return folder


def test_its_variables_and_defaults_are_not_heeded(tmp_path: Path, conf_dir: Path) -> None:
    assert in_a_process(tmp_path, planned, str(conf_dir), HOST) == ((3, None), "")


def test_nor_are_the_defaults_below_its_home(tmp_path: Path, conf_dir: Path) -> None:
    home = tmp_path / "spark"
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    (home / "conf").symlink_to(conf_dir)
    answer = in_a_process(tmp_path, planned, str(conf_dir), {"SPARK_HOME": str(home)})
    assert answer == ((3, None), "")


FROM_ANOTHER_PATH = """
from retentiond.spark.environment import LOGGING
from retentiond.spark.session import SparkSessions
sessions = SparkSessions("local[1]", {})
with sessions.use() as session:
    print(session.range(3).count(), LOGGING)
sessions.stop()
"""


def test_it_starts_from_a_path_of_any_letters(tmp_path: Path) -> None:
    place = tmp_path / 'it\'s "here", after a blank'
    place.mkdir()
    for package in (retentiond, pyspark):
        folder = Path(str(package.__file__)).parent
        (place / folder.name).symlink_to(folder)
    done = subprocess.run(
        [sys.executable, "-c", FROM_ANOTHER_PATH],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    *_, last = done.stdout.splitlines()
    assert last.startswith(f"3 -Dlog4j2.configurationFile={place.as_uri()}/retentiond/")
