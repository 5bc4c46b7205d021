"""Loopback ports that stay ours."""

import socket
from types import TracebackType

LOOPBACK = "127.0.0.1"


class PortReservations:
    """Holds ports for as long as it is open, so that a killed broker gets its own back.

    A bound socket that does not listen keeps Linux from handing its port to anybody who asks
    for a free one or connects out, while a server that sets SO_REUSEADDR, as Java's do, may
    bind and listen. Nothing can slip between the choice of a port and its use, nor a client
    that retries a dead port end up connected to itself.
    """

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def take(self) -> int:
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._sockets.append(holder)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((LOOPBACK, 0))
        port: int = holder.getsockname()[1]
        return port

    def close(self) -> None:
        for holder in self._sockets:
            holder.close()
        self._sockets.clear()

    def __enter__(self) -> "PortReservations":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
