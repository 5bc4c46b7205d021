"""``check``: what the configuration means, and what it says changes (tests/golden/check)."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from retentiond.cli.check import MOST_EXPLAINED
from tests.unit.cli.conftest import Command, Transcript
from tests.unit.cli.reviewed_files import ENABLED, HOURS, KAFKA, Files, told

POLICIES = "policies: policies.d/*.yaml\n"

PRESSURE = "retention.commitoffset.pressure"


def entries(*settings: str) -> str:
    """Topics ``t00``, ``t01`` and so on, enabled and with these settings."""
    lines = (f"  - {{name: t{at:02}, {ENABLED}, {each}}}\n" for at, each in enumerate(settings))
    return "topics:\n" + "".join(lines)


CHANGES = [
    (f"{HOURS}: 24", f"{HOURS}: 6"),
    (f"{HOURS}: 6", f"{HOURS}: 24"),
    (f"{HOURS}: 1", "retention.commitoffset.minutes: 10"),
    ("groups: {required: [a]}", "groups: {required: [a, b]}"),
    ("groups: {required: [a]}", "groups: {required: [b]}"),
    ("groups: {exclude: [a]}", "groups: {exclude: [a, b]}"),
    ("groups: {}", "groups: {only: [a]}"),
    ("groups: {only: [a]}", "groups: {only: [a, b]}"),
    ("groups: {}", "groups: {min: 2}"),
    ("groups: {}", "groups: {forget_vanished_after: 30d}"),
    ("allow_compacted: false", "allow_compacted: true"),
    ("groups_visible: assumed", "groups_visible: checked"),
]

THE_SAME = [
    (f"{HOURS}: 1", "retention.commitoffset.minutes: 60"),
    ("groups: {exclude: [a, b]}", "groups: {exclude: [b, a, a]}"),
]


def test_what_the_entries_of_all_files_mean(
    transcript: Transcript, command: Command, files: Files
) -> None:
    """Those of a file that mean the same share a line; a few have a line each."""
    alike = "".join(f"- {{name: pay.{at}, {ENABLED}, {HOURS}: 6}}\n" for at in range(1, 6))
    fence = r"{file: policies.d/pay.yaml, topics: ['pay\..*'], at_least: 6h, forbid: [groups.only]}"
    main = f"{KAFKA}policies: [{fence}, policies.d/search.yaml]\ndry_run: false\n"
    of_pay = f"owner: pay\ntopics:\n{alike}- {{name: pay.audit}}\n"
    of_search = (
        "owner: search\ntopics:\n"
        + "".join(f"  - {{name: clicks.{at}, {ENABLED}}}\n" for at in range(3))
        + f"  - {{pattern: 'views.*', except: [views.raw], {ENABLED}, {PRESSURE}.hours: 1,"
        " groups: {only: [a], min: 2, required: [a]}}\n  - {name: __consumer_offsets}\n"
    )
    several = (
        "groups: {required: [z, b, a], exclude: ['x.*', y], min: 4}, allow_compacted: true",
        f"{HOURS}: 0, groups: {{external: [{{name: lake, offsets: /a}}, {{name: etl,"
        " offsets: /b}], forget_vanished_after: 30d}",
    )
    pressure = "disk_pressure: {below_free: 20%, until_free: 25%}\n"
    path = files.write("all", main + pressure + entries(*several), pay=of_pay, search=of_search)
    shown = transcript("check", "--config", path).out
    document = json.loads(command("check", "--config", path, "--output", "json").out)
    owners = [each["owner"] for each in document["entries"]]
    assert owners == [None, None, *["pay"] * 6, *["search"] * 5]
    assert all(each["meaning"] in shown for each in document["entries"])
    off = f"{{name: orders, {ENABLED[:-4]}false, {PRESSURE}.hours: 1, {HOURS}: 2}}"
    path = files.write("off", f"{KAFKA}{pressure}topics: [{off}]\n")
    transcript("check", "--config", path)
    path.write_text(f"{KAFKA}topics: [{off}]\n")
    transcript("check", "--config", path)
    transcript.check("check/entries.txt")


def test_many_entries_are_told_file_by_file_unless_each_is_asked_for(
    transcript: Transcript, command: Command, files: Files
) -> None:
    topics = "".join(
        f"- {{name: p.{at}, {ENABLED}, {HOURS}: {at + 6}}}\n" for at in range(MOST_EXPLAINED)
    )
    fence = r"policies: [{file: policies.d/pay.yaml, topics: ['p\..*']}]"
    path = files.write(
        "many",
        f"{KAFKA}{fence}\n{entries(f'{HOURS}: 0')}",
        pay=f"owner: pay\ntopics:\n{topics}",
    )
    shown = transcript("check", "--config", path).out
    transcript.check("check/many.txt")
    assert "p.1:" not in shown
    every = command("check", "--config", path, "--verbose").out
    assert all(f"\np.{at}: records can be deleted" in every for at in range(MOST_EXPLAINED))
    document = json.loads(command("check", "--config", path, "--output", "json").out)
    assert len(document["entries"]) == MOST_EXPLAINED + 1


def test_a_narrow_terminal_breaks_no_settings_name(
    command: Command, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    setting = f"{PRESSURE}.minutes"
    was, now = (
        files.write(
            name,
            f"{KAFKA}topics: [{{name: orders.enriched.by.region.v2, {ENABLED}, {HOURS}: 6,"
            f" groups: {{required: {groups}}}, {setting}: {minutes}}}]\n",
        )
        for name, minutes, groups in (("old", 10, "[billing]"), ("new", 25, "[billing, search]"))
    )
    lines = command("check", "--config", now, "--against", was).out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(f" {setting} " in line for line in lines)


def test_a_narrow_terminal_cuts_no_word_off(
    command: Command, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a setting's name leaves the values no more room than they need."""
    monkeypatch.setenv("COLUMNS", "80")
    owned = f"owner: payments\ntopics: [{{name: pay.orders, {ENABLED}, {HOURS}: 6}}]\n"
    was, now = (
        files.write(
            name,
            f"{KAFKA}policies: [{{file: policies.d/bill.yaml, topics: [{topics}],"
            f" forbid: [{forbid}]}}]\nlimits: {{partitions_per_cycle: {most}}}\n",
            bill=owned,
        )
        for name, topics, forbid, most in (
            ("old", "'pay.*'", "", 1),
            ("new", "'pay.*', 'bills.*'", "groups.only, groups.exclude, allow_compacted", 1000),
        )
    )
    heading, *lines = command("check", "--config", now, "--against", was).out.splitlines()
    assert max(map(len, (heading, *lines))) <= 80
    effects = {line[heading.index("DELETION") :].rstrip() for line in lines if line[0] == "("}
    assert effects == {"as before", "sooner", "unknown"}


