"""Ctrl-C and SIGTERM, which end a program in the same way."""

import signal

INTERRUPTED = 130
"""The exit code by which a shell reports a process that SIGINT ended."""


def raise_on_signals() -> None:
    """From now on each of the signals raises KeyboardInterrupt. SIGINT, too: a shell without job
    control has it ignored in what it starts in the background."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
