"""Each malformed file states its error in its first line: one sentence that names the place."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

import pytest

from retentiond.config import load
from retentiond.errors import ConfigError
from tests.unit.config.files import HERE, MALFORMED, header, parsed

PLACE = re.compile(r"(line \d+, column \d+|[a-z_]+(\.\S+|\[\d+\])*): ")
WITHOUT_PLACE = {"empty", "list_at_the_top", "text_at_the_top"}


@pytest.mark.long
@pytest.mark.parametrize("file", MALFORMED, ids=lambda file: file.stem)
def test_a_malformed_file_gives_the_sentence_in_its_first_line(file: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(file.read_text("utf-8"), {"NO": "no"}, Path())
    message = str(caught.value)
    # What follows "valid YAML" are PyYAML's own words, which differ with and without libyaml.
    assert re.sub(r"(?<=expected valid YAML) \(.*\)", "", message) == header(file, "error")
    assert "\n" not in message
    assert len(message) < 300
    assert bool(PLACE.match(message)) is (file.stem not in WITHOUT_PLACE)


def test_load_puts_the_file_before_the_sentence() -> None:
    file = HERE / "malformed" / "dry_run_is_a_number.yaml"
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    assert str(caught.value) == f"{file}: {header(file, 'error')}"
    assert (caught.value.file, caught.value.path) == (str(file), "dry_run")


def test_a_file_that_is_not_utf_8_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "retentiond.yaml"
    file.write_bytes(b"kafka:\n  client.id: Z\xfcrich\n")
    with pytest.raises(ConfigError, match="line 2: expected UTF-8 text; save the file as UTF-8"):
        load(file, {})


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    file = tmp_path / "retentiond.yaml"
    file.write_bytes(b"\xef\xbb\xbfkafka: {bootstrap.servers: 'a:1'}\ntopics: [{name: orders}]\n")
    assert load(file, {}).kafka["bootstrap.servers"] == "a:1"


def test_a_chain_of_errors_holds_no_value_of_the_file() -> None:
    with pytest.raises(ConfigError) as caught:
        parsed("kafka: {sasl.password: hunter2}\ntopics: [{name: orders}]\n")
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "line", ["sasl.password: hunter2: x", "sasl.password: 'hunter2", "sasl.password: [hunter2"]
)
def test_not_even_a_traceback_quotes_a_line_of_the_file(line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(f"kafka:\n  bootstrap.servers: a:1\n  {line}\n")
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
