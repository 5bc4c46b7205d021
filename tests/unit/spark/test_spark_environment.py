"""A start of Spark that a variable of the environment spoils is told with the variable's name."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from retentiond.errors import SparkUnavailable
from retentiond.spark.environment import say_variables
from retentiond.spark.jvm import Jvm


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("JAVA_HOME", "/nowhere"),
        ("SPARK_HOME", "/nowhere"),
        ("SPARK_CONF_DIR", "/nowhere"),
        ("HADOOP_CONF_DIR", "/nowhere"),
        ("SPARK_LOCAL_DIRS", "/dev/null/nowhere"),
        ("SPARK_LOCAL_DIRS", "/tmp,/dev/null"),
        ("SPARK_LOCAL_IP", "192.0.2.1"),
        ("SPARK_LOCAL_IP", "nowhere.invalid"),
        ("PYSPARK_PYTHON", "/nowhere/python"),
        ("PYSPARK_SUBMIT_ARGS", "--conf 'open pyspark-shell"),
        ("PYSPARK_SUBMIT_ARGS", "--verbose"),
    ],
)
def test_a_variable_that_is_wrong_is_named_alone(name: str, value: str) -> None:
    said = say_variables({name: value, "SPARK_USER": "somebody"})
    assert said.startswith(name)
    assert said.endswith(": correct or unset it")


def test_where_none_is_wrong_all_that_spark_heeds_are_named(tmp_path: Path) -> None:
    right = {
        "SPARK_LOCAL_DIRS": str(tmp_path / "made" / "by-spark"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONF_DIR": str(tmp_path),
    }
    ours = {"PYSPARK_PYTHON": sys.executable, "HOME": "/", "SPARK_USER": ""}
    assert say_variables(right | ours) == f"Spark also heeds {', '.join(sorted(right))}"
    assert say_variables(ours) == ""


@pytest.mark.parametrize("name", ["JAVA_HOME", "SPARK_HOME"])
def test_a_jvm_that_does_not_start_says_which_variable_leads_nowhere(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "/nowhere")
    with pytest.raises(SparkUnavailable, match=f"{name} is '/nowhere', where there is no bin/"):
        Jvm({}, os.environ).connect()
