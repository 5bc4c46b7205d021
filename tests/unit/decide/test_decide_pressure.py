"""Which partitions go sooner for a disk that runs full: a walk by hand, and random disks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentiond.decide.pressure import partitions_to_relieve, relief, relieved
from retentiond.disks.log_dirs import DiskReading, ReplicaFolder, ReplicaKey
from retentiond.disks.predictions import Predictions
from retentiond.disks.pressure import PressedLogDir, Pressure
from retentiond.model import PlanRow, Reason, TopicPartition, Verdict
from retentiond.snapshot import Snapshot
from tests.support.builders.disk_readings import AT, deletion, reading, tiered

A, B = PressedLogDir(1, "/a", 1000, 100, 250), PressedLogDir(2, "/b", 2000, 500, 600)


def frees(*found: tuple[int, PressedLogDir, int]) -> Predictions:
    """By partition: how much in which directory."""
    predicted: dict[TopicPartition, dict[ReplicaKey, int]] = {}
    for number, log_dir, freed in found:
        at = TopicPartition("orders", number)
        predicted.setdefault(at, {})[ReplicaKey(at, *log_dir.key)] = freed
    return predicted


def chosen(log_dirs: list[PressedLogDir], normal: Predictions, eager: Predictions) -> list[int]:
    return sorted(at.partition for at in partitions_to_relieve(log_dirs, normal, eager))


BESIDE = replace(A, log_dir="/c", disk="/a")
"""On the same disk as A."""

FOUR = frees((0, A, 40), (1, A, 90), (2, A, 70), (3, A, 10))
TWO = frees((0, A, 400), (1, A, 90))


@pytest.mark.parametrize(
    ("log_dirs", "normal", "eager", "expected"),
    [
        # the one that frees most goes first, and no more than is needed, which is 150
        ([A], {}, FOUR, [1, 2]),
        ([replace(A, awaited_bytes=80)], {}, FOUR, [1]),
        ([replace(A, usable_bytes=250)], {}, FOUR, []),
        ([A], frees((7, A, 150)), FOUR, []),
        # only what goes beyond the normal plan counts
        ([A], frees((0, A, 400)), TWO, []),
        ([replace(A, until_bytes=510)], frees((0, A, 400)), TWO, [1]),
        # what frees nothing there keeps its retention
        ([A], {}, frees((0, A, 0), (1, B, 900)), []),
        ([A], frees((0, A, 40)), frees((0, A, 10)), []),
        # of those that free the same the first by name goes
        ([A], {}, frees((2, A, 150), (1, A, 150), (10, A, 150)), [1]),
        # replicas on two full disks relieve both
        ([A, B], {}, frees((0, A, 160), (0, B, 160), (1, B, 100)), [0]),
        # two directories of one disk are relieved once
        ([A, BESIDE], {}, frees((0, A, 160), (1, BESIDE, 160)), [0]),
    ],
)
def test_those_that_free_most_go_until_what_is_needed_is_free(
    log_dirs: list[PressedLogDir], normal: Predictions, eager: Predictions, expected: list[int]
) -> None:
    assert chosen(log_dirs, normal, eager) == expected


ONE_DISK = st.lists(st.integers(0, 99), max_size=12)


@given(needed=st.integers(-50, 600), more=ONE_DISK, normal=st.integers(0, 200))
def test_a_disk_is_given_what_it_needs_and_at_most_one_partition_beyond(
    needed: int, more: list[int], normal: int
) -> None:
    disk = replace(A, usable_bytes=0, until_bytes=max(0, needed))
    eager = frees(*((number, A, freed) for number, freed in enumerate(more)), (99, A, normal))
    found = [more[at] for at in chosen([disk], frees((99, A, normal)), eager)]
    left = max(0, needed) - normal
    assert sum(found) >= min(left, sum(more))
    assert not found or sum(found) - min(found) < left
    assert all(found)


SEVERAL = st.dictionaries(
    st.integers(0, 9), st.dictionaries(st.sampled_from([A, B]), st.integers(0, 99), min_size=1)
)


@given(more=SEVERAL)
def test_each_of_several_disks_is_given_what_it_needs_as_far_as_there_is_any(
    more: dict[int, dict[PressedLogDir, int]],
) -> None:
    eager = frees(*((at, disk, freed) for at, on in more.items() for disk, freed in on.items()))
    found = chosen([A, B], {}, eager)
    for disk in (A, B):
        on_disk = {at: on.get(disk, 0) for at, on in more.items()}
        freed = sum(on_disk[at] for at in found)
        assert freed >= min(disk.needed_bytes, sum(on_disk.values()))


def test_a_deletion_that_frees_remote_storage_alone_is_not_chosen() -> None:
    """Of records 0 to 1000 the disks hold those from 800 on."""
    taken = tiered()
    disk = PressedLogDir(1, "/a", 10_000, 100, 5_000)
    pressed = Pressure((disk,), reading=reading({1: 4000}), eager=taken)
    nothing = replace(
        deletion(0), verdict=Verdict.NOTHING, reason=Reason.TOO_YOUNG, records=0, cutoff=0
    )

    remote = relieved([nothing], taken, [deletion(700)], pressed)
    local = relieved([nothing], taken, [deletion(1000)], pressed)

    assert [row.verdict for row in remote.rows] == [Verdict.NOTHING]
    assert [row.verdict for row in local.rows] == [Verdict.DELETE]
    assert all(row.under_pressure for row in (*remote.rows, *local.rows))


SEGMENTED = tiered(local_start=0, segment=100)
"""All of its records are on the brokers' disks, in segments of 100 bytes."""

