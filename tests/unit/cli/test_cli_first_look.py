"""The first look on the command line: what it refuses, and how it looks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

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
from tests.support import oracle
from tests.support.builders.first_looks import on_disk, rest
from tests.support.builders.gather_worlds import config as policy
from tests.support.builders.gather_worlds import entry, snapshot
from tests.support.builders.gather_worlds import healthy as healthy_cluster
from tests.support.builders.group_memories import taken
from tests.support.builders.reports import report, row, unreadable
from tests.support.fakes import FakeCluster
from tests.unit.cli.conftest import Command

SERVER = ("--bootstrap-server", "localhost:1")

DAY_MS = 24 * 3_600_000

GIB = 2**30

LONG = "payments.settlements.enriched.with.a.name.that.goes.on.and.on.v2"

ROWS = [
    rest(topic="orders", high_watermark=1_204_341, cutoff=1_100_010, retention_offset=1_100_010),
    replace(rest(topic=LONG), binding_group="a-group-whose-name-is-as-long-as-that-of-its-topic"),
    row("audit.log", reason=Reason.NO_GROUP),
    unreadable("broken"),
]

SIZES = {"orders": 12 * GIB, LONG: 3 * GIB, "audit.log": GIB}

FREED = {"orders": 11 * GIB, LONG: GIB}


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


def table(text: str) -> list[str]:
    """Between the title and the closing lines."""
    _, table, *_ = text.split("\n\n")
    return table.splitlines()


def cells(text: str, first: str) -> str:
    (line,) = (line for line in table(text) if line.startswith(f"{first} "))
    return " ".join(line.split())


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")


# What it refuses, before it asks the cluster anything


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--consumed-retention", "1 day"], "--consumed-retention '1 day' is no duration; give"),
        (["--consumed-retention", "99999999999999d"], "is no duration; give"),
        (["--topic", "orders", "--topic", "stage.("], "--topic 'stage.(' is no regular expression"),
        (["--write-config", "there.yaml"], "there.yaml exists and is not overwritten; give"),
        (["--write-config", "link.yaml"], "link.yaml exists and is not overwritten; give"),
        (["--write-config", "nowhere/new.yaml"], "there is no folder nowhere for new.yaml; make"),
        (["--config", "there.yaml"], "give either --config or --bootstrap-server"),
        (["--command-config", "missing.properties"], "missing.properties: can't be read"),
        (["--command-config", "pem.properties"], "pem.properties: ssl.truststore.certificates: "),
        (["--bootstrap-server", "not a server"], "--bootstrap-server: expected host:port"),
    ],
)
def test_what_is_wrong_with_the_command_ends_with_2_and_one_sentence(
    command: Command, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    (tmp_path / "there.yaml").write_text("mine")
    (tmp_path / "link.yaml").symlink_to("dangling")
    (tmp_path / "pem.properties").write_text(
        "security.protocol=SSL\nssl.truststore.type=PEM\n"
        "ssl.truststore.certificates=-----BEGIN CERTIFICATE----- QUJD -----END CERTIFICATE-----\n"
    )
    done = command("plan", *SERVER, *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("retentiond: ")
    assert sentence in done.err
    assert done.err.count("\n") == 1
    assert (tmp_path / "there.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--consumed-retention", "x"], "goes with --bootstrap-server or --unmanaged"),
        (["--topic", "x"], "goes with --bootstrap-server or --unmanaged"),
        (["--write-config", "x"], "goes with --bootstrap-server or --unmanaged"),
        (["--include-unlimited"], "goes with --bootstrap-server or --unmanaged"),
        (["--command-config", "x"], "goes with --bootstrap-server, without a configuration"),
        (["--command-config", "x", "--unmanaged"], "goes with --bootstrap-server, without a "),
        (["--owner", "x"], "goes with --unmanaged"),
        (["--owner", "x", "--unmanaged"], "goes with --write-config, which writes the policy file"),
    ],
)
def test_an_option_of_a_first_look_goes_with_one(
    command: Command, arguments: list[str], said: str
) -> None:
    done = command("plan", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"retentiond: {arguments[0]} {said}")
    assert done.err.count("\n") == 1


def test_the_environments_configuration_is_passed_over(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETENTIOND_CONFIG", "nowhere.yaml")
    done = command("plan", *SERVER, "--consumed-retention", "x")
    assert "--consumed-retention" in done.err


# How it looks


def test_each_topic_says_what_it_frees_and_who_keeps_the_rest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = shown(capsys)
    assert cells(text, "TOPIC") == "TOPIC ON DISK FREES OF ALL RECORDS WHO KEEPS THE REST"
    assert cells(text, "orders") == "orders 12.0 GiB 11.0 GiB 11% 1,100,000 9% younger than 1 day"
    assert cells(text, LONG) == (
        f"{LONG} 3.0 GiB 1.0 GiB 1% 90 26% a-group-whose-name-is-as-long-as-that-of-its-topic "
        "has yet to read them; 26% younger than 1 day"
    )
    assert cells(text, "audit.log") == "audit.log 1.0 GiB - - - no group reads the topic"
    assert cells(text, "broken") == "broken ? ? ? - 1 partition unreadable"


def test_where_no_disk_could_be_read_it_goes_by_records(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = shown(capsys, unread_disk=True)
    assert cells(text, "TOPIC") == "TOPIC RECORDS WOULD GO SHARE WHO KEEPS THE REST"
    assert cells(text, "orders") == "orders 1,204,331 1,100,000 91% 9% younger than 1 day"
    assert cells(text, "audit.log") == "audit.log 190 - - no group reads the topic"
    assert cells(text, "broken") == "broken ? - - 1 partition unreadable"
    assert "How many bytes that is could not be read." in text


@pytest.mark.parametrize("unread_disk", [False, True])
def test_the_table_fits_80_columns_and_nothing_is_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, unread_disk: bool
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = shown(capsys, unread_disk=unread_disk)
    assert max(map(len, table(text))) <= 80
    assert "…" not in text
    assert "1,100,000" in text
    column = [line.split(" ")[0] for line in table(text)]
    assert LONG in "".join(column)


def test_the_closing_lines_are_about_the_whole_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    *_, closing = shown(capsys).split("\n\n")
    whole, rest_of_it, unseen, last = closing.splitlines()
    assert whole == (
        "Cluster cluster-a: at least 12.0 GiB of 100 GiB in logs (12%) would be freed, "
        "1,100,090 of 1,204,711 records in 2 of 4 topics."
    )
    assert rest_of_it.startswith(
        "Most of the rest stays because: younger than 1 day (about 1.8 GiB"
    )
    assert "no group reads the topic (about 1.0 GiB)" in rest_of_it
    assert unseen.startswith("Readers that commit nothing to Kafka can't be seen: ")
    assert last == "Nothing was deleted."


def test_topics_of_other_systems_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, rows=[rest(topic="app-store-changelog")])
    assert "changelog of Streams; " in cells(text, "app-store-changelog")
    assert "By name 1 of these topics belongs to another system" in text


def test_of_very_many_topics_the_first_hundred_are_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = shown(capsys, [rest(topic=f"t{number:03}") for number in range(130)], unread_disk=True)
    assert "… and 30 more topics that would free no more than these: see --output json." in text
    assert "t099 " in text
    assert "t100 " not in text
    assert "11,700 of 24,700 records in 130 of 130 topics" in text


def test_an_incomplete_listing_is_said_above_the_total(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, problems=("a broker is down",))
    assert "\nincomplete: a broker is down\nCluster " in text


def test_a_groups_name_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, rows=[replace(rest(), binding_group="a\x1b[2Jb\nc")])
    assert "\x1b" not in text
    assert text.count("a\ufffd[2Jb\ufffdc has yet to read them") == 2


@pytest.mark.parametrize("no_color", [True, False])
def test_colours_are_for_terminals_that_want_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, no_color: bool
) -> None:
    assert "\x1b" not in shown(capsys)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    assert ("\x1b[32m" in shown(capsys)) is not no_color


def test_json_has_the_plan_its_topics_and_the_total(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, output=Output.JSON)
    document = json.loads(text)
    assert text.endswith("}\n")
    assert document["consumed_retention_ms"] == DAY_MS
    assert {row["topic"] for row in document["partitions"]} == {row.topic for row in ROWS}
    first, second, *_ = document["topics"]
    assert (
        first.items()
        >= {
            "topic": "orders",
            "partitions": 1,
            "records": 1_100_000,
            "records_on_disk": 1_204_331,
            "predicted_bytes": 11 * GIB,
            "size_bytes": 12 * GIB,
            "belongs_to": None,
        }.items()
    )
    assert second["kept_by"][0] == {
        "reason": "not_consumed",
        "binding_group": "a-group-whose-name-is-as-long-as-that-of-its-topic",
        "records": 50,
        "approximate_bytes": 3 * GIB * 50 // 190,
        "approximate_remote_bytes": 0,
    }
    total = document["total"]
    assert (total["records"], total["predicted_bytes"]) == (1_100_090, 12 * GIB)
    assert (total["topics"], total["is_bytes_known_of_all"]) == (4, False)


# From the cluster to the file


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """`healthy`, in place of the one that is named."""
    kafka = healthy_cluster()
    look_at(kafka, monkeypatch)
    return kafka


def look_at(kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without clients of its own, and without Spark."""

    @contextmanager
    def one_engine(*_: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(context=SimpleNamespace(kafka=kafka), warm_up=lambda: None)

    def plan_cycle(_: object, policy: Config, __: object) -> PlannedCycle:
        snapshot = taken(kafka, policy=policy)
        return PlannedCycle(report(oracle.plan(snapshot)), snapshot, NOTHING)

    monkeypatch.setattr("retentiond.cli.first_look.one_engine", one_engine)
    monkeypatch.setattr("retentiond.cli.first_look.plan_cycle", plan_cycle)


def test_a_reader_that_shares_its_name_is_excluded_and_named_by_it() -> None:
    def readers(exclude: list[str]) -> list[str]:
        seen = snapshot(healthy_cluster(), policy(entry("orders", groups={"exclude": exclude})))
        namesake = GroupReading("lake (external)", GroupKind.EXTERNAL, VANISHED, namesake_of="lake")
        may_read = GroupTopic(len(seen.groups), 0)
        seen = replace(seen, groups=(*seen.groups, namesake), readers=seen.readers | {may_read})
        return sorted(_readers(seen)["orders"])

    assert readers([]) == ["billing", "lake", "search"]
    assert readers(["lake"]) == ["billing", "search"]


def test_it_writes_a_configuration_that_names_each_topics_readers(
    command: Command, cluster: FakeCluster, tmp_path: Path
) -> None:
    done = command("plan", *SERVER, "--write-config", "new.yaml")
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith(
        "new.yaml is a configuration to start from, which deletes nothing yet. "
        "Next: retentiond check --config new.yaml\n"
    )
    text = (tmp_path / "new.yaml").read_text()
    assert "  # Read by billing and search.\n  - name: orders\n" in text
    assert "bootstrap.servers: 'localhost:1'" in text
    assert command("check", "--config", "new.yaml").code == 0


def test_where_systems_are_at_work_that_read_without_committing_no_topic_is_enabled(
    command: Command, cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.create_topic("connect-offsets")
    done = command("plan", *SERVER, "--topic", "orders", "--write-config", "new.yaml")
    assert "There may be some: topic connect-offsets is Kafka Connect's, whose " in done.out
    assert "enable: true" not in (tmp_path / "new.yaml").read_text()
    document = command("plan", *SERVER, "--topic", "orders", "--output", "json")
    (evidence,) = json.loads(document.out)["unseen_readers"]
    assert "connect-offsets" in evidence


def test_the_table_says_which_topics_have_unlimited_retention_and_what_that_means(
    command: Command, cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.create_topic("ledger", 1, {"retention.ms": "-1"})
    cluster.produce("ledger", 0, 4)
    cluster.commit("billing", {("ledger", 0): 4})
    done = command("plan", *SERVER, "--topic", "ledger", "--write-config", "new.yaml")
    assert "unlimited retention" in cells(done.out, "ledger")
    assert "1 topic (ledger) has unlimited retention, so something may read from " in done.out
    assert "enable: true" not in (tmp_path / "new.yaml").read_text()
    arguments = ("--include-unlimited", "--write-config", "all.yaml")
    done = command("plan", *SERVER, "--topic", "ledger", *arguments)
    assert "unlimited retention" not in done.out
    assert "enable: true" in (tmp_path / "all.yaml").read_text()


def test_json_stays_one_object_when_a_configuration_is_written(
    command: Command, cluster: FakeCluster, tmp_path: Path
) -> None:
    done = command("plan", *SERVER, "--write-config", "new.yaml", "--output", "json")
    assert {topic["topic"] for topic in json.loads(done.out)["topics"]} == {
        "clicks",
        "orders",
        "secrets",
    }
    assert (tmp_path / "new.yaml").exists()


def test_a_password_is_asked_for_in_the_environment(
    command: Command,
    cluster: FakeCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "client.properties").write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nretry.backoff.ms=50\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="me" password="hush";\n'
    )
    arguments = ("--command-config", "client.properties", "--write-config", "new.yaml")
    done = command("plan", *SERVER, *arguments)
    assert "It expects RETENTIOND_SASL_PASSWORD in the environment." in done.out
    text = (tmp_path / "new.yaml").read_text()
    assert "hush" not in text + done.out + done.err
    assert "# Left out, as it can't stand here: retry.backoff.ms\n" in text
    assert command("check", "--config", "new.yaml").code == 2
    monkeypatch.setenv("RETENTIOND_SASL_PASSWORD", "hush")
    assert command("check", "--config", "new.yaml").code == 0


def test_a_login_by_token_is_written_whole_but_for_its_secret(
    command: Command,
    cluster: FakeCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "client.properties").write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
        "sasl.oauthbearer.token.endpoint.url=https://idp/token\n"
        "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule "
        'required clientId="me" clientSecret="hush" scope="kafka";\n'
    )
    arguments = ("--command-config", "client.properties", "--write-config", "new.yaml")
    done = command("plan", *SERVER, *arguments)
    assert done.code == 0
    (variable,) = re.findall(r"It expects (\w+) in the environment", " ".join(done.out.split()))
    assert "hush" not in (tmp_path / "new.yaml").read_text() + done.out + done.err
    monkeypatch.setenv(variable, "hush")
    written = configuration.load(tmp_path / "new.yaml").kafka
    assert translate(written).oauth == {
        "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "hush",
        "sasl.oauthbearer.scope": "kafka",
    }


def test_amazons_login_is_written_as_such(
    command: Command,
    cluster: FakeCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    (tmp_path / "client.properties").write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=AWS_MSK_IAM\n"
        "sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;\n"
    )
    arguments = ("--command-config", "client.properties", "--write-config", "new.yaml")
    assert command("plan", *SERVER, *arguments).code == 0
    monkeypatch.delenv("AWS_REGION")
    written = configuration.load(tmp_path / "new.yaml").kafka
    assert written["sasl.mechanism"] == "AWS_MSK_IAM"
    assert translate(written).oauth == {"aws.region": "eu-west-1"}


def test_only_topics_that_match_are_looked_at(command: Command, cluster: FakeCluster) -> None:
    done = command("plan", *SERVER, "--topic", "ord.*", "--topic", "click", "--output", "json")
    assert [topic["topic"] for topic in json.loads(done.out)["topics"]] == ["orders"]


def test_kafkas_own_topics_are_left_aside_whatever_the_pattern(
    command: Command, cluster: FakeCluster
) -> None:
    done = command("plan", *SERVER, "--topic", "__consumer_offsets")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("retentiond: no topic of the cluster is called __consumer_offsets, ")


def test_of_a_cluster_without_topics_no_configuration_can_be_written(
    command: Command, cluster: FakeCluster, tmp_path: Path
) -> None:
    for topic in ("clicks", "orders", "secrets"):
        cluster.delete_topic(topic)
    done = command("plan", *SERVER, "--write-config", "new.yaml")
    assert done.code == 2
    assert done.err == (
        "retentiond: the cluster has no topic, so there is nothing to write to new.yaml\n"
    )
    assert not (tmp_path / "new.yaml").exists()
    assert "0 of 0 records in 0 of 0 topics" in command("plan", *SERVER).out


@pytest.mark.parametrize(
    ("options", "retention"),
    [((), "1 day"), (("--consumed-retention", "90m"), "1 hour 30 minutes")],
)
def test_what_is_unmanaged_has_no_retention_below_the_pressure_retention_of_the_defaults(
    command: Command, tmp_path: Path, options: tuple[str, ...], retention: str
) -> None:
    (tmp_path / "retentiond.yaml").write_text(
        f"kafka: {{bootstrap.servers: 'localhost:1'}}\nstate_dir: {tmp_path / 'state'}\n"
        "defaults: {retention.commitoffset.pressure.hours: 48}\ntopics: [{name: orders}]\n"
    )
    done = command("plan", "--unmanaged", *options)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"retentiond: a consumed retention of {retention} is shorter than the pressure retention "
        "in the configuration's defaults; give --consumed-retention 2d or more\n"
    )


