"""Each malformed file is refused with one sentence that names the place."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

import pytest

from retentiond.config import load
from retentiond.errors import ConfigError
from tests.unit.config.files import MALFORMED, MINIMAL, ONE_TOPIC, Malformed, parsed

PLACE = re.compile(r"(line \d+, column \d+|[a-z_]+(\.\S+|\[\d+\])*): ")
WITHOUT_PLACE = {"empty", "list_at_the_top", "text_at_the_top"}


@pytest.mark.long
@pytest.mark.parametrize("case", MALFORMED, ids=lambda case: case.name)
def test_a_malformed_file_gives_its_sentence(case: Malformed) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(case.text, {"NO": "no"}, Path())
    message = str(caught.value)
    # What follows "valid YAML" are PyYAML's own words, which differ with and without libyaml.
    assert re.sub(r"(?<=expected valid YAML) \(.*\)", "", message) == case.error
    assert "\n" not in message
    assert len(message) < 300
    assert bool(PLACE.match(message)) is (case.name not in WITHOUT_PLACE)


@pytest.mark.parametrize(
    ("line", "path", "sentence"),
    [
        (b"dry_run: 0\n", "dry_run", "dry_run: expected true or false, not 0"),
        (b"client.id: Z\xfcrich\n", None, "line 3: expected UTF-8 text; save the file as UTF-8"),
    ],
)
def test_load_puts_the_file_before_the_sentence(
    line: bytes, path: str | None, sentence: str, tmp_path: Path
) -> None:
    file = tmp_path / "retentiond.yaml"
    file.write_bytes((MINIMAL + ONE_TOPIC).encode() + line)
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    assert str(caught.value).startswith(f"{file}: {sentence}")
    assert (caught.value.file, caught.value.path) == (str(file), path)


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


@pytest.mark.parametrize("address", ["http:///hunter2", "http://[hunter2/at"])
def test_an_address_without_a_host_is_not_repeated(address: str) -> None:
    topic = f"{{name: t, groups: {{external: [{{name: lake, offsets: '{address}'}}]}}}}"
    with pytest.raises(ConfigError) as caught:
        parsed(f"kafka: {{bootstrap.servers: a}}\ntopics: [{topic}]\n")
    assert "groups.external[0].offsets" in str(caught.value)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "line", ["sasl.password: hunter2: x", "sasl.password: 'hunter2", "sasl.password: [hunter2"]
)
def test_not_even_a_traceback_quotes_a_line_of_the_file(line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(f"kafka:\n  bootstrap.servers: a:1\n  {line}\n")
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
