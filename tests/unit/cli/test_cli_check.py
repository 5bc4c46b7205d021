"""``check``: what the configuration means, and what it says changes from another file."""

from __future__ import annotations

import html
import json
from typing import Any

import pytest
from markdown_it import MarkdownIt

from tests.unit.cli.conftest import Command
from tests.unit.cli.reviewed_files import ENABLED, HOURS, KAFKA, Files, told


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (f"{HOURS}: 24", f"{HOURS}: 6", (HOURS, 24, 6, "sooner")),
        (f"{HOURS}: 6", f"{HOURS}: 24", (HOURS, 6, 24, "later")),
        (
            f"{HOURS}: 1",
            "retention.commitoffset.minutes: 10",
            ("retention.commitoffset.minutes", 60, 10, "sooner"),
        ),
        (
            "groups: {required: [a]}",
            "groups: {required: [a, b]}",
            ("groups.required", ["a"], ["a", "b"], "later"),
        ),
        (
            "groups: {required: [a]}",
            "groups: {required: [b]}",
            ("groups.required", ["a"], ["b"], "unknown"),
        ),
        (
            "groups: {exclude: [a]}",
            "groups: {exclude: [a, b]}",
            ("groups.exclude", ["a"], ["a", "b"], "sooner"),
        ),
        ("groups: {}", "groups: {only: [a]}", ("groups.only", None, ["a"], "sooner")),
        (
            "groups: {only: [a]}",
            "groups: {only: [a, b]}",
            ("groups.only", ["a"], ["a", "b"], "later"),
        ),
        ("groups: {}", "groups: {min: 2}", ("groups.min", 1, 2, "later")),
        (
            "groups: {}",
            "groups: {forget_vanished_after: 30d}",
            ("groups.forget_vanished_after", None, "30d", "sooner"),
        ),
        (
            "allow_compacted: false",
            "allow_compacted: true",
            ("allow_compacted", False, True, "sooner"),
        ),
        (
            "groups_visible: assumed",
            "groups_visible: checked",
            ("groups_visible", "assumed", "checked", "later"),
        ),
    ],
)
def test_a_changed_setting_says_what_it_does_to_records(
    before: str, after: str, change: tuple[Any, ...], files: Files
) -> None:
    entry = f"name: orders, {ENABLED}"
    assert told(files.changes(f"{{{entry}, {before}}}", f"{{{entry}, {after}}}")) == [change]


def test_what_is_the_same_in_other_words_is_no_change(files: Files) -> None:
    assert (
        files.changes(
            f"{{name: orders, {ENABLED}, {HOURS}: 1, groups: {{exclude: [a, b]}}}}",
            f"{{name: orders, {ENABLED}, retention.commitoffset.minutes: 60, "
            "groups: {exclude: [b, a, a]}}",
        )
        == []
    )
    pattern = f"pattern: 'orders.*', {ENABLED}"
    assert (
        files.changes(f"{{{pattern}, except: [a, b]}}", f"{{{pattern}, except: [b, a, b]}}") == []
    )


def test_an_entry_that_comes_enables_its_topics_and_one_that_goes_leaves_them_alone(
    files: Files,
) -> None:
    came = files.changes(
        f"{{name: a, {ENABLED}}}", f"{{name: a, {ENABLED}}}, {{name: b, {ENABLED}}}"
    )
    assert [each["entry"] for each in came] == ["b"]
    assert told(came) == [("retention.commitoffset.enable", False, True, "sooner")]
    went = files.changes(
        f"{{name: a, {ENABLED}}}, {{name: b, {ENABLED}, groups: {{required: [x]}}}}",
        f"{{name: a, {ENABLED}}}",
    )
    assert told(went) == [
        ("retention.commitoffset.enable", True, False, "later"),
        ("groups.required", ["x"], [], "none"),
    ]


def test_an_exact_name_that_comes_is_compared_with_the_pattern_that_held_before(
    files: Files,
) -> None:
    pattern = f"{{pattern: '.*', {ENABLED}, {HOURS}: 24}}"
    found = files.changes(pattern, f"{pattern}, {{name: orders, {ENABLED}, {HOURS}: 72}}")
    assert told(found) == [(HOURS, 24, 72, "later")]