FULL = PressedLogDir(1, "/a", 10_000, 100, 5_000)
PRESSED = Pressure((FULL,), reading=reading({1: 4000}))


def of_partitions(row: PlanRow, numbers: int) -> list[PlanRow]:
    return [replace(row, partition=number) for number in range(numbers)]


def snapshot_of(numbers: int, *, retention_offset: int = 1000) -> Snapshot:
    """Partitions of ``orders`` with 1000 records each, in segments of 100 bytes."""
    (first,) = SEGMENTED.partitions
    return replace(
        SEGMENTED,
        partitions=tuple(
            replace(first, partition=number, retention_offset=retention_offset)
            for number in range(numbers)
        ),
    )


def lying(*log_dirs: str) -> DiskReading:
    """4000 bytes of each partition, in these directories of broker 1."""
    return DiskReading(
        {
            TopicPartition("orders", number): (ReplicaFolder(1, log_dir, 4000, False),)
            for number, log_dir in enumerate(log_dirs)
        }
    )


def test_what_frees_most_where_it_is_needed_comes_first() -> None:
    cutoffs = [250, 0, 500, 900, 250, 20]
    normal = [replace(deletion(cutoff), partition=at) for at, cutoff in enumerate(cutoffs)]
    normal[1] = replace(normal[1], verdict=Verdict.NOTHING, reason=Reason.TOO_YOUNG)
    sooner = [*normal]
    sooner[1] = replace(deletion(900), partition=1)
    disks = (
        PressedLogDir(1, "/a", 10_000, 100, 9_000),
        PressedLogDir(1, "/full enough", 10_000, 5_000, 2_000),
    )
    where = lying("/a", "/a", "/a", "/full enough", "/a", "/a")
    pressed = Pressure(disks, reading=where, eager=snapshot_of(6))

    found = relieved(normal, snapshot_of(6), sooner, pressed)

    # 5 frees no whole segment, and nothing is needed where 3 lies.
    assert [at.partition for at in found.most_first] == [1, 2, 0, 4]


def test_only_a_partition_that_goes_sooner_has_the_retention_of_pressure_in_the_snapshot() -> None:
    normal = of_partitions(
        replace(deletion(0), verdict=Verdict.NOTHING, reason=Reason.TOO_YOUNG, cutoff=0), 2
    )
    eager = snapshot_of(2, retention_offset=900)
    disk = PressedLogDir(1, "/a", 10_000, 100, 2_000)
    pressed = Pressure((disk,), reading=lying("/a", "/a"), eager=eager)

    found = relieved(
        normal, snapshot_of(2, retention_offset=0), of_partitions(deletion(900), 2), pressed
    )

    assert [row.verdict for row in found.rows] == [Verdict.DELETE, Verdict.NOTHING]
    assert [at.retention_offset for at in found.snapshot.partitions] == [900, 0]


