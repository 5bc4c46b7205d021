"""What a configuration needs at work: the Kafka clients and the Spark session."""

from __future__ import annotations

import contextlib
import threading
import time

import pyspark

from retentiond import __version__, garbage
from retentiond.collect.census import CoordinatorWatch
from retentiond.config import Config
from retentiond.cycle import Stop, Tools, run_cycle, settle_open_deletions
from retentiond.errors import SparkUnavailable
from retentiond.kafka.cluster import KafkaCluster, Observer
from retentiond.kafka.properties import ClientSettings, translate
from retentiond.kafka.versions import librdkafka_version
from retentiond.model import DeletionOutcome
from retentiond.observe.report import CycleReport
from retentiond.plan.session import SparkSessions
from retentiond.state.state import State


def now_ms() -> int:
    """The system clock, epoch milliseconds."""
    return time.time_ns() // 1_000_000


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
        garbage.look_rarely()
        garbage.give_back_large()
        self.config = config
        self._kafka = KafkaCluster(settings or translate(config.kafka), observe)
        self._spark = SparkSessions(config.spark.master, config.spark.conf, once=once)
        self.tools = Tools(
            kafka=self._kafka,
            spark=self._spark,
            now=now_ms,
            stop=stop,
            coordinators=CoordinatorWatch(),
        )

    def warm_up(self) -> None:
        """Starts Spark on the side, so that it is there when the first snapshot is."""
        threading.Thread(target=self._start_spark, name="spark-start", daemon=True).start()

    def _start_spark(self) -> None:
        with contextlib.suppress(SparkUnavailable):  # the first cycle meets it again and says so
            self._spark.start()

    def settle(self, state: State) -> tuple[DeletionOutcome, ...]:
        """Reads back what earlier cycles left without a proven outcome."""
        return settle_open_deletions(self.tools, state.audit)

    def run_cycle(self, state: State) -> CycleReport:
        """A whole cycle with the configuration of this moment."""
        return run_cycle(self.tools, self.config, state)

    def is_deleting(self) -> bool:
        """Whether a request is under way whose outcome is to be recorded."""
        return self.tools.deleting.is_set()

    def fits(self, config: Config) -> bool:
        """Whether that configuration talks to the same cluster with the same Spark."""
        return config.kafka == self.config.kafka and config.spark == self.config.spark

    def close(self) -> None:
        self._kafka.close()
        self._spark.stop()
