"""Keeps pandas out of the process, which needs nothing of it.

PySpark and pyarrow import it wherever it is installed, only to see whether they were given one of
its tables: a seventh of the daemon's own memory, and half a second of its start. PySpark's client
of Spark Connect does need it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Hidden(MetaPathFinder):
    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError(name)
        return None


_HIDDEN = _Hidden()


def hide_pandas() -> None:
    """From now on, and for the whole process: as if it were not installed."""
    if _HIDDEN not in sys.meta_path:
        sys.meta_path.insert(0, _HIDDEN)


def show_pandas() -> None:
    """As before `hide_pandas`."""
    if _HIDDEN in sys.meta_path:
        sys.meta_path.remove(_HIDDEN)
