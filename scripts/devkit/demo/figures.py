"""The figures of the demo, as its table and its summary show them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """A topic at one moment.

    Records: ``written`` to it, ``deleted`` from it, ``read_by_all`` of its groups, ``behind``
    by group. Bytes: ``on_disk`` of the broker and ``freed`` there.
    """

    topic: str
    written: int
    deleted: int
    read_by_all: int
    behind: tuple[tuple[str, int], ...]
    on_disk: int
    freed: int
    decision: str
    bound_by: tuple[str, ...]


def megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
