"""A session at a Spark Connect server, which may be gone at any moment.

PySpark's client asks a server that is gone again and again, for ten minutes and more; a cycle
would hang as long. So the server must answer before a session is made, and is asked again for a
few seconds only.
"""

from __future__ import annotations

import warnings

import grpc  # type: ignore[import-untyped]  # it ships no types
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy

from retentiond.errors import SparkUnavailable
from retentiond.formatting import without_parameters

SERVER_ANSWER_S = 5.0
"""How long the server may take to accept a connection."""

RETRIES = 4
"""Of one request: after 0.05, 0.2, 0.8 and 3.2 s."""


def connect(url: str) -> SparkSession:
    """A new session. Raises `SparkUnavailable`, and what PySpark raises."""
    _await_server(url)
    # The error that follows says as much, and stderr is for JSON lines.
    warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")
    session = SparkSession.builder.remote(url).create()
    session.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES)])
    return session


def _await_server(url: str) -> None:
    channel = DefaultChannelBuilder(url).toChannel()
    try:
        grpc.channel_ready_future(channel).result(timeout=SERVER_ANSWER_S)
    except grpc.FutureTimeoutError as error:
        raise SparkUnavailable(
            f"no Spark Connect server answers at {without_parameters(url)}: "
            "start it, or correct spark.master"
        ) from error
    finally:
        channel.close()
