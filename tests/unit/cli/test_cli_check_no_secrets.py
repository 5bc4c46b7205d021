"""``check --no-secrets``: where CI has no environment variables and no secret files."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cli.conftest import Command
from tests.unit.cli.reviewed_files import ENABLED, HOURS, KAFKA, Files, told

TOPICS = f"topics: [{{name: orders, {ENABLED}}}]\n"

PRESSURE = "retention.commitoffset.pressure"


def test_without_secrets_nothing_outside_the_files_is_asked_for(
    files: Files, command: Command
) -> None:
    path = files.write(
        "new",
        "kafka: {bootstrap.servers: '${SERVERS}', security.protocol: SASL_SSL, "
        "sasl.mechanism: PLAIN, sasl.username: u, sasl.password: '${file:none/there}'}\n"
        "http: {port: '${PORT}'}\ndry_run: ${DRY}\n"
        f"topics: [{{name: orders, {ENABLED}}}]\n",
    )
    assert command("check", "--config", path).code == 2
    done = command("check", "--config", path, "--no-secrets")
    assert (done.code, done.err) == (0, "")
    assert "Variables and secret files were not asked for." in done.out


def test_without_secrets_what_is_wrong_in_the_files_is_still_an_error(
    files: Files, command: Command
) -> None:
    path = files.write(
        "new", f"{KAFKA}http: {{port: '${{PORT}}'}}\ntopics: [{{name: orders, hour: 1}}]\n"
    )
    done = command("check", "--config", path, "--no-secrets")
    assert done.code == 2
    assert "topics[0].hour: unknown setting" in done.err


@pytest.mark.parametrize(
    "text",
    [
        "http: {basic_auth: {u: '${file:hash}'}}",
        "http: {host: '${A}', tls: {certificate: '${A}', key: '${A}'}}",
        "disk_pressure: {below_free: '${A}', until_free: 25%}",
        "disk_pressure: {below_free: 30%, until_free: '${A}'}",
        "schedule: {interval: '${A}m', pressure_interval: '${A}'}",
        "spark: {master: '${A}', timeout: '${A}', conf: {a: '${A}'}}",
        "limits: {records_per_cycle: '${A}', settle_cycles: '${A}'}",
        "history: {path: '${A}', price_per_gib_month: '${A}', keep: '${A}'}",
        "metrics: {cluster: '${A}', partitions: '${A}'}",
        "audit: {keep: '${A}', max_bytes: '${A}', log: '${A}'}",
        "state_dir: ${A}\ndry_run: false",
        "dry_run: ${A}",
        "policies: ${A}",
    ],
)
def test_any_setting_of_the_file_may_be_unknown(text: str, files: Files, command: Command) -> None:
    path = files.write("new", f"{KAFKA}{text}\n{TOPICS}")
    done = command("check", "--config", path, "--no-secrets")
    assert (done.code, done.err) == (0, "")
    assert command("check", "--config", path, "--no-secrets", "--against", path).code == 0


@pytest.mark.parametrize(
    "topics",
    [
        "{name: '${A}.orders'}, {name: '${B}.orders'}, {name: orders}",
        "{pattern: '${A}.*', except: ['${B}', x]}",
        f"{{name: orders, {HOURS}: '${{A}}', {PRESSURE}.hours: 200}}",
        f"{{name: orders, {HOURS}: 1, {PRESSURE}.minutes: '${{A}}'}}",
        "{name: orders, retention.commitoffset.ms: '${A}', retention.commitoffset.minutes: '${B}'}",
        "{name: orders, retention.commitoffset.enable: '${A}', allow_compacted: '${A}'}",
        "{name: orders, groups_visible: '${A}'}",
        "{name: orders, groups: {required: ['${A}'], exclude: ['${B}', c]}}",
        "{name: orders, groups: {required: ['${A}'], only: [billing]}}",
        "{name: orders, groups: {required: [billing], only: ['${A}']}}",
        "{name: orders, groups: {min: '${A}', forget_vanished_after: '${A}'}}",
    ],
)
def test_any_setting_of_a_topic_may_be_unknown(topics: str, files: Files, command: Command) -> None:
    path = files.write("new", f"{KAFKA}topics: [{topics}]\n")
    done = command("check", "--config", path, "--no-secrets")
    assert (done.code, done.err) == (0, "")
    enabled = files.write("on", f"{KAFKA}defaults: {{{ENABLED}}}\ntopics: [{topics}]\n")
    done = command("check", "--config", enabled, "--no-secrets")
    assert (done.code, done.err) == (0, "")
    assert files.found(enabled, enabled, "--no-secrets") == []


@pytest.mark.parametrize(
    "reader",
    [
        "name: '${A}', offsets: /offsets",
        "name: a, spark_checkpoint: '${A}'",
        "name: a, offsets: '${A}', headers: {Authorization: '${file:t\u00f6ken}'}, ca: '${A}'",
        "name: a, offsets: '${A}', paths: {orders: '${A}'}, max_age: '${A}'",
        "name: a, connect_offsets: {topic: '${A}', connector: '${A}', cluster: '${A}'}",
        "name: a, connect_offsets: {topic: t, connector: c, kafka: {bootstrap.servers: x:1, "
        "security.protocol: '${A}', sasl.password: '${A}'}}",
    ],
)
def test_any_setting_of_an_external_reader_may_be_unknown(
    reader: str, files: Files, command: Command
) -> None:
    entry = f"name: orders, {ENABLED}, groups: {{only: [b], external: [{{{reader}}}]}}"
    path = files.write("new", f"{KAFKA}topics: [{{{entry.replace('only: [b], ', '')}}}]\n")
    done = command("check", "--config", path, "--no-secrets")
    assert (done.code, done.err) == (0, "")
    other = files.write("old", f"{KAFKA}{TOPICS}")
    assert files.found(other, path, "--no-secrets")[0]["setting"] == "groups.external"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http: '${A}'\n" + TOPICS, "http: expected a mapping of settings"),
        ("topics: [{name: '${A}', pattern: '${A}'}]", "expected either a name or a pattern"),
        ("topics: [{name: '${A}'}, {name: '${A}'}]", "topics[0] is another one"),
        ("topics: [{name: orders, groups: {required: '${A}'}}]", "expected a list"),
        ("dry_run: ${A-b}\n" + TOPICS, "dry_run: expected ${NAME} or ${file:PATH}"),
        ("http: {basic_auth: {}}\n" + TOPICS, "expected one user or more"),
    ],
)
def test_what_no_value_could_mend_is_an_error(
    text: str, said: str, files: Files, command: Command
) -> None:
    done = command("check", "--config", files.write("new", KAFKA + text), "--no-secrets")
    assert done.code == 2
    assert said in done.err


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ("sasl.mechnism: PLAIN", "kafka.sasl.mechnism: expected a property that reaches both"),
        ("sasl.mechnism: '${A}'", "did you mean sasl.mechanism?"),
        ("security.protocol: SASL", "kafka.security.protocol: expected one of PLAINTEXT, SSL"),
        ("socket.timeout.ms: 5s", "kafka.socket.timeout.ms: expected a whole number"),
        ("max_in_flight: 0", "kafka.max_in_flight: expected a whole number from 1 to 1000"),
    ],
)
def test_a_property_is_checked_beside_one_that_is_not_known(
    properties: str, said: str, files: Files, command: Command
) -> None:
    kafka = f"{{bootstrap.servers: 'localhost:9092', sasl.password: '${{A}}', {properties}}}"
    path = files.write("new", f"kafka: {kafka}\n{TOPICS}")
    done = command("check", "--config", path, "--no-secrets")
    assert (done.code, done.out) == (2, "")
    assert f"{path}: kafka." in done.err
    assert said in done.err
    reader = f"{{name: a, connect_offsets: {{topic: t, connector: c, kafka: {kafka}}}}}"
    entry = f"{{name: orders, {ENABLED}, groups: {{external: [{reader}]}}}}"
    done = command(
        "check", "--no-secrets", "--config", files.write("new", f"{KAFKA}topics: [{entry}]\n")
    )
    assert done.code == 2
    assert "external reader a: connect_offsets.kafka." in done.err


def test_what_an_entry_means_says_which_values_are_not_known(
    files: Files, command: Command
) -> None:
    path = files.write(
        "new",
        f"{KAFKA}dry_run: ${{DRY}}\nschedule: {{interval: '${{N}}m'}}\n"
        "disk_pressure: {below_free: '${LOW}', until_free: 25%}\n"
        f"topics: [{{name: orders, {ENABLED}, {HOURS}: '${{H}}', groups: {{min: '${{MIN}}'}}}}]\n",
    )
    assert command("check", "--config", path, "--no-secrets").out.splitlines() == [
        "orders: retention.commitoffset.hours is ${H}; groups.min is ${MIN}.",
        "A log directory with less than ${LOW} left is under pressure until it has 25% again.",
        "No enabled topic has a pressure retention, so pressure deletes nothing sooner.",
        f"{path} is valid. Every ${{N}}m retentiond deletes records unless dry_run (${{DRY}}) is "
        "true. Variables and secret files were not asked for.",
    ]


def test_an_entry_that_is_switched_off_has_no_part_in_disk_pressure(
    files: Files, command: Command
) -> None:
    off = "retention.commitoffset.enable: false, retention.commitoffset.pressure.hours: 1"
    topics = f"topics: [{{name: orders, {off}, {HOURS}: 2}}]\n"
    path = files.write("new", KAFKA + topics)
    assert "pressure" not in command("check", "--config", path).out
    path = files.write(
        "both", f"{KAFKA}disk_pressure: {{below_free: 20%, until_free: 25%}}\n{topics}"
    )
    assert "No enabled topic has a pressure retention" in command("check", "--config", path).out


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (f"{HOURS}: '${{H}}'", f"{HOURS}: 2", (HOURS, "${H}", 2, "unknown")),
        (f"{HOURS}: 2", f"{HOURS}: '${{H}}'", (HOURS, 2, "${H}", "unknown")),
        (f"{HOURS}: '${{H}}'", f"{HOURS}: '${{H2}}'", (HOURS, "${H}", "${H2}", "unknown")),
        (
            "retention.commitoffset.minutes: '${M}'",
            f"{HOURS}: 2",
            ("retention.commitoffset.minutes", "${M}", 120, "unknown"),
        ),
        (
            "retention.commitoffset.minutes: '${X}'",
            f"{HOURS}: '${{X}}'",
            ("retention.commitoffset.ms", "${X} minutes", "${X} hours", "unknown"),
        ),
        ("groups: {min: 2}", "groups: {min: '${M}'}", ("groups.min", 2, "${M}", "unknown")),
        (
            "groups_visible: '${V}'",
            "groups_visible: assumed",
            ("groups_visible", "${V}", "assumed", "unknown"),
        ),
        (
            "groups: {required: ['${A}']}",
            "groups: {required: ['${B}']}",
            ("groups.required", ["${A}"], ["${B}"], "unknown"),
        ),
    ],
)
def test_the_effect_of_a_value_that_is_not_known_is_unknown(
    before: str, after: str, change: tuple[Any, ...], files: Files
) -> None:
    entry = f"name: orders, {ENABLED}"
    found = files.changes(f"{{{entry}, {before}}}", f"{{{entry}, {after}}}", "--no-secrets")
    assert told(found) == [change]


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("dry_run: false", "dry_run: ${DRY}", ("dry_run", False, "${DRY}", "unknown")),
        ("dry_run: ${DRY}", "dry_run: ${D}", ("dry_run", "${DRY}", "${D}", "unknown")),
        (
            "limits: {records_per_cycle: null}",
            "limits: {records_per_cycle: '${N}'}",
            ("limits.records_per_cycle", None, "${N}", "unknown"),
        ),
        (
            "disk_pressure: {below_free: 20%, until_free: 30%}",
            "disk_pressure: {below_free: '${LOW}', until_free: 30%}",
            ("disk_pressure.below_free", "20%", "${LOW}", "unknown"),
        ),
        ("http: {port: '${P}'}", "http: {port: '${Q}'}", ("http.port", "${P}", "${Q}", "none")),
        ("policies: ${P}", "policies: ${Q}", ("policies", ["${P}"], ["${Q}"], "unknown")),
    ],
)
def test_so_it_is_with_a_setting_of_the_file(
    before: str, after: str, change: tuple[Any, ...], files: Files
) -> None:
    state = "state_dir: /state\n"
    old = files.write("old", f"{KAFKA}{state}{before}\n{TOPICS}")
    new = files.write("new", f"{KAFKA}{state}{after}\n{TOPICS}")
    assert told(files.found(old, new, "--no-secrets")) == [change]
    assert files.found(new, new, "--no-secrets") == []


def test_a_reference_to_another_secret_is_told_and_not_shown(files: Files) -> None:
    kafka = "kafka: {{bootstrap.servers: localhost:9092, sasl.password: '{}'}}\n"
    old = files.write("old", kafka.format("${P}") + TOPICS)
    new = files.write("new", kafka.format("${Q}") + TOPICS)
    found = told(files.found(old, new, "--no-secrets"))
    assert found == [("kafka.sasl.password", "(not shown)", "(not shown)", "none")]
