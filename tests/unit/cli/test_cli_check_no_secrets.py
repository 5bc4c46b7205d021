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
        f"topics: [{{name: orders, {ENABLED}, {HOURS}: 1}}]\n",
    )
    assert command("check", "--config", path).code == 2
    done = command("check", "--config", path, "--no-secrets")
    assert (done.code, done.err) == (0, "")
    assert "Variables and secret files were not asked for." in done.out


READERS = [
    "name: '${A}', offsets: /offsets",
    "name: a, spark_checkpoint: '${A}'",
    "name: a, offsets: '${A}', headers: {Authorization: '${file:t\u00f6ken}'}, ca: '${A}'",
    "name: a, offsets: '${A}', paths: {orders: '${A}'}",
    "name: a, connect_offsets: {topic: '${A}', connector: '${A}', cluster: '${A}'}",
    "name: a, connect_offsets: {topic: t, connector: c, kafka: {bootstrap.servers: x:1, "
    "security.protocol: '${A}', sasl.password: '${A}'}}",
]


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
        "topics: [{name: '${A}.orders'}, {name: '${B}.orders'}, {name: orders}]",
        "topics: [{name: orders, groups: {required: ['${A}'], exclude: [c]}}]",
        "topics: [{name: orders, groups: {required: ['${A}'], only: [billing]}}]",
        *(f"topics: [{{name: orders, groups: {{external: [{{{each}}}]}}}}]" for each in READERS),
    ],
)
def test_any_text_may_be_unknown(text: str, files: Files, command: Command) -> None:
    topics = "" if "topics:" in text else TOPICS
    path = files.write("new", f"{KAFKA}defaults: {{{ENABLED}, {HOURS}: 1}}\n{text}\n{topics}")
    done = command("check", "--config", path, "--no-secrets")
    assert (done.code, done.err) == (0, "")
    assert files.found(path, path, "--no-secrets") == []


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
    ("properties", "said"),
    [
        ("sasl.mechnism: '${A}'", "did you mean sasl.mechanism?"),
        ("security.protocol: SASL", "kafka.security.protocol: expected one of PLAINTEXT, SSL"),
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


SECRET = KAFKA.replace("localhost:9092", "localhost:9092, sasl.password: '@'")
ONE_GROUP = f"topics: [{{name: orders, {ENABLED}, groups: {{required: ['@']}}}}]"
HIDDEN = "(not shown)"


@pytest.mark.parametrize(
    ("text", "change"),
    [
        (f"{KAFKA}{ONE_GROUP}", ("groups.required", ["${A}"], ["${B}"], "unknown")),
        (f"{KAFKA}{TOPICS}http: {{host: '@'}}", ("http.host", "${A}", "${B}", "none")),
        (f"{KAFKA}{TOPICS}policies: '@'", ("policies", ["${A}"], ["${B}"], "unknown")),
        # A reference to another secret is told and not shown.
        (f"{SECRET}{TOPICS}", ("kafka.sasl.password", HIDDEN, HIDDEN, "none")),
    ],
)
def test_another_reference_is_a_change(text: str, change: tuple[Any, ...], files: Files) -> None:
    old, new = (
        files.write(name, f"state_dir: /state\n{text.replace('@', reference)}\n")
        for name, reference in (("old", "${A}"), ("new", "${B}"))
    )
    assert told(files.found(old, new, "--no-secrets")) == [change]
