"""Whether each group coordinator is at work, proved by asking it.

A listing lacks the groups of a coordinator that is still loading, or has just been resigned,
without an error, and for as long as a busy broker takes for it: seconds. No metadata show it.
But a coordinator that is not at work refuses to answer about a group, even one that nobody has:
so each partition of ``__consumer_offsets`` is asked about a name that belongs to it. Nothing is
created by that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count

from retentiond.kafka import protocol_failures
from retentiond.kafka.commits import offset_fetch, read_commits, takes_many
from retentiond.kafka.coordinators import GROUPS_PER_REQUEST
from retentiond.kafka.link import Link
from retentiond.model import Failure

NOT_AUTHORIZED = "GROUP_AUTHORIZATION_FAILED"


@dataclass(frozen=True, slots=True)
class Probed:
    """``asleep``: partitions whose coordinator did not answer, ascending; meaningless where the
    principal ``may_ask`` only about some groups."""

    asleep: tuple[int, ...] = ()
    may_ask: bool = True


async def probe(link: Link, leaders: Mapping[int, int]) -> Probed:
    """Asks the leader of each partition of ``__consumer_offsets``, which ``leaders`` has all of
    (a negative one is none)."""
    names = probe_names(len(leaders))
    batched = takes_many(link)
    size = GROUPS_PER_REQUEST if batched else 1
    asked = [
        (node, led[start : start + size])
        for node, led in _by_leader(leaders).items()
        for start in range(0, len(led), size)
    ]
    answers = await link.send_all(
        [(node, offset_fetch([names[each] for each in led], batched)) for node, led in asked]
    )
    failed: dict[int, Failure | None] = {each: None for each in leaders if leaders[each] < 0}
    for (_, led), answer in zip(asked, answers, strict=True):
        if isinstance(answer, Exception):
            failed |= dict.fromkeys(led, protocol_failures.of_kafka_python(answer))
            continue
        found = read_commits(answer, [names[each] for each in led])
        for each in led:
            reply = found.get(names[each])
            if reply is None or isinstance(reply, Failure):
                failed[each] = reply
    may_ask = all(failure is None or failure.code != NOT_AUTHORIZED for failure in failed.values())
    return Probed(tuple(sorted(failed)), may_ask)


def _by_leader(leaders: Mapping[int, int]) -> dict[int, list[int]]:
    led: dict[int, list[int]] = {}
    for partition, leader in leaders.items():
        if leader >= 0:
            led.setdefault(leader, []).append(partition)
    return led


@cache
def probe_names(partitions: int) -> Sequence[str]:
    """For each partition of ``__consumer_offsets`` the name of a group that belongs to it."""
    found: dict[int, str] = {}
    for number in count():
        if len(found) == partitions:
            return [found[partition] for partition in range(partitions)]
        name = f"retentiond-probe-{number}"
        found.setdefault(coordinating_partition(name, partitions), name)
    raise AssertionError  # `count` does not end


def coordinating_partition(group: str, partitions: int) -> int:
    """As Kafka's ``partitionFor``: Java's ``String.hashCode``, made positive, modulo.

    ``group`` is ASCII, where a character is one of Java's.
    """
    value = 0
    for character in group:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions
