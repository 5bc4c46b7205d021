"""Certificates that are renewed on disk, under the same names, while retentiond is at work."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from retentiond.errors import KafkaUnavailable
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.settings.properties import translate
from tests.support.brokers.secured import Secured, secured_kafka
from tests.support.certificates import Issued
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker


@pytest.fixture
def trusted(tmp_path: Path) -> Path:
    """The file of whom the broker trusts, which it reads when it starts."""
    return tmp_path / "trusted.pem"


@pytest.fixture
def secured(tmp_path: Path, trusted: Path) -> Iterator[Secured]:
    store = {"listener.name.mtls.ssl.truststore.location": str(trusted)}
    (tmp_path / "broker" / "ours").mkdir(parents=True)
    trusted.symlink_to(tmp_path / "broker" / "ours" / "ca.pem")
    with secured_kafka(tmp_path / "broker", store) as made:
        yield made


def is_let_in(call: Callable[[], object]) -> bool:
    try:
        call()
    except KafkaUnavailable:
        return False
    return True


def test_both_clients_show_the_renewed_certificate_without_a_restart(
    secured: Secured, trusted: Path, tmp_path: Path
) -> None:
    shown = Issued(tmp_path / "client.pem", tmp_path / "client.key", tmp_path / "client.both")

    def install(issued: Issued) -> None:
        for source, target in zip(issued, shown, strict=True):
            shutil.copy(source, target)

    install(secured.client)
    section = secured.tls(
        "MTLS", ssl_certificate_location=shown.certificate, ssl_key_location=shown.key
    )
    with closing(KafkaCluster(translate(section), lambda *_: None)) as kafka:
        calls = (kafka.topic_names, kafka.cluster_id)  # confluent-kafka's, kafka-python's
        for call in calls:
            call()
        (node,) = secured.kafka.nodes
        shutil.copy(secured.foreign_client.certificate, shown.certificate)  # half of a pair
        node.stop()
        node.start()
        for call in calls:  # the whole one serves until the other half is there
            eventually(partial(is_let_in, call))
        install(secured.client)
        node.stop()
        trusted.unlink()
        shutil.copy(secured.other.certificate, trusted)
        node.start()
        for call in calls:
            with pytest.raises(KafkaUnavailable, match="refuses this client's certificate"):
                call()
        shutil.copy(secured.foreign_client.certificate, shown.certificate)
        for call in calls:
            with pytest.raises(KafkaUnavailable, match="the key does not belong to the certif"):
                call()
        install(secured.foreign_client)
        for call in calls:
            eventually(partial(is_let_in, call))
        assert kafka.coordinator_state().may_describe_cluster