def test_owners_exceptions_and_settings_of_the_file_are_told(files: Files) -> None:
    policies = "policies: policies.d/*.yaml\n"
    topics = f"topics: [{{pattern: 'or.*', {ENABLED}"
    before = files.write("old", KAFKA + policies, payments=f"owner: payments\n{topics}}}]\n")
    after = files.write(
        "new",
        f"{KAFKA}{policies}dry_run: false\nstate_dir: /state\n"
        "limits: {partitions_per_cycle: 5}\n",
        payments=f"owner: orders team\n{topics}, except: [orders]}}]\n",
    )
    found = files.found(before, after)
    assert [(each["entry"], each["owner"]) for each in found[:2]] == [("or.*", "orders team")] * 2
    assert told(found)[:2] == [
        ("owner", "payments", "orders team", "none"),
        ("except", [], ["orders"], "unknown"),
    ]
    assert {each["entry"] for each in found[2:]} == {None}
    by_setting = {each["setting"]: each["effect"] for each in found[2:]}
    assert by_setting["dry_run"] == "sooner"
    assert by_setting["limits.partitions_per_cycle"] == "later"
    assert by_setting["state_dir"] == "unknown"


def test_a_secret_that_changes_is_not_shown(files: Files, command: Command) -> None:
    topics = f"topics: [{{name: orders, {ENABLED}}}]\n"
    kafka = "kafka: {{bootstrap.servers: localhost:9092, sasl.password: {}}}\n"
    before = files.write("old", kafka.format("hunter2") + topics)
    after = files.write("new", kafka.format("hunter3") + topics)
    done = command("check", "--config", after, "--against", before)
    assert "kafka.sasl.password" in done.out
    assert "hunter" not in done.out + done.err


@pytest.mark.parametrize(
    ("change", "code"), [("", 0), ("dry_run: true\n", 0), ("limits: {settle_cycles: 2}\n", 3)]
)
def test_exit_code_is_3_where_something_changes(
    change: str, code: int, files: Files, command: Command
) -> None:
    topics = f"topics: [{{name: orders, {ENABLED}}}]\n"
    before, after = files.write("old", KAFKA + topics), files.write("new", KAFKA + change + topics)
    done = command("check", "--config", after, "--against", before, "--exit-code")
    assert done.code == code
    assert ("Nothing changes." in done.out) == (code == 0)


def test_markdown_is_a_table_for_a_pull_request(files: Files, command: Command) -> None:
    pattern = f"pattern: 'a|b', {ENABLED}"
    before = files.write("old", f"{KAFKA}topics: [{{{pattern}, {HOURS}: 24}}]\n")
    after = files.write("new", f"{KAFKA}topics: [{{{pattern}, {HOURS}: 6}}]\n")
    done = command("check", "--config", after, "--against", before, "--output", "markdown")
    assert done.out.splitlines() == [
        "| ENTRY | OWNER | SETTING | BEFORE | AFTER | RECORDS MAY GO |",
        "| --- | --- | --- | --- | --- | --- |",
        f"| a\\|b |  | {HOURS} | 24 | 6 | sooner |",
    ]


@pytest.mark.parametrize(
    "pattern",
    [
        "stage\\..*",
        ".*a.*|b\\|c",
        "__own_c.*_",
        "~~a~~.<b>c</b>.`d`",
        "[12](x)",
    ],
)
def test_markdown_shows_a_regular_expression_as_it_is(
    pattern: str, files: Files, command: Command
) -> None:
    entry = f"pattern: '{pattern}', {ENABLED}"
    before = files.write("old", f"{KAFKA}topics: [{{{entry}}}]\n")
    after = files.write("new", f"{KAFKA}topics: [{{{entry}, except: [a]}}]\n")
    done = command("check", "--config", after, "--against", before, "--output", "markdown")
    page = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(done.out)
    assert f"<td>{html.escape(pattern, quote=False)}</td>" in page


def test_exit_code_and_output_go_with_another_file(files: Files, command: Command) -> None:
    path = files.write("new", f"{KAFKA}topics: [{{name: orders}}]\n")
    done = command("check", "--config", path, "--exit-code")
    assert (done.code, "--against OLD" in done.err) == (2, True)


def test_entries_of_a_file_that_mean_the_same_share_a_line(files: Files, command: Command) -> None:
    several = "".join(f"- {{name: pay.{at}, {ENABLED}, {HOURS}: 6}}\n" for at in range(1, 6))
    path = files.write(
        "new",
        f"{KAFKA}policies: policies.d/*.yaml\n",
        payments=f"owner: payments\ntopics:\n{several}- {{name: pay.audit}}\n",
        search=f"owner: search\ntopics: [{{name: clicks, {ENABLED}, {HOURS}: 6}}]\n",
    )
    done = command("check", "--config", path)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert [line.partition(": ")[0] for line in lines[:-1]] == [
        "policies.d/payments.yaml, owner payments",
        "pay.1, pay.2, pay.3 and 2 more",
        "pay.audit",
        "policies.d/search.yaml, owner search",
        "clicks",
    ]
    assert lines[0].endswith("owner payments: 6 entries, 5 enabled.")
    assert lines[3].endswith("owner search: 1 entry, 1 enabled.")


