"""The last days by the hour are what plain sums over the table's rows say."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from retentiond.history import hourly
from retentiond.history.hourly import SPANS, Hourly, Recent, TimeRange
from retentiond.history.schema import RowKind
from retentiond.history.table import HistoryTable
from retentiond.model import TopicPartition
from tests.support.builders.histories import CLUSTER, MINUTE_MS, START_MS, Cycles, World
from tests.support.builders.past_clusters import BEGIN, PastCluster, PastEntry

DAY, WEEK, MONTH = SPANS
HOUR_MS = 3_600_000
GIB = 1 << 30
NOW_MS = int(BEGIN.timestamp() * 1000) + 5 * 24 * HOUR_MS


def write(path: Path, past: PastCluster, after: int = 0) -> None:
    """The entries after that one, as a daemon writes them."""
    table, rows = HistoryTable.open_or_create(path), past.table()
    for entry in range(after + 1, len(past.entries) + 1):
        table.append(past.cluster_id, entry, rows.filter(pc.field("entry") == entry))


def read(path: Path, past: PastCluster, now_ms: int = NOW_MS) -> Hourly:
    found = Hourly(str(path), past.cluster_id)
    found.catch_up(now_ms, wait_s=60)
    assert not found.is_reading
    return found


def some_past(seed: int, names: int, entries: int) -> PastCluster:
    """Entries of five days, in which figures are missing here and there."""
    chance = random.Random(seed)
    return PastCluster(
        [
            PastEntry(at, rows=[*some_rows(chance, names)])
            for at in sorted(chance.sample(range(0, 5 * 24 * HOUR_MS, MINUTE_MS), entries))
        ]
    )


def some_rows(chance: random.Random, names: int) -> Any:
    for number in range(names):
        start = chance.randrange(100)
        yield {
            "kind": RowKind.PARTITION.value,
            "topic": f"topic-{number % (names // 2)}",
            "partition": number,
            "log_start_offset": chance.choice([None, start]),
            "high_watermark": start + chance.randrange(100),
            "min_committed_offset": chance.choice([None, chance.randrange(200)]),
            "binding_group": chance.choice([None, "", f"group-{chance.randrange(names)}"]),
            "size_bytes": chance.choice([None, chance.randrange(10**9)]),
            "reason": chance.choice([None, "consumed", "not_consumed", "evidence_changed"]),
        }
    for _ in range(chance.randrange(3)):
        yield {
            "kind": RowKind.DELETION.value,
            "topic": "topic-0",
            "partition": 0,
            "records": chance.randrange(1000),
            "outcome": chance.choice(["deleted", "deleted", "failed"]),
        }


def plainly(past: PastCluster, span: TimeRange) -> dict[str, dict[Any, list[float | None]]]:
    """The same figures, summed up one row after the other."""
    width = span.step_h * HOUR_MS
    times = list(span.times(NOW_MS))
    entries = [0] * len(times)
    sums: dict[str, dict[str | None, list[float]]] = {
        figure: defaultdict(lambda: [0] * len(times)) for figure in ("size", "lag", "deleted")
    }
    for entry in past.entries:
        (slot,) = [
            at for at, begin in enumerate(times) if 0 <= entry.at.timestamp() * 1000 - begin < width
        ]
        entries[slot] += 1
        for row in entry.rows:
            if row["kind"] == RowKind.DELETION.value:
                if row["outcome"] == "deleted":
                    sums["deleted"][None][slot] += row["records"]
                continue
            sums["size"][row["topic"]][slot] += row["size_bytes"] or 0
            start, committed = row["log_start_offset"], row["min_committed_offset"]
            is_bound = row["reason"] != "evidence_changed" and row["binding_group"] is not None
            if is_bound and start is not None:
                read = max(start, start if committed is None else committed)
                lag = max(0, row["high_watermark"] - read)
                sums["lag"][row["binding_group"]][slot] += lag
    return {
        figure: {
            name: [
                None if not count else value if figure == "deleted" else value / count
                for value, count in zip(values, entries, strict=True)
            ]
            for name, values in by_name.items()
            if any(values)
        }
        for figure, by_name in sums.items()
    }


def told(recent: Recent) -> dict[str, dict[Any, list[float | None]]]:
    return {
        "size": {name: list(values) for name, values in recent.bytes_by_topic.items()},
        "lag": {name: list(values) for name, values in recent.lag_by_group.items()},
        "deleted": {None: list(recent.deleted)},
    }


@pytest.mark.parametrize("span", [WEEK, MONTH])
def test_the_figures_are_those_of_plain_sums(tmp_path: Path, span: TimeRange) -> None:
    past = some_past(7, 8, 12)
    write(tmp_path, past)
    found = read(tmp_path, past)
    assert found.problem is None
    assert told(found.recent(span, NOW_MS)) == plainly(past, span)


def test_of_many_names_the_smaller_ones_are_one_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = some_past(3, 30, 6)
    write(tmp_path, past)
    monkeypatch.setattr(hourly, "MOST_NAMES", 4)
    found = read(tmp_path, past)
    seen, plain = told(found.recent(WEEK, NOW_MS)), plainly(past, WEEK)
    for figure in ("size", "lag"):
        for slot, count in enumerate(found.recent(WEEK, NOW_MS).deleted):
            if count is None:
                continue
            of_slot = {name: values[slot] or 0 for name, values in plain[figure].items()}
            kept = {name: values[slot] or 0 for name, values in seen[figure].items()}
            assert sum(kept.values()) == pytest.approx(sum(of_slot.values()))
            largest = sorted(of_slot.values())[-4:]
            assert sorted(each for name, each in kept.items() if name is not None)[-4:] == (
                pytest.approx(largest)
            )


def test_each_entry_counts_once_whenever_it_was_read(tmp_path: Path) -> None:
    """What was there at the start, what came one by one, and what came while nobody read."""
    past = some_past(5, 6, 12)
    found = Hourly(str(tmp_path), past.cluster_id)
    written = 0
    for until in (4, 5, 6, 9, 12):
        write(tmp_path, PastCluster(past.entries[:until]), after=written)
        written, found.is_behind = until, True
        found.catch_up(NOW_MS, wait_s=60)
        found.catch_up(NOW_MS, wait_s=60)
    assert told(found.recent(WEEK, NOW_MS)) == plainly(past, WEEK)


def test_a_page_does_not_wait_for_a_store_that_hangs(tmp_path: Path) -> None:
    is_asked, answers = threading.Event(), threading.Event()

    class Slow(Hourly):
        def _read(self, table: HistoryTable, where: str) -> None:
            is_asked.set()
            assert answers.wait(60)
            super()._read(table, where)

    past = some_past(5, 6, 12)
    write(tmp_path, past)
    found = Slow(str(tmp_path), past.cluster_id)
    for _ in range(2):
        found.catch_up(NOW_MS, wait_s=0.01)
        assert (found.is_reading, found.is_empty) == (True, True)
    assert is_asked.wait(60)  # or the end would come before the day is read
    assert not found.end(0.01)
    answers.set()
    assert found.end(60)
    newest = f"{past.entries[-1].at:%Y-%m-%d}"  # the day that was being read
    there = PastCluster([each for each in past.entries if f"{each.at:%Y-%m-%d}" == newest])
    assert told(found.recent(WEEK, NOW_MS)) == plainly(there, WEEK)


def test_another_cluster_of_the_same_table_does_not_count(tmp_path: Path) -> None:
    past = some_past(5, 6, 3)
    write(tmp_path, past)
    write(tmp_path, PastCluster(past.entries, "another"))
    found = read(tmp_path, past)
    assert told(found.recent(WEEK, NOW_MS)) == plainly(past, WEEK)


def test_a_torn_day_is_told_and_the_others_are_there(tmp_path: Path) -> None:
    past = some_past(5, 6, 12)
    write(tmp_path, past)
    days = sorted(tmp_path.glob("day=*"))
    for file in days[1].glob("*.parquet"):
        file.write_bytes(b"torn")
    found = read(tmp_path, past)
    assert found.problem is not None
    assert str(tmp_path) in found.problem
    there = PastCluster(
        [each for each in past.entries if f"day={each.at:%Y-%m-%d}" != days[1].name]
    )
    assert told(found.recent(WEEK, NOW_MS)) == plainly(there, WEEK)


def test_days_that_are_long_over_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = some_past(5, 6, 12)
    write(tmp_path, past)
    monkeypatch.setattr(hourly, "MOST_DAYS", 2)
    since = BEGIN + timedelta(days=3)
    there = PastCluster([each for each in past.entries if each.at >= since])
    assert 0 < len(there.entries) < len(past.entries)
    assert told(read(tmp_path, past).recent(WEEK, NOW_MS)) == plainly(there, WEEK)


def test_the_stretches_end_with_the_one_that_now_is_in() -> None:
    noon = int(datetime(2026, 3, 9, 12, 40, tzinfo=UTC).timestamp() * 1000)
    for span, count, width_h in ((DAY, 24, 1), (WEEK, 84, 2), (MONTH, 120, 6)):
        times = [datetime.fromtimestamp(each / 1000, UTC) for each in span.times(noon)]
        assert len(times) == count
        assert times[-1] == datetime(2026, 3, 9, 12, tzinfo=UTC)
        assert {later - one for one, later in pairwise(times)} == {timedelta(hours=width_h)}


def test_a_daemons_entries_are_read_once_somebody_looks(tmp_path: Path) -> None:
    world, first = World(), Cycles(str(tmp_path))
    first.one(world, deleted=[TopicPartition("orders", 0)])
    again = Cycles(str(tmp_path))
    again.elapsed_ms = first.elapsed_ms
    for _ in range(2):
        again.one(world)
        found = again.keeper.hourly
        assert found is not None
        assert (found.place, found.cluster_id, found.is_behind) == (str(tmp_path), CLUSTER, True)
    found = Hourly(str(tmp_path), CLUSTER)  # `Cycles` ends what its keeper reads
    found.catch_up(START_MS, wait_s=60)
    recent = found.recent(DAY, START_MS)
    assert recent.bytes_by_topic == {"orders": [None] * 23 + [1000]}
    assert recent.lag_by_group == {"billing": [None] * 23 + [95]}
    assert recent.deleted == (*[None] * 23, 5)
    assert recent.unknown == (*[True] * 23, False)


def test_a_bug_of_the_reading_is_told(tmp_path: Path) -> None:
    class Broken(Hourly):
        def _read(self, table: HistoryTable, where: str) -> None:
            raise RuntimeError("a bug")

    Cycles(str(tmp_path)).one(World())
    found = Broken(str(tmp_path), CLUSTER)
    found.catch_up(START_MS, wait_s=60)
    assert found.problem == "the history can't be read (RuntimeError: a bug); please report this"


@pytest.mark.parametrize(
    ("hours", "forced_h", "consumed_h", "saved_h"),
    [
        (12, 48, 24, 12),  # it would still be there
        (72, 48, 24, 24),  # Kafka would have deleted it after another day
        (72, None, 24, 72),  # Kafka would have kept it for ever
        (72, 24, 24, 0),  # it was Kafka's turn anyway
    ],
)
def test_what_was_saved_is_bytes_times_how_long_kafka_would_have_kept_them(
    tmp_path: Path, hours: int, forced_h: int | None, consumed_h: int, saved_h: int
) -> None:
    """Of 100 records in 10 GiB 50 go, half an hour after the hour; another request failed."""
    row = {"topic": "orders", "partition": 0}
    partition = row | {
        "kind": RowKind.PARTITION.value,
        "log_start_offset": 100,
        "high_watermark": 200,
        "size_bytes": 10 * GIB,
        "consumed_retention_ms": consumed_h * HOUR_MS,
        "forced_retention_ms": None if forced_h is None else forced_h * HOUR_MS,
    }
    deletion = row | {"kind": RowKind.DELETION.value, "records": 50, "outcome": "deleted"}
    failed = deletion | {"outcome": "failed"}
    past = PastCluster([PastEntry(HOUR_MS // 2, rows=[partition, deletion, failed])])
    write(tmp_path, past)
    now_ms = int(BEGIN.timestamp() * 1000) + HOUR_MS // 2 + hours * HOUR_MS
    found = read(tmp_path, past, now_ms)
    assert found.problem is None
    assert found.recent(MONTH, now_ms).saved_byte_ms == 5 * GIB * saved_h * HOUR_MS


def test_of_a_time_only_what_was_saved_in_it_counts(tmp_path: Path) -> None:
    row = {"topic": "orders", "partition": 0}
    sizes = {"log_start_offset": 0, "high_watermark": 1, "size_bytes": GIB}
    rows = [
        {"kind": RowKind.PARTITION.value, **row, **sizes},
        {"kind": RowKind.DELETION.value, **row, "records": 1, "outcome": "deleted"},
    ]
    past = PastCluster([PastEntry(HOUR_MS // 2, rows=rows)])
    write(tmp_path, past)
    now_ms = int(BEGIN.timestamp() * 1000) + 4 * 24 * HOUR_MS
    of_day = read(tmp_path, past, now_ms).recent(DAY, now_ms)
    assert of_day.saved_byte_ms == GIB * (now_ms - of_day.times[0])
    assert Hourly("", "").recent(DAY, now_ms).saved_byte_ms is None
