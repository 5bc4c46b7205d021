"""librdkafka's client: how it is made, and what it says of its connections."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from retentiond.errors import KafkaUnavailable
from retentiond.kafka import failures
from retentiond.kafka.heard import Heard
from retentiond.kafka.properties import ClientSettings
from retentiond.kafka.reach import lasting_trouble
from retentiond.kafka.trouble import Kind, Trouble, unavailable

if TYPE_CHECKING:
    from retentiond.kafka.oauth import TokenSource


class Admin:
    """One long-lived AdminClient, and the explanation where it comes to no connection."""

    def __init__(self, settings: ClientSettings) -> None:
        """Raises `ConfigError` for a value that librdkafka refuses."""
        self._settings = settings
        self._heard = Heard()
        self._config: dict[str, Any] = {
            "log_level": 0,
            "error_cb": self._heard.note,
            **settings.confluent,
        }
        self._tokens: TokenSource | None = None
        if settings.oauth:  # few do, and it brings kafka-python
            from retentiond.kafka.oauth import TokenSource  # noqa: PLC0415 - as above

            self._tokens = TokenSource(settings.oauth)
            self._config["oauth_cb"] = self._tokens.for_confluent
        self._made: AdminClient | None = None
        self._making = threading.Lock()
        with contextlib.suppress(KafkaUnavailable):
            self.client()

    def client(self) -> AdminClient:
        """Made once. With OAUTHBEARER that needs a token, so it can fail and be tried again."""
        with self._making:
            if self._made is None:
                try:
                    self._made = AdminClient(self._config)
                except KafkaException as error:
                    raise self._not_made(error) from error
            return self._made

    @contextlib.contextmanager
    def explaining(self) -> Iterator[None]:
        """Puts what librdkafka says of its connections in place of a `KafkaUnavailable` that
        tells less; it reports them to nobody who waits for an answer."""
        try:
            yield
        except KafkaUnavailable as error:
            explained = self._explained() if error.kind is None else None
            self._heard.clear()
            if explained is None:
                raise
            raise explained from error
        self._listen()
        self._heard.clear()

    def unavailable(self, reason: object) -> KafkaUnavailable:
        """The error to raise where nothing could be read; ``reason`` if nothing says more."""
        return self._explained() or failures.unavailable(self._settings.bootstrap_servers, reason)

    def raise_if_final(self, reason: object) -> None:
        """Ends the waiting where every broker has said no for good, or is none."""
        self._listen()
        if self._heard.is_final():
            raise self.unavailable(reason)
        if wrong := lasting_trouble(self._settings):
            raise wrong

    @property
    def is_refused(self) -> bool:
        """Whether all brokers have refused the connection, or hung up."""
        return self._heard.all_down

    def _explained(self) -> KafkaUnavailable | None:
        self._listen()
        return self._heard.explained(self._settings)

    def _listen(self) -> None:
        """Has librdkafka report what there is; it waits for nothing."""
        if self._made is not None:
            self._made.poll(0)

    def _not_made(self, error: KafkaException) -> Exception:
        if self._tokens is None or self._tokens.failure is None:
            return failures.of_client(self._settings.bootstrap_servers, error)
        trouble = Trouble(Kind.NO_TOKEN, self._tokens.failure)
        return unavailable(self._settings.bootstrap_servers, trouble, self._settings.words)
