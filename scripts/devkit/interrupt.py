"""Ctrl-C: the first asks for the end with its summary, the second for the end at once."""

import signal
import threading
from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM)

INTERRUPTED = 130
"""The exit code by which a shell reports a process that SIGINT ended."""


class Interrupt:
    """While entered, the first signal only sets this; any other raises KeyboardInterrupt."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def is_set(self) -> bool:
        return self._event.is_set()

    def __enter__(self) -> "Interrupt":
        for number in SIGNALS:
            signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        raise_on_signals()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._event.set()
        raise_on_signals()


def raise_on_signals() -> None:
    """From now on each of the signals raises KeyboardInterrupt."""
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler)
