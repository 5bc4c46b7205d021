"""Names and patterns that can match nothing, because of what an editor or YAML leaves at an end."""

from __future__ import annotations

import pytest

from retentiond.errors import ConfigError
from tests.unit.config.files import HASH, MINIMAL, ONE_TOPIC, parsed

BLANK_ENDS = [
    *(
        r"audit\n",
        r"\naudit",
        r" audit",
        r"audit\t",
        r"audit\u00a0",
        r"audit\u200b",
        r"\ufeffaudit",
    ),
    *(r"audit\r\n", r"(audit\n)", r"x|audit\n", r"(x|audit\n)", r"audit\n$", r"a\u200bb"),
]
"""As YAML has them between double quotes."""

BLANK_INSIDE = [r"\\Qaudit \\E", r"audit[ ]", r"a b", r"audit( .*)?", r"[^ ]+"]

HARMLESS = [
    *(r"audit", r"audit.*", r"audit\\s?", r"\\D+", r"audit|", r"(a|\\n)+", r"é", r"[é]"),
    *(r"[\\x{1F600}]", r"(?i)audit", r"\\.a{2,3}", r"\\QA.B\\E", "^*a"),
]

PLACES = {
    "topics[0].pattern": "topics: [{pattern: @}]",
    "topics[0].except[1]": "topics: [{pattern: '.*', except: [x, @]}]",
    "topics[0].groups.exclude[0]": "topics: [{name: o, groups: {exclude: [@]}}]",
    "defaults.groups.only[0]": "topics: [{name: o}]\ndefaults: {groups: {only: [@]}}",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("pattern", BLANK_ENDS)
def test_a_pattern_with_what_an_editor_or_yaml_leaves_in_it_is_refused(
    pattern: str, place: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(MINIMAL + PLACES[place].replace("@", f'"{pattern}"'))
    assert caught.value.path == place


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("pattern", HARMLESS)
def test_any_other_pattern_is_taken(pattern: str, place: str) -> None:
    parsed(MINIMAL + PLACES[place].replace("@", f'"{pattern}"'))


@pytest.mark.parametrize("pattern", BLANK_INSIDE)
def test_white_space_inside_is_refused_in_patterns_of_topics_alone(pattern: str) -> None:
    parsed(MINIMAL + PLACES["topics[0].groups.exclude[0]"].replace("@", f'"{pattern}"'))
    with pytest.raises(ConfigError, match=r"as no topic's name has any"):
        parsed(MINIMAL + PLACES["topics[0].pattern"].replace("@", f'"{pattern}"'))


EXTERNAL = "topics: [{name: o, groups: {external: [{name: "
CONNECT = EXTERNAL + "r, connect_offsets: {topic: t, connector: "
AT = "topics[0].groups"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("topics[0].name", "topics: [{name: @}]"),
        (f"{AT}.required[0]", "topics: [{name: o, groups: {required: [@]}}]"),
        (f"{AT}.external[0].name", EXTERNAL + "@, offsets: /a}]}}]"),
        (f"{AT}.external[0].connect_offsets.connector", CONNECT + "@}}]}}]"),
        (f"{AT}.external[0].connect_offsets.cluster", CONNECT + "a, cluster: @}}]}}]"),
        (f"{AT}.external[0].paths.", EXTERNAL + "r, offsets: /a, paths: {@: a}}]}}]"),
    ],
)
@pytest.mark.parametrize("name", [r"x\n", r"\tx", "x ", r"x\u00a0", r"x\ufeff"])
def test_a_name_that_is_blank_at_an_end_is_refused(name: str, path: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(MINIMAL + text.replace("@", f'"{name}"'))
    assert (caught.value.path or "").startswith(path)


@pytest.mark.parametrize("control", [r"\n", r"\x1b[31m", r"\x85", r"\u2028", r"\u202e", r"\x00"])
@pytest.mark.parametrize(
    ("path", "setting"),
    [
        ("metrics.cluster", "metrics: {cluster: @}"),
        ("http.host", "http: {host: @}"),
        ("http.basic_auth", "http: {basic_auth: {@: HASH}}"),
        ("state_dir", "state_dir: @"),
        ("history.path", "history: {path: @}"),
        ("defaults.groups.required[0]", "defaults: {groups: {required: [@]}}"),
    ],
)
def test_a_text_that_is_shown_has_no_control_characters(
    path: str, setting: str, control: str
) -> None:
    text = setting.replace("@", f'"1 a{control}b"').replace("HASH", HASH)
    with pytest.raises(ConfigError) as caught:
        parsed(f"{MINIMAL}{ONE_TOPIC}{text}\n")
    assert (caught.value.path or "").startswith(path)
