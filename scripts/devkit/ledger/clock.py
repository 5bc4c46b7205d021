"""The host's clock, which the daemon reads, too."""

import time


def now_ms() -> float:
    """Epoch milliseconds, with their fractions."""
    return time.time() * 1000
