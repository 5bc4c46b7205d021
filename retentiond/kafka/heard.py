"""What librdkafka says of its connections, which it tells no caller that waits for an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from confluent_kafka import KafkaError

from retentiond.errors import KafkaUnavailable
from retentiond.kafka.properties import ClientSettings
from retentiond.model import Failure


class Heard:
    """A wrong password or an untrusted certificate shows here; elsewhere it is a time-out."""

    def __init__(self) -> None:
        self._first: Failure | None = None

    def on(self, settings: ClientSettings) -> ClientSettings:
        """Settings whose client reports to this."""
        return replace(settings, confluent={**settings.confluent, "error_cb": self._note})

    @contextmanager
    def explaining(self, poll: Callable[[], object]) -> Iterator[None]:
        """Adds what was heard first to a `KafkaUnavailable`; later errors follow from it.

        ``poll`` makes the client report what it has.
        """
        try:
            yield
        except KafkaUnavailable as error:
            poll()
            if self._first is None:
                raise
            raise KafkaUnavailable(f"{error} ({self._first})") from error

    def _note(self, error: KafkaError) -> None:
        self._first = self._first or Failure(error.name(), " ".join(error.str().split()))
