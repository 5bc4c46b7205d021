"""``python -m devkit.ledger``: see ``scripts/ledger``."""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from confluent_kafka import KafkaException

from devkit import audit
from devkit.embedded import EmbeddedKafka, EmbeddedKafkaError
from devkit.embedded.disk import MIB, CannotMount, small_disks
from devkit.forwarder import Forwarder
from devkit.interrupt import INTERRUPTED, raise_on_signals
from devkit.ledger.book import Book
from devkit.ledger.cluster import Cluster
from devkit.ledger.daemon import Daemon
from devkit.ledger.faults import FORWARDED, Faults, Wedged, lead
from devkit.ledger.judge import judge
from devkit.ledger.play import Play
from devkit.ledger.record import now_ms
from devkit.ledger.scenario import (
    BROKER_CONFIG,
    GROUPS,
    OTHER_GROUPS,
    OTHER_TOPICS,
    RENEWED,
    THREE_BROKERS_CONFIG,
    TOPICS,
    Partition,
)
from devkit.ledger.stage import Stage
from devkit.ledger.summary import Figures, figures, idle, lines
from devkit.witness.judge import Verdict
from devkit.witness.words import documents

BROKERS = 3
DISK_BYTES = 3 * 1024 * MIB
OTHER_FIRST_SEQUENCE = 10**12


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
    book, other_book = Book(), Book(all_known=True)
    with ExitStack() as open_things:
        disk = _disk(open_things, folder, tell)
        forwarders = [open_things.enter_context(closing(Forwarder())) for _ in range(BROKERS)]
        kafka, other = (
            open_things.enter_context(
                EmbeddedKafka(
                    nodes=nodes,
                    config=config,
                    tiered=tiered,
                    further_listeners={FORWARDED: "PLAINTEXT"},
                    advertised_ports={FORWARDED: [each.port for each in forwarders]},
                    folder=where,
                )
            )
            for nodes, config, tiered, where in (
                (BROKERS, THREE_BROKERS_CONFIG, True, disk),
                (1, BROKER_CONFIG, False, None),
            )
        )
        lead(forwarders, kafka)
        servers = ",".join(each.address for each in forwarders)
        daemon = open_things.enter_context(closing(Daemon(servers, folder, book.shown.cycle)))
        stage = Stage(Cluster(kafka), book, seed, folder, topics=TOPICS, groups=GROUPS)
        other_stage = Stage(
            Cluster(other),
            other_book,
            f"{seed} other",
            folder,
            topics=OTHER_TOPICS,
            groups=OTHER_GROUPS,
            first_sequence=OTHER_FIRST_SEQUENCE,
        )
        open_things.callback(stage.stop_reading)
        open_things.callback(other_stage.stop_reading)
        faults = Faults(
            stage, other, forwarders, daemon, disk=disk, seed=f"{seed} faults", tell=tell
        )
        tell("the brokers run")
        play = Play(stage, other_stage, daemon, faults, seed=f"{seed} play", tell=tell)
        began_ms = now_ms()
        ended = play.perform(options.seconds)
        told = audit.read(daemon.state_dir, daemon.first_seen)
        seen = Verdict()
        for cluster in (kafka, other):
            seen.add(cluster.witnessed([*documents(daemon.config)]))
        tell(str(seen))
        judgements = (
            judge(book, told, ended.log_starts, kafka.cluster_id),
            judge(other_book, told, ended.other_log_starts, other.cluster_id),
        )
        found = figures(
            book,
            other_book,
            deletions=told,
            ended=ended,
            judgements=judgements,
            faults=faults,
            events=daemon.events,
        )
        problems = [
            *(each.said(began_ms) for judgement in judgements for each in judgement.findings),
            *_untrue(told, kafka.cluster_id, ended.log_starts),
            *_untrue(told, other.cluster_id, ended.other_log_starts),
            *ended.problems,
            *(f"the witness on the wire: {fault}" for fault in seen.faults),
            *([] if seen.requests else [str(seen)]),
            *idle(found),
        ]
        if problems:
            kafka.keep_logs()
    _report(options, {"seed": options.seed, "seconds": options.seconds, **found}, problems)
    return problems


def _disk(open_things: ExitStack, folder: Path, tell: Callable[[str], None]) -> Path | None:
    """For the brokers that are attacked; None where this host lets nobody mount one."""
    try:
        return open_things.enter_context(small_disks(folder / "disks", DISK_BYTES))[0]
    except CannotMount as error:
        tell(f"the brokers' disk will not be filled, as none can be mounted here: {error}")
        return None


def _untrue(
    told: Sequence[audit.Deletion], cluster_id: str, log_starts: Mapping[Partition, int]
) -> Iterator[str]:
    """Where the audit log does not agree with that cluster."""
    here = [each for each in told if each.cluster_id == cluster_id]
    lasting = {each: start for each, start in log_starts.items() if each[0] != RENEWED.name}
    for sentence in (*audit.contradictions(here, lasting), *audit.unsettled(here, lasting)):
        yield f"audit log: {sentence}"


def _report(options: argparse.Namespace, found: Figures, problems: list[str]) -> None:
    for line in (*lines(found), ""):
        print(line)
    for problem in problems:
        print(f"FAILED: {problem}")
    if options.json:
        options.json.write_text(json.dumps({**found, "problems": problems}, indent=2) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/ledger",
        description="Attacks retentiond's one promise: real producers and consumers on three "
        "brokers that are killed, with a daemon that is killed and misled. No reader may lose a "
        "record.",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=120.0,
        metavar="N",
        help="how long there is load and there are faults, and longer until each kind of fault "
        "has been there (default: %(default)g)",
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


if __name__ == "__main__":
    sys.exit(main())
