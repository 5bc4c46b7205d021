"""The clusters that the contract is tested on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from devkit.embedded import EmbeddedKafka
from tests.contract.driver import Driver
from tests.contract.fake import FakeDriver
from tests.contract.real import RealDriver
from tests.support.releases import OLDEST
from tests.support.tiers import OTHER_RELEASES


@pytest.fixture(scope="session")
def real_driver(kafka: EmbeddedKafka) -> Iterator[RealDriver]:
    yield from _driver(kafka)


@pytest.fixture(scope="session")
def old_driver() -> Iterator[RealDriver]:
    with OLDEST.broker() as kafka:
        yield from _driver(kafka)


def _driver(kafka: EmbeddedKafka) -> Iterator[RealDriver]:
    driver = RealDriver(kafka)
    driver.create_topic("first")
    driver.commit("first", {("first", 0): 0})  # __consumer_offsets is made for the first commit
    yield driver
    driver.close()


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.broker)])
def driver(request: pytest.FixtureRequest) -> Driver:
    return _named(request)


@pytest.fixture(
    params=[
        "fake",
        pytest.param("real", marks=pytest.mark.broker),
        pytest.param("old", marks=[pytest.mark.broker, pytest.mark.thorough(OTHER_RELEASES)]),
    ]
)
def any_driver(request: pytest.FixtureRequest) -> Driver:
    """As ``driver``, and a broker of the oldest release: for what does not need Kafka 4."""
    return _named(request)


@pytest.fixture
def gap_of_the_fake(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Says why the fake fails the test; once it does not, the test fails until this goes."""

    def expect_failure(reason: str) -> None:
        if "fake" in request.node.callspec.params.values():
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))

    return expect_failure


def _named(request: pytest.FixtureRequest) -> Driver:
    if request.param == "fake":
        return FakeDriver()
    driver: RealDriver = request.getfixturevalue(f"{request.param}_driver")
    return driver
