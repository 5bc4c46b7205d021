"""Stands between clients and brokers, passes all bytes on as they are, and keeps a copy.

Only connections of the watched client are copied: Kafka's requests begin with the name that a
client gives itself. Run as a process of its own, so that neither side waits for Python's lock: each
line of stdin, ``PORT TARGET BROKER``, opens a port of loopback that leads to another one. It ends
with its stdin. It needs nothing but Python's own library, and decodes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Any, BinaryIO

LOOPBACK = "127.0.0.1"
AGAIN_S = 0.05
RECORD = struct.Struct(">iiBddi")
"""Before each copied frame: connection, broker, whether it is an answer, when it passed by the
monotonic and by the host's clock, and its length."""

Target = tuple[str, int]
"""A broker's host and port."""

Rewrite = Callable[[int, bytes, bool], bytes]
"""What to pass on instead of a frame of a connection; whether it is an answer."""


class Proxy:
    """``client``: how the watched clients are called, or what comes before a ``/`` of their names,
    by which a judge can tell several apart; None: all are watched."""

    def __init__(self, copy: BinaryIO, client: str | None, rewrite: Rewrite | None = None) -> None:
        self._copy, self._client, self.rewrite = copy, client, rewrite
        self.numbers = itertools.count()
        self.brokers: dict[Target, int] = {}

    async def lead(self, listening: socket.socket, target: Target) -> None:
        """Accepts connections for the broker. While that refuses them, nobody listens here."""
        loop = asyncio.get_running_loop()
        address = listening.getsockname()
        server: asyncio.Server

        async def listen(on: socket.socket) -> asyncio.Server:
            return await loop.create_server(lambda: Half(self, target, refused), sock=on)

        async def wait() -> None:
            nonlocal server
            while True:
                await asyncio.sleep(AGAIN_S)
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection(*target)
                    writer.close()
                    server = await listen(socket.create_server(address))
                    return

        def refused() -> None:
            if server.is_serving():
                server.close()
                waiting.add(asyncio.ensure_future(wait()))

        waiting: set[asyncio.Future[None]] = set()
        server = await listen(listening)

    def is_watched(self, frame: bytes) -> bool:
        """By the header of its first request, whose client's name may be null (-1)."""
        (length,) = struct.unpack_from(">h", frame, 12)
        name = frame[14 : 14 + length].decode(errors="replace") if length > 0 else ""
        return self._client is None or name.split("/")[0] == self._client

    def keep(self, connection: int, target: Target, frame: bytes, *, is_answer: bool) -> None:
        broker = self.brokers.get(target, -1)
        passed = RECORD.pack(
            connection, broker, is_answer, time.monotonic(), time.time(), len(frame)
        )
        self._copy.write(passed + frame)


class Half(asyncio.Protocol):
    """One side of a connection: the client's, which makes the broker's when it is there."""

    def __init__(
        self,
        proxy: Proxy,
        target: Target | None,
        refused: Callable[[], None] = lambda: None,
        other: Half | None = None,
    ) -> None:
        self._proxy, self._target, self._refused = proxy, target, refused
        self.other = other
        self.number: int = next(proxy.numbers) if other is None else other.number
        self.is_watched: bool | None = None
        self.transport: Any = None
        self._begun = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        if self._target:
            transport.pause_reading()
            self._connecting = asyncio.ensure_future(self._connect(*self._target))

    async def _connect(self, host: str, port: int) -> None:
        try:
            _, self.other = await asyncio.get_running_loop().create_connection(
                lambda: Half(self._proxy, None, other=self), host, port
            )
        except OSError:
            self.transport.abort()
            self._refused()
        else:
            if self.transport.is_closing():
                self.other.transport.close()
            else:
                self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        client = self if self._target else self.other
        assert client is not None
        assert self.other is not None
        if client.is_watched is False:
            self.other.transport.write(data)
            return
        self._begun += data
        passed = []
        while len(self._begun) >= 4:
            (length,) = struct.unpack_from(">i", self._begun)
            if len(self._begun) < 4 + length:
                break
            frame, self._begun = self._begun[: 4 + length], self._begun[4 + length :]
            if client.is_watched is None:
                client.is_watched = self._proxy.is_watched(frame)
            if client.is_watched:
                assert client._target is not None
                self._proxy.keep(
                    self.number, client._target, frame[4:], is_answer=client is not self
                )
            if self._proxy.rewrite:
                frame = self._proxy.rewrite(self.number, frame, client is not self)
            passed.append(frame)
        if client.is_watched is False:
            passed.append(self._begun)
            self._begun = b""
        self.other.transport.write(b"".join(passed))

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if self.other is not None and self.other.transport is not None:
            (self.other.transport.abort if error else self.other.transport.close)()


async def main() -> None:
    with open(sys.argv[1], "ab", buffering=0) as copy:
        proxy = Proxy(copy, sys.argv[2])
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            port, target, broker = map(int, line.split())
            proxy.brokers[LOOPBACK, target] = broker
            await proxy.lead(socket.create_server((LOOPBACK, port)), (LOOPBACK, target))
            print("listening", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
