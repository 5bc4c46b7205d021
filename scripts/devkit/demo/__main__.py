"""``python -m devkit.demo``: see ``scripts/demo``."""

import argparse
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from confluent_kafka import KafkaException
from rich.console import Console

from devkit.daemon_process import CommandError
from devkit.demo import summary
from devkit.demo.daemon import CONFIG, Daemon
from devkit.demo.play import play
from devkit.demo.stage import Stage
from devkit.demo.view import shown
from devkit.embedded import EmbeddedKafka, EmbeddedKafkaError
from devkit.interrupt import INTERRUPTED, raise_on_signals
from devkit.witness.words import documents

MINIMUM_SECONDS = 15.0


def main() -> int:
    options = _options()
    raise_on_signals()
    console = Console(highlight=False, markup=False)
    report = Path(tempfile.mkdtemp(prefix="retentiond-demo-report-")) / "report.html"
    try:
        with tempfile.TemporaryDirectory(
            prefix="retentiond-demo-", ignore_cleanup_errors=True
        ) as folder:
            return 0 if _demonstrate(console, Path(folder), options.seconds, report) else 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except (EmbeddedKafkaError, CommandError) as error:
        print(error, file=sys.stderr)
        return 1
    except (KafkaException, TimeoutError) as error:
        print(f"The broker did not answer as it should: {error!r}", file=sys.stderr)
        return 1


def _demonstrate(console: Console, folder: Path, seconds: float, report_file: Path) -> bool:
    """Whether all went well."""
    started = time.monotonic()
    broker = EmbeddedKafka()
    console.print(f"starting Kafka {broker.version} …", end="")
    with (
        broker as kafka,
        closing(Daemon(kafka.bootstrap_servers, folder)) as daemon,
        closing(Stage(kafka, daemon)) as stage,
    ):
        console.print(f" {time.monotonic() - started:.0f} s")
        with shown(console, f"metrics: {daemon.url}/metrics, plan: {daemon.url}/api/plan") as view:
            play(stage, view, seconds)
        stage.stop_readers()
        ended = list(summary.problems_of_end(daemon))
        stage.look()  # once more, as nothing changes any longer
        topics = stage.figures()
        freed = sum(topic.freed for topic in topics)
        seen = kafka.witnessed([*documents(CONFIG)])
        problems = [*ended, *summary.problems(stage, freed), *seen.faults]
        summary.print_summary(console, topics, len(stage.faults()), problems)
        if problems:
            console.print(f"retentiond's log ends so:\n{daemon.last_words()}", soft_wrap=True)
        else:
            summary.print_past(console, daemon, report_file)
        console.print(f"\n{seen}", soft_wrap=True)
    return not problems


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/demo",
        description="Shows retentiond free disk on a real Kafka broker while every group still "
        "reads every record. Ctrl-C ends it with its summary.",
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=60.0,
        metavar="N",
        help="how long records are written (default: %(default)g)",
    )
    return parser.parse_args()


def _seconds(text: str) -> float:
    seconds = float(text)
    if not seconds >= MINIMUM_SECONDS:
        raise argparse.ArgumentTypeError(f"{MINIMUM_SECONDS:g} or more, so that there is a cycle")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
