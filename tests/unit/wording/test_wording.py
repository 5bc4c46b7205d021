"""Every reason has its words, and figures are read at a glance."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retentiond.model import Reason
from retentiond.wording.figures import say_bytes, say_count, say_many, say_share
from retentiond.wording.reasons import WORDINGS, remedy, short
from tests.unit.observe.reports import row


def test_there_are_words_for_every_reason_and_for_nothing_else() -> None:
    assert set(WORDINGS) == set(Reason)


@pytest.mark.parametrize("reason", Reason)
def test_each_remedy_is_whole_sentences_with_nothing_left_to_fill_in(reason: Reason) -> None:
    for group in ("billing", None):
        said = remedy(replace(row("orders", 3, reason), binding_group=group))
        assert said[0].isupper()
        assert said.endswith(".")
        assert "{" not in said
        assert "None" not in said
        assert "{" not in short(reason, group)


def test_no_two_reasons_have_the_same_remedy_or_the_same_few_words() -> None:
    assert len({wording.remedy for wording in WORDINGS.values()}) == len(Reason)
    assert len({wording.short for wording in WORDINGS.values()}) == len(Reason)


def test_a_command_in_a_remedy_can_be_pasted_whatever_the_group_is_called() -> None:
    held = replace(row("orders", 3, Reason.GROUP_WITHOUT_COMMIT), binding_group="a b;{topic}")
    assert "--group 'a b;{topic}' --topic orders:3 " in remedy(held)


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (99 * 1024, "99.0 KiB"),
        (100 * 1024, "100 KiB"),
        (1024 * 1024 - 1, "1.0 MiB"),
        (13_314_398_618, "12.4 GiB"),
        (2**70, "1024 EiB"),
    ],
)
def test_bytes_have_two_to_four_digits(count: int, said: str) -> None:
    assert say_bytes(count) == said


@pytest.mark.parametrize(
    ("part", "whole", "said"),
    [
        (0, 10, "0%"),
        (0, 0, "0%"),
        (1, 1000, "<1%"),
        (1, 2, "50%"),
        (999, 1000, "99%"),
        (10, 10, "100%"),
    ],
)
def test_some_is_never_shown_as_none_nor_as_all(part: int, whole: int, said: str) -> None:
    assert say_share(part, whole) == said


def test_counts_are_grouped_by_thousands_and_agree_with_their_noun() -> None:
    assert say_count(1_204_331) == "1,204,331"
    assert (say_many(1, "topic"), say_many(2_000, "topic")) == ("1 topic", "2,000 topics")
    assert say_many(2, "entry", "entries") == "2 entries"
