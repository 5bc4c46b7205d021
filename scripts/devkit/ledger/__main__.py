"""``python -m devkit.ledger``: see ``scripts/ledger``."""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

from confluent_kafka import KafkaException

from devkit.demo.interrupt import raise_on_signals
from devkit.embedded import EmbeddedKafka, EmbeddedKafkaError
from devkit.ledger import deletions
from devkit.ledger.audit import contradictions
from devkit.ledger.book import Book
from devkit.ledger.cluster import Cluster
from devkit.ledger.daemon import Daemon
from devkit.ledger.faults import Faults, Wedged
from devkit.ledger.play import Play
from devkit.ledger.promise import judge
from devkit.ledger.scenario import BROKER_CONFIG, TOPICS
from devkit.ledger.stage import Stage
from devkit.ledger.summary import Figures, figures, idle, lines

MINIMUM_SECONDS = 10.0
INTERRUPTED = 130  # as a shell reports a process that SIGINT ended


def main() -> int:
    options = _options()
    raise_on_signals()
    folder = Path(tempfile.mkdtemp(prefix="retentiond-ledger-"))
    kept = True
    try:
        problems = _run(options, folder)
        kept = bool(problems)
    except KeyboardInterrupt:
        kept = False
        return INTERRUPTED
    except (EmbeddedKafkaError, KafkaException, TimeoutError, Wedged) as error:
        print(f"FAILED: {error!r}", file=sys.stderr)
        return 1
    else:
        return 1 if problems else 0
    finally:
        if kept:
            print(f"the daemon's log and state are kept in {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _run(options: argparse.Namespace, folder: Path) -> list[str]:
    """What was found, a sentence each."""
    started = time.monotonic()

    def tell(text: str) -> None:
        line = f"{time.monotonic() - started:6.1f} s  {time.strftime('%H:%M:%S')}  {text}"
        print(line, flush=True)
        with (folder / "play.log").open("a") as log:
            log.write(line + "\n")

    seed = str(options.seed)
    tell(f"seed {seed}")
    book = Book()
    with ExitStack() as open_things:
        kafka = open_things.enter_context(EmbeddedKafka(nodes=3, config=BROKER_CONFIG))
        cluster = Cluster(kafka)
        daemon = open_things.enter_context(closing(Daemon(kafka.bootstrap_servers, folder, TOPICS)))
        stage = Stage(cluster, book, seed, folder)
        open_things.callback(stage.stop_reading)
        faults = Faults(cluster, daemon, f"{seed} faults", tell)
        tell("the brokers run")
        play = Play(stage, cluster, daemon, faults, seed=f"{seed} play", tell=tell)
        ended = play.perform(options.seconds)
        told = deletions.read(daemon.state_dir)
        judgement = judge(book, told, ended.log_starts)
        found = figures(
            book,
            deletions=told,
            log_starts=ended.log_starts,
            judgement=judgement,
            faults=faults,
            events=daemon.events,
        )
        problems = [
            *map(str, judgement.findings),
            *contradictions(told, ended.log_starts),
            *ended.problems,
            *idle(found),
        ]
        if problems:
            kafka.keep_logs()
    _report(options, {"seed": options.seed, "seconds": options.seconds, **found}, problems)
    return problems


def _report(options: argparse.Namespace, found: Figures, problems: list[str]) -> None:
    for line in lines(found):
        print(line)
    for problem in problems:
        print(f"FAILED: {problem}")
    if options.json:
        options.json.write_text(json.dumps({**found, "problems": problems}, indent=2) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/ledger",
        description="Attacks retentiond's one promise: real producers and consumers on three "
        "brokers that are killed, with a daemon that is killed, too. No group may lose a record.",
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=120.0,
        metavar="N",
        help="how long there is load and there are faults (default: %(default)g)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=random.randrange(10**6),
        metavar="S",
        help="of all choices: who does what, when, and to whom (default: any)",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the figures into FILE as well"
    )
    return parser.parse_args()


def _seconds(text: str) -> float:
    seconds = float(text)
    if not seconds >= MINIMUM_SECONDS:
        raise argparse.ArgumentTypeError(f"{MINIMUM_SECONDS:g} or more")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
