"""DeleteRecords on all partitions: the bare call, the daemon's way, and two command lines."""

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from itertools import count
from pathlib import Path

from confluent_kafka import TopicPartition

from devkit.bench.bare import BareClients
from devkit.bench.layouts import FIRST, Layout
from devkit.bench.load import await_rest
from devkit.bench.result import Result
from devkit.bench.timing import RUNS, seconds
from devkit.embedded import EmbeddedKafka, tools
from retentiond.act.approved import Approved, CommitEvidence
from retentiond.act.delete import EvidenceAge, execute
from retentiond.act.slices import MOST_PARTITIONS
from retentiond.clock import seconds_since_boot
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.settings.properties import translate
from retentiond.model import DeletionOutcome, Failure, GroupKind, Outcome, PlanRow, Reason, Verdict
from retentiond.state.audit import Audit
from retentiond.state.audit_records import CycleRecord

TOOL = "org.apache.kafka.tools.DeleteRecordsCommand"
DELETE_WARM_UP = 12
TOOL_RUNS = 5
TOOL_WARM_UP = 1

COMMAND_AT_MOST_S = {1_000: 0.5, 4_000: 1.0}
"""By partitions."""


def measure(kafka: EmbeddedKafka, layout: Layout, folder: Path) -> list[Result]:
    """Every call moves every log start by one record, so that no call has nothing to do, and the
    broker is at rest before it."""
    offsets = iter(range(1, FIRST + 1))
    bare = _bare(kafka, layout, offsets)
    ours = _ours(kafka, layout, folder, offsets)
    command = _command(kafka, layout, folder, offsets)
    tool = _tool(kafka, layout, folder, offsets)
    number = layout.topics * layout.partitions
    return [
        Result(f"DeleteRecords on {number:,} partitions: bare call", bare, "s"),
        Result(f"DeleteRecords on {number:,} partitions: with audit log", ours, "s"),
        Result(f"with audit log against the bare call on {number:,}", ours / bare, "x"),
        Result(
            f"retentiond delete-records on {number:,}: whole process",
            command,
            "s",
            COMMAND_AT_MOST_S.get(number),
        ),
        Result(f"kafka-delete-records on {number:,}: whole process", tool, "s"),
        Result(f"retentiond delete-records against Kafka's own on {number:,}", command / tool, "x"),
    ]


def _bare(kafka: EmbeddedKafka, layout: Layout, offsets: Iterator[int]) -> float:
    with closing(BareClients(kafka.bootstrap_servers)) as clients:
        return _median(
            kafka,
            lambda offset: clients.delete(
                [TopicPartition(*at, offset) for at in _partitions(layout)]
            ),
            offsets,
        )


def _ours(kafka: EmbeddedKafka, layout: Layout, folder: Path, offsets: Iterator[int]) -> float:
    """From approved values to recorded outcomes: intents, request, outcomes."""
    cluster = KafkaCluster(
        translate({"bootstrap.servers": kafka.bootstrap_servers}), lambda *_: None
    )
    cycles = (f"bench-{number}" for number in count())
    with closing(cluster), closing(Audit.open(folder)) as audit:
        described = cluster.describe_topics([layout.topic(n) for n in range(layout.topics)])
        ids = {
            name: each.topic_id
            for name, each in described.items()
            if not isinstance(each, Failure) and each.topic_id is not None
        }

        def delete(offset: int) -> None:
            now_ms = int(time.time() * 1000)
            cycle_id = next(cycles)
            approved = list(_approved(layout, ids, offset))
            number = len(approved)
            audit.record_cycle(
                CycleRecord(cycle_id, "bench", now_ms, False, True, number, number, held=0)
            )
            outcomes: list[DeletionOutcome] = []
            evidence = EvidenceAge(now_ms, seconds_since_boot())
            for start in range(0, number, MOST_PARTITIONS):
                execute(
                    approved[start : start + MOST_PARTITIONS],
                    cluster,
                    audit,
                    cycle_id=cycle_id,
                    evidence=evidence,
                    now=lambda: now_ms,
                    elapsed=seconds_since_boot,
                    stop=threading.Event(),
                    why_paused=lambda: None,
                    outcomes=outcomes,
                )
            if any(each.outcome is not Outcome.DELETED for each in outcomes):
                raise ValueError("not every deletion was done")

        return _median(kafka, delete, offsets)


def _command(kafka: EmbeddedKafka, layout: Layout, folder: Path, offsets: Iterator[int]) -> float:
    """From the shell and back, audit log included, as for Kafka's own tool."""
    program = str(Path(sys.executable).with_name("retentiond"))
    options = ["--bootstrap-server", kafka.bootstrap_servers, "--state-dir", str(folder / "state")]

    def delete(offset: int) -> None:
        file = ["--offset-json-file", str(_offsets_file(layout, folder, offset))]
        subprocess.run(
            [program, "delete-records", *options, *file],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )

    return _median(kafka, delete, offsets, runs=TOOL_RUNS, warm_up=TOOL_WARM_UP)


def _tool(kafka: EmbeddedKafka, layout: Layout, folder: Path, offsets: Iterator[int]) -> float:
    def delete(offset: int) -> None:
        file = _offsets_file(layout, folder, offset)
        servers = ["--bootstrap-server", kafka.bootstrap_servers]
        tools.run(kafka.version, TOOL, *servers, "--offset-json-file", str(file))

    return _median(kafka, delete, offsets, runs=TOOL_RUNS, warm_up=TOOL_WARM_UP)


def _offsets_file(layout: Layout, folder: Path, offset: int) -> Path:
    entries = [{"topic": t, "partition": p, "offset": offset} for t, p in _partitions(layout)]
    file = folder / "offsets.json"
    file.write_text(json.dumps({"version": 1, "partitions": entries}))
    return file


def _median(
    kafka: EmbeddedKafka,
    delete: Callable[[int], object],
    offsets: Iterator[int],
    runs: int = RUNS,
    warm_up: int = DELETE_WARM_UP,
) -> float:
    took = []
    for _ in range(warm_up + runs):
        await_rest(kafka)
        took.append(seconds(lambda: delete(next(offsets)))[0])
    return statistics.median(took[warm_up:])


def _partitions(layout: Layout) -> Iterator[tuple[str, int]]:
    for topic in range(layout.topics):
        for partition in range(layout.partitions):
            yield layout.topic(topic), partition


def _approved(layout: Layout, ids: Mapping[str, str], offset: int) -> Iterator[Approved]:
    """What the guard would hand over for every partition, with ten groups' commits."""
    evidence = CommitEvidence(
        tuple((layout.group(number), GroupKind.CLASSIC) for number in range(10)), (FIRST,) * 10
    )
    for topic, partition in _partitions(layout):
        row = PlanRow(
            topic=topic,
            partition=partition,
            topic_id=ids[topic],
            log_start_offset=offset - 1,
            high_watermark=FIRST,
            min_committed_offset=offset,
            binding_group=layout.group(0),
            binding_committed_offset=offset,
            retention_offset=FIRST,
            cutoff=offset,
            verdict=Verdict.DELETE,
            reason=Reason.CONSUMED,
            groups=len(evidence.groups),
            records=1,
        )
        yield Approved(topic, partition, ids[topic], offset, offset - 1, evidence, row)
