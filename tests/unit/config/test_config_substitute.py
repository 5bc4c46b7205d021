"""Values from the environment and from files: text, never YAML, never shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from retentiond.errors import ConfigError
from tests.unit.config.files import MINIMAL, ONE_TOPIC, parsed

SECRET = "s3cr3t: [*"


def _kafka(value: str, environ: dict[str, str] | None = None, base_dir: Path = Path()) -> str:
    text = f"kafka:\n  bootstrap.servers: localhost:9092\n  x: {value}\n{ONE_TOPIC}"
    return parsed(text, environ, base_dir).kafka["x"]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("${A}", "one"),
        ("'${A}'", "one"),
        ("a ${A} and ${B}.", "a one and two."),
        ("${A}${B}", "onetwo"),
        ("$${A}", "${A}"),
        ("$${A} ${B}", "${A} two"),
        ("$A $ {A} $$", "$A $ {A} $$"),
        ("${NESTED}", "${A}"),
        ("${SECRET}", SECRET),
        ("${NOTHING}", ""),
        ("${NULL}", "null"),
    ],
)
def test_a_variable_is_replaced(written: str, value: str) -> None:
    environ = {"A": "one", "B": "two", "NESTED": "${A}", "SECRET": SECRET}
    assert _kafka(written, environ | {"NOTHING": "", "NULL": "null"}) == value


@pytest.mark.parametrize("written", ["${}", "${A", "${A-b}", "${A:-b}", "${1A}", "${file:}"])
def test_a_malformed_reference_is_refused(written: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _kafka(f"'{written}'", {"A": "one"})
    assert caught.value.path == "kafka.x"
    assert caught.value.message == "expected ${NAME} or ${file:PATH}; a plain ${ is written $${"


def test_a_key_is_not_replaced() -> None:
    with pytest.raises(ConfigError, match=r"^\$\{A\}: unknown setting"):
        parsed(f"{MINIMAL}{ONE_TOPIC}${{A}}: 1", {"A": "dry_run"})


@pytest.mark.parametrize(
    ("content", "value"), [("pw", "pw"), ("pw\n", "pw"), ("pw\r\n", "pw"), ("p\nw\n\n", "p\nw\n")]
)
def test_a_file_is_read_without_its_last_line_break(
    content: str, value: str, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_bytes(content.encode())
    assert _kafka("${file:secret}", base_dir=tmp_path) == value
    assert _kafka(f"<${{file:{tmp_path / 'secret'}}}>", base_dir=Path("/nowhere")) == f"<{value}>"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("absent", "No such file or directory"),
        (".", "it is a folder and not a file"),
        ("pipe", "it is a pipe and not a file"),
        ("/dev/zero", "it is a device and not a file"),
        ("binary", "expected UTF-8 text"),
        ("large", "expected at most 1,048,576 bytes"),
        ("nul\\0", "not a path"),
    ],
)
def test_an_unreadable_file_is_named_with_the_key(path: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"pw\xff")
    (tmp_path / "large").write_bytes(bytes(2**20 + 1))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match=rf"^kafka\.x: .*{reason}") as caught:
        _kafka(f'"${{file:{path}}}"', base_dir=tmp_path)
    assert "pw" not in str(caught.value)


def test_a_substituted_text_may_fill_a_number_and_a_boolean() -> None:
    config = parsed(
        f"{MINIMAL}{ONE_TOPIC}"
        "dry_run: ${NO}\nhttp: {port: '${PORT}'}\nschedule: {interval: '${N}m'}\n",
        {"NO": "false", "PORT": "19477", "N": "7"},
    )
    assert config.dry_run is False
    assert config.http.port == 19477
    assert config.schedule.interval_ms == 7 * 60_000


@pytest.mark.parametrize("value", ["no", "0", "", "False", " false", "null"])
def test_a_substituted_text_that_is_no_boolean_is_refused_unseen(value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(f"{MINIMAL}{ONE_TOPIC}dry_run: ${{NO}}", {"NO": value})
    assert str(caught.value) == "dry_run: expected true or false, not the substituted value"


@pytest.mark.parametrize("written", ["94${X}", "$${X}", "'94${X}'"])
def test_a_number_is_not_put_together_from_parts(written: str) -> None:
    with pytest.raises(ConfigError, match=r"^http\.port: expected a whole number"):
        parsed(f"{MINIMAL}{ONE_TOPIC}http:\n  port: {written}\n", {"X": "77"})


@pytest.mark.parametrize(
    "setting",
    [
        "dry_run: ${SECRET}",
        "http: {port: '${SECRET}'}",
        "schedule: {interval: 'a${SECRET}'}",
        "http: '${SECRET}'",
        "defaults: {groups: {exclude: '${SECRET}'}}",
        "limits: {records_per_cycle: '${SECRET}'}",
    ],
)
def test_no_error_shows_a_substituted_value(setting: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(f"{MINIMAL}{ONE_TOPIC}{setting}\n", {"SECRET": "hunter2"})
    assert "hunter2" not in str(caught.value)
    assert "the substituted value" in str(caught.value)


def test_the_fault_of_a_substituted_pattern_does_not_show_it() -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(f"{MINIMAL}topics:\n  - pattern: ${{SECRET}}\n", {"SECRET": "(?P<hunter2!>x)"})
    assert str(caught.value) == "topics[0].pattern: expected a regular expression of RE2's syntax"
