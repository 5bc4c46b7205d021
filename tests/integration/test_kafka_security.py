"""One ``kafka:`` section connects both clients to a broker that is secured, or to none."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from retentiond.errors import KafkaUnavailable
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.settings.properties import translate
from tests.support.brokers.secured import (
    MECHANISMS,
    PASSWORD,
    Section,
    Secured,
    shows,
)
from tests.support.brokers.unsafe import REFUSALS, Refusal
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

SENSIBLE_S = 5.0
"""How long a client may take to find out, on a busy machine."""


def connect(section: Section) -> KafkaCluster:
    return KafkaCluster(translate(section), lambda *_: None)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_one_section_logs_both_clients_in(secured: Secured, mechanism: str) -> None:
    secured.lets_in(translate(secured.login(mechanism)))


def test_one_section_connects_both_clients_in_tls(secured: Secured) -> None:
    secured.lets_in(translate(secured.tls("TLS")))


def test_one_section_shows_the_certificate_of_both_clients(secured: Secured) -> None:
    secured.lets_in(translate(secured.tls("MTLS", **shows(secured.client))))


def test_a_host_name_is_left_unchecked_where_the_section_says_so(secured: Secured) -> None:
    unchecked = secured.tls("ELSEWHERE", ssl_endpoint_identification_algorithm="none")
    secured.lets_in(translate(unchecked))


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_both_clients_say_the_same_and_soon_of_what_keeps_them_out(
    secured: Secured, refusal: Refusal
) -> None:
    section = refusal.section(secured)
    with closing(connect(section)) as kafka:
        for call in (kafka.topic_names, kafka.cluster_id):
            began = time.monotonic()
            with pytest.raises(KafkaUnavailable) as unavailable:
                call()
            assert time.monotonic() - began < SENSIBLE_S
            refusal.assert_said(str(unavailable.value), section["bootstrap.servers"])
            assert unavailable.value.kind == refusal.kind


def test_who_was_refused_is_let_in_once_that_is_mended(secured: Secured) -> None:
    section = secured.login("SCRAM-SHA-512") | {"sasl.username": "latecomer"}
    with closing(connect(section)) as kafka:
        for call in (kafka.topic_names, kafka.cluster_id):
            with pytest.raises(KafkaUnavailable, match="it refuses the login"):
                call()
        secured.add_user("latecomer", PASSWORD)
        eventually(lambda: is_let_in(kafka))


@pytest.mark.parametrize("name", ["team=orders", "cn=retentiond,ou=kafka", "=2C,=3D"])
def test_any_name_of_a_user_reaches_both_clients_by_scram(secured: Secured, name: str) -> None:
    """RFC 5802, 5.1: `=` and `,` are escaped in what is sent."""
    secured.add_user(name, PASSWORD)
    section = secured.login("SCRAM-SHA-512") | {"sasl.username": name}
    with closing(connect(section)) as kafka:
        eventually(lambda: is_let_in(kafka))
    secured.lets_in(translate(section))


def is_let_in(kafka: KafkaCluster) -> bool:
    try:
        kafka.cluster_id()
        kafka.topic_names()
    except KafkaUnavailable:
        return False
    return True


@pytest.fixture
def output(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> Callable[[], str]:
    """What both clients have printed and logged, debugging included."""
    caplog.set_level("DEBUG")
    return lambda: "".join([*capfd.readouterr(), caplog.text])


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("is_right", [True, False], ids=["right", "wrong"])
def test_no_client_shows_the_password_when_it_debugs(
    secured: Secured, mechanism: str, is_right: bool, output: Callable[[], str]
) -> None:
    password = PASSWORD if is_right else f"wrong-{PASSWORD}"
    expected = nullcontext() if is_right else pytest.raises(KafkaUnavailable)
    with closing(connect(secured.login(mechanism, password, debug="all"))) as kafka:
        for call in (kafka.topic_names, kafka.cluster_id):
            with expected:
                call()
    said = output()
    assert "Connection" in said
    assert PASSWORD not in said
    assert base64.b64encode(PASSWORD.encode()).decode().rstrip("=") not in said


def test_the_broker_lets_nobody_in_who_has_no_rights(secured: Secured, tmp_path: Path) -> None:
    """So that the tests above would notice an authorizer that isn't there."""
    stranger = shows(secured.ours.issue("stranger"))
    with closing(connect(secured.tls("MTLS", **stranger))) as kafka:
        assert not kafka.coordinator_state().may_describe_cluster
