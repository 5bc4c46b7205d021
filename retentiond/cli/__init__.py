"""The command line: one file a command, imported when it is asked for.

In come options; out go tables or JSON on stdout, sentences on stderr, and an exit code. Nothing is
decided here.
"""

import signal
import sys

# To a daemon SIGHUP means: read the configuration. One that comes while Python still loads modules
# would end it; it has yet to read the file anyway.
if "run" in sys.argv[1:] and "--once" not in sys.argv:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
