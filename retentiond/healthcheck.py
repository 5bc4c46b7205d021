"""``python -m retentiond.healthcheck PORT``: ends with 0 if a daemon answers there, for a
container.

It knows no password and trusts whatever certificate is shown, because all that it asks is
whether the process answers: "who are you" (401) is an answer too.
"""

from __future__ import annotations

import ssl
import sys
from http.client import HTTPConnection, HTTPException, HTTPSConnection

TIMEOUT_S = 2.0

ALIVE_STATUSES = (200, 401)

LOOPBACK_HOSTS = ("127.0.0.1", "::1")
"""A host may have one of them alone."""


def is_alive(port: int) -> bool:
    """Whether ``/healthz`` is answered on a loopback address, with TLS or without."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return any(
        _answers(connection)
        for host in LOOPBACK_HOSTS
        for connection in (
            HTTPConnection(host, port, timeout=TIMEOUT_S),
            HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context),
        )
    )


def _answers(connection: HTTPConnection) -> bool:
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status in ALIVE_STATUSES
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(0 if is_alive(int(sys.argv[1])) else 1)
