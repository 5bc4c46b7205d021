"""What a check reads of a cluster, and what it has found: one line, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from retentiond.act.evidence import Evidence
from retentiond.config import ExternalReader
from retentiond.errors import KafkaUnavailable
from retentiond.formatting import say_name, say_names
from retentiond.gather.external_positions import Position
from retentiond.gather.groups import GroupListing
from retentiond.gather.topics import EnabledTopic
from retentiond.kafka.brokers import Brokers
from retentiond.kafka.interface import CoordinatorState
from retentiond.kafka.topics import Operations
from retentiond.memory.remembered import Remembered
from retentiond.model import Failure, TopicPartition
from retentiond.tell.reasons import GRANT, with_address

T = TypeVar("T")
U = TypeVar("U")

MOST_NAMED = 4
"""Names that a sentence lists; a finding's ``names`` have all of them."""


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"  # works, but not as one may expect; also: could not be checked
    PROBLEM = "problem"  # keeps retentiond, or one of the topics, from working


@dataclass(frozen=True, slots=True)
class Finding:
    """``subject`` is what was looked at; ``sentence`` has no full stop. ``names`` are the topics,
    groups or brokers that it is about, where it is about several."""

    level: Level
    subject: str
    sentence: str
    remedy: str | None = None
    names: tuple[str, ...] = ()


def ok(subject: str, sentence: str) -> Finding:
    return Finding(Level.OK, subject, sentence)


def about(
    level: Level, kind: str, names: Iterable[str], sentence: str, remedy: str | None = None
) -> list[Finding]:
    """One finding about all of them, if there are any: ``kind`` is "topic", "group", …"""
    found = tuple(sorted(names))
    if not found:
        return []
    if len(found) == 1:
        return [Finding(level, f"{kind} {say_name(found[0])}", sentence, remedy, found)]
    return [
        Finding(level, f"{len(found)} {kind}s", f"{sentence}: {first_names(found)}", remedy, found)
    ]


def first_names(names: Sequence[str]) -> str:
    """``a, b, c, d and 8 more``"""
    return say_names(names, MOST_NAMED)


def unchecked(subject: str, why: Failure | str, remedy: str | None = None) -> Finding:
    if isinstance(why, Failure) and why.code == KafkaUnavailable.__name__:
        why = why.message  # a sentence of our own, which needs no code
    return Finding(Level.WARNING, subject, f"could not be checked: {why}", remedy)


def grant_command(options: str, operation: str, resource: str) -> str:
    """A remedy: the command that grants a right. ``options``: `tool_options`."""
    return with_address(f"{GRANT} --operation {operation} {resource}", options)


def checked(
    subject: str, value: T | Failure, check: Callable[[T], Iterable[Finding]]
) -> list[Finding]:
    """What a check finds in a value. Where that is missing, or the check itself fails, it says
    so: no check keeps the others from running."""
    if isinstance(value, Failure):
        return [unchecked(subject, value)]
    try:
        return list(check(value))
    except Exception as error:  # noqa: BLE001 - a bug in one check must not hide the others
        return [unchecked(subject, f"{type(error).__name__}: {error}; please report this")]


def both_checked(
    subject: str,
    first: T | Failure,
    second: U | Failure,
    check: Callable[[T, U], Iterable[Finding]],
) -> list[Finding]:
    """What a check finds that needs two values, as `checked`."""
    if isinstance(first, Failure):
        return [unchecked(subject, first)]
    return checked(subject, second, lambda value: check(first, value))


@dataclass(frozen=True, slots=True)
class Clocks:
    """Epoch milliseconds. The cluster's was asked for between ``before_ms`` and ``after_ms`` of
    this host's; None: it does not tell."""

    before_ms: int
    cluster_ms: int | None
    after_ms: int


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """``size_bytes``: of the largest replica; None where no disk shows it. ``offset_ago``: for
    each age in ms, the first offset whose record is younger; the high watermark if none is."""

    log_start_offset: int
    high_watermark: int
    size_bytes: int | None
    offset_ago: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class ExaminedCluster:
    """``topics``: those that the policy enables. ``external``: the position of each external reader
    of theirs. ``evidence``: who reads them, now or when it was last seen; no offset is read.
    ``offsets_retention``: each broker's ``offsets.retention.minutes``, as it stands there."""

    brokers: Brokers
    names: frozenset[str] | Failure
    topics: tuple[EnabledTopic, ...] | Failure
    rights: Mapping[str, Operations | Failure] | Failure
    coordinators: CoordinatorState | Failure
    listing: GroupListing | Failure
    external: Mapping[ExternalReader, Position] | Failure
    remembered: Remembered | Failure
    evidence: Evidence | Failure
    clocks: Clocks | Failure
    offsets_retention: Mapping[int, str | Failure] | Failure
    logs: Mapping[TopicPartition, PartitionLog | Failure] | Failure
