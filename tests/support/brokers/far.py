"""Brokers that are far away: each behind a proxy that delays what it carries, in each direction."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from devkit.embedded import EmbeddedKafka
from tests.support.brokers.secured import KAFKAS_MODULES, PASSWORD, USER, Section
from tests.support.certificates import Authority

T = TypeVar("T")

CHUNK = 65536


class Distance:
    """A port on loopback that leads to ``target``, ``HOST:PORT``, in ``round_trip_s``; a connection
    takes one round trip, too, before it carries anything."""

    def __init__(self, round_trip_s: float = 0.0) -> None:
        self.round_trip_s = round_trip_s
        self.target = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._ends: set[asyncio.StreamWriter] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._in_loop(asyncio.start_server(self._connected, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._in_loop(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _in_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def _end(self) -> None:
        self._server.close()
        tasks = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        await asyncio.sleep(self.round_trip_s)
        host, _, port = self.target.rpartition(":")
        try:
            far, forth = await asyncio.open_connection(host, int(port))
        except OSError:
            back.close()
            return
        await asyncio.gather(self._carry(near, forth), self._carry(far, back))

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        """What comes while something earlier is on its way doesn't wait for its arrival."""
        loop = asyncio.get_running_loop()
        arrivals: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def arrive() -> None:
            while True:
                at, data = await arrivals.get()
                await asyncio.sleep(at - loop.time())
                if not data:
                    return
                sink.write(data)

        arriving = asyncio.ensure_future(arrive())
        try:
            with suppress(OSError):
                while data := await source.read(CHUNK):
                    arrivals.put_nowait((loop.time() + self.round_trip_s / 2, data))
            arrivals.put_nowait((loop.time() + self.round_trip_s / 2, b""))
            await arriving
        finally:
            arriving.cancel()
            sink.close()


class FarKafka(NamedTuple):
    """``section`` is its ``kafka`` section. All brokers may move further away."""

    kafka: EmbeddedKafka
    section: Section
    distances: list[Distance]

    def move(self, round_trip_s: float) -> None:
        for each in self.distances:
            each.round_trip_s = round_trip_s


@contextmanager
def far_kafka(folder: Path, brokers: int = 2) -> Iterator[FarKafka]:
    """Clients log in by SASL/PLAIN in TLS. At first it is near."""
    authority = Authority(folder / "authority")
    login = (
        f"{KAFKAS_MODULES}.plain.PlainLoginModule required username=x password=x "
        f'user_{USER}="{PASSWORD}";'
    )
    config = {
        "listener.name.client.ssl.keystore.type": "PEM",
        "listener.name.client.ssl.keystore.location": str(authority.issue("broker").both),
        "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": login,
    }
    with ExitStack() as stack:
        distances = [stack.enter_context(Distance()) for _ in range(brokers)]
        kafka = stack.enter_context(
            EmbeddedKafka(
                nodes=brokers,
                security_protocol="SASL_SSL",
                config=config,
                advertised_ports={"CLIENT": [each.port for each in distances]},
            )
        )
        for node, each in zip(kafka.nodes, distances, strict=True):
            each.target = node.bootstrap_server
        section = {
            "bootstrap.servers": ",".join(f"127.0.0.1:{each.port}" for each in distances),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(authority.certificate),
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
        yield FarKafka(kafka, section, distances)
