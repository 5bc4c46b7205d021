"""``--command-config``: one Java properties file for Kafka's own tool and for retentiond."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from devkit.embedded import tools
from tests.contract.real import RealDriver
from tests.support.brokers.deleting import RECORDS, TOOL, Bench
from tests.support.brokers.secured import KAFKAS_MODULES, PASSWORD, Secured

pytestmark = pytest.mark.broker

LOGIN = f'required username="retentiond" \\\n  password="{PASSWORD}";'

MECHANISMS = {
    "PLAIN": f"{KAFKAS_MODULES}.plain.PlainLoginModule",
    "SCRAM-SHA-512": f"{KAFKAS_MODULES}.scram.ScramLoginModule",
}


@pytest.fixture
def certificate(secured: Secured) -> Path:
    """Of whom to trust."""
    return secured.ours.certificate


@pytest.fixture
def bench(secured: Secured, tmp_path: Path) -> Iterator[Bench]:
    with closing(RealDriver(secured.kafka, secured.kafka.internal_servers)) as driver:
        yield Bench(driver, tmp_path)


def properties(folder: Path, mechanism: str, *trust: str) -> Path:
    file = folder / "client.properties"
    lines = [
        "security.protocol=SASL_SSL",
        f"sasl.mechanism={mechanism}",
        f"sasl.jaas.config={MECHANISMS[mechanism]} {LOGIN}",
        "ssl.truststore.type=PEM",
        *trust,
    ]
    file.write_text("\n".join(lines))
    return file


def test_kafkas_own_tool_and_retentiond_take_the_same_file(
    bench: Bench, topic_name: str, certificate: Path
) -> None:
    """Records are deleted with it, and configs are read."""
    name = bench.driver.filled_topic(topic_name)
    config = properties(bench.folder, "SCRAM-SHA-512", f"ssl.truststore.location={certificate}")
    with_config = ("--command-config", str(config))
    file = str(bench.file((name, 0, 3)))
    tool = ("--bootstrap-server", bench.servers, "--offset-json-file", file, *with_config)
    tools.run(bench.driver.broker.version, TOOL, *tool)
    assert bench.log_starts(name) == [3]
    for targets, log_start in (
        (("--offset-json-file", bench.file((name, 0, 5))), 5),
        (("--to-datetime", "2100-01-01", "--topic", name, "--yes"), RECORDS),
    ):
        done = bench.run(*targets, *with_config)
        assert done.code == 0, done.err
        assert bench.log_starts(name) == [log_start]
    assert PASSWORD not in (bench.state_dir / "audit.db").read_text(errors="replace")


@pytest.mark.parametrize("end_of_line", ["\\n", " "])
def test_certificates_may_stand_in_the_properties(
    bench: Bench,
    topic_name: str,
    certificate: Path,
    end_of_line: str,
) -> None:
    name = bench.driver.filled_topic(topic_name)
    pem = end_of_line.join(certificate.read_text().split("\n"))
    config = properties(bench.folder, "PLAIN", f"ssl.truststore.certificates={pem}")
    file = bench.file((name, 0, 5))
    done = bench.run("--offset-json-file", file, "--command-config", config)
    assert (done.code, done.err) == (0, "")
    assert bench.log_starts(name) == [5]


def test_a_wrong_password_is_one_sentence_that_says_so_and_nothing_is_deleted(
    bench: Bench,
    topic_name: str,
    certificate: Path,
) -> None:
    name = bench.driver.filled_topic(topic_name)
    config = properties(bench.folder, "PLAIN", f"ssl.truststore.location={certificate}")
    config.write_text(config.read_text().replace(PASSWORD, "wrong"))
    file = bench.file((name, 0, 5))
    done = bench.run("--offset-json-file", file, "--command-config", config)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(
        f"retentiond: {bench.servers} can't be asked: it refuses the login ("
    )
    assert "check sasl.jaas.config in --command-config" in done.err
    assert "kafka." not in done.err
    assert "wrong" not in done.err
    assert done.err.count("\n") == 1
    assert bench.log_starts(name) == [0]


def test_a_certificate_that_is_not_there_is_an_error_of_the_file(bench: Bench) -> None:
    config = properties(bench.folder, "PLAIN", "ssl.truststore.location=/nowhere/ca.pem")
    file = bench.file(("orders", 0, 5))
    done = bench.run("--offset-json-file", file, "--command-config", config)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"retentiond: {config}: Kafka's client refuses this: ")
    assert "ssl.ca.location" in done.err
    assert done.err.count("\n") == 1
