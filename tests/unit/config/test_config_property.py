"""Whatever the text, parsing gives a configuration or a ConfigError; and dumps read back."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from retentiond.config import Config
from retentiond.errors import ConfigError
from tests.support.builders.config_strategies import DOCUMENTS, TEXTS
from tests.unit.config.files import EXAMPLES, parsed

a_busy_machine_is_no_failure = settings(deadline=None)

REFERENCE = (EXAMPLES / "retentiond.yaml").read_text("utf-8")


@a_busy_machine_is_no_failure
@given(TEXTS)
def test_an_arbitrary_text_raises_nothing_but_config_errors(parts: list[str]) -> None:
    with contextlib.suppress(ConfigError):
        parsed("".join(parts))


@a_busy_machine_is_no_failure
@given(st.integers(0, len(REFERENCE)), st.integers(0, 40), TEXTS)
def test_a_damaged_reference_raises_nothing_but_config_errors(
    start: int, length: int, parts: list[str]
) -> None:
    with contextlib.suppress(ConfigError):
        parsed(REFERENCE[:start] + "".join(parts) + REFERENCE[start + length :])


@pytest.mark.long
@a_busy_machine_is_no_failure
@given(DOCUMENTS)
def test_a_dumped_configuration_reads_back_the_same(document: dict[str, Any]) -> None:
    config = parsed(_dumped(document))
    assert config == parsed(_dumped(_document(config)))


def _document(config: Config) -> dict[str, Any]:
    """The configuration as the mapping that its file holds, secrets included."""
    document = config.model_dump(mode="json", by_alias=True, exclude_none=True)
    document["kafka"] = dict(config.kafka)
    document["spark"]["conf"] = dict(config.spark.conf)
    return document


def _dumped(document: dict[str, Any]) -> str:
    return yaml.safe_dump(_escaped(document), allow_unicode=True)


def _escaped(value: Any) -> Any:
    """Values whose ``${`` is meant as it stands."""
    match value:
        case str():
            return value.replace("${", "$${")
        case dict():
            return {key: _escaped(below) for key, below in value.items()}
        case list():
            return [_escaped(below) for below in value]
        case _:
            return value