def test_a_few_entries_that_mean_the_same_have_a_line_each(files: Files, command: Command) -> None:
    entries = ", ".join(f"{{name: orders.{at}, {ENABLED}}}" for at in range(3))
    path = files.write("new", f"{KAFKA}topics: [{entries}]\n")
    lines = command("check", "--config", path).out.splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == ["orders.0", "orders.1", "orders.2"]


@pytest.mark.parametrize("is_inherited", [False, True])
def test_a_wrong_property_of_an_external_reader_is_named_with_its_file(
    files: Files, command: Command, is_inherited: bool
) -> None:
    kafka = "{bootstrap.servers: 'x:1', compression.type: zstd}"
    reader = f"{{name: a, connect_offsets: {{topic: t, connector: c, kafka: {kafka}}}}}"
    groups = f"groups: {{external: [{reader}]}}"
    path = files.write(
        "new",
        f"{KAFKA}policies: policies.d/*.yaml\n"
        + (f"defaults: {{{groups}}}\n" if is_inherited else ""),
        search=f"owner: search\ntopics: [{{name: clicks, {ENABLED}"
        + ("}]\n" if is_inherited else f", {groups}}}]\n"),
    )
    done = command("check", "--config", path)
    assert done.code == 2
    file = str(path) if is_inherited else "policies.d/search.yaml"
    assert f"{file}: external reader a: connect_offsets.kafka.compression.type: " in done.err


@pytest.mark.parametrize(
    ("entry", "warned"),
    [
        ("name: schema-changes.inventory", "schema history of Debezium"),
        ("name: connect-offsets", "Kafka Connect's own"),
        ("name: shop-carts-store-changelog", "changelog of Kafka Streams"),
        (r"pattern: 'schema-changes\..*'", "schema-changes.x (Debezium's schema history). A first"),
        (r"pattern: 'shop-.*-changelog'", "shop-x-changelog (changelog of Streams). A first"),
        ("pattern: '.*'", "app-store-changelog (changelog of Streams) and of 9 other systems."),
    ],
)
def test_an_entry_that_enables_what_a_first_look_would_not_is_warned_of(
    command: Command, files: Files, entry: str, warned: str
) -> None:
    path = files.write("new", f"{KAFKA}topics:\n  - {{{entry}, {ENABLED}}}\n")
    done = command("check", "--config", path)
    assert done.code == 0
    assert done.err.startswith("retentiond: warning: topics[0]")
    assert warned in done.err
    shown = json.loads(command("check", "--config", path, "--output", "json").out)
    assert [warned in each for each in shown["warnings"]] == [True]
    both = command("check", "--config", path, "--against", path, "--output", "json")
    assert json.loads(both.out) == {"changes": [], "warnings": shown["warnings"]}
    assert both.err == ""


@pytest.mark.parametrize(
    "entries",
    [
        f"  - {{name: schema-changes.inventory, {ENABLED[:-4]}false}}\n",
        f"  - {{pattern: 'orders.*', {ENABLED}}}\n",
        f"  - {{pattern: 'schema.*', except: ['schema-changes.*'], {ENABLED}}}\n",
        f"  - {{name: __consumer_offsets, {ENABLED}}}\n",
    ],
)
def test_other_entries_are_not_warned_of(command: Command, files: Files, entries: str) -> None:
    done = command("check", "--config", files.write("new", f"{KAFKA}topics:\n{entries}"))
    assert (done.code, done.err) == (0, "")


def test_a_fence_is_told_in_words_and_what_is_bad_behind_it_ends_with_2(
    files: Files, command: Command
) -> None:
    fence = r"{file: policies.d/pay.yaml, topics: ['pay\..*'], at_least: 6h, forbid: [groups.only]}"
    main = f"{KAFKA}policies: [{fence}]\n"
    good = f"owner: pay\ntopics: [{{name: pay.a, {ENABLED}, {HOURS}: 6}}]\n"
    path = files.write("new", main, pay=good)
    done = command("check", "--config", path)
    assert (done.code, done.out.splitlines()[1]) == (
        0,
        r"policies.d/pay.yaml is fenced: only it can say anything about topics matching pay\..*, "
        "and it can say nothing about others, with a retention of at least 6 hours and no "
        "groups.only.",
    )
    done = command("check", "--config", files.write("old", main, pay=good.replace("6}", "5}")))
    assert (done.code, done.out) == (2, "")
    assert f"policies.d/pay.yaml: topics[0].{HOURS}: the fence policies[0]" in done.err

    wider = files.write("wider", main.replace(r"pay\.", "pay"), pay=good)
    done = command("check", "--config", wider, "--against", path)
    assert ("policies.policies.d/pay.yaml.topics" in done.out, "unknown" in done.out) == (
        True,
        True,
    )
