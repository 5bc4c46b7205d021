"""Log directories under pressure, in words."""

from __future__ import annotations

import pytest

from retentiond.disks.pressure import LogDirRelief, PressedLogDir
from retentiond.tell.pressure import say_relief

LOG_DIR = PressedLogDir(1, "/data", 10_240, 1_024, 2_560)


@pytest.mark.parametrize(
    ("kept_bytes", "said"),
    [
        ({}, ""),
        ({"slow": 2_048}, "; most is kept for slow (2.0 KiB)"),
        ({"slow": 2_048, "late": 1_024}, "; most is kept for slow (2.0 KiB) and late (1.0 KiB)"),
    ],
)
def test_what_may_not_go_is_said_with_the_groups_that_keep_it_if_any_do(
    kept_bytes: dict[str, int], said: str
) -> None:
    """None does where the records lie in segments that stay, or where other topics fill the
    disk."""
    assert say_relief(LogDirRelief(LOG_DIR, 1_024, 512, kept_bytes, {})) == (
        "/data of broker 1 has 10% left (1.0 KiB), and 1.5 KiB more must go until the pressure "
        f"ends; the plan frees 1.0 KiB there; 512 B of that may not go{said}"
    )


def test_what_waits_for_a_limit_is_not_said_to_be_kept() -> None:
    assert say_relief(LogDirRelief(LOG_DIR, 1_024, 0, {"slow": 2_048}, {}, 512)) == (
        "/data of broker 1 has 10% left (1.0 KiB), and 1.5 KiB more must go until the pressure "
        "ends; the plan frees 1.0 KiB there; 512 B more may go and wait for a limit"
    )
