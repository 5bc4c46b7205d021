"""Brokers that are far away: each behind a forwarder that delays what it carries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from devkit.embedded import EmbeddedKafka
from devkit.forwarder import Forwarder
from tests.support.brokers.secured import KAFKAS_MODULES, PASSWORD, USER, Section
from tests.support.certificates import Authority


class FarKafka(NamedTuple):
    """``section`` is its ``kafka`` section. All brokers may move further away."""

    kafka: EmbeddedKafka
    section: Section
    forwarders: list[Forwarder]

    def move(self, round_trip_s: float) -> None:
        for each in self.forwarders:
            each.round_trip_s = round_trip_s


@contextmanager
def far_kafka(folder: Path, brokers: int = 2) -> Iterator[FarKafka]:
    """Clients log in by SASL/PLAIN in TLS. At first it is near."""
    authority = Authority(folder / "authority")
    login = (
        f"{KAFKAS_MODULES}.plain.PlainLoginModule required username=x password=x "
        f'user_{USER}="{PASSWORD}";'
    )
    config = {
        "listener.name.client.ssl.keystore.type": "PEM",
        "listener.name.client.ssl.keystore.location": str(authority.issue("broker").both),
        "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": login,
    }
    with ExitStack() as stack:
        forwarders = [stack.enter_context(closing(Forwarder())) for _ in range(brokers)]
        kafka = stack.enter_context(
            EmbeddedKafka(
                nodes=brokers,
                security_protocol="SASL_SSL",
                config=config,
                advertised_ports={"CLIENT": [each.port for each in forwarders]},
            )
        )
        for node, each in zip(kafka.nodes, forwarders, strict=True):
            each.target = node.bootstrap_server
        section = {
            "bootstrap.servers": ",".join(each.address for each in forwarders),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(authority.certificate),
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
        yield FarKafka(kafka, section, forwarders)
