"""YAML is read as it is written: no guesses, no surprises, no crash."""

from __future__ import annotations

import pytest

from retentiond.config.document import Scalar, read_document
from retentiond.errors import ConfigError


@pytest.mark.parametrize(
    "written", ["on", "yes", "NO", "1:30", "0123", "1e3", "0x1F", "1_000", "2024-01-01", "=", "~x"]
)
def test_a_plain_scalar_keeps_its_text(written: str) -> None:
    assert read_document(f"a: {written}") == {"a": Scalar(written)}


def test_quotes_make_a_text_of_what_could_be_a_number() -> None:
    assert read_document("""a: '1'\nb: "true"\nc: |-\n  1\n""") == {
        "a": Scalar("1", plain=False),
        "b": Scalar("true", plain=False),
        "c": Scalar("1", plain=False),
    }


@pytest.mark.parametrize("written", ["", "~", "null", "Null", "NULL"])
def test_null_is_told_from_a_text(written: str) -> None:
    assert Scalar(written).is_null
    assert not Scalar(written, plain=False).is_null
    assert not Scalar(written, substituted=True).is_null


def test_a_file_of_comments_holds_nothing() -> None:
    assert read_document("# nothing\n") is None


@pytest.mark.parametrize("written", ["!!str 1", "!!int '1'", "!secret x", "!!map {}", "!!set {}"])
def test_every_tag_is_refused(written: str) -> None:
    with pytest.raises(ConfigError, match=r"a\[0\]: expected a value without a YAML tag"):
        read_document(f"a: [{written}]")


def test_a_password_that_reads_as_a_tag_is_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        read_document("kafka:\n  sasl.password: !hunter2\n")
    assert "hunter2" not in str(caught.value)


def test_a_tag_on_a_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected a value without a YAML tag"):
        read_document("!!int 1: a")


def test_a_quoted_merge_key_is_a_key() -> None:
    assert read_document("'<<': 1") == {"<<": Scalar("1")}


def test_a_doubled_key_deep_inside_is_named_with_its_lines() -> None:
    with pytest.raises(ConfigError) as caught:
        read_document("topics:\n- groups:\n    min: 1\n    'min': 2\n")
    assert caught.value.path == "topics[0].groups.min"
    assert "in lines 3 and 4" in str(caught.value)


@pytest.mark.parametrize("brackets", [60, 200_000])
def test_deep_nesting_is_refused_before_it_can_overflow_the_stack(brackets: int) -> None:
    with pytest.raises(ConfigError, match="column 51: expected at most 50 nested levels"):
        read_document("[" * brackets)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: &x [1, 2]\nb: 3", "line 1, column 4"),
        ("a: [1, 2]\nb: *x", "line 2, column 4"),
        ("&a [*a]", "line 1, column 1"),
        ("a: {&b c: 1}", "line 1, column 5"),
    ],
)
def test_an_anchor_or_alias_is_refused(text: str, place: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{place}: anchors \(&\) and aliases \(\*\)"):
        read_document(text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("é: 1\nü: \x07", "line 2, column 4"),
        ("a: \x00", "line 1, column 4"),
        ("a: \ud800", "line 1, column 4"),
    ],
)
def test_a_character_that_yaml_forbids_is_placed(text: str, place: str) -> None:
    with pytest.raises(ConfigError, match=f"^{place}: the character"):
        read_document(text)


def test_a_key_that_can_not_be_printed_stays_on_one_line() -> None:
    with pytest.raises(ConfigError) as caught:
        read_document('"a\\nb": !x 1')
    assert str(caught.value).startswith("'a\\nb': expected")
