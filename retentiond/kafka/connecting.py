"""Opens kafka-python's connections, and closes each socket that carries none.

kafka-python drops a socket without closing it where a connection is refused or takes too long, and
where TLS fails. A closed client leaves those that still had something to write. What is dropped
waits, in the traceback of an error, until Python looks for such cycles; that is rarely
(`retentiond.garbage_collection`), and a daemon whose broker is down runs out of descriptors before.
And a TLS handshake that the peer does not answer has no end.

It looks names up on its one thread, and serves no other connection meanwhile. Where a look-up takes
seconds, the brokers of a cluster would wait for each other until their connections are given up. So
names are looked up on other threads (`AddressBook`).

And it begins every attempt with the first of a name's addresses, and gives it all the time there
is. Where that one is silent, it never comes to another. So each address has its share of the time,
and the next attempt begins with those that have not failed.
"""

from __future__ import annotations

import contextlib
import math
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

ADDRESS_S = 1.0
"""How long an address may take at least, if there is as much time, before the next is tried: one
that is far away needs a round trip, and a lost packet is sent again after a second."""


class AddressBook:
    """Looks names up on threads, each once for all clients. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[object, Future[Addresses]] = {}
        self._asked_at: dict[object, float] = {}
        self._failed_at: dict[object, dict[object, float]] = {}

    def look_up(self, name: object, ask: Callable[[], Addresses]) -> Future[Addresses]:
        """``ask`` blocks. An answer is kept if it has an address."""
        with self._lock:
            addresses = self._found.get(name)
            if addresses is None or (
                addresses.done() and time.monotonic() > self._asked_at[name] + KEEP_S
            ):
                self._asked_at[name] = time.monotonic()
                addresses = in_background(lambda: self._asked(name, ask), "look-up")
                self._found[name] = addresses
            return addresses

    def drop(self, name: object) -> None:
        with self._lock:
            self._found.pop(name, None)
            self._asked_at.pop(name, None)

    def in_order(self, name: object, addresses: Addresses) -> Addresses:
        """As the resolver orders them (RFC 6724), but those last that have led nowhere, the latest
        at the end. What it no longer tells is forgotten."""
        with self._lock:
            failed_at = self._failed_at.pop(name, {})
            told = {address for *_, address in addresses}
            if failures := {address: at for address, at in failed_at.items() if address in told}:
                self._failed_at[name] = failures
            return sorted(addresses, key=lambda info: failures.get(info[4], -math.inf))

    def note(self, name: object, address: object, *, has_failed: bool) -> None:
        """Whether the last attempt at an address led to a broker of this cluster."""
        with self._lock:
            failed_at = self._failed_at.setdefault(name, {})
            failed_at.pop(address, None)
            if has_failed:
                failed_at[address] = time.monotonic()

    def _asked(self, name: object, ask: Callable[[], Addresses]) -> Addresses:
        addresses: Addresses = []
        try:
            addresses = ask()
        finally:
            if not addresses:
                self.drop(name)
        return addresses


ADDRESSES = AddressBook()


Name: TypeAlias = tuple[str, int, socket.AddressFamily]
"""A host, a port, and which addresses count."""


def look_up(name: Name, *, anew: bool = False) -> Future[Addresses]:
    """The addresses of a broker; none where the name has none."""
    if anew:
        ADDRESSES.drop(name)
    return ADDRESSES.look_up(name, lambda: addresses_of(name))


def addresses_of(name: Name) -> Addresses:
    """As `look_up`, but blocks. Raises ``ValueError`` for what is no name at all."""
    host, port, family = name
    try:
        return socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
    except socket.gaierror:
        return []


def _share_of(timeout_at: float | None, left: int) -> float | None:
    """Until when to try an address while so many are left, of which this is one."""
    if timeout_at is None:
        return None
    now = time.monotonic()
    return min(timeout_at, now + max((timeout_at - now) / left, ADDRESS_S))


class Sockets:
    """Opens the connections of one new client, in place of its connection manager."""

    def __init__(
        self, manager: Any, family: socket.AddressFamily = socket.AddressFamily.AF_UNSPEC
    ) -> None:
        self._manager = manager
        self._net = manager._net
        self._family = family
        self._open: WeakSet[socket.socket] = WeakSet()
        self._taken: dict[Name, object] = {}
        """The address that the last connection to each name was made to."""
        self._connect = manager._connect
        manager._connect = self.connect
        manager._build_transport = self.build_transport

    def name_of(self, node: Any) -> Name:
        return node.host, node.port, self._family

    async def connect(self, node: Any, connection: Any, **options: Any) -> None:
        """An address that takes connections, and of which no broker of this cluster answers, has
        failed, too."""
        await self._connect(node, connection, **options)
        name = self.name_of(node)
        address = self._taken.pop(name, None)
        if address is not None and not self._manager.closed:
            ADDRESSES.note(name, address, has_failed=not connection.init_future.succeeded())

    def close(self) -> None:
        """Whatever the client itself has left open. For after its end."""
        for connection in list(self._open):
            connection.close()

    async def build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        """A connection to a broker, its TLS handshake included."""
        connected = await self._connected(self.name_of(node), timeout_at)
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

    async def _connected(self, name: Name, timeout_at: float | None) -> socket.socket:
        """A socket that is connected to the first of the name's addresses that takes it."""
        failure = KafkaConnectionError("DNS Resolution failure")
        addresses = ADDRESSES.in_order(name, await self._addresses(name, timeout_at))
        for position, address in enumerate(addresses):
            left = len(addresses) - position
            try:
                made = await self._connected_to(address, _share_of(timeout_at, left))
            except (OSError, KafkaError) as error:
                ADDRESSES.note(name, address[4], has_failed=True)
                timed_out = isinstance(error, KafkaTimeoutError)
                said = "Connection timed out" if timed_out else f"unable to connect: {error}"
                failure = KafkaConnectionError(said)
            else:
                self._taken[name] = address[4]
                return made
            if timeout_at is not None and time.monotonic() >= timeout_at:
                break
        look_up(name, anew=True)  # for the next attempt: it may have moved
        raise failure

    async def _connected_to(self, info: Any, timeout_at: float | None) -> socket.socket:
        """Raises ``OSError`` (no descriptor, or not such addresses on this host) or ``KafkaError``
        where there is no connection, `KafkaTimeoutError` where the time was over."""
        family, kind, protocol, _, address = info
        made = socket.socket(family, kind, protocol)
        self._open.add(made)
        try:
            made.setblocking(False)
            for option in self._manager.config["socket_options"]:
                made.setsockopt(*option)
            await KafkaNetSocket().sock_connect(self._net, made, address, timeout_at=timeout_at)
        except BaseException:  # of which one is that the client is being closed
            made.close()
            raise
        return made

    async def _addresses(self, name: Name, timeout_at: float | None) -> Addresses:
        addresses = look_up(name)
        wait([addresses], AT_ONCE_S)
        while not addresses.done():
            if timeout_at is not None and time.monotonic() >= timeout_at:
                raise KafkaConnectionError(f"looking up the name {name[0]} takes too long (DNS)")
            await self._net.sleep(POLL_S)
        try:
            return addresses.result()
        except ValueError as error:  # a broker may call itself what no resolver can be asked about
            raise KafkaConnectionError(f"{name[0]!a} is no host's name ({error})") from error

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
