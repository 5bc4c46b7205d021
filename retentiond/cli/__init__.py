"""The command line: one file a command, imported when it is asked for.

In come options; out go tables or JSON on stdout, sentences on stderr, and an exit code. Nothing is
decided here.
"""

import os
import signal
import threading
from types import FrameType


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


_HAD_TERMINAL = _has_terminal()


def _hung_up(number: int, _frame: FrameType | None) -> None:
    """SIGHUP tells a daemon to read its configuration, and may reach every process of its name. A
    command goes on, unless its terminal was closed. (`run` listens itself once it can reload.)"""
    if _HAD_TERMINAL and not _has_terminal():
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


# Before Python loads the rest, which takes a second. What nohup ignores stays ignored.
if (
    threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
):
    signal.signal(signal.SIGHUP, _hung_up)
