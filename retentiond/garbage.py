"""When Python looks for cycles among its objects: rarely, and where it matters."""

from __future__ import annotations

import gc

THRESHOLD = 100_000
"""So many new objects make Python look for cycles among them; 700 do by default."""

YOUNG = 1
"""The oldest generation of what the last few seconds have made."""


def look_rarely() -> None:
    """For the whole process. A reading is made of a hundred thousand objects at once, none of
    them in a cycle: looking for cycles takes longer than reading."""
    gc.set_threshold(THRESHOLD)


def drop_young() -> None:
    """What was just made and is not used any more. Python's handles on the JVM's objects are
    cycles: until they are collected, the JVM keeps all that a plan was made of."""
    gc.collect(YOUNG)
