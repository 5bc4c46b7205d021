"""What several modules arrange alike; a module that needs another ``driver`` has its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from devkit.embedded import EmbeddedKafka
from tests.contract.real import RealDriver
from tests.faults import plain_plan
from tests.support.brokers.deleting import Bench
from tests.support.brokers.guarded import Guarded, guarded_kafka
from tests.support.brokers.secured import Secured, secured_kafka, tokens_of
from tests.support.certificates import Authority
from tests.support.oauth_server import OAuthServer, oauth_server


@pytest.fixture(autouse=True)
def without_spark(request: pytest.FixtureRequest) -> Iterator[None]:
    """Cycles of this process are planned by the oracle, unless the test is marked ``spark``: the
    two agree, which tests/property shows, and Spark computes for a second or two on each plan."""
    is_wanted = request.node.get_closest_marker("spark")
    with nullcontext() if is_wanted else plain_plan.without_spark():
        yield


@pytest.fixture(scope="module")
def driver(kafka: EmbeddedKafka) -> Iterator[RealDriver]:
    """On the shared broker."""
    with closing(RealDriver(kafka)) as made:
        yield made


@pytest.fixture
def bench(driver: RealDriver, tmp_path: Path) -> Bench:
    """For ``retentiond delete-records``."""
    return Bench(driver, tmp_path)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who signs the certificate of the authorization server, and nobody else's."""
    return Authority(tmp_path_factory.mktemp("idp"))


@pytest.fixture(scope="session")
def server(authority: Authority) -> Iterator[OAuthServer]:
    with oauth_server(authority.issue("idp")) as made:
        yield made


@pytest.fixture(scope="session")
def secured(server: OAuthServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Shared: don't stop it, and use your own topics. ``orders`` has ten records, seven of which
    the group ``billing`` has read."""
    tokens = tokens_of(server, tmp_path_factory.mktemp("tokens"))
    with secured_kafka(tmp_path_factory.mktemp("secured"), tokens=tokens) as made:
        with closing(RealDriver(made.kafka, made.kafka.internal_servers)) as driver:
            driver.filled_topic("orders", {"billing": 7})
        yield made


@pytest.fixture(scope="session")
def guarded() -> Iterator[Guarded]:
    """Shared: it grants what a test asks for, and a test deletes its groups: one that can't be read
    would hold the next one's topic."""
    with guarded_kafka() as made:
        yield made
