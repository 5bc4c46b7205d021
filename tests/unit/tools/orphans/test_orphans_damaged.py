"""A file that an unclean end has damaged makes no folder look older than its records are."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentiond.tools.orphans.orphan import Fate
from tests.support.builders.orphans_host import DAY_MS, Host, batch, now_ms, time_index

CLOSED, LAST = f"{0:020}", f"{100:020}"

OLD_MS = 30 * DAY_MS

YOUNG_MS = 2 * DAY_MS
"""Within the broker's retention of a week."""


def two_segments(host: Host, time_index_of_closed: bytes | None) -> Path:
    """The closed segment holds a young record between old ones; the last one only old ones."""
    folder = host.put("gone-0")
    now = now_ms()
    old, young = batch(now - OLD_MS), batch(now - YOUNG_MS)
    (folder / f"{CLOSED}.log").write_bytes(old + young + old)
    (folder / f"{CLOSED}.timeindex").unlink()
    if time_index_of_closed is not None:
        (folder / f"{CLOSED}.timeindex").write_bytes(time_index_of_closed)
    (folder / f"{LAST}.log").write_bytes(old)
    (folder / f"{LAST}.timeindex").write_bytes(time_index(now - OLD_MS))
    return folder


def old_entries(count: int = 2) -> bytes:
    return time_index(*(now_ms() - OLD_MS + each for each in range(count)))


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(old_entries() + bytes(12 * 50), id="zeros behind the last entry"),
        pytest.param(old_entries(), id="the last entries are lost"),
        pytest.param(old_entries() + bytes(12) + old_entries(), id="zeros between entries"),
        pytest.param(bytes(12 * 50), id="nothing but zeros"),
        pytest.param(time_index(9, 8, 7), id="entries that go back"),
        pytest.param(b"", id="empty"),
        pytest.param(None, id="missing"),
    ],
)
def test_a_damaged_time_index_does_not_hide_a_young_record(
    host: Host, damaged: bytes | None
) -> None:
    """KAFKA-10207: after an unclean end a time index holds zeros behind its last entry."""
    folder = two_segments(host, damaged)
    (orphan,) = host.remove().orphans
    assert orphan.fate is Fate.KEPT
    assert "within the retention period" in str(orphan.reason)
    assert folder.exists()


def test_a_time_index_that_knows_a_younger_record_than_its_log_keeps_the_folder(
    host: Host,
) -> None:
    """The log's last pages are lost, its index is not."""
    folder = host.put("gone-0")
    (folder / f"{0:020}.timeindex").write_bytes(
        time_index(now_ms() - OLD_MS, now_ms() - YOUNG_MS) + bytes(12 * 50)
    )
    (orphan,) = host.remove().orphans
    assert "within the retention period" in str(orphan.reason)


def test_a_folder_with_only_old_records_goes_whatever_its_index_says_of_their_age(
    host: Host,
) -> None:
    folder = host.put("gone-0")
    (folder / f"{0:020}.timeindex").write_bytes(old_entries() + bytes(12 * 50))
    (orphan,) = host.remove().orphans
    assert orphan.fate is Fate.REMOVED
    assert not folder.exists()


def test_batches_behind_lost_pages_of_a_log_are_not_passed_over(host: Host) -> None:
    folder = host.put("gone-0")
    now = now_ms()
    (folder / f"{0:020}.log").write_bytes(batch(now - OLD_MS) + bytes(4096) + batch(now - YOUNG_MS))
    (orphan,) = host.remove().orphans
    assert orphan.fate is Fate.KEPT
    assert str(orphan.reason) == "not understood: a segment goes on behind zeros"


@pytest.mark.parametrize("written", range(36, 61))
def test_a_header_whose_end_is_lost_tells_no_time(host: Host, written: int) -> None:
    """From there on the page holds zeros, the largest timestamp's own bytes too."""
    folder = host.put("gone-0")
    now = now_ms()
    young = batch(now - YOUNG_MS)
    torn = young[:written] + bytes(len(young) - written)
    (folder / f"{0:020}.log").write_bytes(batch(now - OLD_MS) + torn)
    (orphan,) = host.remove().orphans
    assert orphan.fate is Fate.KEPT
    assert folder.exists()
