"""Opens kafka-python's connections, and closes each socket that carries none.

kafka-python drops a socket without closing it where a connection is refused or takes too long, and
where TLS fails. A closed client leaves those that still had something to write. What is dropped
waits, in the traceback of an error, until Python looks for such cycles; that is rarely
(`retentiond.garbage_collection`), and a daemon whose broker is down runs out of descriptors before.
And a TLS handshake that the peer does not answer has no end.

It looks names up on its one thread, and serves no other connection meanwhile. Where a look-up takes
seconds, the brokers of a cluster would wait for each other until their connections are given up. So
names are looked up on other threads (`AddressBook`).
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeAlias
from weakref import WeakSet

from kafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError
from kafka.net.inet import KafkaNetSocket
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from retentiond.background import in_background

Addresses: TypeAlias = list[Any]
"""As `socket.getaddrinfo` returns them."""

KEEP_S = 30.0
"""How long an answer serves further connections, as with Java's clients; one that leads nowhere is
dropped."""

AT_ONCE_S = 0.01
"""How long a client stands still for a look-up: most are answered sooner."""

POLL_S = 0.02


class AddressBook:
    """Looks names up on threads, each once for all clients. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[object, Future[Addresses]] = {}
        self._asked_at: dict[object, float] = {}

    def look_up(self, name: object, ask: Callable[[], Addresses]) -> Future[Addresses]:
        """``ask`` blocks. An answer is kept if it has an address."""
        with self._lock:
            found = self._found.get(name)
            if found is None or (found.done() and time.monotonic() > self._asked_at[name] + KEEP_S):
                self._asked_at[name] = time.monotonic()
                found = in_background(lambda: self._asked(name, ask), "look-up")
                self._found[name] = found
            return found

    def drop(self, name: object) -> None:
        with self._lock:
            self._found.pop(name, None)
            self._asked_at.pop(name, None)

    def _asked(self, name: object, ask: Callable[[], Addresses]) -> Addresses:
        addresses: Addresses = []
        try:
            addresses = ask()
        finally:
            if not addresses:
                self.drop(name)
        return addresses


ADDRESSES = AddressBook()


def look_up(config: Any, node: Any, *, anew: bool = False) -> Future[Addresses]:
    """A broker's addresses, for a client that is configured so."""
    proxy, host, port = name = config["proxy_url"], node.host, node.port
    if anew:
        ADDRESSES.drop(name)
    return ADDRESSES.look_up(name, lambda: KafkaNetSocket(proxy).dns_lookup(host, port))


class Sockets:
    """Opens the connections of one new client, in place of its connection manager."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self._net = manager._net
        self._open: WeakSet[socket.socket] = WeakSet()
        manager._build_transport = self.build_transport

    def close(self) -> None:
        """Whatever the client itself has left open. For after its end."""
        for each in list(self._open):
            each.close()

    async def build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        """A connection to a broker, its TLS handshake included."""
        connected = await self._connected(node, timeout_at)
        try:
            transport = self._transport(connected, node.host)
        except BaseException:
            connected.close()
            raise
        self._open.add(transport._sock)  # which TLS has put in place of the other
        try:
            with self._shut_down_at(timeout_at, transport._sock):
                await transport.handshake()
        except BaseException as error:
            transport.abort()
            if not isinstance(error, Exception):
                raise
            raise KafkaConnectionError(f"Handshake failed: {error}") from error
        return transport

    async def _connected(self, node: Any, timeout_at: float | None) -> socket.socket:
        """A socket that is connected to the first of the name's addresses that takes it."""
        config = self._manager.config
        factory = KafkaNetSocket(config["proxy_url"])
        failure = KafkaConnectionError("DNS Resolution failure")
        for family, kind, protocol, _, address in await self._addresses(node, timeout_at):
            try:
                made = factory.socket(family, kind, protocol)
            except OSError as error:  # no descriptor, or not such addresses on this host
                failure = KafkaConnectionError(f"unable to connect: {error}")
                continue
            self._open.add(made)
            try:
                made.setblocking(False)
                for option in config["socket_options"]:
                    made.setsockopt(*option)
                await factory.sock_connect(self._net, made, address, timeout_at=timeout_at)
            except KafkaTimeoutError:
                made.close()
                failure = KafkaConnectionError("Connection timed out")
                break
            except (OSError, KafkaError) as error:
                made.close()
                failure = KafkaConnectionError(f"unable to connect: {error}")
            except BaseException:  # the client is being closed
                made.close()
                raise
            else:
                return made  # type: ignore[no-any-return]  # untyped
        look_up(config, node, anew=True)  # for the next attempt: it may have moved
        raise failure

    async def _addresses(self, node: Any, timeout_at: float | None) -> Addresses:
        found = look_up(self._manager.config, node)
        wait([found], AT_ONCE_S)
        while not found.done():
            if timeout_at is not None and time.monotonic() >= timeout_at:
                raise KafkaConnectionError(f"looking up the name {node.host} takes too long (DNS)")
            await self._net.sleep(POLL_S)
        try:
            return found.result()
        except ValueError as error:  # a broker may call itself what no resolver can be asked about
            raise KafkaConnectionError(f"{node.host!a} is no host's name ({error})") from error

    def _transport(self, connected: socket.socket, host: str) -> Any:
        if not self._manager.ssl_enabled:
            return KafkaTCPTransport(self._net, connected, host=host)
        tls = {k: v for k, v in self._manager.config.items() if k.startswith("ssl_")}
        return KafkaSSLTransport(self._net, connected, host=host, **tls)

    @contextlib.contextmanager
    def _shut_down_at(self, timeout_at: float | None, connected: socket.socket) -> Any:
        """A handshake that the peer does not answer in time fails then."""
        if timeout_at is None:
            yield
            return

        def shut() -> None:
            with contextlib.suppress(OSError):  # it has ended by itself
                connected.shutdown(socket.SHUT_RDWR)

        timer = self._net.call_at(timeout_at, shut)
        try:
            yield
        finally:
            self._net.cancel(timer)