def test_what_changes_from_another_file(
    transcript: Transcript, command: Command, files: Files
) -> None:
    old = files.write(
        "old",
        KAFKA[:-2]
        + ", sasl.password: hunter2}\n"
        + POLICIES
        + entries(*(before for before, _ in CHANGES + THE_SAME))
        + f"  - {{name: goes, {ENABLED}, groups: {{required: [x]}}}}\n"
        + f"  - {{pattern: 'pattern\\..*', {ENABLED}, {HOURS}: 24}}\n",
        payments=f"owner: payments\ntopics: [{{pattern: 'or.*', {ENABLED}}}]\n",
    )
    new = files.write(
        "new",
        KAFKA[:-2]
        + ", sasl.password: hunter3}\n"
        + f"{POLICIES}dry_run: false\nstate_dir: /state\nlimits: {{partitions_per_cycle: 5}}\n"
        + entries(*(after for _, after in CHANGES + THE_SAME))
        + f"  - {{name: comes, {ENABLED}}}\n  - {{name: pattern.a, {ENABLED}, {HOURS}: 72}}\n"
        + f"  - {{pattern: 'pattern\\..*', {ENABLED}, {HOURS}: 24}}\n",
        payments="owner: orders team\n"
        f"topics: [{{pattern: 'or.*', {ENABLED}, except: [orders]}}]\n",
    )
    compared = ("check", "--config", new, "--against", old)
    table = transcript(*compared).out
    done = command(*compared, "--output", "json", "--exit-code")
    changes = json.loads(done.out)["changes"]
    assert (done.code, [each["entry"] for each in changes[-5:]]) == (3, ["goes", *[None] * 4])
    assert {each["owner"] for each in changes} == {None, "orders team"}
    assert ("groups.required", ["a"], ["a", "b"], "later") in told(changes)
    assert ("limits.partitions_per_cycle", None, 5, "later") in told(changes)
    assert ("kafka.sasl.password", "(not shown)", "(not shown)", "none") in told(changes)
    assert len(changes) == len(table.splitlines()) - 1
    transcript(*compared, "--output", "markdown")
    transcript("check", "--config", new, "--against", new, "--exit-code")
    assert "hunter" not in transcript.text + done.out
    transcript.check("check/against.txt")


def test_the_order_of_exceptions_is_no_change(files: Files) -> None:
    entry = f"pattern: 'orders.*', {ENABLED}"
    assert files.changes(f"{{{entry}, except: [a, b]}}", f"{{{entry}, except: [b, a, b]}}") == []


