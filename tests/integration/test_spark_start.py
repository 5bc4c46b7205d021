"""Spark does not start: one sentence says why, in Spark's or Java's own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentiond.errors import SparkUnavailable
from retentiond.spark.session import SparkSessions
from tests.support.brokers.spark_processes import in_a_process

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def start(conf: dict[str, str]) -> str:
    """Why there is no session."""
    sessions = SparkSessions("local[2]", conf)
    with pytest.raises(SparkUnavailable) as caught:
        sessions.start()
    sessions.stop()
    return str(caught.value)


@pytest.mark.parametrize(
    ("conf", "reason"),
    [
        ({"spark.driver.memory": "256m"}, "must be at least 471859200"),
        (
            {"spark.eventLog.enabled": "true", "spark.eventLog.dir": "file:/nowhere/events"},
            "/nowhere/events does not exist",
        ),
        ({"spark.serializer": "org.example.NoSuchSerializer"}, "org.example.NoSuchSerializer"),
        ({"spark.driver.memory": "2x"}, "-Xmx2x"),
        ({"spark.driver.extraJavaOptions": "-XX:+UseG1GC -XX:+UseSerialGC"}, "garbage collectors"),
        ({"spark.driver.extraJavaOptions": "-javaagent:/nowhere.jar"}, "/nowhere.jar"),
    ],
)
def test_the_sentence_is_spark_s_own(conf: dict[str, str], reason: str, tmp_path: Path) -> None:
    sentence, stderr = in_a_process(tmp_path, start, conf)

    assert reason in sentence
    assert "ConnectionRefusedError" not in sentence
    assert "\n" not in sentence
    assert stderr == ""
