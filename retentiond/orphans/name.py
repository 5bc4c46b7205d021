"""Names of partition folders, as Kafka writes and reads them.

``TOPIC-N`` holds a replica. A name with a unique part and a suffix (``TOPIC-N.<32 hex>-stray``) is
a replica that Kafka has put aside (``stray``), the copy of one that moves to another directory
(``future``), or one that the broker is about to delete (``delete``). Kafka cuts the topic of a
stray or deleted one short where the name would be longer than 255 characters. A broker that finds
a folder with any other name does not start.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from enum import StrEnum

LONGEST = 255
"""Bytes of a file's name."""

LARGEST_PARTITION = 2**31 - 1


class Kind(StrEnum):
    REPLICA = "replica"
    STRAY = "stray"
    FUTURE = "future"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Name:
    """What a folder's name says. ``may_be_cut``: the topic's name may be longer than this."""

    topic: str
    partition: int
    kind: Kind
    may_be_cut: bool = False


_FORM = re.compile(
    r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>0|[1-9][0-9]{0,9})"
    r"(?:\.[0-9a-f]{32}-(?P<suffix>stray|future|delete))?"
)


def parse(name: str) -> Name | None:
    """None for a name that is none of Kafka's forms."""
    form = _FORM.fullmatch(name)
    if form is None or form["topic"] in (".", "..") or int(form["partition"]) > LARGEST_PARTITION:
        return None
    kind = Kind(form["suffix"]) if form["suffix"] else Kind.REPLICA
    return Name(form["topic"], int(form["partition"]), kind, bool(form["suffix"]) and _full(name))


def name_for_deletion(name: Name) -> str:
    """A new name in Kafka's form for what is about to be deleted.

    Should the removal be cut off after the rename, a broker that starts then deletes the folder
    itself; any name of our own would keep the broker from starting.
    """
    rest = f"-{name.partition}.{uuid.uuid4().hex}-{Kind.DELETE}"
    return name.topic[: LONGEST - len(rest)] + rest


def _full(name: str) -> bool:
    return len(name) >= LONGEST
