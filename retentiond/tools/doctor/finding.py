"""The input of the checks, and their result: a finding is one line, and what to do about it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TypeVar

from retentiond.act.evidence import Evidence
from retentiond.act.rule import Objection
from retentiond.config import ExternalReader
from retentiond.errors import KafkaUnavailable, RetentiondError
from retentiond.fields import SENTENCE, TEXT, TEXTS, WORD, described, said
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

MOST_NAMED = 4
"""How many names a sentence lists. A finding's ``names`` have all of them."""


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"  # works, but perhaps not as expected; or could not be checked
    PROBLEM = "problem"  # keeps retentiond, or a topic, from working


@described
class Finding:
    """The result of a check."""

    level: Level = said(WORD, f"how much it matters: {', '.join(Level)}")
    subject: str = said(TEXT, "what was checked")
    sentence: str = said(SENTENCE, "what was found, without a full stop")
    remedy: str | None = said(SENTENCE, "what to do about it", default=None)
    names: tuple[str, ...] = said(TEXTS, "the topics, groups or brokers it is about", default=())


ok = partial(Finding, Level.OK)
warning = partial(Finding, Level.WARNING)
problem = partial(Finding, Level.PROBLEM)


def about(
    level: Level, kind: str, names: Iterable[str], sentence: str, remedy: str | None = None
) -> list[Finding]:
    """One finding about all names; none if there are no names. ``kind`` is "topic", "group", …"""
    ordered = tuple(sorted(names))
    if not ordered:
        return []
    if len(ordered) == 1:
        return [Finding(level, f"{kind} {say_name(ordered[0])}", sentence, remedy, ordered)]
    subject = f"{len(ordered)} {kind}s"
    return [Finding(level, subject, f"{sentence}: {first_names(ordered)}", remedy, ordered)]


def objection(check: Callable[..., object], *of: object) -> str | None:
    """The sentence of a check of the guard's, if it objects."""
    try:
        check(*of)
    except Objection as objecting:
        return objecting.sentence
    return None


def about_held(level: Level, topics: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    """One finding for each sentence about held topics. ``topics``: names, each with its
    sentence."""
    names_of: defaultdict[str, list[str]] = defaultdict(list)
    for name, sentence in topics:
        names_of[sentence].append(name)
    for sentence, names in names_of.items():
        shown = names[0] if len(names) == 1 else "TOPIC"
        remedy = f"retentiond explain {shown} says what to do"
        yield from about(level, "topic", names, f"held: {sentence}", remedy)


def first_names(names: Sequence[str]) -> str:
    """``a, b, c, d and 8 more``"""
    return say_names(names, MOST_NAMED)


def unchecked(subject: str, why: Failure | str, remedy: str | None = None) -> Finding:
    if isinstance(why, Failure) and why.code == KafkaUnavailable.__name__:
        why = why.message  # retentiond's own sentence, which needs no code
    return warning(subject, f"could not be checked: {str(why).rstrip('.')}", remedy)


def grant_command(options: str, operation: str, resource: str) -> str:
    """A remedy: the command that grants a right. ``options``: `tool_options`."""
    return with_address(f"{GRANT} --operation {operation} {resource}", options)


def checked(subject: str, check: Callable[..., Iterable[Finding]], *of: object) -> list[Finding]:
    """The findings of a check of these values. If one of them could not be read, or if the check
    fails, the finding says so, and the other checks still run."""
    findings = value_or_failure(lambda *values: list(check(*values)), *of)
    return [unchecked(subject, findings)] if isinstance(findings, Failure) else findings


def value_or_failure(read: Callable[..., T | Failure], *of: object) -> T | Failure:
    """What is read with these values, or why it could not be: perhaps because one of them is a
    `Failure` itself."""
    for value in of:
        if isinstance(value, Failure):
            return value
    try:
        return read(*of)
    except RetentiondError as error:
        return Failure(type(error).__name__, str(error))
    except PermissionError as error:  # as where an earlier daemon ran as another user
        why = f"{error.filename} may not be opened ({error.strerror})"
        return Failure(type(error).__name__, f"{why}; let this user read and write it")
    except Exception as error:  # noqa: BLE001 - a bug in one must not hide the others
        return Failure(type(error).__name__, f"{error}; please report this")


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """A partition's log. ``size_bytes``: the size of the largest replica; None if no disk shows
    one."""

    log_start_offset: int
    high_watermark: int
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class ExaminedCluster:
    """What doctor reads of the cluster, with a `Failure` in place of what could not be read.

    - ``names``: all visible topics; ``topics``: those that the policy enables.
    - ``external``: the positions of the enabled topics' external readers.
    - ``evidence``: the groups that read the enabled topics, now or when they were last seen; it has
      no offsets of partitions.
    - ``clock_skew_ms``: how far this host's clock is ahead of the active controller's; negative:
      how far behind it. None if the cluster does not tell its time.
    - ``offsets_retention``: ``offsets.retention.minutes`` of each broker.
    - ``undated``: the topics that are held because records have no timestamp.
    """

    brokers: Brokers
    names: frozenset[str] | Failure
    topics: tuple[EnabledTopic, ...] | Failure
    rights: Mapping[str, Operations | Failure] | Failure
    coordinators: CoordinatorState | Failure
    listing: GroupListing | Failure
    external: Mapping[ExternalReader, Position] | Failure
    remembered: Remembered | Failure
    evidence: Evidence | Failure
    clock_skew_ms: int | Failure | None
    offsets_retention: Mapping[int, str | Failure] | Failure
    logs: Mapping[TopicPartition, PartitionLog | Failure] | Failure
    undated: frozenset[str] | Failure = frozenset()
