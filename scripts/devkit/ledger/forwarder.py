"""Addresses that lead to the brokers of one cluster, or of another one for a while."""

import asyncio
import random
import threading
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

LOOPBACK = "127.0.0.1"
CHUNK_BYTES = 65_536
ANSWER_SECONDS = 10.0


class Forwarder:
    """Listens on ``count`` ports; each leads where `lead` says, for connections made from then
    on. Runs on a thread of its own from the start until `close`."""

    def __init__(self, count: int) -> None:
        self._targets: list[int] = []
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="forwarder", daemon=True
        )
        self._thread.start()
        self._servers = [
            self._run(asyncio.start_server(self._accept(index), LOOPBACK, 0))
            for index in range(count)
        ]

    @property
    def ports(self) -> list[int]:
        return [each.sockets[0].getsockname()[1] for each in self._servers]

    @property
    def servers(self) -> str:
        """``HOST:PORT[,...]``, for clients."""
        return ",".join(f"{LOOPBACK}:{port}" for port in self.ports)

    def lead(self, ports: Sequence[int]) -> None:
        """To these, one after the other; to the first where they are too few."""
        self._targets = list(ports)

    def cut(self, share: float, choose: random.Random) -> int:
        """Cut so many of the connections; how many it were."""
        return int(self._run(self._cut(share, choose)))

    def close(self) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(ANSWER_SECONDS)

    def _accept(self, index: int) -> Any:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            target = self._targets[index] if index < len(self._targets) else self._targets[0]
            try:
                there, onward = await asyncio.open_connection(LOOPBACK, target)
            except OSError:  # the broker is down
                writer.close()
                return
            self._open.add(writer)
            await asyncio.gather(_pump(reader, onward), _pump(there, writer))
            self._open.discard(writer)

        return accept

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for each in self._open:
            each.transport.abort()
        if working := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(working, timeout=ANSWER_SECONDS / 2)

    async def _cut(self, share: float, choose: random.Random) -> int:
        chosen = [each for each in self._open if choose.random() < share]
        for each in chosen:
            each.transport.abort()
        return len(chosen)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while part := await source.read(CHUNK_BYTES):
            sink.write(part)
            await sink.drain()
    with suppress(OSError):
        sink.close()
