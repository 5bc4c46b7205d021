"""kafka-python's errors and the protocol's error codes, turned into values at one boundary."""

from __future__ import annotations

import kafka.errors as kp_errors

from retentiond.model import Failure


def of_kafka_python(error: BaseException) -> Failure:
    """A kafka-python exception as a value; its class name is the code."""
    if isinstance(error, kp_errors.BrokerResponseError):
        return Failure(error.message or type(error).__name__, error.description or str(error))
    return Failure(type(error).__name__, str(error))


def of_error_code(code: int, message: str | None = None) -> Failure:
    """A protocol error code as a value, with the message the broker sent, if any."""
    if code not in kp_errors.kafka_errors:
        return Failure(f"ERROR_{code}", message or "this version does not know that error")
    error = kp_errors.for_code(code)
    return Failure(error.message or error.__name__, message or error.description or "")
