"""What a configuration means, in words; tests/golden/check has what else an entry says."""

from __future__ import annotations

import pytest

from tests.unit.config.files import MINIMAL, parsed

AFTER = "1 hour 30 minutes after they were written, once"


@pytest.mark.parametrize(
    ("minutes", "when", "entry", "sentence"),
    [
        (
            90,
            AFTER,
            "groups: {required: [z, b, a], exclude: ['x.*', y], min: 4}, allow_compacted: true",
            "a, b and z must have committed; groups matching x.* or y do not count; also where "
            "the topic is compacted as well as deleted from; at least 4 groups.",
        ),
        (
            90,
            AFTER,
            "groups: {only: [web, 'bill.*']}",
            "ONLY groups matching bill.* or web count; at least 1 group.",
        ),
        (
            0,
            "as soon as",
            "groups: {external: [{name: lake, offsets: /a}, {name: etl, offsets: /b}], "
            "forget_vanished_after: 30d}",
            "etl and lake must have gone past them elsewhere than in Kafka; a group that vanishes "
            "holds for 30 days; at least 1 group.",
        ),
    ],
)
def test_an_entry_is_put_in_one_sentence(
    minutes: int, when: str, entry: str, sentence: str
) -> None:
    enabled = f"retention.commitoffset.enable: true, retention.commitoffset.minutes: {minutes}"
    (found,) = parsed(f"{MINIMAL}topics: [{{name: a, {enabled}, {entry}}}]").entries
    assert found.meaning == (
        f"records can be deleted {when} every group that reads the topic has committed past them; "
        f"{sentence}"
    )


def test_entries_come_in_the_order_of_the_file() -> None:
    config = parsed(f"{MINIMAL}topics: [{{name: b}}, {{pattern: 'a.*'}}, {{name: a}}]")
    assert [each.topics for each in config.entries] == ["b", "topics matching a.*", "a"]
