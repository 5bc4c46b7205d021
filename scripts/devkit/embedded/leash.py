"""Runs a command that dies with the process that asked for it, even by SIGKILL.

Usage: ``python -I -S leash.py PARENT_PID COMMAND [ARGUMENT ...]``, as a process of its own:
it asks the Linux kernel for SIGKILL at the parent's death and then becomes the command, so the
pid that the parent knows is the command's. A ``preexec_fn`` would run Python between fork and
exec of a threaded parent, which can deadlock; this cannot.

The kernel means the parent *thread*: the signal also comes when the thread that started the
command ends. Whoever starts something long-lived does it from a thread that lives as long
(``processes.Spawner``).
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # from linux/prctl.h


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        sys.exit("the parent ended before its command could start")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
