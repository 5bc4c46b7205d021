"""The first look at the command line: what it refuses and shows (tests/golden/first-look)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from retentiond import config as configuration
from retentiond.cli.first_look import _readers
from retentiond.cli.options import Output
from retentiond.cli.output.first_look import show_first_look
from retentiond.config import Config
from retentiond.cycle import PlannedCycle
from retentiond.kafka.settings.properties import translate
from retentiond.memory.remembered import NOTHING
from retentiond.model import GroupKind, PlanRow, Reason
from retentiond.snapshot import VANISHED, GroupReading, GroupTopic
from retentiond.tell.first_look import FirstLook
from retentiond.tell.report import document as plan_document
from tests.support import oracle
from tests.support.builders.first_looks import on_disk, rest
from tests.support.builders.gather_worlds import config as policy
from tests.support.builders.gather_worlds import entry, snapshot
from tests.support.builders.gather_worlds import healthy as healthy_cluster
from tests.support.builders.group_memories import taken
from tests.support.builders.reports import report, row, unreadable
from tests.support.fakes import FakeCluster
from tests.support.golden import Golden
from tests.unit.cli.conftest import Command, Transcript, on_screen

SERVER = ("--bootstrap-server", "localhost:1")

DAY_MS = 24 * 3_600_000

GIB = 2**30

ALL = ("clicks", "orders", "secrets")
"""The topics of the cluster."""

LONG = "payments.settlements.enriched.with.a.name.that.goes.on.and.on.v2"

ROWS = [
    rest(topic="orders", high_watermark=1_204_341, cutoff=1_100_010, retention_offset=1_100_010),
    replace(rest(topic=LONG), binding_group="a-group-whose-name-is-as-long-as-that-of-its-topic"),
    row("audit.log", reason=Reason.NO_GROUP),
    unreadable("broken"),
]

SIZES = {"orders": 12 * GIB, LONG: 3 * GIB, "audit.log": GIB}

FREED = {"orders": 11 * GIB, LONG: GIB}


@pytest.fixture(autouse=True)
def _wide(no_terminal: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


# What it refuses, before it asks the cluster anything


def test_what_it_refuses(
    transcript: Transcript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An option of a first look goes with one."""
    (tmp_path / "there.yaml").write_text("mine")
    (tmp_path / "link.yaml").symlink_to("dangling")
    (tmp_path / "pem.properties").write_text(
        "security.protocol=SSL\nssl.truststore.type=PEM\n"
        "ssl.truststore.certificates=-----BEGIN CERTIFICATE----- QUJD -----END CERTIFICATE-----\n"
    )
    for arguments in (
        [*SERVER, "--consumed-retention", "1 day"],
        [*SERVER, "--consumed-retention", "99999999999999d"],
        [*SERVER, "--topic", "orders", "--topic", "stage.("],
        [*SERVER, "--write-config", "there.yaml"],
        [*SERVER, "--write-config", "link.yaml"],
        [*SERVER, "--write-config", "nowhere/new.yaml"],
        [*SERVER, "--config", "there.yaml"],
        [*SERVER, "--command-config", "missing.properties"],
        [*SERVER, "--command-config", "pem.properties"],
        ["--bootstrap-server", "not a server"],
        ["--consumed-retention", "x"],
        ["--topic", "x"],
        ["--write-config", "x"],
        ["--include-unlimited"],
        ["--command-config", "x"],
        ["--command-config", "x", "--unmanaged"],
        ["--owner", "x"],
        ["--owner", "x", "--unmanaged"],
        ["--partitions", "--unmanaged"],
    ):
        transcript.refused("plan", *arguments)
    assert (tmp_path / "there.yaml").read_text() == "mine"
    monkeypatch.setenv("RETENTIOND_CONFIG", "nowhere.yaml")  # which is passed over
    transcript.refused("plan", *SERVER, "--consumed-retention", "x")
    transcript.check("first-look/refused.txt")


# How it looks

MANY_SIZES = {f"t{number:03}": 10**6 for number in range(600)}