@pytest.mark.parametrize(
    "pattern", ["stage\\..*", ".*a.*|b\\|c", "__own_c.*_", "~~a~~.<b>c</b>.`d`", "[12](x)"]
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


def test_what_it_refuses(transcript: Transcript, files: Files) -> None:
    kafka = "{bootstrap.servers: 'x:1', compression.type: zstd, sasl.pasword: hunter2}"
    reader = f"{{name: a, connect_offsets: {{topic: t, connector: c, kafka: {kafka}}}}}"
    external = f"groups: {{external: [{reader}]}}"
    own = f"owner: search\ntopics: [{{name: clicks, {ENABLED}, {external}}}]\n"
    inherited = f"owner: search\ntopics: [{{name: clicks, {ENABLED}}}]\n"
    fence = r"{file: policies.d/pay.yaml, topics: ['pay\..*'], at_least: 6h}"
    another = r"{file: policies.d/search.yaml, topics: ['search\..*']}"
    short = f"owner: pay\ntopics: [{{name: pay.a, {ENABLED}, {HOURS}: 5}}]\n"
    for path in (
        files.write("own", KAFKA + POLICIES, search=own),
        files.write("inherited", f"{KAFKA}{POLICIES}defaults: {{{external}}}\n", search=inherited),
        files.write("fence", f"{KAFKA}policies: [{fence}, {another}]\n", pay=short),
    ):
        transcript.refused("check", "--config", path)
    fine = files.write("fine", f"{KAFKA}topics: [{{name: orders}}]\n")
    transcript.refused("check", "--config", fine, "--exit-code")
    assert "hunter" not in transcript.text
    transcript.check("check/refused.txt")


def test_what_changes_where_a_fenced_file_was_bad(transcript: Transcript, files: Files) -> None:
    fence = r"{file: policies.d/pay.yaml, topics: ['pay\..*'], at_least: 6h}"
    old, new = (
        files.write(
            name,
            f"{KAFKA}policies: [{fence}]\n",
            pay=f"owner: pay\ntopics: [{{name: pay.a, {ENABLED}, {HOURS}: {hours}}}]\n",
        )
        for name, hours in (("old", 5), ("new", 7))
    )
    transcript("check", "--config", new, "--against", old)
    transcript.check("check/against_bad_fenced_file.txt")


ENABLES_WHAT_A_FIRST_LOOK_WOULD_NOT = [
    "name: schema-changes.inventory",
    "name: connect-offsets",
    "name: shop-carts-store-changelog",
    r"pattern: 'schema-changes\..*'",
    r"pattern: 'shop-.*-changelog'",
    "pattern: '.*'",
]


def test_an_entry_that_enables_what_a_first_look_would_not_is_warned_of(
    transcript: Transcript, files: Files
) -> None:
    entries = (f"  - {{{each}, {ENABLED}}}\n" for each in ENABLES_WHAT_A_FIRST_LOOK_WOULD_NOT)
    path = files.write("new", f"{KAFKA}topics:\n{''.join(entries)}")
    transcript("check", "--config", path)
    transcript("check", "--config", path, "--against", path, "--output", "json")
    transcript.check("check/warned.txt")


@pytest.mark.parametrize(
    "entry",
    [
        f"name: schema-changes.inventory, {ENABLED[:-4]}false",
        f"pattern: 'orders.*', {ENABLED}",
        f"pattern: 'schema.*', except: ['schema-changes.*'], {ENABLED}",
        f"name: __consumer_offsets, {ENABLED}",
    ],
)
def test_other_entries_are_not_warned_of(command: Command, files: Files, entry: str) -> None:
    done = command(
        "check", "--config", files.write("new", f"{KAFKA}topics: [{{{entry}, {HOURS}: 1}}]\n")
    )
    assert (done.code, done.err) == (0, "")


def test_all_errors_are_told(command: Command, files: Files) -> None:
    bad = "owner: {0}\ntopics: [{{name: {0}, oops: 1}}, {{name: {0}2, uups: 1}}]\n"
    path = files.write(
        "new", f"{KAFKA}policies: policies.d/*.yaml\n", a=bad.format("a"), b=bad.format("b")
    )
    done = command("check", "--config", path)
    assert done.code == 2
    assert [line.split(": unknown")[0] for line in done.err.splitlines()] == [
        f"retentiond: policies.d/{file}.yaml: topics[{at}].{key}"
        for file in "ab"
        for at, key in enumerate(["oops", "uups"])
    ]


def test_it_leaves_nothing_behind(command: Command, files: Files, tmp_path: Path) -> None:
    path = files.write("one", f"{KAFKA}state_dir: {tmp_path / 'state'}\ntopics: [{{name: a}}]\n")
    before = sorted(tmp_path.rglob("*"))
    shown = json.loads(command("check", "--config", path, "--output", "json").out)
    assert shown
    assert sorted(tmp_path.rglob("*")) == before
