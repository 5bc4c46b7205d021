"""Positions at an address as its server gives them: with headers, a CA of one's own, and paths."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from retentiond.config import ExternalReader
from retentiond.config.document import Scalar
from retentiond.exchange import trusting
from retentiond.gather import external_positions
from retentiond.gather.external_positions import read_external
from retentiond.model import Commit, Failure
from tests.support.certificates import Authority, Issued
from tests.support.fakes import FakeCluster
from tests.support.http_server import Answer, Asked, answering
from tests.support.waiting import eventually

NOW_MS = 1_700_000_000_000
KAFKA = FakeCluster()

TOKEN = "Bearer hunter2"

POSITION = {"orders": {"0": 42}}


class Site:
    """``answers``: by path, a document, or an address to be redirected to. ``asked``: each
    request's path with its headers."""

    def __init__(self, answers: Mapping[str, object]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.url = ""


@contextmanager
def serving(answers: Mapping[str, object], tls: Issued | None = None) -> Iterator[Site]:
    site = Site(answers)

    def answer(asked: Asked) -> Answer:
        site.asked.append((asked.path, dict(asked.headers.items())))
        found = site.answers[asked.path]
        body = json.dumps(found).encode()
        return (
            Answer(302, body, {"Location": found}) if isinstance(found, str) else Answer(200, body)
        )

    with answering(answer, tls) as site.url:
        yield site


def reader(place: str, **more: Any) -> ExternalReader:
    return ExternalReader.model_validate({"name": "lake", "offsets": place, **more})


def failed(wanted: ExternalReader) -> str:
    failure = read_external(wanted, NOW_MS, KAFKA)
    assert isinstance(failure, Failure)
    assert "hunter2" not in str(failure)
    return failure.message


# Headers


def test_headers_are_sent() -> None:
    with serving({"/at": POSITION}) as site:
        headers = {"Authorization": Scalar(TOKEN, substituted=True), "X-Tenant": "a"}
        found = read_external(reader(f"{site.url}/at", headers=headers), NOW_MS, KAFKA)
    assert found == (Commit("orders", 0, 42),)
    ((_, sent),) = site.asked
    assert (sent["Authorization"], sent["X-Tenant"]) == (TOKEN, "a")


def test_a_redirection_on_the_same_server_keeps_them() -> None:
    with serving({"/at": "/there", "/there": POSITION}) as site:
        read_external(reader(f"{site.url}/at", headers={"Authorization": TOKEN}), NOW_MS, KAFKA)
    assert [(path, sent.get("Authorization")) for path, sent in site.asked] == [
        ("/at", TOKEN),
        ("/there", TOKEN),
    ]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_another_server_that_it_is_redirected_to_gets_none_of_them(host: str) -> None:
    """Another port of the same host is another server, too."""
    headers = {"Authorization": TOKEN, "X-Api-Key": "hunter2"}
    with serving({"/there": POSITION}) as there:
        port = there.url.rpartition(":")[2]
        with serving({"/at": f"http://{host}:{port}/there"}) as site:
            found = read_external(reader(f"{site.url}/at", headers=headers), NOW_MS, KAFKA)
    assert found == (Commit("orders", 0, 42),)
    ((_, sent),) = there.asked
    assert "hunter2" not in str(sent)


def test_neither_a_reader_nor_its_configuration_shows_them() -> None:
    wanted = reader("http://127.0.0.1:1/at", headers={"Authorization": TOKEN})
    assert "hunter2" not in repr(wanted)
    assert "hunter2" not in wanted.model_dump_json()
    assert failed(wanted)


# TLS


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("own"))


@pytest.fixture(scope="module")
def issued(authority: Authority) -> Issued:
    return authority.issue("server")


def test_a_server_of_an_own_authority_is_read(authority: Authority, issued: Issued) -> None:
    with serving({"/at": POSITION}, issued) as site:
        found = read_external(
            reader(f"{site.url}/at", ca=str(authority.certificate)), NOW_MS, KAFKA
        )
    assert found == (Commit("orders", 0, 42),)


