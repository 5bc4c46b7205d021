"""Topics that belong to a system of their own, as far as their names tell.

What reads them need not commit (Streams restores from a changelog, Connect starts from its
topics' beginning), so "every group has read it" says less there than elsewhere.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Owner(NamedTuple):
    """``short`` is a cell of a table, ``meaning`` says why the topic is none to begin with."""

    short: str
    meaning: str


CONNECT = r"(?:.*[._-])?connect(?:[._-].*)?[._-](?:configs?|offsets?|status(?:es)?)"

OWNERS = (
    (
        re.compile(r".*-changelog"),
        Owner(
            "changelog of Streams",
            "by its name a changelog of Kafka Streams, which restores its state from it without "
            "committing",
        ),
    ),
    (
        re.compile(r".*-repartition"),
        Owner(
            "repartition topic of Streams",
            "by its name a repartition topic of Kafka Streams, which deletes what it has read",
        ),
    ),
    (
        re.compile(CONNECT, re.IGNORECASE),
        Owner(
            "Kafka Connect's own",
            "by its name Kafka Connect's own, which reads it from the beginning without committing",
        ),
    ),
    (
        re.compile(r"mm2-.*|.*\.internal|(?:.*\.)?heartbeats"),
        Owner(
            "MirrorMaker's own",
            "by its name MirrorMaker's own, which reads it from the beginning without committing",
        ),
    ),
    (
        re.compile(r"_.*"),
        Owner(
            "some system's own",
            "by its name internal to some system, which may read it without committing",
        ),
    ),
)
"""Patterns that the whole name matches; the first that does counts."""


def owner(topic: str) -> Owner | None:
    """The system whose topic it is; None for any other."""
    return next((found for names, found in OWNERS if names.fullmatch(topic)), None)
