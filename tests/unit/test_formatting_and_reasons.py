"""Every reason has its words, and figures are read at a glance."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from retentiond.fields import rfc3339
from retentiond.formatting import (
    HOUR_MS,
    format_duration,
    label,
    parse_duration,
    say_bytes,
    say_count,
    say_duration,
    say_many,
    say_name,
    say_names,
    say_ranges,
    say_share,
    shell_argument,
    shell_word,
)
from retentiond.history.ask.judge import (
    HOLDS_BY_GROUPS,
    WITHOUT_POSITIONS,
)
from retentiond.model import VERDICT_OF, GroupKind, Reason, Verdict
from retentiond.reasons import CAUSED_BY_A_GROUP, REASONS, Class, reasons_of
from retentiond.tell.reasons import remedy, short, tool_options
from tests.support import oracle
from tests.support.builders.reports import row


def test_there_are_words_for_every_reason_and_for_nothing_else() -> None:
    assert set(REASONS) == set(Reason)


PROMETHEUS = Path(__file__).parents[2] / "deploy" / "prometheus"

PLACES = {
    Reason.CONSUMED: "",
    Reason.EMPTY: "",
    Reason.TOO_YOUNG: "",
    Reason.NOT_CONSUMED: "group",
    Reason.NOT_WORTHWHILE: "",
    Reason.NO_GROUP: "disables counted",
    Reason.TOO_FEW_GROUPS: "counted",
    Reason.REQUIRED_GROUP_MISSING: "group counted",
    Reason.GROUP_WITHOUT_COMMIT: "group counted",
    Reason.GROUP_VANISHED: "group counted",
    Reason.GROUP_UNREADABLE: "group counted",
    Reason.GROUP_LIST_INCOMPLETE: "disables positionless",
    Reason.COMMIT_BEYOND_END: "group counted",
    Reason.COMMIT_REWOUND: "group counted",
    Reason.OFFSET_UNREADABLE: "disables positionless",
    Reason.TOPIC_RECREATED: "",
    Reason.NOT_DELETABLE: "disables",
    Reason.RETENTION_EXCEEDS_FORCED: "disables again",
    Reason.POLICY_CONFLICT: "again",
    Reason.POLICY_UNREADABLE: "again",
    Reason.OPEN_TRANSACTION: "again",
    Reason.EVIDENCE_CHANGED: "again",
    Reason.LIMIT_REACHED: "again",
    Reason.PAUSED: "again",
}
"""Of each reason: a group is the cause; it disables a topic that is configured for the first time;
the past is judged again where it stands, or where other groups count (counted), or does not tell
where readers stood (positionless)."""


def test_every_reason_has_its_place() -> None:
    def having(word: str) -> set[Reason]:
        return {reason for reason, words in PLACES.items() if word in words.split()}

    assert set(PLACES) == set(Reason)
    assert having("group") == CAUSED_BY_A_GROUP
    assert having("disables") == {reason for reason, entry in REASONS.items() if entry.not_enabled}
    assert having("again") == set(reasons_of(Class.AGAIN))
    assert having("positionless") == set(WITHOUT_POSITIONS)
    assert having("counted") == HOLDS_BY_GROUPS
    assert all(
        VERDICT_OF[reason] is Verdict.HOLD for reason in having("again") | having("positionless")
    )


def test_the_alert_about_held_partitions_leaves_out_the_reasons_of_that_class() -> None:
    """And what any rule of Prometheus names is a reason."""
    text = "".join(
        (PROMETHEUS / name).read_text("utf-8") for name in ("alerts.yml", "recording_rules.yml")
    )
    named = re.findall(r'reason(?:=|!=|=~|!~)"([a-z_|]+)"', text)
    assert {name for names in named for name in names.split("|")} <= {*Reason}
    (left_out,) = re.findall(r'topic:retentiond_held_seconds:owned{reason!~"([a-z_|]+)"}', text)
    assert set(left_out.split("|")) == set(reasons_of(Class.NO_ALERT))


def test_hidden_groups_are_ruled_out_after_the_reasons_that_come_first_in_the_plan() -> None:
    """The oracle, which the plan agrees with, has them in the order in which they apply."""
    after = oracle.REASONS.index(Reason.GROUP_LIST_INCOMPLETE) + 1
    assert set(oracle.REASONS[:after]) == set(reasons_of(Class.BEFORE_HIDDEN))


@pytest.mark.parametrize("reason", Reason)
def test_each_remedy_is_whole_and_never_costs_a_reader_its_records(reason: Reason) -> None:
    """None is to leave out a reader that may have records to read; none for an unreadable group
    blames a right that may not be missing; none for an external reader speaks of a group."""
    for group, kind in itertools.product(("billing", None), (None, *GroupKind)):
        held = replace(row("orders", 3, reason), binding_group=group, binding_kind=kind)
        said = remedy(held)
        assert said[0].isupper()
        assert said.endswith(".")
        unwanted = ["{", "None"]
        if group and reason in CAUSED_BY_A_GROUP:
            unwanted += ["exclude", "need not read everything"]
            if reason is Reason.GROUP_UNREADABLE:
                unwanted += ["DESCRIBE", "coordinator"]
            if kind is GroupKind.EXTERNAL:
                unwanted += ["kafka-", "DESCRIBE", "coordinator", " group billing"]
                assert "xternal reader billing" in said or "groups.external" in said
        assert [each for each in unwanted if each in said] == []
        assert "{" not in short(reason, group)


def test_no_two_reasons_have_the_same_remedy_or_the_same_few_words() -> None:
    assert len({wording.remedy for wording in REASONS.values()}) == len(Reason)
    assert len({wording.short for wording in REASONS.values()}) == len(Reason)


def test_a_command_in_a_remedy_can_be_pasted_whatever_the_group_is_called() -> None:
    held = replace(row("orders", 3, Reason.GROUP_WITHOUT_COMMIT), binding_group="a b;{topic}")
    assert "--group 'a b;{topic}' --topic orders:3 " in remedy(held)


@pytest.mark.parametrize(
    ("reason", "tool"),
    [
        (Reason.NOT_CONSUMED, "kafka-consumer-groups"),
        (Reason.GROUP_WITHOUT_COMMIT, "kafka-consumer-groups"),
        (Reason.COMMIT_BEYOND_END, "kafka-consumer-groups"),
        (Reason.COMMIT_REWOUND, "kafka-consumer-groups"),
        (Reason.OPEN_TRANSACTION, "kafka-transactions"),
    ],
)
def test_a_command_of_kafkas_own_says_where_the_cluster_is(reason: Reason, tool: str) -> None:
    held = replace(row("orders", 3, reason), binding_group="billing")
    open_to_all = {"bootstrap.servers": "a:9092,b:9092", "security.protocol": "plaintext"}
    said = remedy(held, tool_options(open_to_all))
    assert f"`{tool} --bootstrap-server a:9092,b:9092 " in said
    assert said.count("`kafka-") == said.count(" --bootstrap-server a:9092,b:9092 ")
    assert "--command-config" not in said
    secured = {"bootstrap.servers": "a:9093; rm -rf x", "security.protocol": "SSL"}
    said = remedy(held, tool_options(secured))
    assert f"`{tool} --bootstrap-server 'a:9093; rm -rf x' --command-config FILE " in said
    assert said.endswith("as Kafka's own tools take it.")


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        (GroupKind.CLASSIC, "`kafka-consumer-groups --reset-offsets --group g --topic orders:3 "),
        (GroupKind.SHARE, "`kafka-share-groups --reset-offsets --group g --topic orders:3 "),
        (GroupKind.STREAMS, "`kafka-streams-groups --reset-offsets --group g --input-topic "),
    ],
)
def test_the_tool_in_a_remedy_is_the_one_for_the_kind_of_group(
    kind: GroupKind, command: str
) -> None:
    held = row("orders", 3, Reason.COMMIT_REWOUND)
    assert command in remedy(replace(held, binding_group="g", binding_kind=kind))


def test_a_streams_group_is_given_no_offset_where_it_has_none_which_its_tool_refuses() -> None:
    held = row("orders", 3, Reason.GROUP_WITHOUT_COMMIT)
    said = remedy(replace(held, binding_group="g", binding_kind=GroupKind.STREAMS))
    assert "--reset-offsets" not in said
    assert "start it" in said


ODD = [
    "",
    "-rf",
    "a b",
    "it's",
    'say "hi"',
    "$HOME `id`",
    "new\nline",
    "\x1b[31mred",
    "\u202eevil",
    "\\",
    "é",
    "$'x'",
    "a\tb",
    "tab\\033",
]


@pytest.mark.parametrize("name", ODD)
def test_a_shell_reads_a_word_back_as_the_name_that_it_was(name: str) -> None:
    argument = shell_argument(name)
    assert argument is not None
    assert argument.isprintable()
    assert "`" not in argument or "`" not in name
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {shell_word(name)} {argument}"],
        capture_output=True,
        check=True,
        timeout=30,
    ).stdout
    dashes = ["--"] if name.startswith("-") else []
    assert words.decode().split("\0")[:-1] == [name, *dashes, name]


@pytest.mark.parametrize("name", ["nul\0", "a" * 30_000])
def test_a_command_that_can_not_be_pasted_is_not_offered(name: str) -> None:
    assert shell_word(name) is None
    said = remedy(replace(row("orders", 3, Reason.GROUP_VANISHED), binding_group=name))
    assert "`retentiond groups forget GROUP`" in said
    assert "GROUP stands for the whole group id" in said
    assert len(said) < 500


def test_an_empty_name_is_shown_and_a_long_one_is_cut_with_its_length() -> None:
    assert say_name("") == '""'
    assert say_name("a" * 60 + "b" * 29_920 + "c" * 20) == (
        f"{'a' * 60}…{'c' * 20} (30,000 characters)"
    )
    assert say_name("\x1b[31m\u202e") == "\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}"
    assert say_names(["", "a", "b"], 2) == '"", a and 1 more'
    assert short(Reason.NOT_CONSUMED, "") == '"" has yet to read them'
    assert short(Reason.NOT_CONSUMED, None) == "a group has yet to read them"


def test_labels_of_long_names_differ_and_are_none_of_a_shorter_name() -> None:
    first, second = label("a" * 30_000), label("a" * 29_999)
    assert first != second
    assert 250 < len(first) < 300
    assert label("short\x1b") == "short\x1b"


SAID: list[tuple[Callable[..., str], tuple[Any, ...], str]] = [
    # Bytes have two to four digits.
    (say_bytes, (0,), "0 B"),
    (say_bytes, (1023,), "1023 B"),
    (say_bytes, (1024,), "1.0 KiB"),
    (say_bytes, (99 * 1024,), "99.0 KiB"),
    (say_bytes, (100 * 1024,), "100 KiB"),
    (say_bytes, (1024 * 1024 - 1,), "1.0 MiB"),
    (say_bytes, (13_314_398_618,), "12.4 GiB"),
    (say_bytes, (2**70,), "1024 EiB"),
    # Some is never shown as none, nor as all.
    (say_share, (0, 10), "0%"),
    (say_share, (0, 0), "0%"),
    (say_share, (1, 1000), "<1%"),
    (say_share, (1, 2), "50%"),
    (say_share, (999, 1000), "99%"),
    (say_share, (10, 10), "100%"),
    # Counts are grouped by thousands and agree with their noun.
    (say_count, (1_204_331,), "1,204,331"),
    (say_many, (1, "topic"), "1 topic"),
    (say_many, (2_000, "topic"), "2,000 topics"),
    (say_many, (2, "entry", "entries"), "2 entries"),
    # A duration in words starts with its largest unit.
    (say_duration, (1,), "1 millisecond"),
    (say_duration, (90_000,), "1 minute 30 seconds"),
    (say_duration, (6 * HOUR_MS,), "6 hours"),
    (say_duration, (36 * HOUR_MS,), "1 day 12 hours"),
    (say_duration, (24 * HOUR_MS + 1,), "1 day 1 millisecond"),
    # Runs of partitions are said in short.
    (say_ranges, ([],), ""),
    (say_ranges, ([4],), "4"),
    (say_ranges, ([0, 1, 2, 3, 7],), "0-3, 7"),
    (say_ranges, ([1, 3, 5, 6],), "1, 3, 5-6"),
    # Times are RFC 3339 in UTC, with milliseconds.
    (rfc3339, (0,), "1970-01-01T00:00:00.000Z"),
    (rfc3339, (1_790_000_000_123,), "2026-09-21T14:13:20.123Z"),
    (rfc3339, (1_790_000_000_000,), "2026-09-21T14:13:20.000Z"),
]


@pytest.mark.parametrize(("say", "arguments", "said"), SAID)
def test_figures_are_read_at_a_glance(
    say: Callable[..., str], arguments: tuple[Any, ...], said: str
) -> None:
    assert say(*arguments) == said


@pytest.mark.parametrize("ms", [1, 999, 1_000, 90_000, 3_600_000, 86_400_000, 604_800_000])
def test_a_duration_is_written_as_it_is_read(ms: int) -> None:
    assert parse_duration(format_duration(ms)) == ms


def test_what_ends_a_trial_is_the_remedy_of_records_that_may_be_deleted_there() -> None:
    assert "take `dry_run` out of it" in remedy(replace(row("orders"), dry_run=True))
    assert "next cycle" in remedy(row("orders"))
