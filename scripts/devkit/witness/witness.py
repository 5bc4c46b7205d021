"""The proxy before the brokers of a cluster, and who judges what it has seen."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import ClassVar

from devkit.witness.exchanges import Frame
from devkit.witness.judge import Judge, Verdict
from devkit.witness.words import Document

CLIENT = "retentiond"
"""How the clients that retentiond makes are called, unless ``client.id`` says otherwise."""

SCRIPTS = Path(__file__).parents[2]


class Witness:
    """Ends with this process, or with `close`; what it has seen stays until it is judged.
    ``is_laid_out``: the brokers themselves send clients to the ports on which it listens."""

    open_ones: ClassVar[list[Witness]] = []
    """Those about which something may still be said."""

    def __init__(self, *, is_laid_out: bool = True) -> None:
        self._copy = tempfile.NamedTemporaryFile(prefix="retentiond-witness-")  # noqa: SIM115
        self._judge = Judge()
        laid_out = ["laid out"] if is_laid_out else []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "devkit.witness.proxy", self._copy.name, CLIENT, *laid_out],
            env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.open_ones.append(self)

    def lead(self, port: int, target: str, broker: int) -> int:
        """Opens a port of loopback, 0 for any, which is returned when clients may come."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(port, target, broker, file=self._process.stdin, flush=True)
        if not (opened := self._process.stdout.readline()):
            raise RuntimeError(f"the witness could not listen on port {port}")
        return int(opened)

    def verdict(self, configured: Collection[Document]) -> Verdict:
        """About what has passed since the last call."""
        verdict = self._judge.verdict(self.frames(), configured)
        if self._process.returncode is not None:
            self.open_ones.remove(self)
            self._copy.close()
        return verdict

    def frames(self) -> Iterator[Frame]:
        """What has passed since the last call."""
        while True:
            begin = self._copy.tell()
            try:
                yield Frame(*pickle.load(self._copy))
            except (EOFError, pickle.UnpicklingError):  # it is not there as a whole
                self._copy.seek(begin)
                return

    def close(self) -> None:
        """May be called again."""
        self._process.communicate()
