"""Fixtures shared by all tests.

Brokers are real, started from jars, one set a worker; so is the Spark session.
"""

import functools
import gc
import os
import re
import signal
import uuid
from collections.abc import Iterator

import httpx
import hypothesis
import pytest

from devkit.embedded import EmbeddedKafka
from retentiond import garbage_collection
from retentiond.spark.session import SparkSessions
from tests.support.releases import Release, chosen
from tests.support.shared_spark import end_worker_session, worker_session

pytest_plugins = [
    "tests.support.golden",
    "tests.support.processor_time",
    "tests.support.tiers",
    "tests.support.witnessed",
]

# None of Spark's many short lives here is worth the time of Java's optimizing compiler.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")

# A shell starts what it has in the background with SIGINT ignored, and every process inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")  # a busy machine is no failure

# As in the daemon: half a million objects of modules and tests live until the end, and looking for
# cycles among them takes a tenth of the time.
garbage_collection.collect_rarely()

# Nor is a server that loads its modules at the first request: httpx would wait 5 s, and offers no
# public way to say it once.
for _part in ("connect", "read", "write", "pool"):
    setattr(httpx._config.DEFAULT_TIMEOUT_CONFIG, _part, 120.0)

# No test asks the internet: httpx would read all public authorities again for each request, 34 ms.
vars(httpx._transports.default)["create_ssl_context"] = functools.cache(httpx.create_ssl_context)


def pytest_collection_finish() -> None:
    gc.freeze()


def pytest_sessionfinish() -> None:
    end_worker_session()
    gc.unfreeze()


def _running(request: pytest.FixtureRequest, kafka: EmbeddedKafka) -> Iterator[EmbeddedKafka]:
    """The started cluster; its logs stay when a test failed meanwhile."""
    failed_before = request.session.testsfailed
    with kafka:
        yield kafka
        if request.session.testsfailed > failed_before:
            kafka.keep_logs()


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[EmbeddedKafka]:
    """One broker of the default version, shared: don't stop it, and use your own topics."""
    yield from _running(request, EmbeddedKafka())


@pytest.fixture(scope="session")
def own_kafka() -> type[EmbeddedKafka]:
    """For a test that stops its cluster, sets it up otherwise, or must be alone on it."""
    return EmbeddedKafka


@pytest.fixture(scope="session", params=chosen(), ids=str)
def release(request: pytest.FixtureRequest) -> Release:
    """Each release that the project is tested with."""
    found: Release = request.param
    return found


@pytest.fixture(scope="session")
def any_kafka(request: pytest.FixtureRequest, release: Release) -> Iterator[EmbeddedKafka]:
    """One broker of the release, shared like ``kafka``."""
    if release.is_default:
        yield request.getfixturevalue("kafka")
    else:
        yield from _running(request, release.broker())


@pytest.fixture(scope="module")
def three_kafka(request: pytest.FixtureRequest) -> Iterator[EmbeddedKafka]:
    """Three brokers and a controller, fresh for the module: any one broker may be killed."""
    yield from _running(request, EmbeddedKafka(nodes=3))


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses, on any worker; it tells whose it is."""
    readable = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name).strip("-")[:80]
    return f"{readable}-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def spark() -> SparkSessions:
    """One session with its JVM for all tests of a worker: don't stop it."""
    return worker_session()
