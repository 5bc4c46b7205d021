"""Questions about a made-up past, each as a whole command, and a day's files put together. Every
answer is compared with the known one."""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import yaml

from devkit.bench.layouts import Layout
from devkit.bench.memory import MIB
from devkit.bench.past_rows import BEGIN, CLUSTER, write_days, write_entries
from devkit.bench.past_world import (
    A_DAY,
    RETENTION,
    STEP_MS,
    Manner,
    PastTopic,
    topics,
    usable_bytes,
)
from devkit.bench.result import Result
from devkit.bench.settings import MASTER
from retentiond.history.table import HistoryTable

POLL_S = 0.1

SAFETY = 2

AT_MOST_S = {
    ("M", "simulate"): 20,
    ("L", "simulate"): 60,
    ("M", "recommend"): 30,
    ("M", "report"): 30,
}
"""Of 30 days."""

TIMES_THE_DAYS = 10


class Ran(NamedTuple):
    """Wall time, CPU time and the most resident memory of a process with all that it starts."""

    out: str
    seconds: float
    cpu_s: float
    mib: float


def measure(layout: Layout, days: int, folder: Path) -> Iterator[list[Result]]:
    world = topics(layout, days)
    place = folder / "history"
    rows = write_days(place, world, days)
    partitions = layout.topics * layout.partitions
    size = sum(each.size_bytes for each in HistoryTable.open(place).files())
    what = f"{layout.name}, {days} days"
    yield [
        Result(f"{what}: partition-entries", partitions * days * A_DAY, ""),
        Result(f"{what}: rows", rows, ""),
        Result(f"{what}: MB on disk", size / 1e6, ""),
    ]
    asked = {"simulate": _simulation, "recommend": _recommendations, "report": _report}
    end = BEGIN + timedelta(days=days)
    took: dict[str, Ran] = {}
    config = _configured(folder, place)
    for command, check in asked.items():
        took[command] = ran = _command(config, command, BEGIN, end)
        _compare(command, check(json.loads(ran.out), world))
        at_most = AT_MOST_S.get((layout.name, command)) if days == 30 else None
        yield _results(f"{what}: {command}", ran, at_most)
    if days >= TIMES_THE_DAYS:
        last = days // TIMES_THE_DAYS
        begin = end - timedelta(days=last)
        for command, whole in took.items():
            ran = _command(config, command, begin, end)
            times = whole.cpu_s / ran.cpu_s
            yield [
                *_results(f"{what}: {command} of the last {last}", ran, None),
                Result(f"{what}: {command}, CPU against that", times, "x", 1.2 * TIMES_THE_DAYS),
            ]


def measure_day(layout: Layout, folder: Path) -> list[Result]:
    """A day's entries become one file."""
    place = folder / "day"
    world = topics(layout, 1)
    write_entries(place, world)
    table = HistoryTable.open(place)
    files = table.files(CLUSTER)
    rows = sum(each.rows or 0 for each in files)
    command = [sys.executable, "-P", "-m", "retentiond.history.upkeep", str(place), CLUSTER]
    ran = _ran([*command, files[0].day, "1", str(A_DAY)])
    table.refresh()
    (merged,) = table.files(CLUSTER)
    if merged.rows != rows:
        raise ValueError(f"a day of {rows} rows has {merged.rows} after it was put together")
    what = f"{layout.name}: a day of {rows:,} rows put together"
    at_most = (20, 1000) if layout.name == "L" else (None, None)
    return [
        Result(what, ran.seconds, "s", at_most[0]),
        Result(f"{what}, CPU", ran.cpu_s, "s"),
        Result(f"{what}, memory", ran.mib, "MiB", at_most[1]),
    ]


def _results(what: str, ran: Ran, at_most: float | None) -> list[Result]:
    return [
        Result(what, ran.seconds, "s", at_most),
        Result(f"{what}, CPU", ran.cpu_s, "s"),
        Result(f"{what}, memory", ran.mib, "MiB"),
    ]


def _configured(folder: Path, place: Path) -> Path:
    file = folder / "retentiond.yaml"
    document = {
        "kafka": {"bootstrap.servers": "127.0.0.1:9"},
        "state_dir": str(folder / "state"),
        "history": {"path": str(place)},
        "spark": {"master": MASTER},
        "topics": [
            {
                "pattern": "topic-.*",
                "retention.commitoffset.enable": True,
                "retention.commitoffset.ms": RETENTION * STEP_MS,
            }
        ],
    }
    file.write_text(yaml.safe_dump(document))
    return file


def _command(config: Path, command: str, since: datetime, until: datetime) -> Ran:
    """A question; only ``simulate`` has an end of its own."""
    retentiond = str(Path(sys.executable).with_name("retentiond"))
    ends = ("--until", until.isoformat()) if command == "simulate" else ()
    asked = [command, "--config", str(config), "--since", since.isoformat(), *ends]
    return _ran([retentiond, *asked, "--output", "json"])


