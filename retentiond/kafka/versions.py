"""Which client library is at work."""

from __future__ import annotations

import confluent_kafka


def librdkafka_version() -> str:
    return str(confluent_kafka.libversion()[0])