@pytest.mark.parametrize(
    "extensions",
    ["basicConstraints=CA:TRUE", "basicConstraints=CA:TRUE\nsubjectKeyIdentifier=none"],
    ids=["not_critical", "no_key_identifier"],
)
def test_an_authority_that_brokers_may_have_is_taken(tmp_path: Path, extensions: str) -> None:
    lenient = Authority(tmp_path, extensions)
    with serving({"/at": POSITION}, lenient.issue("server")) as site:
        asked = reader(f"{site.url}/at", ca=str(lenient.certificate))
        assert read_external(asked, NOW_MS, KAFKA) == (Commit("orders", 0, 42),)


@pytest.mark.parametrize("ca", [None, "own"])
def test_every_python_checks_certificates_alike(authority: Authority, ca: str | None) -> None:
    checks = ssl.VERIFY_X509_TRUSTED_FIRST | ssl.VERIFY_X509_PARTIAL_CHAIN
    context = trusting(ca and authority.certificate)
    assert (context.verify_flags, context.verify_mode) == (checks, ssl.CERT_REQUIRED)
    assert context.check_hostname


def test_without_it_or_with_another_the_server_is_refused(issued: Issued, tmp_path: Path) -> None:
    with serving({"/at": POSITION}, issued) as site:
        of_system = failed(reader(f"{site.url}/at", headers={"Authorization": TOKEN}))
        other = str(Authority(tmp_path).certificate)
        of_another = failed(reader(f"{site.url}/at", ca=other, headers={"Authorization": TOKEN}))
    refused = "its address can't be read (its certificate is refused: "
    assert of_system.startswith(refused)
    assert of_another.startswith(refused)
    assert site.asked == []


def test_a_certificate_for_another_name_is_refused(authority: Authority) -> None:
    with serving({"/at": POSITION}, authority.issue("elsewhere", "DNS:elsewhere")) as site:
        message = failed(reader(f"{site.url}/at", ca=str(authority.certificate)))
    assert "certificate is not valid for '127.0.0.1'" in message


def test_a_ca_that_is_missing_or_no_certificate_is_a_failure(tmp_path: Path) -> None:
    missing = failed(reader("https://127.0.0.1:1/at", ca=str(tmp_path / "nowhere")))
    assert missing == "the certificates of its ca can't be read (No such file or directory)"
    (tmp_path / "empty").touch()
    assert failed(reader("https://127.0.0.1:1/at", ca=str(tmp_path / "empty"))).startswith(
        "the certificates of its ca can't be read ("
    )


# Paths

DRUID = {
    "id": "orders",
    "generationTime": "2026-11-23T17:00:00.000Z",
    "payload": {
        "dataSource": "orders",
        "stream": "orders",
        "partitions": 2,
        "replicas": 1,
        "activeTasks": [
            {
                "id": "index_kafka_orders_b",
                "startingOffsets": {"0": 500, "1": 30},
                "currentOffsets": {"0": 900, "1": 90},
                "type": "ACTIVE",
            },
            {
                "id": "index_kafka_orders_c",
                "startingOffsets": {"2": 7},
                "currentOffsets": {"2": 70},
                "type": "ACTIVE",
            },
        ],
        "publishingTasks": [
            {
                "id": "index_kafka_orders_a",
                "startingOffsets": {"0": 100},
                "currentOffsets": {"0": 500},
                "type": "PUBLISHING",
            }
        ],
        "latestOffsets": {"0": 1000, "1": 100, "2": 77},
        "suspended": False,
        "state": "RUNNING",
    },
}
"""What Druid says of a supervisor. A task that fails is begun again at its startingOffsets."""

STARTS = ["payload.activeTasks.*.startingOffsets", "payload.publishingTasks.*.startingOffsets"]

COMMITTED = "0.Source__orders.KafkaSourceReader.topic.orders.partition.{}.committedOffset"

FLINK = [{"id": COMMITTED.format(0), "value": "42"}, {"id": COMMITTED.format(1), "value": "7"}]
"""What Flink answers to /jobs/JOB/vertices/VERTEX/metrics?get=…"""


def at_paths(document: object, paths: object, tmp_path: Path) -> ExternalReader:
    (tmp_path / "at").write_text(json.dumps(document))
    return reader(str(tmp_path / "at"), paths=paths, max_age="36500d")


