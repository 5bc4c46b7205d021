"""The figures for people: a table on the terminal, and bench/README.md."""

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

import pyspark
from rich.console import Console
from rich.table import Table

from devkit.bench import klag, klag_build
from devkit.bench.deletions import DELETE_WARM_UP, TOOL_RUNS, TOOL_WARM_UP
from devkit.bench.layouts import LAYOUTS
from devkit.bench.memory import LOOK_S, STARTS, cores
from devkit.bench.result import Measurement, Result
from devkit.bench.timing import RUNS, WARM_UP
from devkit.embedded import default_version
from retentiond.kafka.brokers import librdkafka_version

FILE = Path(__file__).resolve().parents[3] / "bench" / "README.md"

HEADINGS = ("what", "figure", "target")

AT_A_GLANCE = {
    "one dry-run cycle": "whole dry-run cycle",
    "- of it, reading the cluster": "gather",
    "one cycle that deletes from every partition": "whole cycle with *",
    "memory of the daemon, Python and Java": "both after *",
    "from the start to the first plan": "start of the daemon to its first plan",
    "the broker's CPU, with a cycle each minute": "the broker's CPU for a dry-run cycle *",
    "klag-exporter reads all group offsets": "klag-exporter, one refresh *",
    "kafka-consumer-groups reads them": "kafka-consumer-groups, whole process",
}
"""What a user compares by, and the names of its figures; of several the largest counts."""

TEXT = """\
# How fast it is

{glance}

`scripts/bench` measured this on {date}:
{machine}.
One broker (two for XL) and everything else on the same machine, all warm, medians of {runs}
after {warm_up} that don't count (DeleteRecords alone: {delete_warm_up}); of Kafka's own tools
{tool_runs} after {tool_warm_up}, of klag-exporter's refreshes {runs} after {klag_warm_up}.

{layouts}

{table}

- *The same requests through the bare clients* keep no order, wait for nothing and check nothing,
  and leave Python's garbage collection as it is.
  A gather must: the ends are read after the commits and before the look-ups by time, and group
  coordinators are read again 0.15 s after the listing. They are read 0.15 s before it too,
  unless they stand as a sound reading left them; here they do.
- *Decide* goes from a snapshot in Python to rows in Python, on Spark `local[2]`. The same minima,
  maxima and cutoffs in Arrow alone know no exclusions, no doubts, no reasons and no names.
- */metrics* is a scrape between two cycles; what a cycle leaves is rendered once, right after it.
- *Dry-run cycles* find a record to delete in every partition. They read the cluster once, cycles
  that delete read it twice: the guard's reading is about what changes until the request.
- *The broker's CPU* for cycles is what it takes while they run, less what it takes in as many
  seconds at rest; XL's two brokers together. Of ten seconds at rest, in the same run, is the other
  figure: what these partitions cost a broker that nobody asks anything.
- *Requests* are counted by the broker. DescribeQuorum, which it hands on to the controller, counts
  once, as it is sent once.
- *Gather, right before the others* is measured anew on their broker, in whole cycles: the ratio is
  of figures of the same minutes.
- *klag-exporter* {klag_version} is a lag exporter in Rust, built where there is cargo. It runs with
  the settings that it comes with, but every {klag_interval_s} s. A refresh is what its log tells,
  from the first request to the figures that it exports: states and offsets of all groups, and
  where partitions begin and end. It has no look-ups by time and no second listing, remembers the
  groups for a minute, topics for five and their configs for an hour, and goes on without a group
  that it can't read. Every group's lag is checked, after the last refresh.
- *kafka-consumer-groups* is Kafka's own tool with `--describe --all-groups`, as a whole process
  with its JVM, to its last line. Every offset that it prints is checked, in every run.
- *Whole cycle with deletions*: a record of every partition is deleted, in every cycle measured.
  Before it, and before every DeleteRecords below, the broker has come to rest, as it has between
  a daemon's cycles: a request right after another waits for what the broker still writes for that.
- *Memory given back*: the daemon does that after each cycle, and these cycles do not. With it the
  next one takes some 5 % longer: with 4,000 deletions 2.14 and 1.95 s, without it 1.94 and 1.85 s.
- *With audit log* writes what will be deleted and on which evidence (ten groups a partition) to
  SQLite before the request, and its outcome after.
- *kafka-delete-records* is Kafka's own tool, as a whole process with its JVM; *retentiond
  delete-records* is one too, from the shell and back, audit log included.
- *Start* is from the command until its first cycle is logged, with nothing remembered: the median
  of {starts}. *Brokers new too*: of one before them, when nobody had asked the brokers anything.
- *Questions about a past* are whole commands with their JVM on `local[2]`, over a made-up history
  with an entry each five minutes, in which a fifth of the partitions stand still each time. A
  quarter of the topics each is steady, has a reader that goes back, is really deleted from, or has
  a reader that stops. numpy works the answers out; each figure of each topic is compared. CPU and
  memory are of all processes together, `--layouts L` and `--days` choose another size.
- *A day put together* is the process that the daemon starts for it, on 288 files of one entry each.
- *Memory* is of `retentiond run` in cycles without a pause, dry, and scraped: the most that it has
  within {look_s:.0f} s after that many.
"""


def write(measured: Measurement) -> None:
    """Replaces bench/README.md."""
    rows = [HEADINGS, ("---", "---:", "---"), *(result.cells() for result in measured.results)]
    machine = dict(measured.machine)
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(
        TEXT.format(
            glance="\n".join(at_a_glance(measured.results)),
            date=machine.pop("date"),
            machine=", ".join(f"{name} {value}" for name, value in machine.items()),
            runs=RUNS,
            warm_up=WARM_UP,
            delete_warm_up=DELETE_WARM_UP,
            tool_runs=TOOL_RUNS,
            tool_warm_up=TOOL_WARM_UP,
            starts=STARTS,
            look_s=LOOK_S,
            klag_version=klag_build.VERSION,
            klag_interval_s=klag.INTERVAL_S,
            klag_warm_up=klag.WARM_UP,
            layouts="\n".join(
                f"- {layout}"
                for name, layout in LAYOUTS.items()
                if any(result.what.startswith(f"{name}:") for result in measured.results)
            ),
            table="\n".join(f"| {' | '.join(row)} |" for row in rows),
        )
    )


def at_a_glance(results: Sequence[Result]) -> list[str]:
    """The result in a few lines of Markdown: a column for each layout that was measured."""
    layouts = [name for name in LAYOUTS if _largest(results, f"{name}: *")]
    lines = [f"| | {' | '.join(layouts)} |", f"|---|{'---:|' * len(layouts)}"]
    for label, names in AT_A_GLANCE.items():
        found = [_largest(results, f"{layout}: {names}") for layout in layouts]
        if any(found):
            cells = [each.shown(each.value) if each else "" for each in found]
            lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def _largest(results: Sequence[Result], names: str) -> Result | None:
    found = [each for each in results if fnmatchcase(each.what, names)]
    return max(found, key=lambda each: each.value, default=None)


def show(console: Console, results: Sequence[Result]) -> None:
    """The table."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading == "figure" else "left")
    for result in results:
        table.add_row(*result.cells(), style="red" if result.kept is False else "")
    console.print(table)


def machine() -> dict[str, str]:
    """When, on how many cores, and with which versions."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "cores": str(cores()),
        "Python": platform.python_version(),
        "Kafka": default_version(),
        "Spark": pyspark.__version__,
        "librdkafka": librdkafka_version(),
    }
