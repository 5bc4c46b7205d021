"""What is told of an error of Spark's."""

from __future__ import annotations

import pytest

from retentiond.spark.session import SparkSessions

OF_JAVA = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.SparkContext.<init>(SparkContext.scala:1)
Caused by: java.io.IOException: first
\tat java.base/java.io.File.x(File.java:1)
\t... 12 more
Caused by: java.net.ConnectException: the last
\t... 3 more
"""


class Unreadable(OSError):
    """An error of a JVM that has ended: its text was there."""

    def __str__(self) -> str:
        raise ConnectionRefusedError(111, "Connection refused")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            OSError(OF_JAVA),
            "org.apache.spark.SparkException: Job aborted "
            "(caused by: java.net.ConnectException: the last)",
        ),
        (OSError("[SOME_ERROR] of Python's\nand more"), "[SOME_ERROR] of Python's"),
        (OSError(), "OSError()"),
        (Unreadable(), "Spark's JVM ended before it could be asked (Unreadable)"),
    ],
)
def test_the_reason_is_one_line_and_always_there(error: Exception, reason: str) -> None:
    assert SparkSessions("local[2]", {})._reason(error) == reason
