"""What another process tells on its standard output."""

import os
import selectors
from collections.abc import Iterator


def lines(source: int, silent_seconds: float) -> Iterator[str | None]:
    """Each line as it comes, until the other end is closed; None whenever none came for so long.

    ``source`` is a file descriptor that nobody else reads. What a process was killed in the midst
    of is no line.
    """
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(source, selectors.EVENT_READ)
        while True:
            if not selector.select(silent_seconds):
                yield None
                continue
            part = os.read(source, 65_536)
            if not part:
                return
            *whole, rest = (rest + part).split(b"\n")
            yield from (line.decode() for line in whole)
