"""When cycles are due: every interval, one at a time, and missed ones are not made up for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger


class EveryInterval(BaseTrigger):
    """Due every ``interval``, in step with the first time.

    APScheduler asks for the next time until one lies ahead, and holds its lock meanwhile. Its own
    trigger goes by single intervals: where a host's clock is set years ahead, that takes all
    memory, and nobody can stop it.
    """

    def __init__(self, interval: timedelta) -> None:
        self.interval = interval

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        if previous_fire_time is None:
            return now
        passed = max((now - previous_fire_time) // self.interval, 0)
        return previous_fire_time + (passed + 1) * self.interval


def background_scheduler() -> Any:
    """One cycle at a time; APScheduler's own default would drop one that starts 1 s late."""
    return BackgroundScheduler(
        timezone=UTC,
        executors={"default": ThreadPoolExecutor(1)},
        job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
    )
