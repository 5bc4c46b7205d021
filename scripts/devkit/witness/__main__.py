"""``python -m devkit.witness``: before one's own brokers, for as long as one likes."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import signal
import sys
from pathlib import Path

from devkit.witness.addresses import Addresses
from devkit.witness.proxy import LOOPBACK, Proxy, Target
from devkit.witness.watch import Watch
from devkit.witness.witness import unpacked
from devkit.witness.words import Configured

LOOK_EVERY_S = 2.0
USAGE_ERROR = 2


def main() -> int:
    options = _options()
    try:
        configured = Configured(options.config)
    except (OSError, ValueError) as error:
        return _refused(str(error))
    if "SSL" in configured.protocol:
        return _refused(
            f"{options.config} has security.protocol {configured.protocol}, and the witness can't "
            "read what is encrypted: use a listener without TLS"
        )
    return asyncio.run(_watch(options.bootstrap_server, configured))


async def _watch(servers: list[Target], configured: Configured) -> int:
    for host, port in servers:
        try:
            _, writer = await asyncio.open_connection(host, port)
        except OSError as error:
            return _refused(f"no broker answers at {host}:{port}: {error}")
        writer.close()
    copy, ended = io.BytesIO(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    addresses = Addresses(Proxy(copy, None))
    at = ",".join(f"{LOOPBACK}:{addresses.port(server)}" for server in servers)
    print(f"the daemon is to have kafka.bootstrap.servers {at}; Ctrl-C ends this", flush=True)
    watch = Watch(configured)
    while not ended.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), LOOK_EVERY_S)
        configured.read()
        frames, _ = unpacked(copy.getvalue())
        copy.seek(0)
        copy.truncate()
        found = await asyncio.to_thread(watch.look, frames, is_last=ended.is_set())
        for fault in found:
            print(fault, flush=True)
    print(watch.verdict)
    return 1 if watch.verdict.faults else 0


def _refused(why: str) -> int:
    print(why, file=sys.stderr)
    return USAGE_ERROR


def _server(text: str) -> Target:
    host, _, port = text.strip().rpartition(":")
    if not host or not port.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host, int(port)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m devkit.witness",
        description="Stands between a retentiond daemon and its brokers, and proves each of its "
        "DeleteRecords from what the brokers had answered before.",
    )
    parser.add_argument(
        "--bootstrap-server",
        type=lambda text: [_server(part) for part in text.split(",")],
        required=True,
        metavar="HOST:PORT[,...]",
        help="where the brokers are, on a listener without TLS",
    )
    parser.add_argument(
        "--config", type=Path, required=True, metavar="FILE", help="the daemon's configuration"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