@pytest.mark.parametrize(
    ("pressure_ms", "when"), [(600_000, "after 10 minutes"), (0, "as soon as they are consumed")]
)
def test_a_row_that_goes_sooner_says_for_which_directories_and_how_full_they_are(
    pressure_ms: int, when: str
) -> None:
    taken = tiered()
    full = [PressedLogDir(broker, "/a", 10_000, 100 * broker, 5_000) for broker in (1, 2)]
    elsewhere = PressedLogDir(3, "/a", 10_000, 100, 5_000)
    pressed = Pressure((*full, elsewhere), reading=reading({1: 4000, 2: 4000}), eager=taken)
    normal = replace(
        deletion(800),
        consumed_retention_ms=86_400_000,
        detail="group billing has consumed the least",
    )
    sooner = replace(normal, cutoff=1000, records=1000, consumed_retention_ms=pressure_ms)

    (row,) = relieved([normal], taken, [sooner], pressed).rows
    assert row.detail == (
        "group billing has consumed the least; /a of broker 1 has 1% left and /a of broker 2 has "
        f"2% left: records of this partition can be deleted {when} instead of after 1 day"
    )
    (row,) = relieved([normal], taken, [normal], pressed).rows
    assert (row.under_pressure, row.detail) == (True, normal.detail)


def test_no_directory_is_short_of_what_another_one_on_its_disk_frees() -> None:
    busy = PressedLogDir(1, "/a", 10_000, 100, 1_000)
    idle = replace(busy, log_dir="/b", disk="/a")
    elsewhere = replace(busy, log_dir="/c")
    pressed = Pressure((busy, idle, elsewhere), reading=reading({1: 4000}))

    found = relief([deletion(250)], SEGMENTED, pressed)

    assert [each.planned_bytes for each in found] == [1000, 1000, 0]
    assert [each.short_bytes for each in found] == [0, 0, 900]


def test_what_waits_for_a_limit_may_go() -> None:
    pressed = Pressure((PressedLogDir(1, "/a", 10_000, 100, 1_500),), reading=reading({1: 4000}))
    waits = replace(deletion(250), verdict=Verdict.HOLD, reason=Reason.LIMIT_REACHED, records=0)

    (found,) = relief([waits], SEGMENTED, pressed, [deletion(250)])

    assert (found.planned_bytes, found.waiting_bytes) == (0, 1000)
    assert found.short_bytes == 1_500 - 100 - 1000


def test_what_waits_for_the_end_of_a_pause_may_go_on_all_directories_of_the_disk() -> None:
    busy = PressedLogDir(1, "/a", 10_000, 100, 1_000)
    pressed = Pressure((busy, replace(busy, log_dir="/b", disk="/a")), reading=reading({1: 4000}))
    paused = replace(deletion(250), verdict=Verdict.HOLD, reason=Reason.PAUSED, records=0)

    found = relief([paused], SEGMENTED, pressed, [deletion(250)])

    assert [each.short_bytes for each in found] == [0, 0]
    assert [each.waiting_bytes for each in found] == [1000, 1000]
    assert [each.delayed for each in found] == [{Reason.PAUSED}] * 2


def test_what_may_not_go_is_said_with_the_group_that_keeps_it() -> None:
    behind = replace(deletion(250), binding_group="slow", binding_committed_offset=250)

    (found,) = relief([behind], SEGMENTED, PRESSED)

    assert found.planned_bytes == 1000
    assert found.short_bytes == 5_000 - 100 - 1000
    assert found.kept_bytes == {"slow": 3000}
    assert found.sizes == {AT: 4000}
    assert (found.eager_rows, found.delayed) == ({}, frozenset())


