"""Properties as java.util.Properties reads them; its documentation's own examples are here."""

from __future__ import annotations

import pytest

from retentiond.kafka.settings.java_properties import parse


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("\n  \n\t\n", {}),
        ("# a=b\n ! c=d\n", {}),
        ("Truth = Beauty", {"Truth": "Beauty"}),
        ("  Truth:Beauty", {"Truth": "Beauty"}),
        ("Truth                    :Beauty", {"Truth": "Beauty"}),
        ("Truth Beauty", {"Truth": "Beauty"}),
        ("Truth\tBeauty  ", {"Truth": "Beauty  "}),
        ("cheeses", {"cheeses": ""}),
        ("cheeses=", {"cheeses": ""}),
        ("a==b", {"a": "=b"}),
        ("a=b#c", {"a": "b#c"}),
        ("a : = b", {"a": "= b"}),
        (r"a\:b\=c\ d=e", {"a:b=c d": "e"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        (
            "fruits    apple, banana, pear, \\\n     cantaloupe, \\\n     kiwi",
            {"fruits": "apple, banana, pear, cantaloupe, kiwi"},
        ),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\\\\\nc=d", {"a": "b\\c=d"}),
        ("a=b\\\n# no comment", {"a": "b# no comment"}),
        ("a=b\\", {"a": "b"}),
        (r"a=\t\n\r\f\q\"", {"a": '\t\n\r\fq"'}),
        (r"a=\u00e9\u20AC", {"a": "\N{LATIN SMALL LETTER E WITH ACUTE}\N{EURO SIGN}"}),
        (r"a=\ud83d\ude00", {"a": "\N{GRINNING FACE}"}),
        ("=b", {"": "b"}),
    ],
)
def test_a_file_means_what_java_makes_of_it(text: str, properties: dict[str, str]) -> None:
    assert parse(text) == properties


def test_a_broken_escape_is_an_error_that_names_the_key_and_no_value() -> None:
    with pytest.raises(ValueError, match=r"^sasl\.jaas\.config: expected four") as broken:
        parse(r"sasl.jaas.config=secret\u12")
    assert "secret" not in str(broken.value)
