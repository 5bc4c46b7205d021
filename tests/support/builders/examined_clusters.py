"""What a doctor has read, as tests want it; each value is a healthy one until it is changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from retentiond.config import Config
from retentiond.gather.topics import EnabledTopic
from retentiond.kafka.brokers import Broker, Brokers, Release
from retentiond.kafka.interface import TopicConfig
from retentiond.model import Failure, TopicPartition
from retentiond.snapshot import TopicReading
from retentiond.tools.doctor.finding import Finding, Level

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
GIB = 2**30

REFUSED = Failure("KafkaConnectionError", "refused")


def config(*topics: dict[str, Any], **sections: Any) -> Config:
    """Entries are enabled unless they say otherwise."""
    entries = [{"retention.commitoffset.enable": True, **topic} for topic in topics]
    return Config.model_validate(
        {"kafka": {"bootstrap.servers": "localhost:9092"}, "topics": entries, **sections}
    )


def topic(name: str, of: Config, **changes: Any) -> EnabledTopic:
    """One with a partition, as that configuration treats it; ``changes`` are `TopicConfig`'s, or
    the reading's."""
    of_config = {
        key: changes.pop(key) for key in TopicConfig.__dataclass_fields__ if key in changes
    }
    settings = TopicConfig(
        **{
            "cleanup_policy": frozenset({"delete"}),
            "retention_ms": 30 * DAY_MS,
            "segment_bytes": GIB,
            "segment_ms": 7 * DAY_MS,
            **of_config,
        }
    )
    policy = of.policy_for(name)
    if policy is None:
        raise ValueError(f"nothing enables {name}")
    reading = TopicReading(
        **{
            "name": name,
            "policy": policy,
            "topic_id": "id",
            "is_internal": False,
            "cleanup_policy": settings.cleanup_policy,
            "forced_retention_ms": settings.retention_ms,
            "config": settings,
            **changes,
        }
    )
    return EnabledTopic(reading, (0,))


def broker(broker_id: int, *, is_alive: bool = True, release: Release | Failure = (4, 2)) -> Broker:
    return Broker(broker_id, f"host-{broker_id}:9092", is_alive, release)


def brokers(*found: Broker, leaderless: Iterable[TopicPartition] = ()) -> Brokers:
    return Brokers("cluster", found, tuple(leaderless))


def bad(findings: Iterable[Finding]) -> list[tuple[Level, str]]:
    """What is not ok: how bad, and what about."""
    return [(each.level, each.subject) for each in findings if each.level is not Level.OK]


def only(findings: Iterable[Finding]) -> Finding:
    """The one that is not ok, which says what to do."""
    (found,) = (each for each in findings if each.level is not Level.OK)
    assert found.remedy
    return found


def told(findings: Iterable[Finding]) -> str:
    """The one that is not ok, in one line: how bad, about what, its names, sentence and remedy."""
    found = only(findings)
    names = ", ".join(found.names)
    return f"{found.level} {found.subject} [{names}]: {found.sentence}; {found.remedy}"
