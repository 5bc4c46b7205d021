"""One secured cluster a worker, for all whose proofs do not need a broker of their own kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.contract.real import RealDriver
from tests.support.brokers.secured import Secured, secured_kafka


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Shared: don't stop it, and use your own topics. ``orders`` has ten records, seven of which
    the group ``billing`` has read."""
    with secured_kafka(tmp_path_factory.mktemp("secured")) as made:
        with closing(RealDriver(made.kafka, made.kafka.internal_servers)) as driver:
            driver.create_topic("orders")
            driver.produce("orders", [driver.now_ms] * 10)
            driver.commit("billing", {("orders", 0): 7})
        yield made
