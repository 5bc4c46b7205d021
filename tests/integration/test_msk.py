"""Amazon's login: both clients at a broker that checks the signature of their tokens, as Amazon's
do. The checker is ours; what signs is Amazon's own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from devkit.embedded import default_version, jars
from retentiond.errors import KafkaUnavailable
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.settings.command_config import read_settings
from retentiond.kafka.settings.properties import translate
from tests.support.brokers.secured import USER, Secured, secured_kafka

pytestmark = pytest.mark.broker

ID, SECRET, REGION = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "eu-west-1"

CHECKER = Path(__file__).parents[1] / "support" / "java" / "MskTokens.java"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    compiler = shutil.which("javac")
    if compiler is None:
        pytest.skip("no javac: this Java only runs programs")
    classes = tmp_path_factory.mktemp("classes")
    classpath = jars.classpath(default_version(), "broker")
    subprocess.run([compiler, "-cp", classpath, "-d", classes, CHECKER], check=True)
    handler = "listener.name.client.oauthbearer.sasl.server.callback.handler.class"
    known = {"id": ID, "secret": SECRET, "region": REGION, "principal": USER}
    with secured_kafka(
        tmp_path_factory.mktemp("secured"),
        {handler: CHECKER.stem},
        java_options=[f"-Dmsk.{name}={value}" for name, value in known.items()],
        further_classes=classes,
    ) as made:
        yield made


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


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
    secured.lets_in(read_settings(secured.kafka.bootstrap_servers, file))


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
