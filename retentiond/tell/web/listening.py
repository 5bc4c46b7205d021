"""Binds the HTTP port to the configured addresses."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Callable
from typing import TypeVar

S = TypeVar("S", bound=socket.socket)

EVERY_ADDRESS = ("0.0.0.0", "::")
"""Settings that mean all addresses of this host, IPv4 and IPv6."""

_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.ENOPROTOOPT)


def bound_socket(host: str, port: int, make: Callable[[int], S]) -> S:
    """A socket that is bound to host and port. ``make`` creates one of an address family. Raises
    OSError.

    A host may have addresses of only one family, and a probe uses the one that its pod has.
    """
    if host not in EVERY_ADDRESS:
        return _bound(host, port, make, socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        return _bound("::", port, make, socket.AF_INET6)
    except OSError as error:
        if error.errno not in _NO_IPV6:
            raise
    return _bound("0.0.0.0", port, make, socket.AF_INET)


def _bound(host: str, port: int, make: Callable[[int], S], family: int) -> S:
    with contextlib.ExitStack() as on_failure:
        listener = make(family)
        on_failure.callback(listener.close)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        listener.bind((host, port))
        on_failure.pop_all()
    return listener
