"""Questions about a made-up past, each as a whole command, and a day's files put together. What
``simulate`` answers is compared with what is known."""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
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
    PastTopic,
    topics,
)
from devkit.bench.result import Result
from devkit.bench.settings import MASTER
from retentiond.history.table import HistoryTable

POLL_S = 0.1

DAYS = 30
TIMES_THE_DAYS = 10

AT_MOST_S = {
    ("M", "simulate"): 20,
    ("L", "simulate"): 60,
    ("M", "recommend"): 30,
    ("M", "report"): 30,
}


class Ran(NamedTuple):
    """Wall time, CPU time and the most resident memory of a process with all that it starts."""

    out: str
    seconds: float
    cpu_s: float
    mib: float


def measure(layout: Layout, folder: Path) -> Iterator[list[Result]]:
    world = topics(layout, DAYS)
    place = folder / "history"
    rows = write_days(place, world, DAYS)
    partitions = layout.topics * layout.partitions
    size = sum(each.size_bytes for each in HistoryTable.open(place).files())
    what = f"{layout.name}, {DAYS} days"
    yield [
        Result(f"{what}: partition-entries", partitions * DAYS * A_DAY, ""),
        Result(f"{what}: rows", rows, ""),
        Result(f"{what}: MB on disk", size / 1e6, ""),
    ]
    end = BEGIN + timedelta(days=DAYS)
    took: dict[str, Ran] = {}
    config = _configured(folder, place)
    for command in ("simulate", "recommend", "report"):
        took[command] = ran = _command(config, command, BEGIN, end)
        _check(command, json.loads(ran.out), world)
        yield _results(f"{what}: {command}", ran, AT_MOST_S.get((layout.name, command)))
    last = DAYS // TIMES_THE_DAYS
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


def _check(command: str, found: Mapping[str, Any], world: Sequence[PastTopic]) -> None:
    """Raises ValueError where a topic is missing, or a figure of ``simulate`` is not the known
    one."""
    said = {each["topic"]: each for each in found["topics"]}
    if said.keys() != {each.name for each in world}:
        raise ValueError(f"{command}: topics are missing: {sorted(said)} were said")
    if command != "simulate":
        return
    if (found["entries"], found["gaps"]) != (world[0].entries, []):
        raise ValueError(f"{command}: {found['entries']} entries were said, gaps {found['gaps']}")
    for topic in world:
        of_topic = said[topic.name]
        missed = {
            (each["group"], each["partition"]): each["records"] for each in of_topic["missed"]
        }
        if missed != topic.missed(RETENTION):
            raise ValueError(f"{command}: {topic.name}'s losses: {missed} were said")
        for name, right in topic.simulated(RETENTION).items():
            if not math.isclose(of_topic[name], right, rel_tol=1e-9, abs_tol=1):
                raise ValueError(f"{command}: {topic.name}: {name}: {of_topic[name]}, not {right}")