@pytest.mark.parametrize(
    ("start", "end", "committed", "kept"),
    [
        (500, 1000, 750, 2000),
        (500, 1000, None, 4000),
        (500, 1000, 100, 4000),
        (500, 1000, 2000, None),
        (500, 500, 100, None),
        (None, 1000, 750, None),
        (500, None, 750, None),
    ],
)
def test_a_group_keeps_the_part_that_it_has_not_read(
    start: int | None, end: int | None, committed: int | None, kept: int | None
) -> None:
    behind = replace(
        deletion(0),
        verdict=Verdict.NOTHING,
        reason=Reason.NOT_CONSUMED,
        log_start_offset=start,
        high_watermark=end,
        cutoff=None,
        binding_group="slow",
        binding_committed_offset=committed,
    )

    (found,) = relief([behind], SEGMENTED, PRESSED)

    assert found.kept_bytes == ({} if kept is None else {"slow": kept})


def test_what_nobody_can_tell_takes_nothing_from_what_a_group_keeps() -> None:
    pressed = Pressure((FULL,), reading=lying("/a", "/a", "/elsewhere"))
    behind = replace(deletion(0), binding_group="slow", binding_committed_offset=750)
    untold = replace(behind, partition=1, log_start_offset=None)

    (found,) = relief([behind, untold], snapshot_of(3), pressed)

    assert found.kept_bytes == {"slow": 1000}


@pytest.mark.parametrize(("group", "reason"), [("fast", Reason.TOO_YOUNG), (None, Reason.NO_GROUP)])
def test_no_group_keeps_what_is_too_young_or_read_by_nobody(
    group: str | None, reason: Reason
) -> None:
    kept = replace(deletion(0), verdict=Verdict.NOTHING, reason=reason, binding_group=group)

    (found,) = relief([kept], SEGMENTED, PRESSED)

    assert found.kept_bytes == {}


def test_only_what_the_plan_does_not_delete_itself_waits() -> None:
    (all_now,) = relief([deletion(250)], SEGMENTED, PRESSED)
    (a_part,) = relief([deletion(250)], SEGMENTED, PRESSED, [deletion(750)])

    assert (all_now.planned_bytes, all_now.waiting_bytes) == (1000, 0)
    assert (a_part.planned_bytes, a_part.waiting_bytes) == (1000, 2000)


@pytest.mark.parametrize("reason", [Reason.PAUSED, Reason.LIMIT_REACHED])
def test_a_directory_says_what_delays_its_deletions_and_what_pressure_would_do(
    reason: Reason,
) -> None:
    pressed = Pressure((FULL,), reading=reading({1: 4000, 2: 4000}))
    held = replace(deletion(250), verdict=Verdict.HOLD, reason=reason, records=0)

    (found,) = relief([held], tiered(), pressed, eager_rows=[deletion(250)])

    assert found.planned_bytes == 0
    assert found.eager_rows == {AT: deletion(250)}
    assert found.delayed == {reason}


def test_a_trial_relieves_no_disk_and_holds_no_other_topic_back() -> None:
    """The disk needs what either of the two frees."""
    young = replace(deletion(0), verdict=Verdict.NOTHING, reason=Reason.TOO_YOUNG, cutoff=0)
    normal = [replace(deletion(900), dry_run=True), replace(young, partition=1)]
    sooner = [normal[0], replace(deletion(900), partition=1)]
    disk = PressedLogDir(1, "/a", 10_000, 100, 2_000)
    pressed = Pressure((disk,), reading=lying("/a", "/a"), eager=snapshot_of(2))

    found = relieved(normal, snapshot_of(2), sooner, pressed)

    assert found.rows[1].verdict is Verdict.DELETE
    assert [at.partition for at in found.most_first] == [1]
    (told,) = relief([normal[0]], snapshot_of(2), pressed, [normal[0]])
    assert (told.planned_bytes, told.waiting_bytes, told.kept_bytes) == (0, 0, {})

    eager_trial = [replace(each, dry_run=True) for each in sooner]
    waiting = [replace(young, partition=at, dry_run=True) for at in (0, 1)]
    assert relieved(waiting, snapshot_of(2), eager_trial, pressed).rows[1].cutoff == 0
