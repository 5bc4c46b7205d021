"""What a configuration needs at work: the Kafka clients, the Spark session, and a schedule.

Cycles are due every interval, one at a time, and missed ones are not made up for.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyspark
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger

from retentiond import __version__, garbage_collection
from retentiond.act.delete import Throttling, reconcile
from retentiond.clock import Stop, now_ms
from retentiond.config import Config
from retentiond.cycle import CycleContext, CycleEnd, run_cycle
from retentiond.errors import ConfigError, SparkUnavailable
from retentiond.gather.groups import LastCoordinators
from retentiond.kafka.brokers import librdkafka_version
from retentiond.kafka.cluster import KafkaCluster, Observer
from retentiond.kafka.interface import THROTTLED
from retentiond.kafka.settings.properties import ClientSettings, translate
from retentiond.model import DeletionOutcome
from retentiond.spark.session import SparkSessions
from retentiond.spark.tuning import SINGLE_PLAN
from retentiond.state.audit_pruning import PRUNING_S
from retentiond.state.state import State


def build_versions() -> dict[str, str]:
    return {
        "version": __version__,
        "spark_version": pyspark.__version__,
        "librdkafka_version": librdkafka_version(),
    }


class Engine:
    """Clients and session, made from one configuration and closed together."""

    def __init__(
        self,
        config: Config,
        stop: Stop,
        observe: Observer,
        settings: ClientSettings | None = None,
        *,
        once: bool = False,
    ) -> None:
        """``settings``: the clients', where they are not those of the ``kafka:`` section;
        ``once``: for a single cycle."""
        garbage_collection.collect_rarely()
        garbage_collection.release_large_blocks_at_once()
        self.config = config
        self.in_force: Callable[[], Config] = lambda: self.config  # what a reload has put in force
        self._observe = observe
        self._throttling = Throttling()
        self._kafka = KafkaCluster(settings or translate(config.kafka), self._note)
        spark = config.spark
        try:
            self._spark = SparkSessions(
                spark.master,
                spark.conf,
                driver=SINGLE_PLAN if once else None,
                timeout_s=spark.timeout_ms / 1000,
            )
        except ConfigError:
            self._kafka.close()
            raise
        self.context = CycleContext(
            kafka=self._kafka,
            spark=self._spark,
            now=now_ms,
            stop=stop,
            coordinators=LastCoordinators(),
            superseded=self._superseded,
            throttling=lambda: self._throttling,
        )

    def _note(self, api: str, result: str, seconds: float) -> None:
        if api == THROTTLED:
            self._throttling = Throttling(self._throttling.waits + 1, seconds)
        self._observe(api, result, seconds)

    def warm_up(self) -> None:
        """So that Spark is there when the first snapshot is."""
        threading.Thread(target=self._start_spark, name="spark-start", daemon=True).start()

    def _start_spark(self) -> None:
        with contextlib.suppress(SparkUnavailable):  # the first cycle meets it again and says so
            self._spark.start()

    def reconcile(self, state: State) -> tuple[DeletionOutcome, ...]:
        return reconcile(state.audit, self.context.kafka, self.context.now())

    def run_cycle(self, state: State) -> CycleEnd:
        try:
            return run_cycle(self.context, self.config, state)
        finally:
            self.context.deleting.clear()

    def prune(self, state: State) -> None:
        """Between two cycles. Raises `StateError`."""
        audit, interval_s = self.config.audit, self.config.schedule.interval_ms / 1000
        most_s = min(PRUNING_S, interval_s / 10)
        state.audit.prune(audit.keep_ms, self.context.stop, most_s, audit.max_bytes)

    def _superseded(self, config: Config) -> str | None:
        if config == self.in_force():
            return None
        return "another configuration has come into force meanwhile; the next cycle decides by it"

    def is_deleting(self) -> bool:
        return self.context.deleting.is_set()

    def fits(self, config: Config) -> bool:
        return config.kafka == self.config.kafka and config.spark == self.config.spark

    def abandon(self) -> None:
        self._spark.abandon()

    def close(self) -> None:
        self._kafka.close()
        self._spark.stop()


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
