"""The addresses that the configuration starts from."""

from __future__ import annotations

import pytest

from retentiond.errors import KafkaUnavailable
from retentiond.kafka.remedies import ConnectionProblem, ProblemKind
from retentiond.kafka.settings.properties import ClientSettings, translate
from retentiond.tools.doctor.cluster import check_servers, try_servers, with_answering_servers
from retentiond.tools.doctor.finding import Level
from tests.support.builders.examined_clusters import only

GONE = ConnectionProblem(ProblemKind.NOBODY_LISTENS)


def settings(servers: str) -> ClientSettings:
    return translate({"bootstrap.servers": servers})


def test_every_address_is_tried_once_and_without_a_port_at_kafkas_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong = {"b:9093": GONE}
    monkeypatch.setattr(
        "retentiond.tools.doctor.cluster.problem_with", lambda server, _: wrong.get(server)
    )
    found = try_servers(settings("a, PLAINTEXT://b:9093,[::1],[::1]:9094,a:9092"))
    assert found == {"a:9092": None, "b:9093": GONE, "[::1]:9092": None, "[::1]:9094": None}


def test_the_clients_start_from_what_answers() -> None:
    found = with_answering_servers(settings("a:1,b:2,c:3"), {"a:1": None, "b:2": GONE, "c:3": None})
    assert found.bootstrap_servers == "a:1,c:3"
    assert found.confluent["bootstrap.servers"] == "a:1,c:3"
    assert found.kafka_python["bootstrap_servers"] == "a:1,c:3"


def test_where_nothing_answers_each_is_named_with_what_is_wrong() -> None:
    with pytest.raises(KafkaUnavailable) as raised:
        with_answering_servers(
            settings("a:1,b:2"),
            {"a:1": GONE, "b:2": ConnectionProblem(ProblemKind.NO_ADDRESS)},
        )
    assert "a:1 can't be asked: the connection is refused" in str(raised.value)
    assert "b:2 can't be asked: the name b has no address" in str(raised.value)


def test_whether_a_certificate_will_do_the_clients_decide() -> None:
    expired = ConnectionProblem(ProblemKind.EXPIRED)
    found = with_answering_servers(settings("a:1,b:2"), {"a:1": GONE, "b:2": expired})
    assert found.bootstrap_servers == "b:2"


def test_one_of_several_that_does_not_answer_is_a_warning() -> None:
    found = only(check_servers({"a:1": None, "b:2": GONE}, settings("a:1,b:2")))
    assert (found.level, found.subject) == (Level.WARNING, "bootstrap.servers")
    assert "b:2 can't be asked" in found.sentence
