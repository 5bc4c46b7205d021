"""Which client libraries are at work, and that they are those whose inner life is relied on."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from retentiond.kafka.brokers import librdkafka_version

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


def test_librdkafka_tells_its_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", librdkafka_version())


@pytest.mark.parametrize("library", ["confluent-kafka", "kafka-python"])
def test_both_clients_are_pinned_to_the_version_that_the_tests_see(library: str) -> None:
    dependencies = tomllib.loads(PYPROJECT.read_text())["project"]["dependencies"]
    assert f"{library}=={version(library)}" in dependencies
