"""A cluster that is too large for one machine: a process that speaks the wire protocol for all of
its brokers, each behind a port of its own.

``python -m devkit.bench.stand_in LAYOUT``, with the layout's fields as JSON, prints its bootstrap
servers, and then answers what a reading asks. A line on standard input is answered with how many
requests of each kind came since the last one, as JSON. The end of standard input ends it.

It knows no deletion, and OffsetFetch only for all of a group's partitions. Any other request ends
its connection, so that what rests on it fails.
"""

import asyncio
import json
import os
import socket
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path

from devkit.bench.layouts import Layout
from devkit.bench.stand_in_answers import Answers
from devkit.embedded.ports import LOOPBACK

SCRIPTS = Path(__file__).resolve().parents[2]


async def _serve(layout: Layout) -> None:
    sockets = [socket.create_server((LOOPBACK, 0)) for _ in range(layout.brokers)]
    answers = Answers(layout, {node: each.getsockname()[1] for node, each in enumerate(sockets)})
    for node, each in enumerate(sockets):
        await asyncio.start_server(partial(_talk, answers, node), sock=each)
    print(f"{LOOPBACK}:{sockets[0].getsockname()[1]}", flush=True)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(answers.requests), flush=True)
        answers.requests.clear()


async def _talk(
    answers: Answers, node: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """With one client, until it hangs up or asks for something unknown."""
    try:
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            response = answers.answer(node, await reader.readexactly(size))
            writer.write(struct.pack(">i", len(response)))
            writer.write(response)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    except ValueError as error:
        print(f"broker {node} was asked for {error}", file=sys.stderr)
    finally:
        writer.close()


class Running:
    """A stand-in that answers. ``bootstrap_servers``: its first broker."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.bootstrap_servers = self._line()

    def counted(self) -> Counter[str]:
        """The requests of each kind since the last call."""
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        return Counter(json.loads(self._line()))

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ValueError(f"the stand-in ended with exit code {self._process.wait()}")
        return line.strip()


@contextmanager
def running(layout: Layout) -> Iterator[Running]:
    """In a process of its own, whose time does not count as retentiond's."""
    command = [sys.executable, "-m", "devkit.bench.stand_in", json.dumps(asdict(layout))]
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as process:
        yield Running(process)


if __name__ == "__main__":
    asyncio.run(_serve(Layout(**json.loads(sys.argv[1]))))
