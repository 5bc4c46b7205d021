"""Stands between clients and brokers, passes all bytes on as they are, and keeps a copy.

Only connections of the watched client are copied: Kafka's requests begin with the name that a
client gives itself. It is a process of its own, so that neither side waits for Python's lock: each
line of stdin, ``PORT HOST:PORT BROKER``, opens a port of loopback that leads to a broker, and is
answered with that port. It ends with its stdin.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import pickle
import socket
import struct
import sys
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from functools import partial
from typing import BinaryIO

LOOPBACK = "127.0.0.1"
AGAIN_S = 0.05

Rewrite = Callable[[int, bytes, bool], bytes]
"""What to pass on instead of a frame of a connection; whether it is an answer."""


class Proxy:
    """``client``: how the watched clients are called, or what comes before a ``/`` of their names,
    by which a judge can tell several apart. With ``rewrite`` not all bytes pass as they are."""

    def __init__(self, copy: BinaryIO, client: str, rewrite: Rewrite | None = None) -> None:
        self._copy, self._client, self.rewrite = copy, client, rewrite
        self._numbers = itertools.count()
        self._serving: set[asyncio.Task[None]] = set()

    def lead(self, port: int, target: str, broker: int) -> int:
        """The port on which it accepts connections for the broker from now on; 0: any."""
        listening = socket.create_server((LOOPBACK, port))
        self._serving.add(asyncio.ensure_future(self._serve(listening, target, broker)))
        return int(listening.getsockname()[1])

    async def _serve(self, listening: socket.socket, target: str, broker: int) -> None:
        """While the broker refuses connections, nobody listens here, either."""
        address = listening.getsockname()
        while True:
            refused = asyncio.Event()
            join = partial(self._join, target, broker, refused)
            server = await asyncio.start_server(join, sock=listening)
            await refused.wait()
            server.close()
            while refused.is_set():
                await asyncio.sleep(AGAIN_S)
                with contextlib.suppress(OSError):
                    _, writer = await _connect(target)
                    writer.close()
                    refused.clear()
            listening = socket.create_server(address)

    async def _join(
        self,
        target: str,
        broker: int,
        refused: asyncio.Event,
        from_client: StreamReader,
        to_client: StreamWriter,
    ) -> None:
        try:
            from_broker, to_broker = await _connect(target)
        except OSError:
            to_client.transport.abort()
            refused.set()
            return
        number, is_watched = next(self._numbers), None

        def seen(frame: bytes, *, is_answer: bool) -> bytes:
            nonlocal is_watched
            if is_watched is None:
                is_watched = self._client == _client(frame).split("/")[0]
            if is_watched:
                passed = (number, broker, is_answer, time.monotonic(), time.time(), frame)
                self._copy.write(pickle.dumps(passed))
            return self.rewrite(number, frame, is_answer) if self.rewrite else frame

        await asyncio.gather(
            _pass(from_client, to_broker, partial(seen, is_answer=False)),
            _pass(from_broker, to_client, partial(seen, is_answer=True)),
        )


async def _connect(target: str) -> tuple[StreamReader, StreamWriter]:
    host, _, port = target.rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def _pass(reader: StreamReader, writer: StreamWriter, seen: Callable[[bytes], bytes]) -> None:
    try:
        while True:
            (length,) = struct.unpack(">i", await reader.readexactly(4))
            frame = seen(await reader.readexactly(length))
            writer.write(struct.pack(">i", len(frame)) + frame)
            await writer.drain()
    except asyncio.IncompleteReadError:
        writer.close()
    except (OSError, ValueError, struct.error):  # nothing that Kafka's clients send
        writer.transport.abort()


def _client(request: bytes) -> str:
    """By its header; the name may be null (-1)."""
    (length,) = struct.unpack_from(">h", request, 8)
    return request[10 : 10 + max(0, length)].decode(errors="replace")


async def main(copy: str, client: str, is_laid_out: str = "") -> None:
    with open(copy, "ab", buffering=0) as file:
        proxy = Proxy(file, client)
        if not is_laid_out:
            from devkit.witness.addresses import Addresses  # noqa: PLC0415 - needs time and `kio`

            proxy.rewrite = Addresses(proxy.lead).rewrite
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            port, target, broker = line.split()
            print(proxy.lead(int(port), target, int(broker)), flush=True)
    os._exit(0)  # with all connections, and nothing to tell about them


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