@pytest.mark.parametrize(("pattern", "topics"), [("orders|clicks", ["secrets"]), (".*", [])])
def test_what_is_unmanaged_is_one_object_be_it_of_no_topic(
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    pattern: str,
    topics: list[str],
) -> None:
    kafka = healthy_cluster()
    (tmp_path / "retentiond.yaml").write_text(
        f"kafka: {{bootstrap.servers: 'h:1'}}\nstate_dir: {tmp_path / 'state'}\n"
        f"topics: [{{pattern: '{pattern}'}}]\n"
    )

    look_at(kafka, monkeypatch)
    done = command("plan", "--unmanaged", "--output", "json", "--exit-code")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert [topic["topic"] for topic in found["topics"]] == topics
    assert {row["topic"] for row in found["partitions"]} == set(topics)
    assert found["total"]["topics"] == len(topics)
    in_words = command("plan", "--unmanaged").out
    assert in_words.startswith("Nothing is unmanaged: ") == (not topics)


def test_with_exit_code_it_ends_with_3_if_something_may_go(
    command: Command, cluster: FakeCluster
) -> None:
    arguments = ("--consumed-retention", "1h", "--exit-code", "--topic")
    assert command("plan", *SERVER, *arguments, "orders").code == 3
    assert command("plan", *SERVER, "--exit-code", "--topic", "orders").code == 0
