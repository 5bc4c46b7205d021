"""An address on loopback that leads to a broker, and to another one from some moment on."""

import asyncio
import random
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from devkit.embedded.ports import LOOPBACK

CHUNK_BYTES = 65_536
ANSWER_SECONDS = 10.0
IN_ORDER_SECONDS = 1e-6


class Forwarder:
    """Leads to ``target``, ``HOST:PORT``, for connections made from then on.

    What it carries takes half of ``round_trip_s`` in each direction, and a connection all of it
    before it carries anything; both may be changed at any time. Runs on a thread of its own until
    `close`.
    """

    def __init__(self) -> None:
        self.target = ""
        self.round_trip_s = 0.0
        self._open: dict[asyncio.StreamWriter, asyncio.StreamWriter] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="forwarder", daemon=True
        )
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._connected, LOOPBACK, 0))
        self.port: int = self._server.sockets[0].getsockname()[1]

    @property
    def address(self) -> str:
        """``HOST:PORT``, for clients."""
        return f"{LOOPBACK}:{self.port}"

    def cut(self, share: float = 1.0, choose: random.Random | None = None) -> int:
        """Cut so many of the connections; how many they were."""
        return int(self._run(self._cut(share, choose or random.Random())))

    def close(self) -> None:
        """Cut all connections, and accept no more."""
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(ANSWER_SECONDS)

    async def _connected(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        try:
            await asyncio.sleep(self.round_trip_s)
            host, _, port = self.target.rpartition(":")
            far, forth = await asyncio.open_connection(host, int(port))
            self._open[back] = forth
            await asyncio.gather(self._carry(near, forth), self._carry(far, back))
        except OSError:  # the broker is down
            pass
        finally:
            self._open.pop(back, None)
            back.close()

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        """What comes while something earlier is on its way doesn't wait for its arrival, and never
        overtakes it."""
        loop, arrival = asyncio.get_running_loop(), 0.0
        try:
            with suppress(OSError):
                while data := await source.read(CHUNK_BYTES):
                    soonest = loop.time() + self.round_trip_s / 2
                    arrival = max(arrival + IN_ORDER_SECONDS, soonest)
                    loop.call_at(arrival, sink.write, data)
                    await sink.drain()
            await asyncio.sleep(arrival - loop.time())
        finally:
            sink.close()

    async def _cut(self, share: float, choose: random.Random) -> int:
        chosen = [each for each in self._open if choose.random() < share]
        for each in chosen:
            each.transport.abort()
        return len(chosen)

    async def _end(self) -> None:
        self._server.close()
        for ends in self._open.items():
            for each in ends:
                each.transport.abort()
        working = asyncio.all_tasks() - {asyncio.current_task()}
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)
