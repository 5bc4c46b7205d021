"""Topic ids as kafka-python gives them."""

from __future__ import annotations

import base64
import uuid


def as_kafka_prints_it(topic_id: uuid.UUID | None) -> str | None:
    """Base64 in the URL-safe alphabet; None of brokers that know no ids."""
    if topic_id is None or not topic_id.int:
        return None
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
