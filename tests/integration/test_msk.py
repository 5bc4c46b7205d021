"""Amazon's login: both clients at a broker that checks the signature of their tokens, as Amazon's
do."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from retentiond.errors import KafkaUnavailable
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.settings.command_config import read_settings
from retentiond.kafka.settings.properties import translate
from tests.support.brokers.secured import AWS_KEY, REGION, Secured

pytestmark = pytest.mark.broker


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("javac") is None:
        pytest.skip("no javac: this Java only runs programs")
    for name in ("AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", AWS_KEY["id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", AWS_KEY["secret"])


def test_both_clients_are_let_in(secured: Secured) -> None:
    section = secured.by_sasl("AWS_MSK_IAM", {"aws.region": REGION})
    secured.lets_in(translate(section))


def test_a_java_file_lets_both_in(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", REGION)
    file = tmp_path / "client.properties"
    file.write_text(
        f"""security.protocol=SASL_SSL
ssl.truststore.type=PEM
ssl.truststore.location={secured.ours.certificate}
sasl.mechanism=AWS_MSK_IAM
sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;
sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler
"""
    )
    secured.lets_in(read_settings(secured.kafka.servers_of("MSK"), file))


def test_another_secret_is_refused_in_one_sentence(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    section = secured.by_sasl("AWS_MSK_IAM", {"aws.region": REGION})
    with closing(KafkaCluster(translate(section), lambda *_: None)) as kafka:
        for call in (kafka.topic_names, kafka.cluster_id):
            with pytest.raises(KafkaUnavailable, match="it refuses the login") as refused:
                call()
            assert "the AWS credentials of this host" in str(refused.value)
