"""The proxy before the brokers of a cluster, and what it has seen so far."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import ClassVar

from devkit.witness.frames import Frame
from devkit.witness.proxy import RECORD

CLIENT = "retentiond"
"""How the clients that retentiond makes are called, unless ``client.id`` says otherwise."""


def unpacked(copy: bytes) -> tuple[list[Frame], bytes]:
    """And the beginning of what is not there as a whole."""
    frames, at = [], 0
    while at + RECORD.size <= len(copy):
        connection, broker, is_answer, passed, at_time, length = RECORD.unpack_from(copy, at)
        begin = at + RECORD.size
        if begin + length > len(copy):
            break
        at = begin + length
        frames.append(Frame(connection, broker, is_answer, passed, at_time, copy[begin:at]))
    return frames, copy[at:]


class Witness:
    """Ends with this process, or with `close`; what it has seen stays until it is taken."""

    open_ones: ClassVar[list[Witness]] = []
    """Those from which something may still be taken."""

    def __init__(self) -> None:
        copy = tempfile.NamedTemporaryFile(prefix="retentiond-witness-")  # noqa: SIM115 - `close`
        self._copy, self._begun = copy, b""
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", Path(__file__).with_name("proxy.py"), copy.name, CLIENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.open_ones.append(self)

    def lead(self, port: int, target: int, broker: int) -> None:
        """Both ports are of loopback; returns when clients may come."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(port, target, broker, file=self._process.stdin, flush=True)
        if not self._process.stdout.readline():
            raise RuntimeError(f"the witness could not listen on port {port}")

    def take(self) -> list[Frame]:
        """What has passed since the last call."""
        frames, self._begun = unpacked(self._begun + self._copy.read())
        if self._process.returncode is not None:
            self.open_ones.remove(self)
            self._copy.close()
        return frames

    def close(self) -> None:
        """May be called again."""
        self._process.communicate()