def shown(
    capsys: pytest.CaptureFixture[str],
    rows: Iterable[PlanRow] = ROWS,
    *,
    unread_disk: bool = False,
    output: Output = Output.TABLE,
    problems: tuple[str, ...] = (),
) -> str:
    known = ({}, {}, None) if unread_disk else (SIZES, FREED, 100 * GIB)
    show_first_look(FirstLook(on_disk(rows, *known, problems=problems), DAY_MS), output)
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_each_topic_says_what_it_frees_and_who_keeps_the_rest(
    capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    """By bytes, and by records where no disk could be read; then topics of other systems, and a
    group that would steer the terminal."""
    texts = [
        shown(capsys, problems=("a broker is down",)),
        shown(capsys, unread_disk=True),
        shown(capsys, rows=[rest(topic="app-store-changelog")]),
        shown(capsys, rows=[replace(rest(), binding_group="a\x1b[2Jb\nc")]),
    ]
    assert "\x1b" not in "".join(texts)
    golden("first-look/tables.txt", f"\n{'-' * 80}\n".join(texts))


@pytest.mark.parametrize("unread_disk", [True, False])
def test_in_80_columns_nothing_is_wider_and_nothing_is_cut(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    golden: Golden,
    unread_disk: bool,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = shown(capsys, unread_disk=unread_disk)
    table = text.split("\n\n")[1]
    assert max(map(len, table.splitlines())) <= 80
    start = table.index("WHO KEEPS THE REST")
    kept = "".join(line[start:].strip() for line in table.splitlines())
    assert "a-group-whose-name-is-as-long-as-that-of-its-topic" in kept
    golden(f"first-look/narrow{'' if unread_disk else '_with_bytes'}.txt", text)


@pytest.mark.parametrize("unread_disk", [True, False])
def test_of_very_many_topics_a_terminal_shows_those_that_free_most(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, unread_disk: bool
) -> None:
    """And how much the others free. In a pipe all are there."""
    monkeypatch.setattr("tests.unit.cli.test_cli_first_look.SIZES", MANY_SIZES)
    rows = [
        replace(rest(topic=f"t{number:03}"), records=records, predicted_bytes=records * 1000)
        for number, records in enumerate([90] * 20 + [1] * 580)
    ]
    piped = shown(capsys, rows, unread_disk=unread_disk)
    assert all(f"t{number:03} " in piped for number in range(600))
    assert "more topics" not in piped
    on_screen(monkeypatch)
    text = shown(capsys, rows, unread_disk=unread_disk)
    assert "\n580 more topics free 24%. See all of them with | less, or with --output" in text
    assert all((f"t{number:03} " in text) == (number < 20) for number in range(600))
    assert len(text.splitlines()) < 90
    assert max(map(len, text.splitlines())) <= 80


def test_json_has_the_plan_its_topics_and_the_total(
    capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    document = json.loads(shown(capsys, [ROWS[1], ROWS[3]], output=Output.JSON))
    seen = on_disk([ROWS[1], ROWS[3]], SIZES, FREED, 100 * GIB)
    assert document.pop("partitions") == plan_document(seen, with_outcomes=False)["partitions"]
    golden("first-look/first-look.json", json.dumps(document, indent=2))


# From the cluster to the file


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """`healthy`, in place of the one that is named; without clients of its own, and without
    Spark."""
    kafka = healthy_cluster()

    @contextmanager
    def one_engine(*_: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(context=SimpleNamespace(kafka=kafka), warm_up=lambda: None)

    def plan_cycle(_: object, policy: Config, __: object) -> PlannedCycle:
        snapshot = taken(kafka, policy=policy)
        return PlannedCycle(report(oracle.plan(snapshot)), snapshot, NOTHING)

    monkeypatch.setattr("retentiond.cli.first_look.one_engine", one_engine)
    monkeypatch.setattr("retentiond.cli.first_look.plan_cycle", plan_cycle)
    return kafka


def test_a_reader_that_shares_its_name_is_excluded_and_named_by_it() -> None:
    def readers(exclude: list[str]) -> list[str]:
        seen = snapshot(healthy_cluster(), policy(entry("orders", groups={"exclude": exclude})))
        namesake = GroupReading("lake (group)", GroupKind.CLASSIC, VANISHED, namesake_of="lake")
        may_read = GroupTopic(len(seen.groups), 0)
        seen = replace(seen, groups=(*seen.groups, namesake), readers=seen.readers | {may_read})
        return sorted(_readers(seen)["orders"])

    assert readers([]) == ["billing", "lake", "search"]
    assert readers(["lake"]) == ["billing", "search"]


def test_it_writes_a_configuration_that_names_each_topics_readers(
    transcript: Transcript,
    command: Command,
    cluster: FakeCluster,
    tmp_path: Path,
    golden: Golden,
) -> None:
    look = ("plan", *SERVER)
    transcript(*look, "--write-config", "new.yaml")
    text = (tmp_path / "new.yaml").read_text()
    assert "  # Read by billing and search.\n  - name: orders\n" in text
    golden.shown[re.findall(r"^# .*?(\d{4}-\d\d-\d\d\S*)", text, re.M)[0]] = "(today)"
    golden("first-look/new.yaml", text)
    transcript("check", "--config", "new.yaml")
    only = command(*look, "--topic", "ord.*", "--topic", "click", "--write-config", "some.yaml")
    assert "in 0 of 1 topic would go" in only.out
    transcript(*look, "--topic", "__consumer_offsets")
    done = command(*look, "--write-config", "beside.yaml", "--output", "json")  # one object
    assert {each["topic"] for each in json.loads(done.out)["topics"]} == {*ALL}
    assert (tmp_path / "beside.yaml").exists()
    transcript.check("first-look/written.txt")


def test_where_systems_are_at_work_that_read_without_committing_no_topic_is_enabled(
    transcript: Transcript, command: Command, cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.create_topic("connect-offsets")
    transcript("plan", *SERVER, "--topic", "orders", "--write-config", "new.yaml")
    assert "enable: true" not in (tmp_path / "new.yaml").read_text()
    document = json.loads(command("plan", *SERVER, "--topic", "orders", "--output", "json").out)
    (sign,) = document["unseen_readers"]
    assert sign.startswith("topic connect-offsets is Kafka Connect's, ")
    assert document["topics"][0]["not_enabled"].endswith(sign)
    transcript.check("first-look/unseen-readers.txt")


def test_a_topic_of_unlimited_retention_is_enabled_only_where_that_is_asked_for(
    transcript: Transcript, command: Command, cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.create_topic("ledger", 1, {"retention.ms": "-1"})
    cluster.produce("ledger", 0, 4)
    cluster.commit("billing", {("ledger", 0): 4})
    transcript("plan", *SERVER, "--topic", "ledger", "--write-config", "new.yaml")
    assert "enable: true" not in (tmp_path / "new.yaml").read_text()
    arguments = ("--include-unlimited", "--write-config", "all.yaml")
    assert "unlimited" not in command("plan", *SERVER, "--topic", "ledger", *arguments).out
    assert "enable: true" in (tmp_path / "all.yaml").read_text()
    transcript.check("first-look/unlimited.txt")


TOKEN = (
    "sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=https://idp/token\n"
    "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule "
    'required clientId="me" clientSecret="hush" scope="kafka";\n'
)

AMAZONS = (
    "sasl.mechanism=AWS_MSK_IAM\n"
    "sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;\n"
)


PASSWORD = (
    "sasl.mechanism=PLAIN\nretry.backoff.ms=50\n"
    "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="me" password="hush";\n'
)


@pytest.mark.parametrize(
    ("login", "variables", "expected"),
    [
        (PASSWORD, ["RETENTIOND_SASL_PASSWORD"], {}),
        (
            TOKEN,
            ["RETENTIOND_SASL_OAUTHBEARER_CLIENT_SECRET"],
            {
                "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
                "sasl.oauthbearer.client.id": "me",
                "sasl.oauthbearer.client.secret": "hush",
                "sasl.oauthbearer.scope": "kafka",
            },
        ),
        (AMAZONS, [], {"aws.region": "eu-west-1"}),
    ],
)
def test_a_login_is_written_whole_but_for_its_secret_which_the_environment_is_asked_for(  # noqa: PLR0917
    command: Command,
    cluster: FakeCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    login: str,
    variables: list[str],
    expected: dict[str, str],
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    (tmp_path / "client.properties").write_text(f"security.protocol=SASL_SSL\n{login}")
    arguments = ("--command-config", "client.properties", "--write-config", "new.yaml")
    done = command("plan", *SERVER, *arguments)
    assert done.code == 0
    text = (tmp_path / "new.yaml").read_text()
    assert "hush" not in text + done.out + done.err
    assert ("# Left out, as it can't stand here: retry.backoff.ms\n" in text) is ("retry" in login)
    asked = re.findall(r"It expects (\w+) in the environment", " ".join(done.out.split()))
    assert asked == variables
    monkeypatch.delenv("AWS_REGION")
    for variable in variables:
        assert command("check", "--config", "new.yaml").code == 2
        monkeypatch.setenv(variable, "hush")
    assert command("check", "--config", "new.yaml").code == 0
    assert translate(configuration.load(tmp_path / "new.yaml").kafka).oauth == expected


def test_of_a_cluster_without_topics_no_configuration_can_be_written(
    transcript: Transcript, command: Command, cluster: FakeCluster, tmp_path: Path
) -> None:
    for topic in ALL:
        cluster.delete_topic(topic)
    transcript("plan", *SERVER, "--write-config", "new.yaml")
    assert not (tmp_path / "new.yaml").exists()
    assert command("plan", *SERVER).code == 0
    transcript.check("first-look/no-topics.txt")


def unmanaged(folder: Path, pattern: str, defaults: str = "") -> None:
    (folder / "retentiond.yaml").write_text(
        f"kafka: {{bootstrap.servers: 'h:1'}}\nstate_dir: {folder / 'state'}\n"
        f"{defaults}topics: [{{pattern: '{pattern}'}}]\n"
    )


def test_what_is_unmanaged_is_shown_be_it_of_no_topic(
    transcript: Transcript, command: Command, cluster: FakeCluster, tmp_path: Path
) -> None:
    """No shorter retention is looked at than the pressure retention of the defaults."""
    for pattern in ("orders|clicks", ".*"):
        unmanaged(tmp_path, pattern)
        transcript("plan", "--unmanaged")
    done = command("plan", "--unmanaged", "--output", "json", "--exit-code")
    assert (done.code, json.loads(done.out)["topics"]) == (0, [])
    unmanaged(tmp_path, "orders", "defaults: {retention.commitoffset.pressure.hours: 48}\n")
    transcript("plan", "--unmanaged")
    transcript("plan", "--unmanaged", "--consumed-retention", "90m")
    transcript.check("first-look/unmanaged.txt")


@pytest.mark.usefixtures("cluster")
def test_a_policy_file_is_about_the_topics_that_the_fences_leave_to_it(
    transcript: Transcript, command: Command, tmp_path: Path
) -> None:
    """Nobody has written the fenced file yet, and of the other one nothing is in the fence."""
    unmanaged(tmp_path, "orders")
    with (tmp_path / "retentiond.yaml").open("a") as main:
        main.write("policies: ['*-policies.yaml', {file: pay.yaml, topics: ['cl.*']}]\n")
    for run, name, topic in (
        (transcript, "pay.yaml", "clicks"),
        (command, "web-policies.yaml", "secrets"),
    ):
        file = tmp_path / name
        run("plan", "--unmanaged", "--write-config", str(file), "--owner", "someone")
        entries = yaml.safe_load(file.read_text())["topics"]
        assert [each["name"] for each in entries] == [topic]
    read = configuration.load(tmp_path / "retentiond.yaml", {})
    assert (read.unreadable, len(read.entries)) == ((), 3)
    transcript("plan", "--unmanaged", "--write-config", str(tmp_path / "more-policies.yaml"))
    transcript.check("first-look/fences.txt")


def test_with_exit_code_it_ends_with_3_if_something_may_go(
    command: Command, cluster: FakeCluster
) -> None:
    arguments = ("--consumed-retention", "1h", "--exit-code", "--topic")
    assert command("plan", *SERVER, *arguments, "orders").code == 3
    assert command("plan", *SERVER, "--exit-code", "--topic", "orders").code == 0
