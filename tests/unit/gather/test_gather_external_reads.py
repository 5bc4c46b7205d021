"""A place that is slow to tell a position holds the topics of its reader, and no others."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from retentiond import cycle
from retentiond.clock import seconds_since_boot
from retentiond.config import ExternalReader
from retentiond.cycle import run_cycle
from retentiond.gather import external_reads
from retentiond.gather.external_reads import MOST_UNDER_WAY, start_reading
from retentiond.model import Failure, Outcome, Reason, TopicPartition
from retentiond.state.state import open_state
from tests.faults import plain_plan
from tests.support.builders.daemons import cycle_context, settings
from tests.support.fakes import FakeCluster
from tests.support.http_server import Answer, Asked, answering

SLOW_S = 6.0
"""Longer than evidence may be old when a request goes out."""

SLOW = ("slow-1", "slow-2", "slow-3", "slow-4")
"""More than there are threads for the cluster's own readings."""


@contextmanager
def slow_from_the_second_request_on() -> Iterator[str]:
    """The address that the topics' positions are below: at the end of each of its topic, so that
    everything can be deleted."""
    asked: Counter[str] = Counter()
    gate = threading.Event()

    def answer(request: Asked) -> Answer:
        topic = request.path.strip("/")
        asked[topic] += 1
        if asked[topic] > 1:
            gate.wait(SLOW_S)
        return Answer(body=json.dumps({topic: {"0": 10}}).encode())

    with answering(answer) as url:
        try:
            yield url
        finally:
            gate.set()


def entry(topic: str, address: str | None) -> dict[str, Any]:
    rule = {"name": topic, "retention.commitoffset.enable": True, "retention.commitoffset.ms": 0}
    reader = {"name": f"of-{topic}", "offsets": f"{address}/{topic}"}
    return {**rule, "groups": {"external": [reader]}} if address else rule


def test_a_slow_address_holds_its_topics_in_the_second_reading_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycle, "decide", plain_plan.decide)
    kafka = FakeCluster()
    for topic in ("orders", *SLOW):
        kafka.create_topic(topic, 1)
        kafka.produce(topic, count=10)
    kafka.commit("billing", {TopicPartition("orders", 0): 7})
    with slow_from_the_second_request_on() as address:
        topics = [entry("orders", None), *(entry(each, address) for each in SLOW)]
        config = settings(tmp_path / "state", dry_run=False, topics=topics)
        began_s = seconds_since_boot()
        context = cycle_context(
            kafka,
            now=lambda: kafka.now_ms + round(1000 * (seconds_since_boot() - began_s)),
            elapsed=seconds_since_boot,
        )
        with open_state(config.state_dir) as state:
            report = run_cycle(context, config, state).report
    rows = {row.topic: row for row in report.plan.rows}
    assert report.outcomes[TopicPartition("orders", 0)].outcome is Outcome.DELETED
    assert kafka.partition("orders").log_start == 7
    for topic in SLOW:
        assert rows[topic].reason is Reason.EVIDENCE_CHANGED
        assert rows[topic].binding_group == f"of-{topic}"
        assert "its position was not read within 2 s" in str(rows[topic].detail)
        assert kafka.partition(topic).log_start == 0
    assert report.result == "ok"


def test_a_place_that_never_answers_takes_few_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    monkeypatch.setattr(external_reads, "read_external", lambda *_: gate.wait() and ())
    reader = ExternalReader.model_validate({"name": "lake", "offsets": str(tmp_path / "at")})
    try:
        for count in range(MOST_UNDER_WAY + 2):
            position = start_reading([reader], 0, FakeCluster(), most_seconds=0.0)()[reader]
            assert isinstance(position, Failure)
            is_full = count >= MOST_UNDER_WAY
            assert ("earlier readings" in position.message) is is_full
    finally:
        gate.set()
