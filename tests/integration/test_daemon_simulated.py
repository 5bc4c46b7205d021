"""Today's policy, simulated over a time in which the daemon really deleted, does what the daemon
did: the simulated log start is an entry behind the real one at most, and never ahead of it.

What is real is told by the broker, as each entry has recorded it, and by the audit log.
"""

from __future__ import annotations

import json
import signal
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from retentiond import config as configuration
from retentiond.errors import HistoryUnavailable
from retentiond.history.ask.past import Past, history_at, open_past
from retentiond.history.ask.question import questions
from retentiond.history.ask.replay import Replay
from retentiond.history.table import HistoryTable
from retentiond.spark.session import SparkSessions
from tests.contract.real import RealDriver
from tests.faults.held import Held, log_start
from tests.support.brokers.command import configure, consumed
from tests.support.builders.histories import Entry, entries_in
from tests.support.command_here import run_here
from tests.support.tiers import OwnKafka
from tests.support.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark]

RETENTION_MS = 2_500
BATCH = 10
BILLING = (7, 14, 25, 31, 44)
SEARCH = (9, 12, 30, 33, 42)
"""Where the groups stand after each batch: now the one, now the other is the last."""

END = min(BILLING[-1], SEARCH[-1])


class Log(NamedTuple):
    topic: str
    partition: int


LOGS = (Log("orders", 0), Log("orders", 1), Log("clicks", 0))
"""From ``orders`` records go as soon as they are consumed, from ``clicks`` 2.5 s later."""


@pytest.fixture(scope="module")
def driver(own_kafka: OwnKafka) -> Iterator[RealDriver]:
    with own_kafka() as kafka, closing(RealDriver(kafka)) as driver:
        yield driver


def test_what_is_simulated_is_what_was_deleted(
    driver: RealDriver, spark: SparkSessions, tmp_path: Path
) -> None:
    work_through(driver, tmp_path)
    compare(spark, tmp_path)


def compare(spark: SparkSessions, folder: Path) -> None:
    """What is simulated, and what the daemon that worked in that folder has done."""
    place = folder / "state" / "history"
    past = open_past(history_at(place), "local[2]", *whole_time(place), lookback_ms=RETENTION_MS)
    simulated = simulated_starts(past, spark, folder)
    real = real_starts(past, folder)
    entries = list(simulated)
    for log in LOGS:
        for entry in entries:
            assert simulated[entry][log] <= real[entry][log], (entry, log)
    for before, entry in pairwise(entries):
        for log in LOGS[:2]:
            assert simulated[entry][log] >= real[before][log], (entry, log)
    # By entries a record is as old as the first one that has it. So it may be found old later by
    # what lies between two entries.
    at_ms = {each.entry.entry: each.entry.at_ms for each in past.timeline.moments}
    late_ms = (
        max(
            later.at_ms - sooner.at_ms
            for sooner, later in pairwise(each.entry for each in past.timeline.moments)
        )
        + past.timeline.longest_read_ms
    )
    (clicks,) = LOGS[2:]
    for before, entry in pairwise(entries):
        known = [
            real[visible][clicks]
            for deleting, visible in pairwise(entries)
            if at_ms[deleting] + late_ms <= at_ms[before]
        ]
        assert simulated[entry][clicks] >= max(known, default=0), entry
    assert {log: simulated[entries[-1]][log] for log in LOGS} == dict.fromkeys(LOGS, END)

    done = run_here("simulate", "--output", "json", cwd=folder)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    records = {each["topic"]: each["simulated_records_deleted"] for each in found["topics"]}
    assert records == {"orders": 2 * END, "clicks": END}
    assert not any(each["missed"] for each in found["topics"])


def work_through(driver: RealDriver, folder: Path) -> None:
    """Consumers advance while a daemon deletes, with an entry for each cycle."""
    driver.create_topic("orders", 2)
    driver.create_topic("clicks")
    servers, place = driver.broker.bootstrap_servers, folder / "state" / "history"
    late = {"retention.commitoffset.ms": RETENTION_MS}
    history = {"interval": "1s"}
    clicks = consumed("clicks", **late)
    configure(folder, servers, "orders", clicks, dry_run=False, history=history)
    advance(driver, BILLING[0], SEARCH[0])
    with Held("nowhere", "run", cwd=folder) as daemon:
        await_entries(place, 2)
        for billing, search in zip(BILLING[1:], SEARCH[1:], strict=True):
            advance(driver, billing, search)
            await_entries(place, last_entry(place) + 2)  # the first may have been under way
        for log in LOGS:
            eventually(lambda log=log: log_start(driver.broker, *log) == END)  # type: ignore[misc] # bound now
        await_entries(place, last_entry(place) + 4)
        daemon.signal(signal.SIGTERM)
        assert daemon.wait(30) == 0


def advance(driver: RealDriver, billing: int, search: int) -> None:
    for log in LOGS:
        driver.produce(log.topic, [driver.now_ms] * BATCH, log.partition)
    driver.commit("billing", dict.fromkeys(LOGS, billing))
    driver.commit("search", dict.fromkeys(LOGS, search))


def last_entry(place: Path) -> int:
    try:
        table = HistoryTable.open(place)
    except HistoryUnavailable:
        return 0
    clusters = table.clusters()
    return max((table.last_entry(each) for each in clusters), default=0)


def await_entries(place: Path, number: int) -> None:
    eventually(lambda: last_entry(place) >= number, timeout_s=90)


def recorded(place: Path) -> list[Entry]:
    (cluster_id,) = HistoryTable.open(place).clusters()
    return list(entries_in(place, cluster_id))


def whole_time(place: Path) -> tuple[int, int]:
    times = [round(each.cycle["at"].timestamp() * 1000) for each in recorded(place)]
    return min(times), max(times)


def simulated_starts(
    past: Past, spark: SparkSessions, folder: Path
) -> Mapping[int, Mapping[Log, int]]:
    """By entry, in their order: before what it would have deleted."""
    config = configuration.load(folder / "retentiond.yaml")
    asked = questions({log.topic for log in LOGS}, config.policy_for, config.policy_for)
    found: defaultdict[int, dict[Log, int]] = defaultdict(dict)
    with spark.use() as session:
        replay = Replay(past, session, asked)
        starts = replay.starts().select("log", "order", "start")
        rows = starts.orderBy("order").toArrow().to_pylist()
    for row in rows:
        moment = past.timeline.moments[past.timeline.number(row["order"])]
        log = Log(*replay.partition(row["log"]))
        found[moment.entry.entry][log] = row["start"]
    return found


def real_starts(past: Past, folder: Path) -> Mapping[int, Mapping[Log, int]]:
    """By entry: what the broker said when it was read, and the audit log agrees."""
    done = run_here("audit", "--output", "json", cwd=folder)
    deletions = [
        (
            datetime.fromisoformat(each["requested_at"]),
            Log(each["topic"], each["partition"]),
            each["low_watermark"],
        )
        for each in done.audit
    ]
    found = {}
    for entry in recorded(folder / "state" / "history"):
        told = {Log(*at): row["log_start_offset"] for at, row in entry.partitions.items()}
        audited = dict.fromkeys(LOGS, 0)
        for requested_at, log, low_watermark in deletions:
            if requested_at < entry.cycle["at"]:
                audited[log] = max(audited[log], low_watermark)
        assert told == audited
        found[entry.cycle["entry"]] = told
    assert len({tuple(sorted(each.items())) for each in found.values()}) > len(BILLING)
    return found
