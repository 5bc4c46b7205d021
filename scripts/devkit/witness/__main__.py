"""``python -m devkit.witness``: before one's own brokers, for as long as one likes."""

from __future__ import annotations

import argparse
import signal
import socket
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path

from devkit.witness.judge import Verdict
from devkit.witness.proxy import LOOPBACK
from devkit.witness.witness import Witness
from devkit.witness.words import documents

LOOK_EVERY_S = 2.0


def main() -> int:
    options, servers = _options()
    verdict, known = Verdict(), [*documents(options.config)]

    def look() -> None:
        with suppress(OSError, ValueError):  # somebody writes it: what it said before counts
            known.extend(new for new in documents(options.config) if new not in known)
        found = witness.verdict(known)
        verdict.add(found)
        for fault in found.faults:
            print(fault, flush=True)

    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with closing(Witness(is_laid_out=False)) as witness:
        at = ",".join(f"{LOOPBACK}:{witness.lead(0, server, -1)}" for server in servers)
        print(f"the daemon is to have kafka.bootstrap.servers {at}; Ctrl-C ends this", flush=True)
        while not ended.wait(LOOK_EVERY_S):
            look()
    look()
    print(f"{verdict}; external readers, vanished groups and the audit log were not judged")
    return 1 if verdict.faults else 0


def _options() -> tuple[argparse.Namespace, list[str]]:
    """With the brokers' addresses. Ends with 2 where it could not see anything."""
    parser = argparse.ArgumentParser(
        prog="python -m devkit.witness",
        description="Stands between a retentiond daemon and its brokers, and proves each of its "
        "DeleteRecords from what the brokers had answered before.",
    )
    parser.add_argument(
        "--bootstrap-server",
        required=True,
        metavar="HOST:PORT[,...]",
        help="where the brokers are, on a listener without TLS",
    )
    parser.add_argument(
        "--config", type=Path, required=True, metavar="FILE", help="the daemon's configuration"
    )
    options = parser.parse_args()
    servers = [server.strip() for server in options.bootstrap_server.split(",")]
    try:
        kafka = next(documents(options.config)).get("kafka") or {}
    except (OSError, ValueError) as error:
        parser.error(str(error))
    for server in servers:
        host, _, port = server.rpartition(":")
        try:
            socket.create_connection((host, int(port)), 10).close()
        except (OSError, ValueError) as error:
            parser.error(f"no broker answers at {server}: {error}")
    if "SSL" in (protocol := str(kafka.get("security.protocol"))):
        parser.error(
            f"{options.config} has security.protocol {protocol}, and the witness can't read what "
            "is encrypted: use a listener without TLS"
        )
    return options, servers


if __name__ == "__main__":
    sys.exit(main())