def test_druids_supervisor_is_read_as_it_is() -> None:
    with serving({"/status": DRUID}) as site:
        found = read_external(reader(f"{site.url}/status", paths={"orders": STARTS}), NOW_MS, KAFKA)
    assert found == (
        Commit("orders", 0, 100),  # what is being published may have to be read again
        Commit("orders", 1, 30),
        Commit("orders", 2, 7),
    )


def test_flinks_metrics_are_read_as_they_are() -> None:
    paths = {"orders": {str(at): f"[id={COMMITTED.format(at)}].value" for at in (0, 1)}}
    with serving({"/metrics?get=a,b": FLINK}) as site:
        found = read_external(reader(f"{site.url}/metrics?get=a,b", paths=paths), NOW_MS, KAFKA)
    assert found == (Commit("orders", 0, 42), Commit("orders", 1, 7))


def test_a_home_made_service_with_a_topic_in_each_place_is_read(tmp_path: Path) -> None:
    document = {"done": {"orders": {"0": 4}, "clicks": [{"partition": 0, "next": 9}]}}
    paths = {"orders": "done.orders", "clicks": {"0": "done.clicks.[partition=0].next"}}
    assert read_external(at_paths(document, paths, tmp_path), NOW_MS, KAFKA) == (
        Commit("orders", 0, 4),
        Commit("clicks", 0, 9),
    )


def test_half_a_document_is_no_position_where_all_that_are_there_count(tmp_path: Path) -> None:
    """Half a YAML document is one, too, and would leave out the one that is furthest behind."""
    whole = "workers:\n  a: {'0': 500}\n  b: {'0': 100}\n"
    torn = whole[: whole.index("  b:")]
    for text in (whole, torn, json.dumps(yaml.safe_load(whole))[:-1]):
        (tmp_path / "position").write_text(text)
        place = reader(str(tmp_path / "position"), paths={"orders": "workers.*"})
        assert "paths with * need" in failed(place)


def test_where_nothing_is_below_a_path_there_is_no_commit(tmp_path: Path) -> None:
    """And the topic is held, because a reader that counts has none."""
    document: dict[str, object] = {"payload": {"activeTasks": [], "publishingTasks": []}}
    assert read_external(at_paths(document, {"orders": STARTS}, tmp_path), NOW_MS, KAFKA) == ()


@pytest.mark.parametrize(
    ("document", "paths", "why"),
    [
        ({"payload": {}}, STARTS, "it has no activeTasks on the path "),
        ({"payload": {"activeTasks": [{"id": "a"}]}}, STARTS[0], "it has no startingOffsets on"),
        (
            {
                "payload": {
                    "activeTasks": [{"startingOffsets": {"0": 1}}, {"startingOffsets": None}]
                }
            },
            STARTS[0],
            "its position of topic 'orders' is no mapping of partitions",
        ),
        ({"a": {"0": -1}}, "a", "holds -1 where a number belongs"),
        ({"a": {"0": None}}, "a", "holds null where a number belongs"),
        ({"a": {"0": True}}, "a", "holds true where a number belongs"),
        ({"a": None}, "a.b", "it has no b on the path 'a.b'"),
        ({"a": 3}, "a.*", "it has no * on the path 'a.*'"),
        ([], "[id=x].value", "it has 0 entries where [id=x] has to be one on the path"),
        ([{"id": "x"}] * 2, "[id=x].value", "it has 2 entries where [id=x] has to be one on the"),
        ({"id": "x"}, "[id=x].value", "it has no [id=x] on the path"),
    ],
)
def test_what_a_path_leads_past_is_a_failure(
    document: object, paths: object, why: str, tmp_path: Path
) -> None:
    assert why in failed(at_paths(document, {"orders": paths}, tmp_path))


# The end of it


def test_the_whole_of_it_has_one_end_however_often_it_is_redirected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(external_positions, "MOST_SECONDS", 0.8)
    gate = threading.Event()

    class Slow(dict[str, object]):
        def __missing__(self, path: str) -> object:
            gate.wait(0.3)  # each answer is quick enough
            return f"/{len(path)}{path}"

    with serving(Slow()) as site:
        assert failed(reader(f"{site.url}/")) == "its address takes more than 0.8 s to answer"
        eventually(threading.enumerate, lambda all: "exchange" not in {t.name for t in all})
        gate.set()
    assert 1 < len(site.asked) < 9
