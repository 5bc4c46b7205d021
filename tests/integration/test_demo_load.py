"""The load of deploy/compose.yaml: what it writes is read, until it is told to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient
from kafka.errors import RetriableError

from devkit.demo.scenario import TOPICS
from tests.support.tiers import OwnKafka
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

SCRIPTS = Path(__file__).parents[2] / "scripts"

GROUPS = {group.name: topic.name for topic in TOPICS for group in topic.groups}


@pytest.fixture
def servers(own_kafka: OwnKafka) -> Iterator[str]:
    with own_kafka() as kafka:
        yield kafka.bootstrap_servers


def least_commit(servers: str) -> int:
    """Of the groups, what the slowest has read; 0 while there is none."""
    admin = KafkaAdminClient(bootstrap_servers=servers)
    try:
        found = [admin.list_group_offsets({group: None})[group].values() for group in GROUPS]
    except RetriableError:  # of the first group the coordinator is yet to be made
        return 0
    finally:
        admin.close()
    return min(sum(int(at.offset) for at in of_group) for of_group in found)


def _more_or_ended(before: int, load: subprocess.Popen[bytes], found: int) -> bool:
    return found > before or load.poll() is not None


def test_every_group_reads_and_a_second_run_goes_on(servers: str) -> None:
    least = 0
    for _ in range(2):
        load = subprocess.Popen(
            [sys.executable, "-m", "devkit.demo.load", servers],
            env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
            stderr=subprocess.PIPE,
        )
        try:
            before, least = (
                least,
                eventually(
                    lambda: least_commit(servers),
                    partial(_more_or_ended, least, load),
                    timeout_s=120,
                ),
            )
        finally:
            load.send_signal(signal.SIGTERM)
            _, err = load.communicate(timeout=60)
        assert (load.returncode, err) == (0, b"")
        assert least > before
