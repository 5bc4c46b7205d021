"""What a configuration means, in words."""

from __future__ import annotations

import pytest

from tests.unit.config.files import MINIMAL, parsed

CONSUMED = "every group that reads the topic has committed past them"


def words(entry: str) -> str:
    (found,) = parsed(f"{MINIMAL}topics: [{{{entry}}}]").entries
    return found.meaning


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ("name: a", "not enabled, so nothing is deleted."),
        (
            "name: a, retention.commitoffset.enable: true",
            f"records can be deleted 7 days after they were written, once {CONSUMED}; "
            "at least 1 group.",
        ),
        (
            "name: a, retention.commitoffset.enable: true, retention.commitoffset.minutes: 90, "
            "groups: {required: [z, b, a], exclude: ['x.*', y], min: 4}, allow_compacted: true",
            f"records can be deleted 1 hour 30 minutes after they were written, once {CONSUMED}; "
            "a, b and z must have committed; groups matching x.* or y do not count; also where "
            "the topic is compacted as well as deleted from; at least 4 groups.",
        ),
        (
            "name: a, retention.commitoffset.enable: true, groups: {only: [web, 'bill.*']}",
            f"records can be deleted 7 days after they were written, once {CONSUMED}; "
            "ONLY groups matching bill.* or web count; at least 1 group.",
        ),
    ],
)
def test_an_entry_is_put_in_one_sentence(entry: str, sentence: str) -> None:
    assert words(entry) == sentence


def test_entries_come_in_the_order_of_the_file() -> None:
    config = parsed(f"{MINIMAL}topics: [{{name: b}}, {{pattern: 'a.*'}}, {{name: a}}]")
    assert [each.topics for each in config.entries] == ["b", "topics matching a.*", "a"]
