"""What deletions have really freed, read from sizes that grow and drop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from retentiond.disks.freed import (
    GIVE_UP_MS,
    GIVE_UP_READINGS,
    Freed,
    FreedProgress,
    PartitionOffsets,
    PendingFree,
    follow,
    with_new_deletions,
)
from retentiond.disks.log_dirs import DiskReading
from retentiond.model import TopicPartition
from tests.support.builders.disk_readings import AT, reading, replica

ASKED_AT_MS = 1_000_000
MINUTE_MS = 60_000


def awaited(
    broker: int = 1, cycle_id: str = "one", start: int = 0, cutoff: int = 400
) -> PendingFree:
    """1,000 records of 10 bytes, of which some are deleted."""
    return PendingFree(
        cycle_id, replica(broker), "id", start, cutoff, 4000, 10_000, 1000, ASKED_AT_MS
    )


def followed(
    waiting: list[PendingFree],
    seen: DiskReading,
    *,
    log_start: int = 400,
    end: int = 1000,
    topic_id: str = "id",
    after_ms: int = MINUTE_MS,
) -> FreedProgress:
    now = {AT: PartitionOffsets(topic_id, log_start, end)}
    return follow(waiting, seen, now, ASKED_AT_MS + after_ms)


def dropped(freed_bytes: int) -> FreedProgress:
    return FreedProgress((), {replica(1): freed_bytes}, (Freed("one", AT, freed_bytes),))


UNREADABLE = replace(reading({1: 10}), unreadable=frozenset({AT}))


@pytest.mark.parametrize(
    ("seen", "offsets", "found"),
    [
        (reading({1: 6000}), {}, dropped(4000)),
        (reading({1: 8000}), {"end": 1200}, dropped(4000)),  # what was written meanwhile
        (reading({1: 2000}), {"log_start": 800}, dropped(4000)),  # Kafka's retention took the rest
        (reading({1: 10_000}), {}, FreedProgress((awaited()._replace(readings=1),), {}, ())),
        (  # growth alone is no deletion, although records differ in size
            reading({1: 11_000}),
            {"end": 1200},
            FreedProgress((awaited()._replace(size_bytes=11_000, end_offset=1200, readings=1),)),
        ),
        # a disk that is not read says nothing
        (DiskReading(), {}, FreedProgress((awaited(),), {}, ())),
        (UNREADABLE, {}, FreedProgress((awaited(),), {}, ())),
        (reading({1: 10}), {"topic_id": "new"}, FreedProgress()),
    ],
)
def test_what_a_size_says_of_a_deletion(
    seen: DiskReading, offsets: dict[str, Any], found: FreedProgress
) -> None:
    assert followed([awaited()], seen, **offsets) == found


def test_a_drop_is_told_from_the_last_reading_and_not_from_the_first() -> None:
    first = followed([awaited()], reading({1: 12_000}), end=1200)
    second = followed(list(first.awaited), reading({1: 8000}), end=1200)
    assert second.freed_by_topic == {"orders": 4000}


def test_each_replica_drops_at_its_own_time_and_the_deletion_is_settled_with_the_last() -> None:
    first = followed([awaited(1), awaited(2)], reading({1: 6000, 2: 10_000}))
    assert (first.freed_by_topic, first.settled) == ({"orders": 4000}, ())
    assert first.awaited_bytes == {replica(2): 4000}
    second = followed(list(first.awaited), reading({1: 6000, 2: 6500}))
    assert second.freed_by_topic == {"orders": 3500}
    assert second.settled == (Freed("one", AT, 7500),)


def test_deletions_that_were_awaited_together_share_by_their_records() -> None:
    waiting = [awaited(cutoff=100), awaited(cycle_id="two", start=100, cutoff=400)]
    found = followed(waiting, reading({1: 6001}))
    assert found.freed_by_topic == {"orders": 3999}
    assert found.settled == (Freed("one", AT, 999), Freed("two", AT, 3000))


def test_what_has_not_dropped_for_long_is_nothing() -> None:
    waiting = [awaited()]
    for minutes in range(1, GIVE_UP_READINGS):
        waiting = list(followed(waiting, reading({1: 10_000}), after_ms=minutes).awaited)
    early = followed(waiting, reading({1: 10_000}), after_ms=GIVE_UP_MS - 1)
    assert early.settled == ()
    late = followed(waiting, reading({1: 10_000}), after_ms=GIVE_UP_MS)
    assert (late.settled, late.freed_by_topic) == ((Freed("one", AT, 0),), {})


def test_few_readings_are_not_long_however_far_apart() -> None:
    assert followed([awaited()], reading({1: 10_000}), after_ms=10 * GIVE_UP_MS).awaited


@pytest.mark.parametrize(
    ("seen", "offsets"),
    [
        (reading({1: 10}), {}),  # the topic is deleted, or no longer enabled
        (DiskReading(), {AT: PartitionOffsets("id", 400, 1000)}),  # a broker is away
    ],
)
def test_what_can_not_be_read_for_long_is_awaited_no_more(
    seen: DiskReading, offsets: dict[TopicPartition, PartitionOffsets]
) -> None:
    """Else a disk under pressure would wait for it for ever, and run full."""
    soon = follow([awaited()], seen, offsets, ASKED_AT_MS + 15 * MINUTE_MS - 1)
    assert soon.awaited == (awaited(),)
    assert follow([awaited()], seen, offsets, ASKED_AT_MS + 15 * MINUTE_MS) == FreedProgress()


def test_a_replica_that_has_moved_leaves_the_whole_deletion_unknown() -> None:
    found = followed([awaited(1), awaited(2)], reading({1: 6000, 3: 6000}))
    assert (found.awaited, found.settled) == ((), ())


def small(cycle_id: str, broker: int = 1) -> PendingFree:
    """To free nothing: all of it lies in a segment that stays."""
    return awaited(broker, cycle_id)._replace(predicted_bytes=0)


def test_small_deletions_do_not_pile_up() -> None:
    waiting = FreedProgress()
    settled: list[str] = []
    for cycle_id in ("one", "two", "three", "four"):
        waiting = with_new_deletions(replace(waiting, settled=()), [small(cycle_id)])
        assert all(each.freed_bytes == 0 for each in waiting.settled)
        settled += [each.cycle_id for each in waiting.settled]

    assert [each.cycle_id for each in waiting.awaited] == ["one", "four"]
    assert settled == ["two", "three"]


def test_a_deletion_that_is_to_free_something_is_awaited_whatever_follows() -> None:
    waiting = FreedProgress((small("one"), awaited(cycle_id="two"), small("three")))

    found = with_new_deletions(waiting, [small("four")])

    assert [each.cycle_id for each in found.awaited] == ["one", "two", "four"]
    assert found.settled == (Freed("three", AT, 0),)


def test_where_nothing_follows_a_small_deletion_is_awaited_on() -> None:
    waiting = FreedProgress((small("one"), small("two")), {replica(1): 7}, (Freed("zero", AT, 7),))

    assert with_new_deletions(waiting, []) == waiting
    assert with_new_deletions(waiting, [small("three", broker=2)]).awaited[:2] == waiting.awaited


def test_what_goes_is_measured_from_where_the_log_began() -> None:
    """Twenty records are written and nothing is removed, though hardly any are left to read."""
    at = (
        small("one")._replace(cutoff=900),
        small("two")._replace(log_start_offset=900, cutoff=990),
    )
    waiting = with_new_deletions(
        FreedProgress(at), [small("three")._replace(log_start_offset=990, cutoff=999)]
    )

    found = followed(list(waiting.awaited), reading({1: 10_200}), log_start=999, end=1020)

    assert found.freed_by_topic == {}