def _ran(command: Sequence[str]) -> Ran:
    """Raises ValueError where it fails."""
    most, began = 0, time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        while True:
            most = max(most, _resident(process.pid))
            ended, status, used = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            time.sleep(POLL_S)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - began
        if process.returncode:
            err.seek(0)
            said = err.read().decode(errors="replace").strip()
            raise ValueError(f"{' '.join(command)} ended with {process.returncode}: {said}")
        out.seek(0)
        return Ran(out.read().decode(), seconds, used.ru_utime + used.ru_stime, most / MIB)


def _resident(pid: int) -> int:
    try:
        process = psutil.Process(pid)
        every = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    found = 0
    for each in every:
        try:
            found += each.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return found


Compared = Iterator[tuple[str, Any, Any]]
"""What, what was found, and what is right."""


@dataclass(frozen=True)
class Estimated:
    """Bytes of records that were really deleted: where they lay on disk is not recorded."""

    bytes: float

    def is_near(self, found: Any) -> bool:
        return found is not None and 0.85 * self.bytes <= found <= 1.02 * self.bytes


def _compare(command: str, figures: Compared) -> None:
    """Raises ValueError where one differs by more than what rounding takes."""
    count = 0
    for what, found, right in figures:
        count += 1
        is_right = found == right or (
            isinstance(found, int | float)
            and isinstance(right, int | float)
            and math.isclose(found, right, rel_tol=1e-9, abs_tol=1)
        )
        if isinstance(right, Estimated):
            is_right = right.is_near(found)
        if not is_right:
            raise ValueError(f"{command} is wrong: {what} is {right}, and {found} was said")
    if not count:
        raise ValueError(f"{command}: nothing was compared")


def _by_topic(found: Mapping[str, Any], world: Sequence[PastTopic]) -> Iterator[Any]:
    named = {each["topic"]: each for each in found["topics"]}
    if named.keys() != {each.name for each in world}:
        raise ValueError(f"topics are missing: {sorted(named)} were said")
    return ((each, named[each.name]) for each in world)


def _simulation(found: Mapping[str, Any], world: Sequence[PastTopic]) -> Compared:
    yield "entries", found["entries"], world[0].entries
    yield "gaps", found["gaps"], []
    for topic, said in _by_topic(found, world):
        truth = topic.truth(RETENTION)
        yield f"{topic.name}'s mean", said["mean_bytes"], truth.mean
        yield f"{topic.name}'s peak", said["peak_bytes"], truth.peak
        yield f"{topic.name}'s simulated mean", said["simulated_mean_bytes"], truth.simulated_mean
        yield f"{topic.name}'s simulated peak", said["simulated_peak_bytes"], truth.simulated_peak
        yield f"{topic.name}'s records", said["simulated_records_deleted"], truth.records
        missed = {(each["group"], each["partition"]): each["records"] for each in said["missed"]}
        right = {(topic.group(0), at): records for at, records in truth.missed.items()}
        yield f"{topic.name}'s losses", missed, right


def _recommendations(found: Mapping[str, Any], world: Sequence[PastTopic]) -> Compared:
    for topic, said in _by_topic(found, world):
        retention_ms = topic.recommended_ms(SAFETY)
        truth = topic.truth(-(-retention_ms // STEP_MS))
        why = "rewind" if topic.manner is Manner.REWOUND else "none_seen"
        yield f"{topic.name}'s retention", said["retention_ms"], retention_ms
        yield f"{topic.name}'s cause", said["because"]["kind"], why
        yield f"{topic.name}'s mean", said["mean_bytes"], truth.mean
        right = truth.simulated_mean
        kept_longer = topic.manner is Manner.DELETED and right > truth.mean
        simulated = Estimated(right) if kept_longer else right
        yield f"{topic.name}'s simulated mean", said["simulated_mean_bytes"], simulated


def _report(found: Mapping[str, Any], world: Sequence[PastTopic]) -> Compared:
    kept = {(each["group"], each["topic"]): each["records"] for each in found["keepers"]}
    yield "keepers", kept, {(each.keeper, each.name): each.kept for each in world if each.kept}
    stopped = {each["group"] for each in found["stopped_groups"]}
    yield "stopped", stopped, {each.group(0) for each in world if each.has_stopped}
    usable = int(usable_bytes(world[0].entries)[-1])
    yield "usable", [each["usable_bytes"] for each in found["log_dirs"]], [usable]
    for topic, said in _by_topic(found, world):
        yield f"{topic.name}'s mean", said["mean_bytes"], topic.truth(RETENTION).mean
        right = topic.without_mean
        without = Estimated(right) if topic.manner is Manner.DELETED else right
        yield f"{topic.name}'s without", said["without_mean_bytes"], without
        yield f"{topic.name}'s records", said["records_deleted"], topic.deleted
