"""``check --no-secrets``: where CI has no environment variables and no secret files."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cli.conftest import Command
from tests.unit.cli.reviewed_files import ENABLED, HOURS, KAFKA, Files, told

TOPICS = f"topics: [{{name: orders, {ENABLED}}}]\n"


def test_without_secrets_nothing_outside_the_files_is_asked_for(
    files: Files, command: Command
) -> None:
    path = files.write(
        "new",
        "kafka: {bootstrap.servers: '${SERVERS}', security.protocol: SASL_SSL, "
        "sasl.mechanism: PLAIN, sasl.username: u, sasl.password: '${file:none/there}'}\n"
        f"topics: [{{name: orders, {ENABLED}}}]\n",
    )
    assert command("check", "--config", path).code == 2
    done = command("check", "--config", path, "--no-secrets")
    assert (done.code, done.err) == (0, "")
    assert "Variables and secret files were not asked for." in done.out


@pytest.mark.parametrize(
    "text",
    [
        "http: {basic_auth: {u: '${file:hash}'}}",
        "http: {host: '${A}', tls: {certificate: '${A}', key: '${A}'}}",
        "spark: {master: '${A}', conf: {a: '${A}'}}",
        "history: {path: '${A}'}",
        "metrics: {cluster: '${A}'}",
        "state_dir: ${A}\ndry_run: false",
        "policies: ${A}",
    ],
)
def test_any_text_of_the_file_may_be_unknown(text: str, files: Files, command: Command) -> None:
    path = files.write("new", f"{KAFKA}{text}\n{TOPICS}")
    done = command("check", "--config", path, "--no-secrets")
    assert (done.code, done.err) == (0, "")
    assert command("check", "--config", path, "--no-secrets", "--against", path).code == 0


MUST_BE_KNOWN = "without secrets only a text may be a reference such as ${A}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # A value that is no text: one of each kind.
        ("dry_run: ${A}", f"dry_run: {MUST_BE_KNOWN}"),
        ("http: {port: '${A}'}", f"http.port: {MUST_BE_KNOWN}"),
        (
            "disk_pressure: {below_free: '${A}', until_free: 25%}",
            f"disk_pressure.below_free: {MUST_BE_KNOWN}",
        ),
        ("schedule: {interval: '${A}'}", f"schedule.interval: {MUST_BE_KNOWN}"),
        (f"defaults: {{{HOURS}: '${{A}}'}}", f"defaults.{HOURS}: {MUST_BE_KNOWN}"),
        (
            "defaults: {groups: {exclude: ['${A}']}}",
            f"defaults.groups.exclude[0]: {MUST_BE_KNOWN}",
        ),
        ("defaults: {groups_visible: '${A}'}", f"defaults.groups_visible: {MUST_BE_KNOWN}"),
        # What no value could correct.
        ("http: {host: '${HOST}'}\nhour: 1", "hour: unknown setting"),
        ("http: '${A}'", "http: expected a mapping of settings"),
        ("topics: [{name: '${A}', pattern: a}]", "expected either a name or a pattern"),
        ("topics: [{name: '${A}'}, {name: '${A}'}]", "topics[0] is another one"),
        ("topics: [{name: orders, groups: {required: '${A}'}}]", "expected a list"),
        ("dry_run: ${A-b}", "dry_run: expected ${NAME} or ${file:PATH}"),
        ("http: {basic_auth: {}}", "expected one user or more"),
    ],
)
def test_without_secrets_what_is_wrong_in_the_file_is_still_an_error(
    text: str, said: str, files: Files, command: Command
) -> None:
    topics = "" if "topics:" in text else TOPICS
    path = files.write("new", f"{KAFKA}{text}\n{topics}")
    done = command("check", "--config", path, "--no-secrets")
    assert (done.code, done.out) == (2, "")
    assert f"{path}: " in done.err
    assert said in done.err


@pytest.mark.parametrize(
    "topics",
    [
        "{name: '${A}.orders'}, {name: '${B}.orders'}, {name: orders}",
        "{name: orders, groups: {required: ['${A}'], exclude: [c]}}",
        "{name: orders, groups: {required: ['${A}'], only: [billing]}}",
    ],
)
def test_any_text_of_a_topic_may_be_unknown(topics: str, files: Files, command: Command) -> None:
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
        "name: a, offsets: '${A}', paths: {orders: '${A}'}",
        "name: a, connect_offsets: {topic: '${A}', connector: '${A}', cluster: '${A}'}",
        "name: a, connect_offsets: {topic: t, connector: c, kafka: {bootstrap.servers: x:1, "
        "security.protocol: '${A}', sasl.password: '${A}'}}",
    ],
)
def test_any_text_of_an_external_reader_may_be_unknown(
    reader: str, files: Files, command: Command
) -> None:
    entry = f"name: orders, {ENABLED}, groups: {{only: [b], external: [{{{reader}}}]}}"
    path = files.write("new", f"{KAFKA}topics: [{{{entry.replace('only: [b], ', '')}}}]\n")
    done = command("check", "--config", path, "--no-secrets")
    assert (done.code, done.err) == (0, "")
    other = files.write("old", f"{KAFKA}{TOPICS}")
    assert files.found(other, path, "--no-secrets")[0]["setting"] == "groups.external"


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


def test_the_effect_of_names_that_are_not_known_is_unknown(files: Files) -> None:
    required = f"{{name: orders, {ENABLED}, groups: {{required: ['{{}}']}}}}"
    before, after = (required.replace("{}", each) for each in ("${A}", "${B}"))
    found = files.changes(before, after, "--no-secrets")
    assert told(found) == [("groups.required", ["${A}"], ["${B}"], "unknown")]


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("http: {host: '${P}'}", "http: {host: '${Q}'}", ("http.host", "${P}", "${Q}", "none")),
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
