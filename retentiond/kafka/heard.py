"""What librdkafka says of its connections, which it tells no caller that waits for an answer."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from confluent_kafka import KafkaError

from retentiond.errors import KafkaUnavailable
from retentiond.kafka.properties import ClientSettings
from retentiond.kafka.reach import trouble_with
from retentiond.kafka.trouble import Kind, Trouble, unavailable

SERVER = re.compile(r"(?:\w+://)?([^/\s]+:\d+)/\w+: (.*)", re.DOTALL)
"""How it begins a sentence about a broker: ``sasl_ssl://HOST:PORT/bootstrap: …``"""

STATE = re.compile(r" \(after \d+ms in state \w+[^)]*\)")

OFFERED = re.compile("broker's supported mechanisms: (.+)")

CONNECTIONS = (KafkaError._TRANSPORT, KafkaError._SSL, KafkaError._RESOLVE)

FINAL = (KafkaError._AUTHENTICATION, KafkaError._SSL)

ALERT = "SSL alert number"
"""With TLS 1.3 a client learns only after the handshake that its certificate was refused."""


@dataclass(slots=True)
class Heard:
    """Errors of connections since it was last cleared, one of each kind for a broker."""

    errors: dict[tuple[str, int], str] = field(default_factory=dict)
    all_down: bool = False

    def note(self, error: KafkaError) -> None:
        """librdkafka's ``error_cb``; called on the thread that polls the client."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.all_down = True
        elif found := SERVER.match(error.str()):
            server, said = found.groups()
            self.errors.setdefault((server, error.code()), " ".join(STATE.sub("", said).split()))

    def clear(self) -> None:
        self.errors.clear()
        self.all_down = False

    def is_final(self) -> bool:
        """Whether the next attempt would end in the same way, at every broker."""
        heard = list(self.errors.items())  # a copy: another thread may be told of more
        return self.all_down and any(code in FINAL or ALERT in said for (_, code), said in heard)

    def explained(self, settings: ClientSettings) -> KafkaUnavailable | None:
        """What to raise, if something was heard that explains why nothing could be asked."""
        heard = list(self.errors.items())
        for (server, code), said in heard:
            if code == KafkaError._AUTHENTICATION:
                return unavailable(server, _of_login(said), settings.words)
        servers = [server for (server, code), _ in heard if code in CONNECTIONS]
        if not servers and self.all_down:  # of some broker it says no more than that
            servers = settings.bootstrap_servers.split(",")
        for server in servers[:1]:
            if trouble := trouble_with(server, settings):
                return unavailable(server, trouble, settings.words)
        return None


def _of_login(said: str) -> Trouble:
    if "not valid in current SASL state" in said:
        return Trouble(Kind.NO_LOGIN)
    if found := OFFERED.search(said):
        return Trouble(Kind.OTHER_MECHANISM, f"but {found[1]}")
    return Trouble(Kind.LOGIN_REFUSED, said.removeprefix("SASL authentication error: "))
