"""``scripts/demo pressure``: a small disk that runs full, with disk pressure and without.

Two brokers, one after the other, each on a disk of its own of the same size. The same producer
writes and the same group reads at once. Both have retentiond with a consumed retention of a day,
and one of them has `disk_pressure` beside it (``config/demo-pressure.yaml``).
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from shutil import disk_usage
from typing import Any

import yaml
from rich.console import Console

from devkit.demo.account import Account
from devkit.demo.daemon import Daemon
from devkit.demo.reader import Reader
from devkit.demo.run import Run, draw
from devkit.demo.scenario import Group, Topic
from devkit.demo.writer import Writer
from devkit.embedded import EmbeddedKafka, EmbeddedKafkaError
from devkit.embedded.disk import MIB, CannotMount, small_disks
from devkit.embedded.topics import log_starts
from devkit.interrupt import INTERRUPTED, raise_on_signals
from devkit.waiting import came_true

CONFIG = Path(__file__).resolve().parents[3] / "config" / "demo-pressure.yaml"

DAY_MS = 24 * 3_600_000

DISK_BYTES = 96 * MIB

TOPIC = Topic(
    "demo.clicks",
    partitions=4,
    records_per_second=360,  # 1.5 MB/s: full in about a minute
    groups=(Group("sessions"),),
    emptied=False,
)

TOPIC_CONFIG = {"segment.bytes": str(MIB), "file.delete.delay.ms": "200"}

BROKER_CONFIG = {
    "log.retention.check.interval.ms": "500",
    "offsets.topic.num.partitions": "1",
    "log.index.size.max.bytes": str(MIB),
    "metadata.log.segment.bytes": str(8 * MIB),
}

SECONDS = 100.0
STEP_SECONDS = 0.5
TOLD_EVERY_SECONDS = 10.0
PLAN_SECONDS = 90.0  # Spark takes its time to start on a busy machine


def main() -> int:
    options = _options()
    raise_on_signals()
    console = Console(highlight=False, markup=False)
    try:
        with tempfile.TemporaryDirectory(prefix="retentiond-demo-") as folder:
            runs = [
                _run(console, Path(folder) / name, name, options.seconds, with_pressure=with_it)
                for name, with_it in (("without", False), ("with", True))
            ]
    except KeyboardInterrupt:
        return INTERRUPTED
    except CannotMount as error:
        print(
            f"The demo needs two small disks, and can't mount a tmpfs here ({error}); run it as "
            "root, or in a container with --cap-add SYS_ADMIN.",
            file=sys.stderr,
        )
        return 1
    except (EmbeddedKafkaError, TimeoutError) as error:
        print(error, file=sys.stderr)
        return 1
    if options.picture:
        options.picture.write_text(draw(runs, _limits()))
        console.print(f"picture: {options.picture}")
    return 0 if _conclude(console, *runs) else 1


def _run(console: Console, folder: Path, name: str, seconds: float, *, with_pressure: bool) -> Run:
    """Write for so long, or until the producer fails."""
    run = Run(f"{name} disk_pressure", [])
    console.print(f"\n{run.name}: a disk of {DISK_BYTES // MIB} MiB")
    with _stage(folder, with_pressure=with_pressure) as (kafka, daemon, disk):
        kafka.create_topic(TOPIC.name, TOPIC.partitions, TOPIC_CONFIG)
        daemon.start()
        _await_plan(daemon)
        account = Account(TOPIC.groups[0].name, TOPIC.name, TOPIC.partitions)
        reader = Reader(kafka.bootstrap_servers, account.group, account.topic, account.see)
        writer = Writer(kafka.bootstrap_servers, [TOPIC], timeout_seconds=5)
        reader.start()
        writer.start()
        started, told, was_pressed = time.monotonic(), 0.0, False
        while (elapsed := time.monotonic() - started) < seconds and not writer.error:
            usage = disk_usage(disk)
            run.samples.append((elapsed, 100 * (1 - usage.free / usage.total)))
            plan = daemon.plan() or {}
            is_pressed = bool(plan.get("under_pressure"))
            if elapsed >= told or is_pressed != was_pressed:
                told = elapsed - elapsed % TOLD_EVERY_SECONDS + TOLD_EVERY_SECONDS
                console.print(_line(elapsed, run, plan), soft_wrap=True)
            was_pressed = is_pressed
            time.sleep(STEP_SECONDS)
        if writer.error:
            run.failed_at, run.why = time.monotonic() - started, writer.error
            console.print(f"{run.failed_at:3.0f} s  the producer failed: {run.why}")
        writer.stop(flush=not writer.error)
        run.written = writer.records(TOPIC)
        if run.failed_at is None:
            came_true(lambda: account.records >= run.written, PLAN_SECONDS)
            partitions = [(TOPIC.name, number) for number in range(TOPIC.partitions)]
            run.deleted = sum(log_starts(kafka.admin(), partitions).values())
        reader.stop()
        run.read, run.gaps = account.records, len(account.faults)
    return run


@contextmanager
def _stage(folder: Path, *, with_pressure: bool) -> Iterator[tuple[EmbeddedKafka, Daemon, Path]]:
    """A broker on a small disk, a daemon that has yet to start, and that disk."""
    config = yaml.safe_load(CONFIG.read_text())
    if not with_pressure:
        del config["disk_pressure"]
    folder.mkdir()
    file = folder / "retentiond.yaml"
    file.write_text(yaml.safe_dump(config))
    with small_disks(folder / "disks", DISK_BYTES) as (disk,):
        properties = {**BROKER_CONFIG, "log.dirs": str(disk / "data")}
        with (
            EmbeddedKafka(config=properties) as kafka,
            closing(Daemon(kafka.bootstrap_servers, folder, file)) as daemon,
        ):
            yield kafka, daemon, disk


def _limits() -> dict[str, float]:
    """The settings of disk pressure, each with the percentage of used space at which it applies."""
    pressure = yaml.safe_load(CONFIG.read_text())["disk_pressure"]
    return {f"{name}: {free}": 100 - float(free.rstrip("%")) for name, free in pressure.items()}


def _await_plan(daemon: Daemon) -> None:
    """Return when the daemon has gone through a cycle: only then both runs begin alike."""
    came_true(lambda: daemon.plan() is not None or daemon.died is not None, PLAN_SECONDS)
    if daemon.plan() is None:
        raise TimeoutError(f"no plan in {PLAN_SECONDS:g} s:\n{daemon.last_words()}")


def _line(elapsed: float, run: Run, plan: Mapping[str, Any]) -> str:
    """``plan``: the last one, as /api/plan gives it."""
    line = f"{elapsed:3.0f} s  {run.samples[-1][1]:.0f}% used"
    rows = plan.get("partitions") or []
    sooner = [row for row in rows if row["consumed_retention_ms"] < DAY_MS]
    if not plan.get("under_pressure"):
        return f"{line}; consumed records stay for a day"
    return (
        f"{line}, under pressure: consumed records of {len(sooner)} of {len(rows)} partitions can "
        "be deleted after 5 seconds"
    )


def _conclude(console: Console, without: Run, under_pressure: Run) -> bool:
    """Say what was shown; whether it was."""
    console.print("\n" + f"{without}\n{under_pressure}", soft_wrap=True)
    problems = []
    if without.failed_at is None:
        problems.append("the disk did not run full without disk_pressure: take more --seconds")
    if under_pressure.failed_at is not None:
        problems.append(f"the producer failed with disk_pressure: {under_pressure.why}")
    elif under_pressure.read < under_pressure.written or under_pressure.gaps:
        problems.append(f"{under_pressure.gaps} gaps were seen, and not every record was read")
    elif not under_pressure.deleted:
        problems.append("nothing was deleted")
    for problem in problems:
        console.print(f"NOT as it should be: {problem}", soft_wrap=True)
    return not problems


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/demo pressure",
        description="Shows a small disk that runs full without disk_pressure, and stays usable "
        "with it.",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        metavar="N",
        help="how long records are written at most (default: %(default)g)",
    )
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="draw how full both disks were, as SVG"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
