"""What is said of Spark once it was started, without starting it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from retentiond.doctor.finding import Level
from retentiond.doctor.trial import try_spark
from retentiond.errors import SparkUnavailable
from tests.unit.doctor.patients import bad


class Sessions:
    """In place of Spark's; ``version`` None: there is no session."""

    def __init__(self, version: str | None) -> None:
        self.version = version
        self.stopped = False

    @contextmanager
    def use(self) -> Iterator[Any]:
        if self.version is None:
            raise SparkUnavailable("there is no Spark session at spark://nowhere")
        yield SimpleNamespace(
            version=self.version, range=lambda _: SimpleNamespace(collect=lambda: [0])
        )

    def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize(
    ("version", "expected"),
    [("4.1.0", []), ("4.0.0", [(Level.WARNING, "Spark")]), (None, [(Level.PROBLEM, "Spark")])],
)
def test_spark_is_tried_and_ended(
    version: str | None, expected: list[tuple[Level, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = Sessions(version)
    monkeypatch.setattr("retentiond.doctor.trial.SparkSessions", lambda *_, **__: sessions)
    assert bad(try_spark("spark://nowhere", {}, "4.1.0")) == expected
    assert sessions.stopped
