"""The configuration of a first look: every topic that is not Kafka's own, one consumed retention.

It lives in memory only, and nothing is ever deleted with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from retentiond.config import Config
from retentiond.errors import UsageError
from retentiond.kafka.properties import PROPERTIES, ClientSettings
from retentiond.kafka.topic_config import INTERNAL_TOPICS

NOT_INTERNAL = f"(?!(?:{'|'.join(map(re.escape, sorted(INTERNAL_TOPICS)))})$)"


def first_look(
    settings: ClientSettings, patterns: Sequence[str], consumed_retention_ms: int
) -> Config:
    """``patterns``: regular expressions, one of which a topic's whole name matches; all topics
    if there is none. Raises `UsageError` for one that is no regular expression."""
    for pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise UsageError(
                f"--topic {pattern!a} is no regular expression ({error}); "
                "give a topic's name, or a pattern such as 'stage\\..*'"
            ) from error
    named = "|".join(f"(?:{pattern})" for pattern in patterns) or ".*"
    return Config.model_validate(
        {
            "kafka": kafka_section(settings),
            "dry_run": True,
            "topics": [
                {
                    "pattern": f"{NOT_INTERNAL}(?:{named})",
                    "retention.commitoffset.enable": True,
                    "retention.commitoffset.ms": consumed_retention_ms,
                }
            ],
        }
    )


def kafka_section(settings: ClientSettings) -> dict[str, str]:
    """What of the clients' settings can stand in a configuration file. It holds secrets."""
    return {name: value for name, value in settings.confluent.items() if name in PROPERTIES}
