"""What the first process of a container owes the others: the kernel hands it every orphan.

An orphan that ends stays a zombie until its parent asks for its exit code. A daemon can't ask for
those of all children, since libraries wait for theirs. So where retentiond is process 1, it works
in a child, and process 1 does nothing but pass signals on and bury the dead.
"""

from __future__ import annotations

import os
import signal
from typing import NoReturn

FORWARDED_SIGNALS = {
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
}


def work_in_a_child() -> None:
    """Returns in the child. Process 1 ends as that does, and with it all that is left."""
    watched = FORWARDED_SIGNALS | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    child = os.fork()
    if child:
        _watch(child, watched)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _watch(child: int, watched: set[signal.Signals]) -> NoReturn:
    while True:
        come = signal.sigwaitinfo(watched)
        if come.si_signo == signal.SIGCHLD:
            _bury(child)
        elif come.si_code <= 0:  # else the kernel's: a terminal's Ctrl-C reaches the child itself
            os.kill(child, come.si_signo)


def _bury(child: int) -> None:
    """Everybody who has ended. Ends with the child."""
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if ended == 0:
            return
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
